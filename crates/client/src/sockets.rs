//! The connections of a client, and what is read from and written to them.
//!
//! One turn reads everything that is there, then stamps the time, lets due things happen, does what the core asks for,
//! and offers each connection what is to be sent, all of it in one write.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use lockstead_client_core::{Output, SessionId, Transmit};

use crate::address::Address;
use crate::clock::now;
use crate::shared::{Afterwards, Shared, State};
use crate::transport::{Stream, connect};

/// How much is read at once.
const BUFFER: usize = 64 * 1024;

/// What people are told of a connection whose end was read.
const CLOSED: &str = "the connection was closed";

/// The connections of a client.
pub(crate) struct Sockets {
    addresses: Vec<Address>,
    sockets: Vec<Socket>,
    buffer: Vec<u8>,
    afterwards: Afterwards,
}

struct Socket {
    session: SessionId,
    state: SocketState,
}

/// Offers bytes to the kernel, which says how many of them it takes.
type Write<'a> = dyn FnMut(&mut Stream, &[u8]) -> Poll<io::Result<usize>> + 'a;

type Connecting = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

enum SocketState {
    Connecting(Connecting),
    Open(Stream),
    /// The core has been told.
    Dead,
}

impl Sockets {
    pub(crate) fn new(addresses: Vec<Address>) -> Self {
        Self { addresses, sockets: Vec::new(), buffer: vec![0; BUFFER], afterwards: Afterwards::default() }
    }

    /// One turn. Says whether anything moved.
    pub(crate) fn turn(&mut self, shared: &Shared, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        for at in 0..self.sockets.len() {
            moved |= self.receive(shared, context, at);
        }
        moved |= self.do_io(shared);
        for at in 0..self.sockets.len() {
            moved |= self.transmit(shared, at, &mut |stream, bytes| stream.poll_write(context, bytes));
        }
        self.forget_dead();
        moved
    }

    /// One exchange without a runtime: what is to be sent goes out, what has come is handed in. Says whether anything
    /// was sent.
    pub(crate) fn exchange(&mut self, shared: &Shared) -> bool {
        let mut sent = false;
        for at in 0..self.sockets.len() {
            sent |= self.transmit(shared, at, &mut |stream, bytes| match stream.write_now(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                written => Poll::Ready(written),
            });
            self.read_rest(shared, at);
        }
        self.forget_dead();
        sent
    }

    /// Does what the core asks for at its end, and closes all connections.
    pub(crate) fn end(&mut self, shared: &Shared) {
        self.do_io(shared);
        self.sockets.clear();
    }

    fn forget_dead(&mut self) {
        self.sockets.retain(|socket| !matches!(socket.state, SocketState::Dead));
    }

    /// Hands in what came on one socket, or that it is open now, or closed.
    fn receive(&mut self, shared: &Shared, context: &mut Context<'_>, at: usize) -> bool {
        let Socket { session, state } = &mut self.sockets[at];
        let session = *session;
        match state {
            SocketState::Connecting(connecting) => match connecting.as_mut().poll(context) {
                Poll::Pending => return false,
                Poll::Ready(Ok(stream)) => {
                    *state = SocketState::Open(stream);
                    self.drive(shared, |state| state.core.connected(now(), session));
                }
                Poll::Ready(Err(error)) => {
                    tracing::debug!(?session, %error, "connecting failed");
                    self.lose(shared, at, &error.to_string());
                }
            },
            SocketState::Open(stream) => match stream.poll_read(context, &mut self.buffer) {
                Poll::Pending => return false,
                Poll::Ready(Ok(length)) if length > 0 => self.hand_in(shared, session, length),
                Poll::Ready(end) => {
                    tracing::debug!(?session, ?end, "the session ended");
                    let why = end.map_or_else(|error| error.to_string(), |_| CLOSED.to_owned());
                    self.lose(shared, at, &why);
                }
            },
            SocketState::Dead => return false,
        }
        true
    }

    /// Lets due things happen, and does what the core asks for. Says whether it asked for anything.
    fn do_io(&mut self, shared: &Shared) -> bool {
        self.drive(shared, |state| {
            let now = now();
            if state.core.next_wakeup().is_some_and(|at| at <= now) {
                state.core.tick(now);
            }
        });
        let mut outputs = shared.with(|state| std::mem::take(&mut state.io));
        let mut moved = false;
        while let Some(output) = outputs.pop_front() {
            moved = true;
            match output {
                Output::Connect { session, address } => {
                    let address = self.addresses[address].clone();
                    tracing::debug!(?session, %address, "connecting");
                    let state = SocketState::Connecting(Box::pin(connect(address)));
                    self.sockets.push(Socket { session, state });
                }
                Output::Close { session, reset } => self.close(session, reset),
                Output::Look { session } => self.look(shared, session),
                _ => {}
            }
        }
        moved
    }

    fn close(&mut self, session: SessionId, reset: bool) {
        tracing::debug!(?session, reset, "closing");
        if let Some(at) = self.position(session) {
            let socket = self.sockets.swap_remove(at);
            if reset && let SocketState::Open(stream) = socket.state {
                stream.reset();
            }
        }
    }

    fn look(&mut self, shared: &Shared, session: SessionId) {
        if let Some(at) = self.position(session) {
            self.read_rest(shared, at);
        }
        self.drive(shared, |state| state.core.looked(now(), session));
    }

    fn position(&self, session: SessionId) -> Option<usize> {
        self.sockets.iter().position(|socket| socket.session == session)
    }

    /// Hands in what the kernel has for a socket by now, and no more: a peer that never stops sending must not hold up
    /// what is due.
    fn read_rest(&mut self, shared: &Shared, at: usize) {
        let session = self.sockets[at].session;
        let SocketState::Open(stream) = &self.sockets[at].state else {
            return;
        };
        let mut left = stream.received();
        while left > 0 {
            let SocketState::Open(stream) = &self.sockets[at].state else {
                return;
            };
            match stream.read_now(&mut self.buffer) {
                Ok(length) if length > 0 => {
                    left = left.saturating_sub(length as u64);
                    self.hand_in(shared, session, length);
                }
                _ => return,
            }
        }
    }

    fn hand_in(&mut self, shared: &Shared, session: SessionId, length: usize) {
        let bytes = &self.buffer[..length];
        shared.drive(&mut self.afterwards, |state| state.core.received(now(), session, bytes));
    }

    /// Offers a socket what is to be sent, and says whether anything moved. An error in writing ends it, once what came before has been handed in.
    fn transmit(&mut self, shared: &Shared, at: usize, write: &mut Write<'_>) -> bool {
        let Self { sockets, afterwards, .. } = self;
        let Socket { session, state: SocketState::Open(stream) } = &mut sockets[at] else {
            return false;
        };
        let session = *session;
        let mut moved = false;
        loop {
            let mut written = Poll::Ready(Ok(0));
            let sent = shared.drive(afterwards, |state| {
                state.core.transmit(now(), session, |bytes| {
                    written = write(stream, bytes);
                    if let Poll::Ready(Ok(accepted)) = written { accepted } else { 0 }
                })
            });
            if let Poll::Ready(Err(error)) = written {
                tracing::debug!(?session, %error, "writing failed");
                self.read_rest(shared, at);
                self.lose(shared, at, &error.to_string());
                return true;
            }
            if sent == Transmit::Idle || written.is_pending() {
                return moved;
            }
            moved = true;
        }
    }

    /// Tells the core that a socket is closed, and people why.
    fn lose(&mut self, shared: &Shared, at: usize, why: &str) {
        self.sockets[at].state = SocketState::Dead;
        let session = self.sockets[at].session;
        self.drive(shared, |state| state.core.closed(now(), session, why));
    }

    fn drive<R>(&mut self, shared: &Shared, input: impl FnOnce(&mut State) -> R) -> R {
        shared.drive(&mut self.afterwards, input)
    }
}
