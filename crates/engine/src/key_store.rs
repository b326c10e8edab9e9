//! The bytes of the keys, in size classes of 8 bytes: no allocation for a key, at most 7 bytes lost.

use crate::pool::Pool;
use crate::slot_set::CHUNK;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lockstead_proto::MAX_KEY;

/// Classes differ by this many bytes.
const STEP: usize = 8;

/// Texts of up to [`MAX_KEY`] bytes, named by a slot in the class of their length.
#[derive(Debug)]
pub(crate) struct KeyStore {
    classes: Vec<Pool<Box<[u8]>>>,
}

impl KeyStore {
    pub(crate) fn new() -> Self {
        Self { classes: (0..=class(MAX_KEY)).map(|_| Pool::new()).collect() }
    }

    /// Stores a key and tells its slot.
    pub(crate) fn insert(&mut self, key: &str) -> u32 {
        let class = class(key.len());
        let size = class * STEP;
        let slot = self.classes[class].take(|| alloc::vec![0; CHUNK * size].into_boxed_slice());
        let (chunk, place) = self.classes[class].chunk_mut(slot);
        chunk[place * size..][..key.len()].copy_from_slice(key.as_bytes());
        slot
    }

    /// Forgets a key of `len` bytes.
    pub(crate) fn remove(&mut self, slot: u32, len: usize) {
        self.classes[class(len)].give(slot);
    }

    /// A key of `len` bytes.
    pub(crate) fn get(&self, slot: u32, len: usize) -> &[u8] {
        let class = class(len);
        let (chunk, place) = self.classes[class].chunk(slot);
        &chunk[place * class * STEP..][..len]
    }

    /// The number of keys stored.
    pub(crate) fn len(&self) -> u32 {
        self.classes.iter().map(Pool::len).sum()
    }
}

fn class(len: usize) -> usize {
    len.div_ceil(STEP)
}
