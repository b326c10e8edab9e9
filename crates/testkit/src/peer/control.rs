//! How a script and the program under test hear of each other.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What both sides have said so far. A signal stays: who awaits it later finds it.
#[derive(Debug, Default)]
struct State {
    from_program: HashSet<String>,
    from_peer: Vec<String>,
    client_ended: bool,
    script_ended: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes the script, which waits for sockets.
    waker: UnixStream,
}

/// The program's side.
#[derive(Clone, Debug)]
pub struct Signals(Arc<Shared>);

/// The script's side.
#[derive(Debug)]
pub(super) struct Inbox {
    shared: Arc<Shared>,
    woken: UnixStream,
}

/// Both sides.
pub(super) fn pair() -> io::Result<(Signals, Inbox)> {
    let (waker, woken) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), waker });
    Ok((Signals(shared.clone()), Inbox { shared, woken }))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }
}

impl Signals {
    /// Tells the script something.
    pub fn signal(&self, name: &str) {
        self.0.change(|state| {
            state.from_program.insert(name.to_owned());
        });
        self.wake();
    }

    /// Says that the client under test has ended: it sends nothing more and its connections are closed.
    pub fn client_has_ended(&self) {
        self.0.change(|state| state.client_ended = true);
        self.wake();
    }

    fn wake(&self) {
        // A full pipe wakes as well as one more byte would.
        let _ = (&self.0.waker).write(&[0]);
    }

    /// Waits until the script has said something, but no longer than `limit` or the script's end; false: it has not.
    pub fn await_signal(&self, name: &str, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let said = |state: &State| state.from_peer.iter().any(|said| said == name);
        let mut state = self.0.state();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if said(&state) || state.script_ended || left.is_zero() {
                return said(&state);
            }
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The script's signal number `index`, as soon as there is one; `None` when the script has ended without.
    pub fn nth(&self, index: usize) -> Option<String> {
        let mut state = self.0.state();
        loop {
            if state.from_peer.len() > index || state.script_ended {
                return state.from_peer.get(index).cloned();
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Inbox {
    /// Tells the program something.
    pub(super) fn signal(&self, name: &str) {
        self.shared.change(|state| state.from_peer.push(name.to_owned()));
    }

    /// Whether the program has said something.
    pub(super) fn heard(&self, name: &str) -> bool {
        self.shared.state().from_program.contains(name)
    }

    /// The script goes no further: nobody need wait for its signals.
    pub(super) fn end(&self) {
        self.shared.change(|state| state.script_ended = true);
    }

    pub(super) fn client_has_ended(&self) -> bool {
        self.shared.state().client_ended
    }

    /// Readable when something was said.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// Makes [`fd`](Self::fd) unreadable.
    pub(super) fn clear(&mut self) {
        let mut buffer = [0; 64];
        while matches!(self.woken.read(&mut buffer), Ok(1..)) {}
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.end();
    }
}
