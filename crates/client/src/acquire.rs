//! An acquire: made, awaited, given up.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lockstead_client_core::{AcquireError, IndeterminateCause, Instant, UnsentCause};

use crate::shared::{Handle, State};
use crate::ticket::Ticket;

/// How long to wait for a lock when the program does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);

/// How long to keep a lock when the program does not say.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// An acquire about to be made; await it.
///
/// It is no future itself. Where one is wanted, as by [`tokio::spawn`], say `into_future`:
///
/// ```no_run
/// # async fn example(client: lockstead_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let task = tokio::spawn(client.acquire("report").into_future());
/// let ticket = task.await??;
/// # Ok(())
/// # }
/// ```
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
        Acquiring { acquire: self, progress: Progress::Unmade }
    }
}

/// The future of an [`Acquire`]. The call is made, and its deadline fixed, when it is polled first. Dropping it gives
/// the call up: what was not sent is withdrawn, the server is told to forget what was, and a grant that comes all the
/// same is released.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Acquiring {
    acquire: Acquire,
    progress: Progress,
}

#[derive(Clone, Copy, Debug)]
enum Progress {
    Unmade,
    /// Made; this is its owner.
    Made(u64),
    /// Its outcome was taken.
    Over,
}

impl Acquire {
    /// One step of the call, and whether it is over.
    fn advance(
        &self,
        progress: &mut Progress,
        state: &mut State,
        now: Instant,
        context: &Context<'_>,
    ) -> Poll<Result<Ticket, AcquireError>> {
        let owner = match std::mem::replace(progress, Progress::Over) {
            Progress::Made(owner) => owner,
            _ => state.core.acquire(now, &self.key, self.wait, self.lease)?,
        };
        let Some(outcome) = state.core.take(now, owner) else {
            state.waiting.until_ready(owner, context);
            *progress = Progress::Made(owner);
            return Poll::Pending;
        };
        Poll::Ready(outcome.map(|ticket| {
            let facts = state.core.ticket_facts(ticket).expect("a ticket just taken is there");
            Ticket::new(self.handle.clone(), ticket, facts)
        }))
    }
}

impl Future for Acquiring {
    type Output = Result<Ticket, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { acquire, progress } = &mut *self;
        let shared = &acquire.handle.0;
        let polled = match progress {
            Progress::Unmade => shared.input(|state, now| acquire.advance(progress, state, now, context)),
            Progress::Made(_) => shared.look(|state, now| acquire.advance(progress, state, now, context)),
            Progress::Over => panic!("an acquire was polled after it was over"),
        };
        polled.unwrap_or_else(|_| Poll::Ready(Err(in_child(*progress))))
    }
}

/// The process was forked: a call that was made before that may have been sent, and its outcome is the parent's.
fn in_child(progress: Progress) -> AcquireError {
    match progress {
        Progress::Made(_) => AcquireError::Indeterminate(IndeterminateCause::ForkedChild),
        _ => AcquireError::Unsent(UnsentCause::ForkedChild),
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if let Progress::Made(owner) = self.progress {
            let _ = self.acquire.handle.input(|state, now| {
                state.waiting.ready(owner);
                state.core.cancel(now, owner);
            });
        }
    }
}
