//! One connection that says exactly the bytes a test wants.

use crate::address::Address;
use crate::answer::{self, Answer};
use crate::arrival::{Arrival, Event, Grant};
use crate::{frame, process, sys};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long an answer may take that is due at once. Generous: only a hang may exceed it.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// The ids of [`Raw::ping`]'s own pings have these top bits, so that no test uses them by accident.
const OWN_IDS: u64 = 0xfeed << 48;

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

/// One connection to a server.
#[derive(Debug)]
pub struct Raw {
    stream: Stream,
    input: Vec<u8>,
    taken: usize,
    read_at: Instant,
    pings: u64,
}

impl Raw {
    /// Connects.
    ///
    /// # Panics
    /// When the server cannot be reached.
    pub fn connect(address: &Address) -> Self {
        Self::try_connect(address).unwrap_or_else(|error| panic!("connect to {address}: {error}"))
    }

    /// Connects, or says why not.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn try_connect(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, PATIENCE)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Stream::Tcp(stream)
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Stream::Unix(stream)
            }
        };
        Ok(Self { stream, input: Vec::new(), taken: 0, read_at: Instant::now(), pings: 0 })
    }

    /// A second handle of the same connection, to write while another thread reads.
    ///
    /// # Panics
    /// When the process has no file handle left.
    pub fn second_handle(&self) -> Self {
        let stream = match &self.stream {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone().expect("a file handle is left")),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone().expect("a file handle is left")),
        };
        Self { stream, input: Vec::new(), taken: 0, read_at: Instant::now(), pings: self.pings }
    }

    /// The local port of a TCP connection.
    ///
    /// # Panics
    /// On a Unix-domain connection.
    pub fn local_port(&self) -> u16 {
        match &self.stream {
            Stream::Tcp(stream) => stream.local_addr().expect("a connected socket has an address").port(),
            Stream::Unix(_) => panic!("a Unix-domain connection has no port"),
        }
    }

    /// The ports of a TCP connection: this end's and the server's.
    ///
    /// # Panics
    /// On a Unix-domain connection.
    pub fn ports(&self) -> (u16, u16) {
        let Stream::Tcp(stream) = &self.stream else {
            panic!("a Unix-domain connection has no ports");
        };
        let here = stream.local_addr().expect("a connected socket has an address");
        let server = stream.peer_addr().expect("a connected socket has a peer");
        (here.port(), server.port())
    }

    /// At most how many bytes of answers the kernel holds: accepted from the server and not yet read by
    /// [`Raw`].
    pub fn in_kernel(&self) -> usize {
        match &self.stream {
            Stream::Tcp(_) => {
                let (here, server) = self.ports();
                process::tcp_queues(server, here)
            }
            Stream::Unix(_) => process::unix_send_buffer(),
        }
    }

    /// Makes the kernel hold as little unread input as it can.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn shrink_receive_buffer(&self) {
        let size: libc::c_int = 4096;
        sys::set_socket_option(self.stream.fd(), libc::SO_RCVBUF, &size).expect("SO_RCVBUF can be set");
    }

    // ---- Writing ----

    /// Sends all bytes.
    ///
    /// # Panics
    /// When the connection is broken or takes nothing for [`PATIENCE`].
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes, PATIENCE).unwrap_or_else(|error| panic!("send {} bytes: {error}", bytes.len()));
    }

    /// Sends all bytes; each part may take `patience`.
    ///
    /// # Errors
    /// `TimedOut` when the peer takes nothing for so long, otherwise what the operating system says.
    pub fn try_send(&mut self, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !sys::wait_ready(self.stream.fd(), libc::POLLOUT, sys::deadline(patience))? {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends what can be sent at once; a server that has closed already refuses the bytes, and nothing is
    /// said about it.
    pub fn send_if_open(&mut self, bytes: &[u8]) {
        let _ = self.try_send(bytes, Duration::ZERO);
    }

    /// Ends the stream towards the server; what the server still says can be read.
    pub fn end_output(&self) {
        // Fails only when the server has closed already, and then there is nothing to end.
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    /// Closes with a reset (TCP) or at once (Unix).
    ///
    /// # Panics
    /// When the kernel refuses the option.
    pub fn reset(self) {
        if matches!(self.stream, Stream::Tcp(_)) {
            sys::reset_on_close(self.stream.fd()).expect("SO_LINGER can be set");
        }
    }

    // ---- Reading ----

    /// What comes next, waiting `within` at most.
    ///
    /// # Panics
    /// When the server says something that the protocol does not allow.
    pub fn event(&mut self, within: Duration) -> Event {
        let deadline = sys::deadline(within);
        loop {
            if let Some(answer) = self.take_parsed() {
                return Event::Answer(Arrival { answer, at: self.read_at });
            }
            match self.read_more(deadline) {
                Ok(Some(0)) if self.taken == self.input.len() => return Event::End,
                Ok(Some(0)) => return Event::Cut(self.input.split_off(self.taken)),
                Ok(Some(_)) => {}
                Ok(None) => return Event::Quiet,
                Err(error) if is_reset(&error) => return Event::Reset,
                Err(error) => panic!("read: {error}"),
            }
        }
    }

    fn take_parsed(&mut self) -> Option<Answer> {
        let parsed = answer::parse(&self.input[self.taken..]);
        let parsed = parsed.unwrap_or_else(|fault| panic!("the server breaks the protocol: {fault}"));
        let (answer, length) = parsed?;
        self.taken += length;
        Some(answer)
    }

    /// Reads once; `None` when nothing came before the deadline, 0 at the end of the stream.
    fn read_more(&mut self, deadline: Instant) -> io::Result<Option<usize>> {
        self.input.drain(..self.taken);
        self.taken = 0;
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(length) => {
                    self.read_at = Instant::now();
                    self.input.extend_from_slice(&buffer[..length]);
                    return Ok(Some(length));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !sys::wait_ready(self.stream.fd(), libc::POLLIN, deadline)? {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The next answer, due at once.
    ///
    /// # Panics
    /// When none comes; the message names what was `awaited`.
    pub fn next(&mut self, awaited: &str) -> Arrival {
        self.next_within(PATIENCE, awaited)
    }

    /// The next answer, waiting `within` at most.
    ///
    /// # Panics
    /// When none comes; the message names what was `awaited`.
    pub fn next_within(&mut self, within: Duration, awaited: &str) -> Arrival {
        match self.event(within) {
            Event::Answer(arrival) => arrival,
            Event::Quiet => panic!("nothing came within {within:?}; awaited: {awaited}"),
            other => panic!("{other:?} instead of an answer; awaited: {awaited}"),
        }
    }

    /// Expects exactly this answer next and returns when it was here.
    ///
    /// # Panics
    /// When anything else comes.
    pub fn expect(&mut self, answer: Answer, awaited: &str) -> Instant {
        let arrival = self.next(awaited);
        assert_eq!(arrival.answer, answer, "{awaited}");
        arrival.at
    }

    /// Expects exactly these bytes next, whatever they mean.
    ///
    /// # Panics
    /// When others come, or none.
    pub fn expect_bytes(&mut self, expected: &[u8], awaited: &str) {
        let deadline = sys::deadline(PATIENCE);
        while self.input.len() - self.taken < expected.len() {
            match self.read_more(deadline) {
                Ok(Some(1..)) => {}
                other => panic!("{other:?} after {:?}; awaited: {awaited}", &self.input[self.taken..]),
            }
        }
        let got = &self.input[self.taken..self.taken + expected.len()];
        assert_eq!(got, expected, "{awaited}");
        self.taken += expected.len();
    }

    /// Expects the `X` with this code and id next.
    ///
    /// # Panics
    /// When anything else comes.
    pub fn expect_error(&mut self, code: u8, id: u64, awaited: &str) {
        let arrival = self.next(awaited);
        assert!(arrival.answer.is_error(code, id), "{awaited}: X {code} {id} expected, got {arrival:?}");
    }

    /// Expects the stream to end next, without a further byte and without a reset.
    ///
    /// # Panics
    /// When something else happens.
    pub fn expect_end(&mut self, within: Duration, awaited: &str) {
        let event = self.event(within);
        assert_eq!(event, Event::End, "awaited: {awaited}");
    }

    /// Everything that comes until the stream ends: the answers, and the bytes of a last one that was cut.
    ///
    /// # Panics
    /// When the connection is reset, or does not end in time.
    pub fn read_to_end(&mut self, within: Duration, awaited: &str) -> (Vec<Answer>, Vec<u8>) {
        let deadline = sys::deadline(within);
        let mut answers = Vec::new();
        loop {
            match self.event(deadline.saturating_duration_since(Instant::now())) {
                Event::Answer(arrival) => answers.push(arrival.answer),
                Event::End => return (answers, Vec::new()),
                Event::Cut(rest) => return (answers, rest),
                other => panic!("{other:?} after {} answers; awaited: {awaited}", answers.len()),
            }
        }
    }

    // ---- Asking ----

    /// Sends one request and takes the next answer.
    ///
    /// # Panics
    /// When none comes.
    pub fn ask(&mut self, request: &[u8]) -> Answer {
        self.send(request);
        self.next("the answer to one request").answer
    }

    /// Sends one request and takes the next answer; `None` when the server has closed instead.
    ///
    /// # Panics
    /// When nothing happens.
    pub fn ask_or_end(&mut self, request: &[u8]) -> Option<Answer> {
        // A server that has closed already refuses the bytes; what it said before can still be read.
        let _ = self.try_send(request, PATIENCE);
        match self.event(PATIENCE) {
            Event::Answer(arrival) => Some(arrival.answer),
            Event::End | Event::Reset => None,
            other => panic!("{other:?} instead of an answer or an end"),
        }
    }

    /// Sends an acquire and expects its grant at once.
    ///
    /// # Panics
    /// When it is not granted.
    pub fn hold(&mut self, lease_s: u8, owner: u64, key: impl AsRef<[u8]>) -> Grant {
        let sent = Instant::now();
        self.send(&frame::acquire(0, lease_s, owner, key));
        self.granted(owner, sent, PATIENCE, "the grant of a free key")
    }

    /// Expects the grant of an acquire that was sent at `sent`.
    ///
    /// # Panics
    /// When anything else comes, or `waited` overstates the wait.
    pub fn granted(&mut self, owner: u64, sent: Instant, within: Duration, awaited: &str) -> Grant {
        let arrival = self.next_within(within, awaited);
        match arrival.answer {
            Answer::Acquired { owner: o, token, lease_s, waited_ms } if o == owner => {
                let longest = arrival.at.saturating_duration_since(sent);
                let waited = Duration::from_millis(waited_ms.into());
                assert!(waited <= longest, "{awaited}: waited {waited:?} is said, {longest:?} have passed");
                Grant { token, lease_s, waited_ms, sent, at: arrival.at }
            }
            other => panic!("{awaited}: a grant to owner {owner} expected, got {other:?}"),
        }
    }

    /// Releases and expects the `R`.
    ///
    /// # Panics
    /// When anything else comes.
    pub fn release(&mut self, token: u64, key: impl AsRef<[u8]>) {
        self.send(&frame::release(token, key));
        self.expect(Answer::Released { token }, "a release");
    }

    /// Asks for the state of a key: state, remaining milliseconds, waiters.
    ///
    /// # Panics
    /// When anything but its `Q` comes.
    pub fn query(&mut self, key: impl AsRef<[u8]>) -> (u8, u32, u32) {
        let id = self.own_id();
        match self.ask(&frame::query(id, key)) {
            Answer::State { id: i, state, remaining_ms, waiters } if i == id => {
                (state, remaining_ms, waiters)
            }
            other => panic!("a state expected, got {other:?}"),
        }
    }

    /// Pings and expects the pong to be the very next answer: so everything sent before has been processed,
    /// and nothing else was said. Returns the time it took.
    ///
    /// # Panics
    /// When anything else comes.
    pub fn ping(&mut self) -> Duration {
        let id = self.own_id();
        let sent = Instant::now();
        self.send(&frame::ping(id));
        let at = self.expect(Answer::Pong { id }, "a pong and nothing before it");
        at.duration_since(sent)
    }

    fn own_id(&mut self) -> u64 {
        self.pings += 1;
        OWN_IDS | self.pings
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
}
