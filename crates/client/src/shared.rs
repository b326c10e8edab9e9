//! What the program's handles and the driver share: the core behind a lock, and who waits for what.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use lockstead_client_core::{Core, Instant, OpResult, Output};

use crate::clock::now;

/// The client of one process.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The process that made the client.
    process: u32,
}

/// The process was forked; in the child the client is dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forked;

/// The core and who waits for it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) core: Core,
    /// What the driver is to do.
    pub(crate) io: VecDeque<Output>,
    /// Present while the driver sleeps.
    pub(crate) driver: Option<Waker>,
    /// Who waits for the outcome of a call or request, by its id.
    ready: HashMap<u64, Waker>,
    /// Who waits for the loss of a ticket.
    lost: HashMap<u64, Vec<Waker>>,
    /// Whether the driver is gone, and with it every connection.
    ended: bool,
    /// Who waits for that.
    stopped: Vec<Waker>,
}

impl Shared {
    pub(crate) fn new(core: Core) -> Self {
        let state = State {
            core,
            io: VecDeque::new(),
            driver: None,
            ready: HashMap::new(),
            lost: HashMap::new(),
            ended: false,
            stopped: Vec::new(),
        };
        Self { state: Mutex::new(state), process: std::process::id() }
    }

    /// Hands something in for the program, and wakes the driver: there may be something to send or to wait for.
    pub(crate) fn input<R>(&self, input: impl FnOnce(&mut State, Instant) -> R) -> Result<R, Forked> {
        self.check_process()?;
        let mut state = self.lock();
        let result = input(&mut state, now());
        let woken = state.pump();
        let driver = state.driver.take();
        drop(state);
        woken.into_iter().chain(driver).for_each(Waker::wake);
        Ok(result)
    }

    /// Looks at something for the program. The driver is woken only if the look changed something, such as a ticket
    /// whose time is over.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut State, Instant) -> R) -> Result<R, Forked> {
        self.check_process()?;
        let mut state = self.lock();
        let result = look(&mut state, now());
        let woken = state.pump();
        let driver = if woken.is_empty() { None } else { state.driver.take() };
        drop(state);
        woken.into_iter().chain(driver).for_each(Waker::wake);
        Ok(result)
    }

    fn check_process(&self) -> Result<(), Forked> {
        if std::process::id() == self.process { Ok(()) } else { Err(Forked) }
    }

    /// Hands something in for the driver.
    pub(crate) fn drive<R>(&self, input: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = input(&mut state);
        let woken = state.pump();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// A panic while the lock was held is a defect of this crate; the state may be half changed, but a lock client
    /// that goes silent for good helps nobody: tickets still expire.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes the core's outputs: what is for the driver is put aside, who waits is to be woken without the lock.
    fn pump(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Ready(id) => woken.extend(self.ready.remove(&id)),
                Output::Lost(ticket) => woken.extend(self.lost.remove(&ticket).unwrap_or_default()),
                Output::Stopped => {}
                Output::Fault(fault) => tracing::warn!(?fault, "the server broke a rule"),
                Output::Connect { .. } | Output::Close { .. } | Output::Look { .. } => {
                    self.io.push_back(output);
                }
            }
        }
        woken
    }

    /// The driver is gone: nothing moves any more.
    pub(crate) fn end(&mut self) -> Vec<Waker> {
        self.ended = true;
        std::mem::take(&mut self.stopped)
    }

    /// Wakes this task when the call or request has its outcome.
    pub(crate) fn wake_when_ready(&mut self, id: u64, context: &Context<'_>) {
        self.ready.insert(id, context.waker().clone());
    }

    /// Nobody waits any more.
    pub(crate) fn forget_waker(&mut self, id: u64) {
        self.ready.remove(&id);
    }

    /// Wakes this task when the ticket is lost.
    pub(crate) fn wake_when_lost(&mut self, ticket: u64, context: &Context<'_>) {
        let wakers = self.lost.entry(ticket).or_default();
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
    }
}

/// What every part of the program that uses the client holds. When the last one is gone, the client gives back what
/// is left and stops.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        // In a forked child there is nothing to stop.
        let _ = self.0.input(|state, now| state.core.shutdown(now));
    }
}

impl Handle {
    pub(crate) fn input<R>(&self, input: impl FnOnce(&mut State, Instant) -> R) -> Result<R, Forked> {
        self.0.input(input)
    }
}

/// Resolves when the client has stopped.
pub(crate) struct Stopping(pub(crate) Arc<Handle>);

impl Future for Stopping {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let stopped = self.0.input(|state, now| {
            state.core.shutdown(now);
            state.stopped.push(context.waker().clone());
            state.ended
        });
        if stopped.unwrap_or(true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The result of a request other than an acquire. Dropping it gives the result up, not the request.
pub(crate) struct Pending {
    handle: Arc<Handle>,
    id: u64,
}

impl Pending {
    pub(crate) fn new(handle: Arc<Handle>, id: u64) -> Self {
        Self { handle, id }
    }
}

impl Future for Pending {
    type Output = Result<OpResult, Forked>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.id;
        let result = self.handle.input(|state, _| {
            let result = state.core.take_result(id);
            if result.is_none() {
                state.wake_when_ready(id, context);
            }
            result
        });
        match result {
            Ok(None) => Poll::Pending,
            Ok(Some(result)) => Poll::Ready(Ok(result)),
            Err(forked) => Poll::Ready(Err(forked)),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let id = self.id;
        let _ = self.handle.input(|state, now| {
            state.forget_waker(id);
            state.core.forget(now, id);
        });
    }
}
