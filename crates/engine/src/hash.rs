//! The keyed hash of the indexes. Nobody who does not know the seed can make keys that meet in one bucket.

use core::hash::{Hash, Hasher};
use siphasher::sip::SipHasher13;

/// SipHash-1-3 with the seed of this engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedHash {
    seed: [u64; 2],
}

impl KeyedHash {
    pub(crate) fn new(seed: [u64; 2]) -> Self {
        Self { seed }
    }

    /// The hash of a value; the indexes need no more than 32 bits.
    pub(crate) fn of(self, value: impl Hash) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.seed[0], self.seed[1]);
        value.hash(&mut hasher);
        hasher.finish() as u32
    }
}
