//! What the program's handles and the driver share: the core behind a lock, and who waits for what.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;

use lockstead_client_core::{Core, Fault, Instant, Output};

use crate::address::Address;
use crate::clock::now;
use crate::process;
use crate::sockets::Sockets;
use crate::stats::Stats;
use crate::waiting::Waiting;

/// The client of one process.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Locked by whoever does the I/O: the driver in each of its turns, and when there is no driver whoever flushes.
    pub(crate) sockets: Mutex<Sockets>,
    /// The generation of the process that made the client.
    generation: u32,
}

/// The process was forked; in the child the client is dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forked;

/// The core and who waits for it.
pub(crate) struct State {
    pub(crate) core: Core,
    /// What the driver is to do.
    pub(crate) io: VecDeque<Output>,
    /// Whether the program has handed something in that the driver has not seen.
    pub(crate) asked: bool,
    /// Present while the driver sleeps.
    pub(crate) driver: Option<Waker>,
    /// Whether the driver is gone, and with it every connection.
    pub(crate) ended: bool,
    pub(crate) waiting: Waiting,
    /// How often the server broke a rule.
    faults: u64,
}

/// What is to be done when the lock is free again: foreign code runs then.
#[derive(Debug, Default)]
pub(crate) struct Afterwards {
    pub(crate) woken: Vec<Waker>,
    faults: Vec<Fault>,
}

impl Afterwards {
    pub(crate) fn run(&mut self) {
        for fault in self.faults.drain(..) {
            tracing::warn!(?fault, "the server broke a rule");
        }
        self.woken.drain(..).for_each(Waker::wake);
    }
}

impl Shared {
    pub(crate) fn new(core: Core, addresses: Vec<Address>) -> Self {
        let state = State {
            core,
            io: VecDeque::new(),
            asked: false,
            driver: None,
            ended: false,
            waiting: Waiting::default(),
            faults: 0,
        };
        Self {
            state: Mutex::new(state),
            sockets: Mutex::new(Sockets::new(addresses)),
            generation: process::generation(),
        }
    }

    /// Hands something in for the program, and wakes the driver: there may be something to send or to wait for.
    pub(crate) fn input<R>(&self, input: impl FnOnce(&mut State, Instant) -> R) -> Result<R, Forked> {
        self.enter(|state, now| (input(state, now), true))
    }

    /// Looks at something for the program. The driver is woken only if the look changed something, such as a ticket
    /// whose time is over.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut State, Instant) -> R) -> Result<R, Forked> {
        self.enter(|state, now| {
            let result = look(state, now);
            let changed = state.core.has_output();
            (result, changed)
        })
    }

    fn enter<R>(&self, enter: impl FnOnce(&mut State, Instant) -> (R, bool)) -> Result<R, Forked> {
        self.check_process()?;
        let mut afterwards = Afterwards::default();
        let mut state = self.lock();
        let (result, changed) = enter(&mut state, now());
        state.pump(&mut afterwards);
        let mut driver = None;
        if changed {
            state.asked = true;
            driver = state.driver.take();
        }
        drop(state);
        afterwards.run();
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(result)
    }

    pub(crate) fn check_process(&self) -> Result<(), Forked> {
        if process::generation() == self.generation { Ok(()) } else { Err(Forked) }
    }

    /// Hands something in for the driver. `afterwards` is empty, before and after.
    pub(crate) fn drive<R>(&self, afterwards: &mut Afterwards, input: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = input(&mut state);
        state.pump(afterwards);
        drop(state);
        afterwards.run();
        result
    }

    /// The state as it is, for the driver.
    pub(crate) fn with<R>(&self, with: impl FnOnce(&mut State) -> R) -> R {
        with(&mut self.lock())
    }

    /// A panic while the lock was held is a defect of this crate; the state may be half changed, but a lock client
    /// that goes silent for good helps nobody: tickets still expire.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same unless somebody else has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl State {
    /// Takes the core's outputs: what is for the driver is put aside, who waits is to be woken without the lock.
    pub(crate) fn pump(&mut self, afterwards: &mut Afterwards) {
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Ready(id) => afterwards.woken.extend(self.waiting.ready(id)),
                Output::Lost(ticket) => afterwards.woken.extend(self.waiting.lost(ticket)),
                Output::Stopped => {}
                Output::Fault(fault) => {
                    self.faults += 1;
                    afterwards.faults.push(fault);
                }
                Output::Connect { .. } | Output::Close { .. } | Output::Look { .. } => {
                    self.io.push_back(output);
                }
            }
        }
    }

    /// The driver is gone: nothing moves any more.
    pub(crate) fn end(&mut self) -> Vec<Waker> {
        self.ended = true;
        self.waiting.ended()
    }

    pub(crate) fn stats(&self) -> Stats {
        let counts = self.core.counts();
        Stats {
            calls: counts.calls,
            tickets: counts.tickets,
            requests: counts.requests + counts.results,
            sessions: counts.sessions,
            waiting: self.waiting.len(),
            faults: self.faults,
        }
    }
}

/// What every part of the program that uses the client holds. When the last one is gone, the client gives back what
/// is left and stops.
pub(crate) struct Handle(pub(crate) Arc<Shared>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a forked child there is nothing to stop.
        let _ = self.input(|state, now| state.core.shutdown(now));
    }
}

impl Handle {
    pub(crate) fn input<R>(&self, input: impl FnOnce(&mut State, Instant) -> R) -> Result<R, Forked> {
        self.0.input(input)
    }
}
