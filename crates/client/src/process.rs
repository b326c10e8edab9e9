//! What happens to the whole process: it forks, or it ends (docs/client-contract.md, rule 15).
//!
//! A forked child has a copy of every descriptor, so its mere life would keep the parent's connections open at the
//! server, and a word from it would be taken for the parent's. So a handler that runs in each child counts up the
//! *generation* of the process and closes the descriptors of all clients. It only closes them: nothing is shut down,
//! and nothing is taken out of the runtime's poller, which the child shares with its parent. Clients of an earlier
//! generation are dead: no use of them does anything, and what they hold of the runtime is leaked.
//!
//! Everything that is open is listed under one lock, which a fork waits for. So no child ever sees a socket that is not
//! listed, or a listed one that is closed and whose number may belong to something else.
//!
//! A fork around the C library (a bare `clone` system call, `_Fork`) runs no handlers; a child of that kind must not
//! touch a client.

use std::cell::Cell;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::Duration;

use crate::clock::now;
use crate::shared::Shared;

/// How long the end of the process is held up for releases that are still under way.
pub(crate) const EXIT_FLUSH: Duration = Duration::from_secs(1);

static GENERATION: AtomicU32 = AtomicU32::new(0);

static OPEN: Mutex<Open> = Mutex::new(Open { clients: Vec::new(), descriptors: Vec::new() });

/// What this process has open through all its clients.
struct Open {
    clients: Vec<Weak<Shared>>,
    descriptors: Vec<RawFd>,
}

/// How many forks lie between this process and the program's first one.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// From now on this client's releases are flushed when the process ends.
pub(crate) fn watch(client: &Arc<Shared>) {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(install_handlers);
    let mut open = lock();
    open.clients.retain(|client| client.strong_count() > 0);
    open.clients.push(Arc::downgrade(client));
}

fn install_handlers() {
    // SAFETY: the handlers are functions, so they live as long as the program. Those of a fork touch nothing but their
    // own statics, and the one in the child makes no call but `close`.
    let failed = unsafe {
        libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child))
            | libc::atexit(at_exit)
    };
    if failed != 0 {
        tracing::warn!("no memory for the handlers of fork and exit");
    }
}

fn lock() -> MutexGuard<'static, Open> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The list, from just before a fork to just after it, in the thread that forks.
    static HELD: Cell<Option<MutexGuard<'static, Open>>> = const { Cell::new(None) };
}

extern "C" fn before_fork() {
    let open = lock();
    // A thread that forks while it ends does without; its child still counts up.
    let _ = HELD.try_with(|held| held.set(Some(open)));
}

extern "C" fn after_fork_in_parent() {
    let _ = HELD.try_with(Cell::take);
}

extern "C" fn after_fork_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    if let Ok(Some(mut open)) = HELD.try_with(Cell::take) {
        for &descriptor in &open.descriptors {
            // SAFETY: whoever closes a descriptor takes it off the list in the same step, so this one is open and
            // ours; and whoever owns it here will not close it again, since its generation is over.
            unsafe { libc::close(descriptor) };
        }
        open.descriptors.clear();
        // They are dead here. Not dropped, for that could free what the parent's threads were using.
        std::mem::forget(std::mem::take(&mut open.clients));
    }
}

/// The program has returned from `main` or called `exit`.
extern "C" fn at_exit() {
    let clients: Vec<Arc<Shared>> = lock().clients.iter().filter_map(Weak::upgrade).collect();
    let until = now() + EXIT_FLUSH;
    for client in clients {
        // A driver in another thread may still open a connection for them.
        client.flush(until, |core, _| core.counts().requests > 0);
    }
}

/// A socket that is closed in a forked child, and only closed.
#[derive(Debug)]
pub(crate) struct Guarded<S: AsRawFd> {
    /// Present until it is dropped.
    socket: Option<S>,
    generation: u32,
}

impl<S: AsRawFd> Guarded<S> {
    /// Opens a socket; no fork can come in between. `open` must not wait for anything.
    pub(crate) fn open(open: impl FnOnce() -> io::Result<S>) -> io::Result<Self> {
        let mut list = lock();
        let socket = open()?;
        list.descriptors.push(socket.as_raw_fd());
        Ok(Self { socket: Some(socket), generation: generation() })
    }
}

const PRESENT: &str = "a socket is there until it is dropped";

impl<S: AsRawFd> Deref for Guarded<S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.socket.as_ref().expect(PRESENT)
    }
}

impl<S: AsRawFd> DerefMut for Guarded<S> {
    fn deref_mut(&mut self) -> &mut S {
        self.socket.as_mut().expect(PRESENT)
    }
}

impl<S: AsRawFd> Drop for Guarded<S> {
    fn drop(&mut self) {
        let socket = self.socket.take().expect(PRESENT);
        if self.generation != generation() {
            // Its descriptor is closed already, and the number may be somebody else's by now.
            std::mem::forget(socket);
            return;
        }
        let mut list = lock();
        list.descriptors.retain(|&descriptor| descriptor != socket.as_raw_fd());
        drop(socket);
    }
}
