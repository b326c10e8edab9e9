//! One connection of the client under test: the requests that came on it, and its end.

use super::notation::Request;
use crate::sys;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long the client may take to make room for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// How the client ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Close,
    Reset,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// When it was let in.
    pub(super) since: Instant,
    /// Requests that no step has expected yet, and when each was whole.
    pub(super) frames: VecDeque<(Request, Instant)>,
    /// The client said something that is no request; nothing after it is read.
    pub(super) malformed: Option<String>,
    /// How and when the client ended it.
    pub(super) ended: Option<(End, Instant)>,
    /// Whether the script still reads it.
    pub(super) reading: bool,
    /// `None` after a reset by the peer.
    stream: Option<TcpStream>,
    input: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            since: Instant::now(),
            frames: VecDeque::new(),
            malformed: None,
            ended: None,
            reading: true,
            stream: Some(stream),
            input: Vec::new(),
        })
    }

    /// Readable when the client has said something or has ended the connection; `None` when nobody looks.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        let looks = self.reading && self.ended.is_none() && self.malformed.is_none();
        self.stream.as_ref().filter(|_| looks).map(|stream| stream.as_fd())
    }

    /// Whether the client could still say something.
    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some() && self.ended.is_none()
    }

    /// Reads what is there and takes it apart; gives the new requests' number.
    pub(super) fn read(&mut self) -> usize {
        let Some(stream) = &mut self.stream else { return 0 };
        let mut buffer = [0; 64 * 1024];
        match stream.read(&mut buffer) {
            Ok(0) => self.ended = Some((End::Close, Instant::now())),
            Ok(length) => self.input.extend_from_slice(&buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.ended = Some((End::Reset, Instant::now())),
        }
        self.take_apart()
    }

    fn take_apart(&mut self) -> usize {
        let (mut used, mut count) = (0, 0);
        loop {
            match Request::take(&self.input[used..]) {
                Ok(Some((request, length))) => {
                    self.frames.push_back((request, Instant::now()));
                    used += length;
                    count += 1;
                }
                Ok(None) => break,
                Err(fault) => {
                    self.malformed = Some(fault);
                    break;
                }
            }
        }
        self.input.drain(..used);
        count
    }

    /// Writes all of `bytes`.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let stream = self.stream.as_mut().ok_or(ErrorKind::NotConnected)?;
        let deadline = Instant::now() + PATIENCE;
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !sys::wait_ready(stream.as_fd(), libc::POLLOUT, deadline)? {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the stream towards the client.
    pub(super) fn close(&mut self) {
        if let Some(stream) = &self.stream {
            // Fails only when the client has ended the connection, and then there is nothing to end.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    /// Resets.
    pub(super) fn reset(&mut self) {
        if let Some(stream) = self.stream.take() {
            // Without the option the end is an ordinary one, which the script's expectations show.
            let _ = sys::reset_on_close(stream.as_fd());
        }
    }
}
