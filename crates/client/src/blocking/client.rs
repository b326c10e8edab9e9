//! The blocking client: acquires, and the requests that name a token.

use std::time::Duration;

use lockstead_client_core::{CallError, ExtendError, Extended, KeyInfo, ReleaseOutcome, UsageError};

use super::Builder;
use super::acquire::Acquire;
use super::park::block_on;
use crate::stats::Stats;

/// A client of one Lockstead server that blocks in its calls. Cheap to clone, and any number of threads may use it at
/// once; all clones are one client, which uses one connection at a time.
///
/// When the last clone and the last ticket are gone, the client gives back what is left in the background and stops.
/// A program that ends in an ordinary way waits for that, for at most a second.
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

impl Client {
    pub(crate) fn new(client: crate::Client) -> Self {
        Self(client)
    }

    /// Starts to make a client.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Asks for the lock on `key`, 1 to 1024 bytes without a newline. Nothing happens before
    /// [`call`](Acquire::call).
    pub fn acquire(&self, key: impl Into<String>) -> Acquire {
        Acquire::new(self.0.acquire(key))
    }

    /// Releases the exact `token` of `key`. For a token that came from a [`Ticket`](super::Ticket) of this program,
    /// use the ticket. Ends within 5 s.
    pub fn release(&self, key: &str, token: u64) -> Result<ReleaseOutcome, UsageError> {
        block_on(self.0.release(key, token))
    }

    /// Extends the exact `token` of `key`: its end becomes `lease` (in whole seconds, rounded up) after the server gets
    /// the request, and never earlier than it was: a short lease does not shorten a long one. What the client may rely
    /// on, [`Extended::valid_until`], counts from the sending instead. For a token that came from a
    /// [`Ticket`](super::Ticket) of this program, use the ticket. Ends within 5 s.
    pub fn extend(&self, key: &str, token: u64, lease: Duration) -> Result<Extended, ExtendError> {
        block_on(self.0.extend(key, token, lease))
    }

    /// Asks for the state of `key`. The answer may be out of date when it arrives. Ends within 5 s.
    pub fn query(&self, key: &str) -> Result<KeyInfo, CallError> {
        block_on(self.0.query(key))
    }

    /// Measures the way to the server and back, by a request of its own. Ends within 5 s.
    pub fn ping(&self) -> Result<Duration, CallError> {
        block_on(self.0.ping())
    }

    /// What the client has in hand right now; all zero in a forked child. Cheap: it asks nobody.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Ends the client: calls that are still open end, every ticket that is in use is lost and released, and what is
    /// to be sent is flushed for at most 2 s. Other clones can do nothing more afterwards.
    pub fn shutdown(&self) {
        block_on(self.0.shutdown());
    }
}
