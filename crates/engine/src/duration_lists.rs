//! The timers of one kind. A duration is 1..=255 whole seconds and time never goes back, so one first-in first-out
//! list for each duration is sorted by construction; leases restored at a start, in order, are one list more.

use crate::ring::{Linked, Ring};
use crate::slab::Slab;
use crate::time::Instant;
use crate::winner_tree::WinnerTree;
use alloc::boxed::Box;

/// A record that ends at some instant.
pub(crate) trait Timed: Linked {
    /// The instant at which it ends.
    fn ends(&self) -> Instant;
}

/// One of the lists. Of records that end at one instant those in a higher list were armed earlier: a longer duration
/// began earlier, and what was restored was there before all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurationList(u8);

impl DurationList {
    /// Those that were restored at the start.
    pub(crate) const RESTORED: Self = Self(u8::MAX);

    /// The list of a duration, 1..=255.
    pub(crate) fn of(duration_s: u8) -> Self {
        Self(duration_s - 1)
    }
}

/// Timers over the records of a slab, through their links number `LINK`.
#[derive(Debug)]
pub(crate) struct DurationLists<const LINK: usize> {
    rings: Box<[Ring<LINK>; 256]>,
    /// The ends of the first record of each list.
    heads: WinnerTree,
}

impl<const LINK: usize> DurationLists<LINK> {
    pub(crate) fn new() -> Self {
        Self { rings: Box::new([Ring::EMPTY; 256]), heads: WinnerTree::new() }
    }

    /// Puts a record at the end of a list. It must not end earlier than the one before it.
    pub(crate) fn arm<T: Timed>(&mut self, slab: &mut Slab<T>, slot: u32, list: DurationList) {
        let ring = &mut self.rings[usize::from(list.0)];
        debug_assert!(ring.last(slab).is_none_or(|last| slab[last].ends() <= slab[slot].ends()), "in order");
        ring.push_back(slab, slot);
        if ring.first() == Some(slot) {
            self.heads.set(list.0, Some(slab[slot].ends().0));
        }
    }

    /// Takes a record out of its list.
    pub(crate) fn disarm<T: Timed>(&mut self, slab: &mut Slab<T>, slot: u32, list: DurationList) {
        let ring = &mut self.rings[usize::from(list.0)];
        let was_first = ring.first() == Some(slot);
        ring.remove(slab, slot);
        if was_first {
            self.heads.set(list.0, ring.first().map(|slot| slab[slot].ends().0));
        }
    }

    /// When the first record ends.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.heads.least().map(Instant)
    }

    /// The record that ends first, of equal ends the one that was armed first.
    pub(crate) fn earliest(&self) -> Option<u32> {
        self.rings[usize::from(self.heads.winner()?)].first()
    }

    /// The records of every list, list by list, oldest first.
    pub(crate) fn lists<T: Timed>(&self, slab: &Slab<T>) -> impl Iterator<Item = impl Iterator<Item = u32>> {
        self.rings.iter().map(|ring| ring.iter(slab))
    }
}
