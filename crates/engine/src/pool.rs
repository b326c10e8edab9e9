//! Memory in chunks of 64 slots: growth copies nothing, and a chunk that falls empty is given back.

use crate::slot_set::{CHUNK, SlotSet};
use alloc::vec::Vec;

/// Chunks of 64 slots each; `C` is what a chunk is made of.
#[derive(Debug)]
pub(crate) struct Pool<C> {
    slots: SlotSet,
    chunks: Vec<Option<C>>,
    /// The chunk that fell empty last, so that a table at the edge of a chunk does not allocate at each step.
    spare: Option<C>,
    len: u32,
}

impl<C> Pool<C> {
    pub(crate) fn new() -> Self {
        Self { slots: SlotSet::default(), chunks: Vec::new(), spare: None, len: 0 }
    }

    /// Takes the lowest free slot; `new_chunk` makes the memory if there is none yet.
    pub(crate) fn take(&mut self, new_chunk: impl FnOnce() -> C) -> u32 {
        let slot = self.slots.take();
        let (chunk, _) = place(slot);
        if chunk == self.chunks.len() {
            self.chunks.push(None);
        }
        if self.chunks[chunk].is_none() {
            self.chunks[chunk] = Some(self.spare.take().unwrap_or_else(new_chunk));
        }
        self.len += 1;
        slot
    }

    /// Gives a taken slot back.
    pub(crate) fn give(&mut self, slot: u32) {
        self.len -= 1;
        if self.slots.give(slot) {
            self.spare = self.chunks[place(slot).0].take();
        }
    }

    /// The chunk of a taken slot and the slot's place in it.
    pub(crate) fn chunk(&self, slot: u32) -> (&C, usize) {
        let (chunk, place) = place(slot);
        (self.chunks[chunk].as_ref().expect("a taken slot has memory"), place)
    }

    /// The chunk of a taken slot and the slot's place in it.
    pub(crate) fn chunk_mut(&mut self, slot: u32) -> (&mut C, usize) {
        let (chunk, place) = place(slot);
        (self.chunks[chunk].as_mut().expect("a taken slot has memory"), place)
    }

    /// Whether the slot is taken.
    pub(crate) fn is_taken(&self, slot: u32) -> bool {
        self.slots.is_taken(slot)
    }

    /// Every taken slot from `from` on, in rising order.
    pub(crate) fn taken_from(&self, from: u32) -> impl Iterator<Item = u32> {
        self.slots.taken_from(from)
    }

    /// How often it was looked whether a slot is taken, or which are.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.slots.steps.get()
    }

    /// The number of taken slots.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

fn place(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK, slot as usize % CHUNK)
}
