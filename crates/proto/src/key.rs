//! What a key may be.

use crate::{MAX_KEY, NEWLINE};

/// Why a text cannot be a key. The caller's fault; said before a byte is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A key has at least one byte.
    #[error("the key is empty")]
    Empty,
    /// A key has at most 1024 bytes; this one has so many.
    #[error("the key has {0} bytes; at most {MAX_KEY} are allowed")]
    TooLong(usize),
    /// A newline ends a frame, so no key can contain one.
    #[error("the key contains a newline, which no key can")]
    Newline,
}

/// Checks that `key` can be sent: 1 to [`MAX_KEY`] bytes, no newline. Every other character is allowed and kept as it
/// is, byte for byte.
pub fn check_key(key: &str) -> Result<(), KeyError> {
    if key.is_empty() {
        Err(KeyError::Empty)
    } else if key.len() > MAX_KEY {
        Err(KeyError::TooLong(key.len()))
    } else if key.as_bytes().contains(&NEWLINE) {
        Err(KeyError::Newline)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p22_a_newline_in_a_key_is_refused_before_it_is_sent() {
        assert_eq!(check_key("x\nA"), Err(KeyError::Newline));
        assert_eq!(check_key(""), Err(KeyError::Empty));
        assert_eq!(check_key("\r\0 é"), Ok(()));
        assert_eq!(check_key(&"k".repeat(MAX_KEY)), Ok(()));
        assert_eq!(check_key(&"k".repeat(MAX_KEY + 1)), Err(KeyError::TooLong(MAX_KEY + 1)));
    }
}
