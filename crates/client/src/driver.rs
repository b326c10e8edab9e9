//! The background task of a client: it owns the sockets, and does what the core says.
//!
//! One turn reads everything that is there, then stamps the time, lets due things happen, does what the core asks for,
//! and offers each connection what is to be sent. Turns repeat until nothing moves; then the task sleeps until a
//! socket, a handle of the program or the clock wakes it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockstead_client_core::{FLUSH, Instant, Output, SessionId, Transmit};
use tokio::time::{Sleep, sleep};

use crate::address::Address;
use crate::clock::now;
use crate::shared::Shared;
use crate::transport::{Stream, connect};

/// The runtime's timers do not count the time for which the machine is suspended, so while something is due the clock
/// is looked at this often.
const LOOK: Duration = Duration::from_millis(250);

/// How much is read at once.
const BUFFER: usize = 64 * 1024;

/// How long the end of the runtime is held up for what is still to be given back.
const EXIT_FLUSH: Duration = Duration::from_secs(1);

/// How often a last look reads from one connection, at most: more than a kernel buffers, but a peer that never stops
/// sending must not stop the client.
const LAST_READS: usize = 256;

/// The background task.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    sockets: Vec<Socket>,
    buffer: Vec<u8>,
    sleep: Pin<Box<Sleep>>,
    /// What the sleep is armed for.
    sleeps_until: Option<Instant>,
}

struct Socket {
    session: SessionId,
    state: SocketState,
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

enum SocketState {
    Connecting(Connecting),
    Open(Stream),
    /// The core has been told.
    Dead,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, addresses: Vec<Address>) -> Self {
        Self {
            shared,
            addresses,
            sockets: Vec::new(),
            buffer: vec![0; BUFFER],
            sleep: Box::pin(sleep(Duration::ZERO)),
            sleeps_until: None,
        }
    }

    /// One turn. Says whether anything moved.
    fn turn(&mut self, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        for at in 0..self.sockets.len() {
            moved |= self.receive(context, at);
        }
        self.tick();
        moved |= self.do_io();
        for at in 0..self.sockets.len() {
            moved |= self.transmit(context, at);
        }
        self.sockets.retain(|socket| !matches!(socket.state, SocketState::Dead));
        moved
    }

    /// Hands in what came on one socket, or that it is open now, or closed.
    fn receive(&mut self, context: &mut Context<'_>, at: usize) -> bool {
        let socket = &mut self.sockets[at];
        let session = socket.session;
        match &mut socket.state {
            SocketState::Connecting(connecting) => match connecting.as_mut().poll(context) {
                Poll::Pending => return false,
                Poll::Ready(Ok(stream)) => {
                    socket.state = SocketState::Open(stream);
                    self.shared.drive(|state| state.core.connected(now(), session));
                }
                Poll::Ready(Err(error)) => {
                    tracing::debug!(?session, %error, "connecting failed");
                    self.lose(at);
                }
            },
            SocketState::Open(stream) => match stream.poll_read(context, &mut self.buffer) {
                Poll::Pending => return false,
                Poll::Ready(Ok(length)) if length > 0 => {
                    let bytes = &self.buffer[..length];
                    self.shared.drive(|state| state.core.received(now(), session, bytes));
                }
                Poll::Ready(end) => {
                    tracing::debug!(?session, ?end, "the session ended");
                    self.lose(at);
                }
            },
            SocketState::Dead => return false,
        }
        true
    }

    fn tick(&self) {
        let now = now();
        self.shared.drive(|state| {
            if state.core.next_wakeup().is_some_and(|at| at <= now) {
                state.core.tick(now);
            }
        });
    }

    /// Does what the core asks for.
    fn do_io(&mut self) -> bool {
        let mut moved = false;
        while let Some(output) = self.shared.drive(|state| state.io.pop_front()) {
            moved = true;
            match output {
                Output::Connect { session, address } => {
                    let address = self.addresses[address].clone();
                    tracing::debug!(?session, %address, "connecting");
                    let state = SocketState::Connecting(Box::pin(connect(address)));
                    self.sockets.push(Socket { session, state });
                }
                Output::Close { session, reset } => self.close(session, reset),
                Output::Look { session } => self.look(session),
                _ => {}
            }
        }
        moved
    }

    fn close(&mut self, session: SessionId, reset: bool) {
        tracing::debug!(?session, reset, "closing");
        if let Some(at) = self.sockets.iter().position(|socket| socket.session == session) {
            let socket = self.sockets.swap_remove(at);
            if reset && let SocketState::Open(stream) = socket.state {
                stream.reset();
            }
        }
    }

    fn look(&mut self, session: SessionId) {
        if let Some(at) = self.sockets.iter().position(|socket| socket.session == session) {
            self.read_rest(at);
        }
        self.shared.drive(|state| state.core.looked(now(), session));
    }

    /// Hands in what the kernel has for a socket.
    fn read_rest(&mut self, at: usize) {
        let SocketState::Open(stream) = &self.sockets[at].state else {
            return;
        };
        let session = self.sockets[at].session;
        for _ in 0..LAST_READS {
            match stream.read_now(&mut self.buffer) {
                Ok(length) if length > 0 => {
                    let bytes = &self.buffer[..length];
                    self.shared.drive(|state| state.core.received(now(), session, bytes));
                }
                _ => return,
            }
        }
    }

    /// Offers a socket what is to be sent. An error in writing ends it, once what came before has been handed in.
    fn transmit(&mut self, context: &mut Context<'_>, at: usize) -> bool {
        let Socket { session, state } = &mut self.sockets[at];
        let SocketState::Open(stream) = state else {
            return false;
        };
        let mut moved = false;
        loop {
            let mut full = false;
            let mut failed = None;
            let write = |bytes: &[u8]| match stream.poll_write(context, bytes) {
                Poll::Ready(Ok(accepted)) => accepted,
                Poll::Pending => {
                    full = true;
                    0
                }
                Poll::Ready(Err(error)) => {
                    failed = Some(error);
                    0
                }
            };
            let sent = self.shared.drive(|state| state.core.transmit(now(), *session, write));
            if let Some(error) = failed {
                tracing::debug!(?session, %error, "writing failed");
                self.read_rest(at);
                self.lose(at);
                return true;
            }
            if sent == Transmit::Idle || full {
                return moved;
            }
            moved = true;
        }
    }

    /// Tells the core that a socket is closed.
    fn lose(&mut self, at: usize) {
        self.sockets[at].state = SocketState::Dead;
        let session = self.sockets[at].session;
        self.shared.drive(|state| state.core.closed(now(), session));
    }

    /// Arms the sleep for the next thing that is due. A sleep that ends too early does no harm, so it is only moved
    /// when it would end too late.
    fn fall_asleep(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(due) = self.shared.drive(|state| state.core.next_wakeup()) else {
                return Poll::Pending;
            };
            let now = now();
            let due = due.min(now + LOOK);
            if self.sleeps_until.is_none_or(|at| due < at) {
                self.sleep.as_mut().reset(tokio::time::Instant::now() + due.since(now));
                self.sleeps_until = Some(due);
            }
            if self.sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.sleeps_until = None;
            if self.shared.drive(|state| state.core.next_wakeup()).is_some_and(|at| at <= crate::clock::now())
            {
                return Poll::Ready(());
            }
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        loop {
            let waker = context.waker();
            driver.shared.drive(|state| state.driver = Some(waker.clone()));
            while driver.turn(context) {}
            if driver.shared.drive(|state| state.core.is_stopped() && state.io.is_empty()) {
                return Poll::Ready(());
            }
            if driver.fall_asleep(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// The runtime may end before the client does, as it does when a program returns from its main function. What is to be
/// given back is flushed here then, for a bounded time, and everything else that is open ends.
impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.drive(|state| state.core.shutdown(now()));
        let until = now() + EXIT_FLUSH;
        for at in 0..self.sockets.len() {
            if let SocketState::Open(stream) = &self.sockets[at].state {
                flush(&self.shared, self.sockets[at].session, stream, until, &mut self.buffer);
            }
        }
        self.sockets.clear();
        let waiting = self.shared.drive(|state| {
            state.core.tick(now() + FLUSH);
            state.end()
        });
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Sends what the core has for this session, if it has something, and waits for the answers.
fn flush(shared: &Shared, session: SessionId, stream: &Stream, until: Instant, buffer: &mut [u8]) {
    let mut sent = false;
    loop {
        let left = until.since(now()).max(Duration::from_millis(1));
        if stream.wait_in_calls(left).is_err() {
            return;
        }
        let mut failed = false;
        let write = |bytes: &[u8]| {
            stream.write_now(bytes).unwrap_or_else(|_| {
                failed = true;
                0
            })
        };
        let result = shared.drive(|state| state.core.transmit(now(), session, write));
        sent |= result != Transmit::Idle;
        if failed || !sent || now() >= until || shared.drive(|state| state.core.is_stopped()) {
            return;
        }
        if result == Transmit::Idle {
            match stream.read_now(buffer) {
                Ok(length) if length > 0 => {
                    shared.drive(|state| state.core.received(now(), session, &buffer[..length]));
                }
                _ => return,
            }
        }
    }
}
