//! The deadlines of connections themselves: few, so one ordered set is enough.

use std::collections::BTreeSet;

use lockstead_engine::Instant;

/// Which connection has to be looked at, and when.
#[derive(Default)]
pub(crate) struct Timeouts(BTreeSet<(Instant, usize)>);

impl Timeouts {
    /// Makes sure that the connection in `slot`, for which `armed` is set, is looked at by `deadline`. A look that is
    /// set for earlier stays: it finds nothing to do and sets the next one.
    pub(crate) fn arm(&mut self, slot: usize, armed: &mut Option<Instant>, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        if armed.is_some_and(|armed| armed <= deadline) {
            return;
        }
        self.disarm(slot, armed);
        self.0.insert((deadline, slot));
        *armed = Some(deadline);
    }

    /// The connection in `slot` goes.
    pub(crate) fn disarm(&mut self, slot: usize, armed: &mut Option<Instant>) {
        if let Some(armed) = armed.take() {
            self.0.remove(&(armed, slot));
        }
    }

    /// When the first connection has to be looked at.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.0.first().map(|&(at, _)| at)
    }

    /// Takes the next connection that has to be looked at by `now`. Its `armed` is to be cleared.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<usize> {
        if self.first()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, slot)| slot)
    }
}
