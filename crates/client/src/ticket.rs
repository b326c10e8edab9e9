//! A ticket: the lock is held, until `valid_until`.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstead_client_core::{
    Core, ExtendError, Extended, Instant, Lost, OpResult, ReleaseOutcome, TicketFacts, TicketView,
};

use crate::asking::Asking;
use crate::clock::now;
use crate::shared::{Handle, Shared};
use crate::waiting::Signal;

/// A lock that this program holds, until [`valid_until`](Self::valid_until) or until it is [lost](Self::lost).
///
/// Whoever writes to something that the lock protects should hand [`token`](Self::token) along and let the other side
/// refuse a smaller one than it has seen: a program can be stopped between its last look at the ticket and the write.
///
/// Dropping a ticket releases the lock in the background.
#[must_use = "dropping a ticket releases the lock at once, and so does `let _ =`: bind it to a name"]
pub struct Ticket {
    handle: Arc<Handle>,
    /// Names the ticket in the core.
    id: u64,
    facts: TicketFacts,
    /// Whether the program has ended it in another way than by dropping it.
    ended: bool,
}

impl Ticket {
    pub(crate) fn new(handle: Arc<Handle>, id: u64, facts: TicketFacts) -> Self {
        Self { handle, id, facts, ended: false }
    }

    /// The key that is locked.
    pub fn key(&self) -> &str {
        &self.facts.key
    }

    /// The token: the authority over this lock, and greater than that of every earlier grant of the server.
    pub fn token(&self) -> u64 {
        self.facts.token
    }

    /// How long the request was queued, as the server says.
    pub fn waited(&self) -> Duration {
        self.facts.waited
    }

    /// The lease: the shorter of the one asked for and the longest that the server grants.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.facts.lease_s.into())
    }

    /// Whether the lock is surely held at this moment.
    pub fn valid(&self) -> bool {
        self.lost_reason().is_none()
    }

    /// Until when the lock is surely held, by the client's clock ([`now`](crate::now)). Every extend moves it.
    pub fn valid_until(&self) -> Instant {
        self.view().valid_until
    }

    /// How long the lock is surely held from now on; zero when it is lost.
    pub fn valid_for(&self) -> Duration {
        let view = self.view();
        if view.lost.is_some() { Duration::ZERO } else { view.valid_until.since(now()) }
    }

    /// Why the ticket is no longer good; `None` while it is.
    pub fn lost_reason(&self) -> Option<Lost> {
        self.view().lost
    }

    /// Resolves when the ticket is lost, before the lock can be somebody else's. Stop then what the lock protects. The
    /// signal may outlive the ticket, and be awaited in another task. After [`release`](Self::release),
    /// [`leave`](Self::leave) or a drop it resolves too, with [`Lost::Ended`].
    pub fn lost(&self) -> LostSignal {
        LostSignal { shared: self.handle.0.clone(), ticket: self.id, signal: None }
    }

    /// Extends the ticket by itself from now on, each third of its lease, until it is lost or ended: in a program that
    /// hangs, for ever, and nobody else gets the lock. [`keep_alive_for`](Self::keep_alive_for) sets a limit to that.
    pub fn keep_alive(&self) {
        let _ = self.handle.input(|state, now| state.core.keep_alive(now, self.id, None));
    }

    /// Extends the ticket by itself like [`keep_alive`](Self::keep_alive), but only up to `max` from now, or from the
    /// latest call of either. Leases are whole seconds, so the ticket ends at that instant or less than a second later;
    /// with a greater [`margin`](crate::Builder::margin) up to that much earlier. It is lost as [`Lost::Expired`] then,
    /// and the lock is released. What the running lease has left by now is not shortened, even if it is more than `max`.
    pub fn keep_alive_for(&self, max: Duration) {
        let _ = self.handle.input(|state, now| state.core.keep_alive(now, self.id, Some(max)));
    }

    /// Extends the ticket once: [`valid_until`](Self::valid_until) becomes the sending of this request + `lease` (in
    /// whole seconds, rounded up), less the margin, and never earlier than it was: a short lease does not shorten a
    /// long one. [`lease`](Self::lease), which keep-alive goes by, stays what it is. An error leaves the ticket as it
    /// was, except [`ExtendError::Lost`]. Ends by the `valid_until` of then.
    pub async fn extend(&self, lease: Duration) -> Result<Extended, ExtendError> {
        let start = |core: &mut Core, now| core.extend_ticket(now, self.id, lease);
        match Asking::new(&self.handle, start).await {
            Ok(Ok(OpResult::Extend(result))) => result,
            Ok(Ok(_)) => Err(ExtendError::Unknown),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ExtendError::Lost(Lost::ForkedChild)),
        }
    }

    /// Releases the lock, and says how that went. Sent again until it is answered, at most until the lease has ended.
    /// Giving up the future does not stop the release.
    pub async fn release(mut self) -> ReleaseOutcome {
        self.ended = true;
        let id = self.id;
        let start = |core: &mut Core, now| core.release_ticket(now, id).ok_or(());
        match Asking::new(&self.handle, start).await {
            Ok(Ok(OpResult::Release(outcome))) => outcome,
            // There is no such ticket, which cannot be while the program has it.
            Ok(_) => ReleaseOutcome::Unknown,
            Err(in_child) => in_child.release_outcome(),
        }
    }

    /// Ends the ticket without releasing the lock: keep-alive stops, and the lock stays held until the lease that was
    /// extended last ends, or somebody releases its token.
    pub fn leave(mut self) {
        self.ended = true;
        let _ = self.handle.input(|state, now| state.core.leave_ticket(now, self.id));
    }

    fn view(&self) -> TicketView {
        view(&self.handle.0, self.id)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.handle.input(|state, now| state.core.drop_ticket(now, self.id));
        }
    }
}

/// Every look at a ticket reads the clock.
fn view(shared: &Shared, id: u64) -> TicketView {
    let gone = |lost| TicketView { valid_until: Instant::default(), lost: Some(lost) };
    match shared.look(|state, now| state.core.ticket(now, id)) {
        Ok(view) => view.unwrap_or(gone(Lost::Ended)),
        Err(_) => gone(Lost::ForkedChild),
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { facts, .. } = self;
        f.debug_struct("Ticket").field("key", &facts.key).field("token", &facts.token).finish_non_exhaustive()
    }
}

/// Resolves when a ticket is lost, and says why; see [`Ticket::lost`].
#[must_use = "futures do nothing unless polled"]
pub struct LostSignal {
    shared: Arc<Shared>,
    ticket: u64,
    /// What it waits under.
    signal: Option<Signal>,
}

impl LostSignal {
    /// Why the ticket is lost, without waiting; `None` while it is not.
    pub fn reason(&self) -> Option<Lost> {
        view(&self.shared, self.ticket).lost
    }
}

impl Future for LostSignal {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Lost> {
        let Self { shared, ticket, signal } = &mut *self;
        let looked = shared.look(|state, now| {
            let lost = match state.core.ticket(now, *ticket) {
                Some(view) => view.lost,
                None => Some(Lost::Ended),
            };
            if lost.is_none() {
                *signal = Some(state.waiting.until_lost(*ticket, *signal, context));
            }
            lost
        });
        match looked {
            Ok(Some(lost)) => Poll::Ready(lost),
            Ok(None) => Poll::Pending,
            Err(_) => Poll::Ready(Lost::ForkedChild),
        }
    }
}

impl Clone for LostSignal {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), ticket: self.ticket, signal: None }
    }
}

impl Drop for LostSignal {
    fn drop(&mut self) {
        if let Some(signal) = self.signal {
            let _ = self.shared.look(|state, _| state.waiting.forget_signal(self.ticket, signal));
        }
    }
}

impl fmt::Debug for LostSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LostSignal").finish_non_exhaustive()
    }
}
