//! What comes on a connection, and when.

use crate::answer::Answer;
use std::time::{Duration, Instant};

/// An answer and when its last byte was here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The answer.
    pub answer: Answer,
    /// When the read that completed it had returned.
    pub at: Instant,
}

/// What came next on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An answer.
    Answer(Arrival),
    /// End of stream, after a whole answer.
    End,
    /// End of stream inside an answer: these bytes were left.
    Cut(Vec<u8>),
    /// The connection was reset.
    Reset,
    /// Nothing, until the time was over.
    Quiet,
}

/// A grant as its client saw it.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// The token.
    pub token: u64,
    /// The lease the server keeps.
    pub lease_s: u8,
    /// What the answer says about the wait.
    pub waited_ms: u32,
    /// Before the request was sent.
    pub sent: Instant,
    /// When the answer was here.
    pub at: Instant,
}

impl Grant {
    /// Earliest and latest beginning of the lease, for [`crate::Ends::judge`]. The grant happened no earlier
    /// than `sent` + `waited`.
    pub fn begun(&self) -> (Instant, Instant) {
        (self.sent + Duration::from_millis(self.waited_ms.into()), self.at)
    }

    /// The lease.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_s.into())
    }
}
