//! The client.

use std::pin::Pin;
use std::time::Duration;

use lockstead_client_core::{
    AcquireError, CallError, ExtendError, Extended, KeyInfo, ReleaseOutcome, UsageError,
};

use crate::builder::Builder;
use crate::ticket::Ticket;

/// A client.
#[derive(Clone, Debug)]
pub struct Client {}

/// An acquire about to be made.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct Acquire {}

impl Client {
    /// Starts to make a client.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Asks for the lock on `key`.
    pub fn acquire(&self, key: impl Into<String>) -> Acquire {
        let _ = key.into();
        Acquire {}
    }

    /// Releases.
    pub async fn release(&self, key: &str, token: u64) -> Result<ReleaseOutcome, UsageError> {
        unimplemented!("{key} {token}")
    }

    /// Extends.
    pub async fn extend(&self, key: &str, token: u64, lease: Duration) -> Result<Extended, ExtendError> {
        unimplemented!("{key} {token} {lease:?}")
    }

    /// Queries.
    pub async fn query(&self, key: &str) -> Result<KeyInfo, CallError> {
        unimplemented!("{key}")
    }

    /// Pings.
    pub async fn ping(&self) -> Result<Duration, CallError> {
        unimplemented!()
    }

    /// Shuts down.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}

impl Acquire {
    /// The wait.
    pub fn wait(self, wait: Duration) -> Self {
        let _ = wait;
        self
    }

    /// The lease.
    pub fn lease(self, lease: Duration) -> Self {
        let _ = lease;
        self
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Ticket, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        unimplemented!()
    }
}
