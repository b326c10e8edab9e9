//! Which slots of a table are free: a tree of bitmaps that gives the lowest free one.
//!
//! The lowest, so that what is kept gathers at the front and the memory behind it falls empty.

use alloc::vec::Vec;

/// Slots in one word of a bitmap, which is also the chunk in which a [`Pool`](crate::pool::Pool) takes its memory.
pub(crate) const CHUNK: usize = 64;

/// Words of 64 bits over words of 64 bits ...: six levels reach 2^36 slots, more than a slot number can name.
const LEVELS: usize = 6;

/// A set of free slots, growing by a chunk when none is left. Each step is bounded by the number of levels.
#[derive(Debug, Default)]
pub(crate) struct SlotSet {
    /// In level 0 a bit is set if its slot is free; above, if the word below it has a bit set.
    levels: [Vec<u64>; LEVELS],
    /// How many words were looked at to see what is taken.
    #[cfg(test)]
    pub(crate) steps: core::cell::Cell<u64>,
}

impl SlotSet {
    /// Takes the lowest free slot.
    pub(crate) fn take(&mut self) -> u32 {
        let top = self.levels[LEVELS - 1].first();
        if top.is_none_or(|&word| word == 0) {
            self.grow();
        }
        let mut slot = 0;
        for level in self.levels.iter().rev() {
            slot = slot * CHUNK + level[slot].trailing_zeros() as usize;
        }
        let mut at = slot;
        for level in &mut self.levels {
            let word = &mut level[at / CHUNK];
            *word &= !bit(at);
            if *word != 0 {
                break;
            }
            at /= CHUNK;
        }
        u32::try_from(slot).expect("the limits keep every table below 2^32 entries")
    }

    /// Gives a taken slot back. True if its whole chunk is free now.
    pub(crate) fn give(&mut self, slot: u32) -> bool {
        self.mark(0, slot as usize);
        self.levels[0][slot as usize / CHUNK] == u64::MAX
    }

    /// Whether the slot is taken.
    pub(crate) fn is_taken(&self, slot: u32) -> bool {
        let word = self.word(slot as usize / CHUNK);
        word.is_some_and(|word| word & bit(slot as usize) == 0)
    }

    /// The free slots of a chunk.
    fn word(&self, chunk: usize) -> Option<u64> {
        #[cfg(test)]
        self.steps.set(self.steps.get() + 1);
        self.levels[0].get(chunk).copied()
    }

    /// Every taken slot from `from` on, in rising order. A chunk without one costs one step.
    pub(crate) fn taken_from(&self, from: u32) -> impl Iterator<Item = u32> {
        let mut next = from as usize;
        core::iter::from_fn(move || {
            loop {
                let free = self.word(next / CHUNK)?;
                let taken = !free >> (next % CHUNK);
                if taken != 0 {
                    next += taken.trailing_zeros() as usize + 1;
                    return Some(next as u32 - 1);
                }
                next = (next / CHUNK + 1) * CHUNK;
            }
        })
    }

    /// Adds one chunk of free slots behind the last.
    fn grow(&mut self) {
        let word = self.levels[0].len();
        self.levels[0].push(u64::MAX);
        let mut at = word;
        for level in &mut self.levels[1..] {
            at /= CHUNK;
            if at == level.len() {
                level.push(0);
            }
        }
        self.mark(1, word);
    }

    /// Sets a bit of a level and those that lead to it.
    fn mark(&mut self, level: usize, bit_at: usize) {
        let mut at = bit_at;
        for level in &mut self.levels[level..] {
            let word = &mut level[at / CHUNK];
            let was = *word;
            *word |= bit(at);
            if was != 0 {
                // The word above has its bit already, and so on.
                return;
            }
            at /= CHUNK;
        }
    }
}

fn bit(at: usize) -> u64 {
    1 << (at % CHUNK)
}
