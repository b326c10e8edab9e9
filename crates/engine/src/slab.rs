//! Records of one size, named by slot numbers instead of pointers.

use crate::pool::Pool;
use crate::slot_set::CHUNK;
use alloc::boxed::Box;
use core::ops::{Index, IndexMut};

/// A table of records.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pool: Pool<Box<[T; CHUNK]>>,
    /// How often a record was looked at.
    #[cfg(test)]
    steps: core::cell::Cell<u64>,
}

impl<T: Copy> Slab<T> {
    pub(crate) fn new() -> Self {
        Self {
            pool: Pool::new(),
            #[cfg(test)]
            steps: core::cell::Cell::new(0),
        }
    }

    /// Stores a record and tells its slot.
    pub(crate) fn insert(&mut self, record: T) -> u32 {
        let slot = self.pool.take(|| Box::new([record; CHUNK]));
        self[slot] = record;
        slot
    }

    /// Forgets the record of a slot and returns it.
    pub(crate) fn remove(&mut self, slot: u32) -> T {
        let record = self[slot];
        self.pool.give(slot);
        record
    }

    /// The record of a slot, if there is one.
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.pool.is_taken(slot).then(|| &self[slot])
    }

    /// Every slot with a record, in rising order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.pool.taken_from(0)
    }

    /// Every slot from `from` on with a record, in rising order.
    pub(crate) fn slots_from(&self, from: u32) -> impl Iterator<Item = u32> {
        self.pool.taken_from(from)
    }

    /// The number of records.
    pub(crate) fn len(&self) -> u32 {
        self.pool.len()
    }

    /// The steps that tests of linearity count: looks at a record, or at the slots of a chunk.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.steps.get() + self.pool.steps()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        #[cfg(test)]
        self.steps.set(self.steps.get() + 1);
        let (chunk, place) = self.pool.chunk(slot);
        &chunk[place]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        #[cfg(test)]
        self.steps.set(self.steps.get() + 1);
        let (chunk, place) = self.pool.chunk_mut(slot);
        &mut chunk[place]
    }
}
