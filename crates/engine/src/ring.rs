//! First-in first-out lists through records of a slab: insertion at the back and removal anywhere are one step.

use crate::slab::Slab;

/// No slot.
const NIL: u32 = u32::MAX;

/// A record's place in one ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    previous: u32,
    next: u32,
}

impl Link {
    /// The link of a record that is in no ring.
    pub(crate) const NONE: Self = Self { previous: NIL, next: NIL };
}

/// A record that can be in several rings at once, one link for each.
pub(crate) trait Linked: Copy {
    /// The links, told apart by their place.
    fn links(&self) -> &[Link];
    /// The links, told apart by their place.
    fn links_mut(&mut self) -> &mut [Link];
}

/// A list through the records' links number `LINK`. The last record points on to the first, so the list itself is
/// one slot number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<const LINK: usize> {
    first: u32,
}

impl<const LINK: usize> Ring<LINK> {
    pub(crate) const EMPTY: Self = Self { first: NIL };

    /// The record that has been in the ring for longest.
    pub(crate) fn first(self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    /// Puts a record behind the last.
    pub(crate) fn push_back<T: Linked>(&mut self, slab: &mut Slab<T>, slot: u32) {
        let (Some(first), Some(last)) = (self.first(), self.last(slab)) else {
            slab[slot].links_mut()[LINK] = Link { previous: slot, next: slot };
            self.first = slot;
            return;
        };
        slab[slot].links_mut()[LINK] = Link { previous: last, next: first };
        slab[last].links_mut()[LINK].next = slot;
        slab[first].links_mut()[LINK].previous = slot;
    }

    /// Takes a record of this ring out of it.
    pub(crate) fn remove<T: Linked>(&mut self, slab: &mut Slab<T>, slot: u32) {
        let Link { previous, next } = slab[slot].links()[LINK];
        slab[previous].links_mut()[LINK].next = next;
        slab[next].links_mut()[LINK].previous = previous;
        if self.first == slot {
            self.first = if next == slot { NIL } else { next };
        }
    }

    /// The record that has been in the ring for least.
    pub(crate) fn last<T: Linked>(self, slab: &Slab<T>) -> Option<u32> {
        self.first().map(|first| slab[first].links()[LINK].previous)
    }

    /// The records, oldest first.
    pub(crate) fn iter<T: Linked>(self, slab: &Slab<T>) -> impl Iterator<Item = u32> {
        let mut at = self.first();
        core::iter::from_fn(move || {
            let slot = at?;
            let next = slab[slot].links()[LINK].next;
            at = (next != self.first).then_some(next);
            Some(slot)
        })
    }
}
