//! An acquire: made, awaited, given up.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstead_client_core::{AcquireError, UnsentCause};

use crate::shared::{Handle, State};
use crate::ticket::Ticket;

/// How long to wait for a lock when the program does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// How long to keep a lock when the program does not say.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// An acquire about to be made; await it.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct Acquire {
    handle: Arc<Handle>,
    key: String,
    wait: Duration,
    lease: Duration,
}

impl Acquire {
    pub(crate) fn new(handle: Arc<Handle>, key: String) -> Self {
        Self { handle, key, wait: DEFAULT_WAIT, lease: DEFAULT_LEASE }
    }

    /// How long to queue for the lock at most, rounded up to whole seconds; at most 255 s. Zero makes one immediate
    /// attempt. Default: 10 s. The call ends at the latest 2 s later (the answer allowance), with zero after 5 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long the server keeps the lock without hearing more, rounded up to whole seconds; 1 to 255 s. Default:
    /// 30 s. It is the safety net for a program that dies: how long others then wait.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Ticket, AcquireError>;
    type IntoFuture = Acquiring;

    fn into_future(self) -> Acquiring {
        Acquiring { acquire: self, owner: None }
    }
}

/// The future of an [`Acquire`]. The call is made, and its deadline fixed, when it is polled first. Dropping it gives
/// the call up.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Acquiring {
    acquire: Acquire,
    /// Names the call from when it is made until its outcome is taken.
    owner: Option<u64>,
}

impl Acquiring {
    fn advance(
        &mut self,
        state: &mut State,
        now: lockstead_client_core::Instant,
        context: &Context<'_>,
    ) -> Poll<Result<Ticket, AcquireError>> {
        let Acquire { handle, key, wait, lease } = &self.acquire;
        let owner = match self.owner {
            Some(owner) => owner,
            None => state.core.acquire(now, key, *wait, *lease)?,
        };
        self.owner = Some(owner);
        match state.core.take(now, owner) {
            None => {
                state.wake_when_ready(owner, context);
                Poll::Pending
            }
            Some(outcome) => {
                self.owner = None;
                let facts = outcome.map(|ticket| (ticket, state.core.ticket_facts(ticket)));
                Poll::Ready(facts.map(|(ticket, facts)| {
                    let facts = facts.expect("a ticket just taken is there");
                    Ticket::new(handle.clone(), ticket, facts)
                }))
            }
        }
    }
}

impl Future for Acquiring {
    type Output = Result<Ticket, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let acquiring = &mut *self;
        let handle = acquiring.acquire.handle.clone();
        match handle.input(|state, now| acquiring.advance(state, now, context)) {
            Ok(poll) => poll,
            Err(_) => Poll::Ready(Err(AcquireError::Unsent(UnsentCause::ForkedChild))),
        }
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if let Some(owner) = self.owner {
            let _ = self.acquire.handle.input(|state, now| {
                state.forget_waker(owner);
                state.core.cancel(now, owner);
            });
        }
    }
}
