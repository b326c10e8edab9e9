//! What the program awaits: the result of a request, and the end of the client.

use std::pin::Pin;
use std::task::{Context, Poll};

use lockstead_client_core::{CallError, Core, ExtendError, Instant, OpResult, ReleaseOutcome, UnsentCause};

use crate::shared::{Handle, State};

/// A request other than an acquire, and its result. It is made when it is polled first. Dropping it afterwards gives
/// the result up, not the request.
pub(crate) struct Asking<'a, S> {
    handle: &'a Handle,
    /// Makes the request; taken when that is done.
    start: Option<S>,
    /// Names the request until its result is taken.
    id: Option<u64>,
}

impl<'a, S> Asking<'a, S> {
    pub(crate) fn new(handle: &'a Handle, start: S) -> Self {
        Self { handle, start: Some(start), id: None }
    }
}

impl<S, E> Future for Asking<'_, S>
where
    S: FnOnce(&mut Core, Instant) -> Result<u64, E> + Unpin,
{
    /// `Err` in a forked child; inside, `Err` when there is no request.
    type Output = Result<Result<OpResult, E>, InChild>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { handle, start, id } = &mut *self;
        let polled = match start.take() {
            Some(start) => handle
                .input(|state, now| {
                    *id = Some(start(&mut state.core, now)?);
                    take(state, id, context).map(Ok)
                })
                .map_err(|_| InChild::Unmade),
            None => {
                let look = handle.0.look(|state, _| take(state, id, context).map(Ok));
                look.map_err(|_| InChild::Made)
            }
        };
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(in_child) => Poll::Ready(Err(in_child)),
        }
    }
}

/// The process was forked, and a request belongs to the parent: was it made before that?
#[derive(Clone, Copy, Debug)]
pub(crate) enum InChild {
    /// No, and it will not be.
    Unmade,
    /// Yes; its result is the parent's.
    Made,
}

impl InChild {
    pub(crate) fn call_error(self) -> CallError {
        match self {
            Self::Unmade => CallError::Unsent(UnsentCause::ForkedChild),
            Self::Made => CallError::Unknown,
        }
    }

    pub(crate) fn extend_error(self) -> ExtendError {
        match self {
            Self::Unmade => ExtendError::Unsent(UnsentCause::ForkedChild),
            Self::Made => ExtendError::Unknown,
        }
    }

    pub(crate) fn release_outcome(self) -> ReleaseOutcome {
        match self {
            Self::Unmade => ReleaseOutcome::Unsent(UnsentCause::ForkedChild),
            Self::Made => ReleaseOutcome::Unknown,
        }
    }
}

/// The result, if it is there. Otherwise the task is woken when it is.
fn take(state: &mut State, id: &mut Option<u64>, context: &Context<'_>) -> Poll<OpResult> {
    let asked = id.take().expect("a future is not polled after its end");
    match state.core.take_result(asked) {
        Some(result) => Poll::Ready(result),
        None => {
            state.waiting.until_ready(asked, context);
            *id = Some(asked);
            Poll::Pending
        }
    }
}

impl<S> Drop for Asking<'_, S> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let _ = self.handle.input(|state, now| {
                state.waiting.ready(id);
                state.core.forget(now, id);
            });
        }
    }
}

/// Resolves when the client has stopped.
pub(crate) struct Stopping<'a>(pub(crate) &'a Handle);

impl Future for Stopping<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let stopped = self.0.input(|state, now| {
            state.core.shutdown(now);
            if !state.ended {
                state.waiting.until_ended(context);
            }
            state.ended
        });
        if stopped.unwrap_or(true) { Poll::Ready(()) } else { Poll::Pending }
    }
}
