//! The client: acquires, and the requests that name a token.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockstead_client_core::{
    CallError, Core, ExtendError, Extended, Instant, KeyInfo, OpResult, ReleaseOutcome, UsageError,
};

use crate::acquire::Acquire;
use crate::asking::{Asking, Stopping};
use crate::builder::Builder;
use crate::shared::Handle;
use crate::stats::Stats;

/// A client of one Lockstead server. Cheap to clone; all clones are one client, which uses one connection at a time.
///
/// When the last clone and the last ticket are gone, the client gives back what is left in the background and stops.
#[derive(Clone)]
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
        match self.ask(|core, now| core.release(now, key, token)).await {
            Ok(Ok(OpResult::Release(outcome))) => Ok(outcome),
            Ok(Ok(_)) => Ok(ReleaseOutcome::Unknown),
            Ok(Err(usage)) => Err(usage),
            Err(in_child) => Ok(in_child.release_outcome()),
        }
    }

    /// Extends the exact `token` of `key`: its end becomes `lease` (in whole seconds, rounded up) after the server gets
    /// the request, and never earlier than it was: a short lease does not shorten a long one. What the client may rely
    /// on, [`Extended::valid_until`], counts from the sending instead. For a token that came from a
    /// [`Ticket`](crate::Ticket) of this program, use the ticket. Ends within 5 s.
    pub async fn extend(&self, key: &str, token: u64, lease: Duration) -> Result<Extended, ExtendError> {
        match self.ask(|core, now| core.extend(now, key, token, lease)).await {
            Ok(Ok(OpResult::Extend(result))) => result,
            Ok(Ok(_)) => Err(ExtendError::Unknown),
            Ok(Err(usage)) => Err(usage.into()),
            Err(in_child) => Err(in_child.extend_error()),
        }
    }

    /// Asks for the state of `key`. The answer may be out of date when it arrives. Ends within 5 s.
    pub async fn query(&self, key: &str) -> Result<KeyInfo, CallError> {
        match self.ask(|core, now| core.query(now, key)).await {
            Ok(Ok(OpResult::Query(result))) => result,
            Ok(Ok(_)) => Err(CallError::Unknown),
            Ok(Err(usage)) => Err(usage.into()),
            Err(in_child) => Err(in_child.call_error()),
        }
    }

    /// Measures the way to the server and back, by a request of its own. Ends within 5 s.
    pub async fn ping(&self) -> Result<Duration, CallError> {
        match self.ask(|core, now| Ok::<_, Infallible>(core.ping(now))).await {
            Ok(Ok(OpResult::Ping(result))) => result,
            Ok(Ok(_)) => Err(CallError::Unknown),
            Err(in_child) => Err(in_child.call_error()),
        }
    }

    /// What the client has in hand right now; all zero in a forked child. Cheap: it asks nobody.
    pub fn stats(&self) -> Stats {
        self.handle.0.look(|state, _| state.stats()).unwrap_or_default()
    }

    /// Ends the client: calls that are still open end, every ticket that is in use is lost and released, and what is
    /// to be sent is flushed for at most 2 s. Other clones can do nothing more afterwards.
    pub async fn shutdown(&self) {
        Stopping(&self.handle).await;
    }

    /// Asks and awaits the result; `Err` in a forked child.
    fn ask<S, E>(&self, start: S) -> Asking<'_, S>
    where
        S: FnOnce(&mut Core, Instant) -> Result<u64, E>,
    {
        Asking::new(&self.handle, start)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
