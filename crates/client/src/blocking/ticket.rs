//! A ticket whose calls block.

use std::time::Duration;

use lockstead_client_core::{ExtendError, Extended, Instant, Lost, ReleaseOutcome};

use super::park::{block_on, block_on_for};

/// A lock that this program holds, until [`valid_until`](Self::valid_until) or until it is [lost](Self::lost).
///
/// Whoever writes to something that the lock protects should hand [`token`](Self::token) along and let the other side
/// refuse a smaller one than it has seen: a program can be stopped between its last look at the ticket and the write.
///
/// Dropping a ticket releases the lock in the background.
#[derive(Debug)]
#[must_use = "dropping a ticket releases the lock at once, and so does `let _ =`: bind it to a name"]
pub struct Ticket(crate::Ticket);

impl Ticket {
    pub(super) fn new(ticket: crate::Ticket) -> Self {
        Self(ticket)
    }

    /// The key that is locked.
    pub fn key(&self) -> &str {
        self.0.key()
    }

    /// The token: the authority over this lock, and greater than that of every earlier grant of the server.
    pub fn token(&self) -> u64 {
        self.0.token()
    }

    /// How long the request was queued, as the server says.
    pub fn waited(&self) -> Duration {
        self.0.waited()
    }

    /// The lease: the shorter of the one asked for and the longest that the server grants.
    pub fn lease(&self) -> Duration {
        self.0.lease()
    }

    /// Whether the lock is surely held at this moment.
    pub fn valid(&self) -> bool {
        self.0.valid()
    }

    /// Until when the lock is surely held, by the client's clock ([`now`](crate::now)). Every extend moves it.
    pub fn valid_until(&self) -> Instant {
        self.0.valid_until()
    }

    /// How long the lock is surely held from now on; zero when it is lost.
    pub fn valid_for(&self) -> Duration {
        self.0.valid_for()
    }

    /// Why the ticket is no longer good; `None` while it is.
    pub fn lost_reason(&self) -> Option<Lost> {
        self.0.lost_reason()
    }

    /// Tells when the ticket is lost, before the lock can be somebody else's. Stop then what the lock protects. The
    /// signal may outlive the ticket, and be waited for in another thread.
    pub fn lost(&self) -> LostSignal {
        LostSignal(self.0.lost())
    }

    /// Extends the ticket by itself from now on, each third of its lease, until it is lost or ended: in a program that
    /// hangs, for ever, and nobody else gets the lock. [`keep_alive_for`](Self::keep_alive_for) sets a limit to that.
    pub fn keep_alive(&self) {
        self.0.keep_alive();
    }

    /// Extends the ticket by itself like [`keep_alive`](Self::keep_alive), but only up to `max` from now, or from the
    /// latest call of either. Leases are whole seconds, so the ticket ends at that instant or less than a second later;
    /// with a greater [`margin`](crate::Builder::margin) up to that much earlier. It is lost as [`Lost::Expired`] then,
    /// and the lock is released. What the running lease has left by now is not shortened, even if it is more than `max`.
    pub fn keep_alive_for(&self, max: Duration) {
        self.0.keep_alive_for(max);
    }

    /// Extends the ticket once: [`valid_until`](Self::valid_until) becomes the sending of this request + `lease` (in
    /// whole seconds, rounded up), less the margin, and never earlier than it was: a short lease does not shorten a
    /// long one. [`lease`](Self::lease), which keep-alive goes by, stays what it is. An error leaves the ticket as it
    /// was, except [`ExtendError::Lost`]. Ends by the `valid_until` of then.
    pub fn extend(&self, lease: Duration) -> Result<Extended, ExtendError> {
        block_on(self.0.extend(lease))
    }

    /// Releases the lock, and says how that went. Sent again until it is answered, at most until the lease has ended.
    pub fn release(self) -> ReleaseOutcome {
        block_on(self.0.release())
    }

    /// Ends the ticket without releasing the lock: it stays held until its lease ends or somebody releases its token.
    pub fn leave(self) {
        self.0.leave();
    }
}

/// Tells when a ticket is lost, and why; see [`Ticket::lost`].
#[derive(Clone, Debug)]
pub struct LostSignal(crate::LostSignal);

impl LostSignal {
    /// Why the ticket is lost, without waiting; `None` while it is not.
    pub fn reason(&self) -> Option<Lost> {
        self.0.reason()
    }

    /// Waits until the ticket is lost.
    pub fn wait(self) -> Lost {
        block_on(self.0)
    }

    /// Waits until the ticket is lost, for so long at most; `None` when it was not by then.
    pub fn wait_for(&self, longest: Duration) -> Option<Lost> {
        block_on_for(self.0.clone(), longest)
    }
}
