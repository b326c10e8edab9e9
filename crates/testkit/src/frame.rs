//! Requests put together by hand, and the bytes an answer must have.
//!
//! Nothing is checked here: a test must be able to say something wrong.

/// `A`: an acquire. `key` is whatever bytes the test wants in the place of a key.
pub fn acquire(wait_s: u8, lease_s: u8, owner: u64, key: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = vec![b'A', wait_s, lease_s];
    bytes.extend_from_slice(&owner.to_be_bytes());
    with_text(bytes, key.as_ref())
}

/// `R`: a release.
pub fn release(token: u64, key: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = vec![b'R'];
    bytes.extend_from_slice(&token.to_be_bytes());
    with_text(bytes, key.as_ref())
}

/// `E`: an extend.
pub fn extend(lease_s: u8, token: u64, key: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = vec![b'E', lease_s];
    bytes.extend_from_slice(&token.to_be_bytes());
    with_text(bytes, key.as_ref())
}

/// `C`: a cancel.
pub fn cancel(owner: u64, key: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = vec![b'C'];
    bytes.extend_from_slice(&owner.to_be_bytes());
    with_text(bytes, key.as_ref())
}

/// `Q`: a query.
pub fn query(id: u64, key: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = vec![b'Q'];
    bytes.extend_from_slice(&id.to_be_bytes());
    with_text(bytes, key.as_ref())
}

/// `P`: a ping.
pub fn ping(id: u64) -> Vec<u8> {
    let mut bytes = vec![b'P'];
    bytes.extend_from_slice(&id.to_be_bytes());
    with_text(bytes, b"")
}

/// `H`: a hello.
pub fn hello(version: u8, id: u64, text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = vec![b'H', version];
    bytes.extend_from_slice(&id.to_be_bytes());
    with_text(bytes, text.as_ref())
}

/// A frame's bytes without the newline that ends it.
pub fn unfinished(mut frame: Vec<u8>) -> Vec<u8> {
    assert_eq!(frame.pop(), Some(b'\n'), "not a finished frame");
    frame
}

fn with_text(mut head: Vec<u8>, text: &[u8]) -> Vec<u8> {
    head.extend_from_slice(text);
    head.push(b'\n');
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acquire_is_twelve_bytes_and_the_key() {
        let frame = acquire(10, 30, 0x0102_0304_0506_0708, "job");
        assert_eq!(frame, b"A\x0a\x1e\x01\x02\x03\x04\x05\x06\x07\x08job\x0a");
        assert_eq!(frame.len(), 12 + 3);
    }

    #[test]
    fn the_other_requests_have_their_headers_in_order() {
        assert_eq!(release(1, "k"), b"R\0\0\0\0\0\0\0\x01k\n");
        assert_eq!(extend(5, 2, "k"), b"E\x05\0\0\0\0\0\0\0\x02k\n");
        assert_eq!(cancel(3, "k"), b"C\0\0\0\0\0\0\0\x03k\n");
        assert_eq!(query(4, "k"), b"Q\0\0\0\0\0\0\0\x04k\n");
        assert_eq!(ping(5), b"P\0\0\0\0\0\0\0\x05\n");
        assert_eq!(hello(1, 6, "name=n"), b"H\x01\0\0\0\0\0\0\0\x06name=n\n");
        assert_eq!(unfinished(ping(5)), b"P\0\0\0\0\0\0\0\x05");
    }
}
