//! Bytes for the peer: what the kernel has accepted of them, and which grants it has not seen at all.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use lockstead_engine::UnsentGrant;
use lockstead_proto::answer_len;

/// Accepted bytes at the front are dropped once they are this many; an empty buffer larger than this is given back.
const KEEP: usize = 16 * 1024;

/// Encoded answers, written from the front.
#[derive(Default)]
pub(crate) struct Output {
    /// Whole frames, from a frame's first byte on.
    bytes: Vec<u8>,
    /// How many of `bytes` the kernel has accepted.
    accepted: usize,
    /// Where the frame starts that holds the first byte not accepted.
    frame: usize,
    /// How many bytes came before `bytes`.
    dropped: u64,
    /// Grants whose `A` starts at or behind the accepted bytes, with the place where it starts.
    unsent: VecDeque<(u64, UnsentGrant)>,
}

impl Output {
    /// Where the next answer is encoded to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Remembers that the next answer encoded is this grant's.
    pub(crate) fn grant_follows(&mut self, grant: UnsentGrant) {
        self.unsent
            .push_back((self.dropped + self.bytes.len() as u64, grant));
    }

    /// What is left to write.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.accepted..]
    }

    /// The kernel took the next `n` bytes.
    pub(crate) fn accept(&mut self, n: usize) {
        self.accepted += n;
        debug_assert!(self.accepted <= self.bytes.len());
        let accepted = self.dropped + self.accepted as u64;
        while self.unsent.pop_front_if(|(start, _)| *start < accepted).is_some() {}
        if self.accepted == self.bytes.len() {
            self.drop_front(self.accepted);
            if self.bytes.capacity() > KEEP {
                self.bytes = Vec::new();
            }
        } else {
            self.find_frame();
            if self.frame >= KEEP {
                self.drop_front(self.frame);
            }
        }
    }

    /// Moves `frame` on to the frame that the first byte not accepted belongs to.
    fn find_frame(&mut self) {
        loop {
            let end = self.frame + answer_len(&self.bytes[self.frame..]);
            if end > self.accepted {
                return;
            }
            self.frame = end;
        }
    }

    fn drop_front(&mut self, n: usize) {
        self.bytes.drain(..n);
        self.dropped += n as u64;
        self.accepted -= n;
        self.frame = 0;
    }

    /// Throws away every frame of which no byte was accepted, and names the grants among them. A frame that was begun
    /// stays, so that the peer never reads half of one.
    pub(crate) fn throw_away(&mut self) -> impl Iterator<Item = UnsentGrant> + use<> {
        if self.accepted > self.frame {
            let len = answer_len(&self.bytes[self.frame..]);
            self.bytes.truncate(self.frame + len);
        } else {
            self.bytes.truncate(self.frame);
        }
        core::mem::take(&mut self.unsent)
            .into_iter()
            .map(|(_, grant)| grant)
    }

    /// Nothing more can be written.
    pub(crate) fn clear(&mut self) {
        self.bytes = Vec::new();
        (self.accepted, self.frame) = (0, 0);
    }
}
