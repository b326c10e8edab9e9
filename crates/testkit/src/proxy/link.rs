//! One connection through the proxy: for each direction a thread that reads and one that writes.

use super::Direction;
use super::faults::Shared;
use crate::{answer, sys};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// How often a writer that the other side does not relieve looks whether the link has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Both halves of one connection.
#[derive(Debug)]
pub(super) struct Link {
    client: TcpStream,
    server: TcpStream,
    ended: AtomicBool,
}

/// What a reader hands to its writer.
enum Item {
    Bytes(Vec<u8>),
    End { reset: bool },
}

impl Link {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> io::Result<Self> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(LOOK))?;
        }
        Ok(Self { client, server, ended: AtomicBool::new(false) })
    }

    /// Ends both sides; all threads of the link end, and with the last of them the sockets are closed.
    pub(super) fn end(&self, reset: bool) {
        self.ended.store(true, Ordering::SeqCst);
        for stream in [&self.client, &self.server] {
            if reset {
                reset_on_drop(stream);
            }
            // Fails only on a socket that has ended already.
            let _ = stream.shutdown(if reset { Shutdown::Read } else { Shutdown::Both });
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn ends(&self, direction: Direction) -> (&TcpStream, &TcpStream) {
        match direction {
            Direction::Up => (&self.client, &self.server),
            Direction::Down => (&self.server, &self.client),
        }
    }
}

/// Closing the socket will send a reset.
pub(super) fn reset_on_drop(stream: &TcpStream) {
    // Without the option the end is an ordinary one; a test that counts on the reset sees it.
    let _ = sys::reset_on_close(stream.as_fd());
}

/// Starts the threads of a link.
pub(super) fn start(link: &Arc<Link>, shared: &Arc<Shared>) {
    for direction in [Direction::Up, Direction::Down] {
        let (sender, receiver) = mpsc::channel();
        let reader = link.clone();
        std::thread::spawn(move || read(&reader, direction, &sender));
        let (link, shared) = (link.clone(), shared.clone());
        std::thread::spawn(move || {
            Writer { link, shared, direction, frames: Frames::default() }.run(&receiver)
        });
    }
}

fn read(link: &Link, direction: Direction, sender: &Sender<(Instant, Item)>) {
    let mut from = link.ends(direction).0;
    let mut buffer = [0; 64 * 1024];
    loop {
        let item = match from.read(&mut buffer) {
            Ok(0) => Item::End { reset: false },
            Ok(length) => Item::Bytes(buffer[..length].to_vec()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => Item::End { reset: true },
        };
        let last = matches!(item, Item::End { .. });
        if sender.send((Instant::now(), item)).is_err() || last {
            return;
        }
    }
}

/// The writing half of one direction.
struct Writer {
    link: Arc<Link>,
    shared: Arc<Shared>,
    direction: Direction,
    frames: Frames,
}

impl Writer {
    fn run(&mut self, items: &Receiver<(Instant, Item)>) {
        while let Ok((read_at, item)) = items.recv() {
            let link = self.link.clone();
            let over = || link.has_ended();
            let due = read_at + self.shared.now().way(self.direction).delay;
            self.shared.wait_until(due, over);
            let direction = self.direction;
            let open = self.shared.wait_while(|faults| faults.way(direction).blackhole && !over());
            if open.is_none() || over() {
                return;
            }
            let result = match item {
                Item::Bytes(bytes) => self.pass(&bytes),
                Item::End { reset: false } => self.pass_end(),
                Item::End { reset: true } => Err(ErrorKind::ConnectionReset.into()),
            };
            if result.is_err() {
                self.link.end(true);
                self.shared.change(|_| ());
                return;
            }
        }
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.direction == Direction::Up {
            return self.write(bytes);
        }
        for frame in self.frames.take(bytes) {
            let op = frame.first().copied();
            let dropped = self.shared.change(|faults| {
                let drops = faults.drop_answer.is_some() && faults.drop_answer == op;
                if drops {
                    faults.drop_answer = None;
                }
                drops
            });
            if !dropped {
                self.write(&frame)?;
            }
        }
        Ok(())
    }

    fn pass_end(&mut self) -> io::Result<()> {
        let rest = self.frames.rest();
        self.write(&rest)?;
        self.link.ends(self.direction).1.shutdown(Shutdown::Write)
    }

    /// Writes as the faults say: all at once or byte by byte, and up to a cut.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let direction = self.direction;
        let (split, cut) = self.shared.change(|faults| {
            let way = faults.way(direction);
            let cut = way.cut.filter(|(left, _)| *left <= bytes.len() as u64);
            way.cut = match (way.cut, cut) {
                (Some((left, reset)), None) => Some((left - bytes.len() as u64, reset)),
                _ => None,
            };
            (way.split, cut)
        });
        let passing = cut.map_or(bytes.len(), |(left, _)| left as usize);
        let piece = if split { 1 } else { bytes.len().max(1) };
        for piece in bytes[..passing].chunks(piece) {
            self.write_all(piece)?;
        }
        if let Some((_, reset)) = cut {
            self.link.end(reset);
            self.shared.change(|_| ());
        }
        Ok(())
    }

    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut to = self.link.ends(self.direction).1;
        while !bytes.is_empty() && !self.link.has_ended() {
            match to.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Finds where answers begin. From the first byte that is no answer on, bytes are passed as they come.
#[derive(Default)]
struct Frames {
    input: Vec<u8>,
    broken: bool,
}

impl Frames {
    /// The whole answers that `bytes` complete, each by itself.
    fn take(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.input.extend_from_slice(bytes);
        let mut frames = Vec::new();
        while !self.broken && !self.input.is_empty() {
            match answer::parse(&self.input) {
                Ok(Some((_, length))) => frames.push(self.input.drain(..length).collect()),
                Ok(None) => return frames,
                Err(_) => self.broken = true,
            }
        }
        if self.broken {
            frames.push(self.rest());
        }
        frames
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }
}
