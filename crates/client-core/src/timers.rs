//! The instants at which something is due.

use alloc::collections::BTreeSet;

use crate::time::Instant;

/// Whose instant it is. Calls come before tickets and requests that are due at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A call, by owner.
    Call(u64),
    /// A ticket, by the owner of its call.
    Ticket(u64),
    /// Another request, by id.
    Op(u64),
}

/// At most one instant for each call, ticket and request; each of them remembers its own in a slot.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    /// Moves `timer` from the instant in its slot to `at`; `None` disarms it.
    pub(crate) fn arm(&mut self, timer: Timer, slot: &mut Option<Instant>, at: Option<Instant>) {
        if let Some(old) = slot.take() {
            self.due.remove(&(old, timer));
        }
        if let Some(at) = at {
            self.due.insert((at, timer));
        }
        *slot = at;
    }

    /// The earliest instant.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Takes the earliest timer that is due at `now`. Its slot keeps the old instant until it is armed again.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.due.pop_first().map(|(_, timer)| timer)
    }

    /// How many are armed.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_due_in_order_and_can_be_moved() {
        let at = Instant::from_nanos;
        let mut timers = Timers::default();
        let (mut a, mut b) = (None, None);
        timers.arm(Timer::Call(1), &mut a, Some(at(10)));
        timers.arm(Timer::Op(2), &mut b, Some(at(5)));
        assert_eq!(timers.next(), Some(at(5)));
        timers.arm(Timer::Op(2), &mut b, Some(at(20)));
        assert_eq!((timers.next(), timers.len()), (Some(at(10)), 2));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(10)), Some(Timer::Call(1)));
        timers.arm(Timer::Op(2), &mut b, None);
        assert_eq!((timers.next(), timers.pop_due(at(99)), b), (None, None, None));
    }
}
