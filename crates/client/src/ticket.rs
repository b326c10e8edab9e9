//! A ticket.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstead_client_core::{ExtendError, Extended, Instant, Lost, ReleaseOutcome};

/// A held lock.
#[derive(Debug)]
pub struct Ticket {}

/// Resolves when the ticket is lost.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct LostSignal {}

impl Future for LostSignal {
    type Output = Lost;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Lost> {
        unimplemented!()
    }
}

impl Ticket {
    /// The key.
    pub fn key(&self) -> &str {
        unimplemented!()
    }
    /// The token.
    pub fn token(&self) -> u64 {
        unimplemented!()
    }
    /// The time waited.
    pub fn waited(&self) -> Duration {
        unimplemented!()
    }
    /// The lease.
    pub fn lease(&self) -> Duration {
        unimplemented!()
    }
    /// Whether it is valid.
    pub fn valid(&self) -> bool {
        unimplemented!()
    }
    /// Until when.
    pub fn valid_until(&self) -> Instant {
        unimplemented!()
    }
    /// For how long.
    pub fn valid_for(&self) -> Duration {
        unimplemented!()
    }
    /// The signal.
    pub fn lost(&self) -> LostSignal {
        unimplemented!()
    }
    /// Why it is lost.
    pub fn lost_reason(&self) -> Option<Lost> {
        unimplemented!()
    }
    /// Keeps alive.
    pub fn keep_alive(&self) {
        unimplemented!()
    }
    /// Keeps alive for at most `max`.
    pub fn keep_alive_for(&self, max: Duration) {
        unimplemented!("{max:?}")
    }
    /// Extends.
    pub async fn extend(&self, lease: Duration) -> Result<Extended, ExtendError> {
        unimplemented!("{lease:?}")
    }
    /// Releases.
    pub async fn release(self) -> ReleaseOutcome {
        unimplemented!()
    }
    /// Leaves the lock held.
    pub fn leave(self) {}
}
