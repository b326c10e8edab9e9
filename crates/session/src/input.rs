//! What was read from a connection and is not processed yet.

use alloc::vec::Vec;

/// An empty buffer that is larger than this gives its memory back.
const KEEP: usize = 4096;

/// Received bytes, read from the front by frames.
#[derive(Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    at: usize,
}

impl Input {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Both halves at once: the bytes to borrow from, and the place to move on.
    pub(crate) fn split(&mut self) -> (&[u8], &mut usize) {
        (&self.bytes, &mut self.at)
    }

    /// Drops what is consumed and gives back memory that a burst took.
    pub(crate) fn tidy(&mut self) {
        if self.len() == 0 {
            self.bytes.clear();
        } else {
            self.bytes.drain(..self.at);
        }
        self.at = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > KEEP {
            self.bytes = Vec::new();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_consumed_goes_and_what_is_left_stays() {
        let mut input = Input::default();
        input.push(b"abcdef");
        *input.split().1 += 4;
        assert_eq!(input.len(), 2);
        input.tidy();
        assert_eq!(input.split(), (&b"ef"[..], &mut 0));
        input.push(b"gh");
        assert_eq!(input.split().0, b"efgh");
        *input.split().1 += 4;
        input.tidy();
        assert_eq!(input.split(), (&b""[..], &mut 0));
        input.push(b"ij");
        input.clear();
        assert_eq!(input.len(), 0);
    }

    #[test]
    fn a_burst_gives_its_memory_back_and_small_requests_keep_theirs() {
        let mut input = Input::default();
        let small = [0; KEEP];
        input.push(&small);
        *input.split().1 += small.len();
        input.tidy();
        assert_eq!(input.bytes.capacity(), KEEP, "kept, so that the next request allocates nothing");
        input.push(&[0; KEEP + 1]);
        *input.split().1 += KEEP;
        input.tidy();
        assert_eq!(input.len(), 1, "memory in use is kept");
        *input.split().1 += 1;
        input.tidy();
        assert_eq!(input.bytes.capacity(), 0);
    }
}
