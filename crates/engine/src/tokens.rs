//! Where tokens come from: blocks that the caller has reserved.

/// A block of tokens that are not given yet, and the greatest that was.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    next: u64,
    end: u64,
    last: u64,
}

impl Tokens {
    /// Replaces the block by `first..first + count`; what was left of the old one is never given.
    ///
    /// # Panics
    /// If `first` is not above every token so far, 0 included.
    pub(crate) fn supply(&mut self, first: u64, count: u64) {
        assert!(first > self.last, "a block of tokens lies above every earlier token");
        self.next = first;
        self.end = first + count;
    }

    /// The next token.
    ///
    /// # Panics
    /// If the block is used up.
    pub(crate) fn take(&mut self) -> u64 {
        assert!(self.left() > 0, "the caller supplies tokens before they run out");
        self.last = self.next;
        self.next += 1;
        self.last
    }

    /// Takes notice of a token that an earlier process gave.
    ///
    /// # Panics
    /// If a block has been supplied already.
    pub(crate) fn restore(&mut self, token: u64) {
        assert!(self.end == 0, "leases are restored before tokens are supplied");
        self.last = self.last.max(token);
    }

    /// Tokens left in the block.
    pub(crate) fn left(&self) -> u64 {
        self.end - self.next
    }

    /// The greatest token that was given, 0 if none was.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
}
