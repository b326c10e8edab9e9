//! An acquire that blocks.

use std::time::Duration;

use lockstead_client_core::AcquireError;

use super::park::block_on;
use super::ticket::Ticket;

/// An acquire about to be made with [`call`](Self::call).
#[derive(Debug)]
#[must_use = "nothing is sent before `call`"]
pub struct Acquire(crate::Acquire);

impl Acquire {
    pub(super) fn new(acquire: crate::Acquire) -> Self {
        Self(acquire)
    }

    /// How long to queue for the lock at most, rounded up to whole seconds; at most 255 s. Zero makes one immediate
    /// attempt. Default: 10 s. The call ends at the latest 2 s later (the answer allowance), with zero after 5 s.
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// How long the server keeps the lock without hearing more, rounded up to whole seconds; 1 to 255 s. Default:
    /// 30 s. It is the safety net for a program that dies: how long others then wait.
    pub fn lease(self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// Makes the call and waits for its outcome. Only with a [`Ticket`] may the program do what the lock protects; see
    /// [`AcquireError`] for what to do without.
    pub fn call(self) -> Result<Ticket, AcquireError> {
        block_on(self.0.into_future()).map(Ticket::new)
    }
}
