//! One address of the peer, which can go away and come back at the same port.

use super::connection::Connection;
use super::notation::Names;
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// The receive buffer of connections that shall hold few unread bytes.
const SMALL_BUFFER: usize = 4096;

/// One address.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) name: String,
    pub(super) socket: SocketAddr,
    /// Connections that the script has not named yet.
    pub(super) waiting: VecDeque<Connection>,
    /// Bound and never listening: keeps the port while nobody listens.
    _keeper: Socket,
    listener: Option<TcpListener>,
    small_buffers: bool,
}

impl Address {
    /// Listens at a free port.
    pub(super) fn open(name: &str) -> io::Result<Self> {
        let keeper = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let socket = keeper.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        let mut address = Self {
            name: name.to_owned(),
            socket,
            waiting: VecDeque::new(),
            _keeper: keeper,
            listener: None,
            small_buffers: false,
        };
        address.listen()?;
        Ok(address)
    }

    /// Listens.
    pub(super) fn listen(&mut self) -> io::Result<()> {
        if self.listener.is_none() {
            let listener = bound(self.socket)?;
            if self.small_buffers {
                listener.set_recv_buffer_size(SMALL_BUFFER)?;
            }
            listener.listen(128)?;
            listener.set_nonblocking(true)?;
            self.listener = Some(listener.into());
        }
        Ok(())
    }

    /// Listens no more; new connections are refused, and those that the script has not named are reset.
    pub(super) fn refuse(&mut self) {
        self.listener = None;
        self.waiting.drain(..).for_each(|mut connection| connection.reset());
    }

    /// Connections from now on hold few unread bytes.
    pub(super) fn small_buffers(&mut self) -> io::Result<()> {
        self.small_buffers = true;
        // A connection takes the size over from its listener when it is made.
        self.listener = None;
        self.listen()
    }

    /// Readable when a connection is there.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(|listener| listener.as_fd())
    }

    /// Lets in all that are there.
    pub(super) fn let_in(&mut self) -> io::Result<usize> {
        let mut count = 0;
        let Some(listener) = &self.listener else { return Ok(0) };
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    self.waiting.push_back(Connection::new(stream)?);
                    count += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
                // The client has gone before it was let in.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The oldest connection that the client has not ended.
    pub(super) fn take(&mut self) -> Option<(Connection, Instant)> {
        while let Some(connection) = self.waiting.pop_front() {
            if connection.ended.is_none() {
                let since = connection.since;
                return Some((connection, since));
            }
        }
        None
    }

    /// Frames on connections that the script has not named: only a hello may be there.
    pub(super) fn spoken_unasked(&self, names: &Names) -> Vec<String> {
        let hello_first = |index: usize, op: u8| index == 0 && op == b'H';
        let mut lines = Vec::new();
        for connection in &self.waiting {
            for (index, (request, _)) in connection.frames.iter().enumerate() {
                if !hello_first(index, request.op) {
                    lines.push(names.show(request));
                }
            }
            lines.extend(connection.malformed.clone());
        }
        lines
    }
}

fn bound(socket: SocketAddr) -> io::Result<Socket> {
    let bound = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    bound.set_reuse_address(true)?;
    bound.bind(&socket.into())?;
    Ok(bound)
}
