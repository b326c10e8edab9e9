//! Blocks of tokens. A block is on stable storage before its first token is used, and the next is reserved while the
//! one before it is in use, so that no grant waits for it.

/// How many tokens a block has.
const BLOCK: u64 = 1 << 18;

/// A wall clock that shows a later time than this, in the year 148,108, is not believed: tokens stay below 2^63.
const LATEST_US: u64 = 1 << 62;

/// Consecutive tokens that nobody has used and nobody else ever will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBlock {
    /// The lowest.
    pub first: u64,
    /// How many they are.
    pub count: u64,
}

impl TokenBlock {
    /// The block above every token up to `ceiling`, and not below the wall clock's microseconds since 1970.
    pub(crate) fn above(ceiling: u64, wall_us: u64) -> Self {
        Self { first: wall_us.min(LATEST_US).max(ceiling + 1), count: BLOCK }
    }

    /// The greatest token in it.
    pub(crate) fn last(self) -> u64 {
        self.first + self.count - 1
    }
}

/// The blocks that are on the way.
#[derive(Debug)]
pub(crate) struct Tokens {
    ready: Option<TokenBlock>,
    /// Usable when this position is synced.
    pending: Option<(TokenBlock, u64)>,
}

impl Tokens {
    /// Begins with a block whose ceiling is in the run record.
    pub(crate) fn new(first: TokenBlock) -> Self {
        Self { ready: Some(first), pending: None }
    }

    /// Whether a block must be reserved, as there is no other.
    pub(crate) fn want_block(&self) -> bool {
        self.ready.is_none() && self.pending.is_none()
    }

    pub(crate) fn reserve(&mut self, block: TokenBlock, position: u64) {
        self.pending = Some((block, position));
    }

    /// Everything up to this position is on stable storage.
    pub(crate) fn synced(&mut self, position: u64) {
        if let Some((block, _)) = self.pending.take_if(|(_, at)| *at <= position) {
            self.ready = Some(block);
        }
    }

    /// The position that must be synced before there is another block.
    pub(crate) fn waits_for(&self) -> Option<u64> {
        self.pending.map(|(_, at)| at)
    }

    pub(crate) fn take(&mut self) -> Option<TokenBlock> {
        self.ready.take()
    }
}
