//! One ticket: the right to do what the lock protects, until `valid_until`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::outcome::{Lost, ReleaseOutcome};
use crate::time::{Instant, seconds};

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
    /// From where the next third of the lease counts: the sending of the latest request that was confirmed.
    pub(crate) confirmed: Instant,
    /// The extends that are not answered yet.
    pub(crate) extends: Vec<u64>,
    pub(crate) release: Releasing,
    /// Whether the program still has it.
    pub(crate) in_use: bool,
    pub(crate) timer: Option<Instant>,
}

/// Renews a ticket by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeepAlive {
    /// When the next extend is sent.
    pub(crate) next: Instant,
    /// When the last one may be sent, at the latest.
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
    /// The time between two extends of keep-alive.
    pub(crate) fn renewal(&self) -> Duration {
        seconds(self.lease_s) / 3
    }

    /// The time from a failed extend to the next try.
    pub(crate) fn retry(&self) -> Duration {
        seconds(self.lease_s) / 6
    }

    /// When something is due next.
    pub(crate) fn due(&self) -> Option<Instant> {
        if self.lost.is_some() || !self.in_use {
            return None;
        }
        match self.keep_alive {
            Some(KeepAlive { next, extend: None, .. }) => Some(next.min(self.valid_until)),
            _ => Some(self.valid_until),
        }
    }
}
