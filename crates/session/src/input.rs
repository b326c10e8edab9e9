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
