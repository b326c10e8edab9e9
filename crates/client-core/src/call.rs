//! One acquire, from the call to its outcome.

use alloc::sync::Arc;
use core::time::Duration;

use crate::deadline::Budget;
use crate::outcome::AcquireError;
use crate::session::SessionId;
use crate::time::Instant;

/// An acquire that the program asked for.
///
/// It stays in the client's table until the program has its outcome and, if it was possibly sent, its session has
/// answered it or is closed.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) key: Arc<str>,
    pub(crate) lease_s: u8,
    pub(crate) budget: Budget,
    pub(crate) state: CallState,
    pub(crate) given_up: GivenUp,
    /// While queued or sent the budget end, then the deadline; with a grant the end of its gate.
    pub(crate) timer: Option<Instant>,
}

/// How far a call has come.
#[derive(Debug)]
pub(crate) enum CallState {
    /// Certainly unsent.
    Queued,
    /// A byte of it may have left, on this session, handed over at this instant.
    Sent(SessionId, Instant),
    /// The grant waits at the gate until the program takes it.
    Granted(Grant),
    /// The program has not picked up the outcome yet.
    Ended(AcquireError),
}

/// Whether somebody still wants the ticket of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// Yes.
    No,
    /// No, and nobody waits for the outcome either.
    Cancelled,
    /// The client is shutting down; the outcome is still waited for.
    ShutDown,
}

/// A grant as the client knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) token: u64,
    /// The smaller of the lease asked for and the one answered.
    pub(crate) lease_s: u8,
    pub(crate) waited: Duration,
    /// The grant happened no earlier than this: sent + waited.
    pub(crate) granted: Instant,
    pub(crate) valid_until: Instant,
    /// When the server's lease has surely ended if nothing more is heard.
    pub(crate) surely_ended: Instant,
}

impl Call {
    /// Whether it is possibly sent and unanswered.
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.state, CallState::Sent(..))
    }

    /// When a grant can no longer pass the gate.
    pub(crate) fn gate_closes(&self, grant: &Grant) -> Instant {
        self.budget.deadline.min(grant.valid_until)
    }
}
