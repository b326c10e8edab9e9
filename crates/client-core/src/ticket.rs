//! One ticket: the right to do what the lock protects, until `valid_until`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::outcome::{Lost, ReleaseOutcome};
use crate::time::{Instant, seconds, whole_seconds};

/// A ticket that the program took, or the rest of one whose release is not answered yet.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) key: Arc<str>,
    pub(crate) token: u64,
    pub(crate) lease_s: u8,
    pub(crate) waited: Duration,
    pub(crate) valid_until: Instant,
    /// When the server's lease has surely ended if nothing more is heard.
    pub(crate) surely_ended: Instant,
    pub(crate) lost: Option<Lost>,
    pub(crate) keep_alive: Option<KeepAlive>,
    /// From where the time to the next extend counts: the sending of the latest request that was confirmed.
    pub(crate) confirmed: Instant,
    /// The extends that are not answered yet.
    pub(crate) extends: Vec<u64>,
    pub(crate) release: Releasing,
    /// Whether the program still has it; if not, it is lost too.
    pub(crate) in_use: bool,
    pub(crate) timer: Option<Instant>,
}

/// Renews a ticket by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeepAlive {
    /// When the next extend is sent.
    pub(crate) next: Instant,
    /// When it ends, if ever.
    pub(crate) until: Option<Instant>,
    /// The extend under way.
    pub(crate) extend: Option<u64>,
}

/// How far the release of a ticket has come.
#[derive(Clone, Debug)]
pub(crate) enum Releasing {
    /// Not asked for.
    No,
    /// This request is under way.
    Running(u64),
    /// It ended like this.
    Done(ReleaseOutcome),
}

/// What the program can know of its ticket at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketView {
    /// Until when the lock is surely held.
    pub valid_until: Instant,
    /// Why the ticket is no longer good.
    pub lost: Option<Lost>,
}

impl Ticket {
    /// When keep-alive extends next: a third of the lease after the latest confirmation. Half of what is left comes
    /// first where that is less, after an extend to a short lease or with a great margin.
    pub(crate) fn renew_at(&self) -> Instant {
        let left = self.valid_until.since(self.confirmed);
        self.confirmed + (seconds(self.lease_s) / 3).min(left / 2)
    }

    /// The time from a failed extend to the next try.
    pub(crate) fn retry(&self) -> Duration {
        seconds(self.lease_s) / 6
    }

    /// The lease that keep-alive asks for at `now`; `None` when the present lease reaches to its end.
    pub(crate) fn keep_alive_lease_s(&self, now: Instant, until: Option<Instant>) -> Option<u8> {
        match until {
            None => Some(self.lease_s),
            Some(until) if until <= self.valid_until => None,
            Some(until) => {
                let left_s = whole_seconds(until.since(now)).unwrap_or(u8::MAX);
                Some(left_s.min(self.lease_s))
            }
        }
    }

    /// When something is due next.
    pub(crate) fn due(&self) -> Option<Instant> {
        if self.lost.is_some() {
            return None;
        }
        match self.keep_alive {
            Some(KeepAlive { next, extend: None, .. }) => Some(next.min(self.valid_until)),
            _ => Some(self.valid_until),
        }
    }
}
