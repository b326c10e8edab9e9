//! The client: acquires, and the requests that name a token.

use std::sync::Arc;
use std::time::Duration;

use lockstead_client_core::{
    CallError, ExtendError, Extended, KeyInfo, OpResult, ReleaseOutcome, UnsentCause, UsageError,
};

use crate::acquire::Acquire;
use crate::builder::Builder;
use crate::shared::{Handle, Pending, Stopping};

/// A client of one Lockstead server. Cheap to clone; all clones are one client, which uses one connection at a time.
///
/// When the last clone and the last ticket are gone, the client gives back what is left in the background and stops.
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
}

impl Client {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// Starts to make a client.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Asks for the lock on `key`, 1 to 1024 bytes without a newline. Nothing happens before the result is awaited;
    /// giving up then (dropping the future) withdraws the call, and a grant that comes all the same is released.
    pub fn acquire(&self, key: impl Into<String>) -> Acquire {
        Acquire::new(self.handle.clone(), key.into())
    }

    /// Releases the exact `token` of `key`. For a token that came from a [`Ticket`](crate::Ticket) of this program,
    /// use the ticket. Ends within 5 s.
    pub async fn release(&self, key: &str, token: u64) -> Result<ReleaseOutcome, UsageError> {
        let Ok(id) = self.handle.input(|state, now| state.core.release(now, key, token)) else {
            return Ok(ReleaseOutcome::Unsent(UnsentCause::ForkedChild));
        };
        match self.result(id?).await {
            Some(OpResult::Release(outcome)) => Ok(outcome),
            _ => Ok(ReleaseOutcome::Unsent(UnsentCause::ForkedChild)),
        }
    }

    /// Extends the exact `token` of `key`: its lease ends `lease` from now, unless it already ends later. For a token
    /// that came from a [`Ticket`](crate::Ticket) of this program, use the ticket. Ends within 5 s.
    pub async fn extend(&self, key: &str, token: u64, lease: Duration) -> Result<Extended, ExtendError> {
        let forked = ExtendError::Unsent(UnsentCause::ForkedChild);
        let Ok(id) = self.handle.input(|state, now| state.core.extend(now, key, token, lease)) else {
            return Err(forked);
        };
        match self.result(id?).await {
            Some(OpResult::Extend(result)) => result,
            _ => Err(forked),
        }
    }

    /// Asks for the state of `key`. The answer may be out of date when it arrives. Ends within 5 s.
    pub async fn query(&self, key: &str) -> Result<KeyInfo, CallError> {
        let forked = CallError::Unsent(UnsentCause::ForkedChild);
        let Ok(id) = self.handle.input(|state, now| state.core.query(now, key)) else {
            return Err(forked);
        };
        match self.result(id?).await {
            Some(OpResult::Query(result)) => result,
            _ => Err(forked),
        }
    }

    /// Measures the way to the server and back, by a request of its own. Ends within 5 s.
    pub async fn ping(&self) -> Result<Duration, CallError> {
        let forked = CallError::Unsent(UnsentCause::ForkedChild);
        let Ok(id) = self.handle.input(|state, now| state.core.ping(now)) else {
            return Err(forked);
        };
        match self.result(id).await {
            Some(OpResult::Ping(result)) => result,
            _ => Err(forked),
        }
    }

    /// Ends the client: calls that are still open end, every ticket that is in use is lost and released, and what is
    /// to be sent is flushed for at most 2 s. Other clones can do nothing more afterwards.
    pub async fn shutdown(&self) {
        Stopping(self.handle.clone()).await;
    }

    async fn result(&self, id: u64) -> Option<OpResult> {
        Pending::new(self.handle.clone(), id).await.ok()
    }
}
