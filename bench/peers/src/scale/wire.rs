//! A connection that blocks: it costs less than a runtime, on a machine that the server shares.

use crate::frames::{self, Answer};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// A server that says nothing for so long is not going to.
const PATIENCE: Duration = Duration::from_secs(100);

pub struct Wire {
    stream: TcpStream,
    /// What has been read; from `at` on it is not looked at yet.
    buf: Vec<u8>,
    at: usize,
    filled: usize,
    /// Requests that the next flush sends.
    pub out: Vec<u8>,
}

impl Wire {
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buf: vec![0; 64 * 1024], at: 0, filled: 0, out: Vec::new() })
    }

    /// Another handle of the stream, for a thread that writes.
    pub fn writer(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Waits for the next answer.
    pub fn answer(&mut self) -> io::Result<Answer> {
        loop {
            if let Some((n, answer)) = frames::parse(&self.buf[self.at..self.filled]) {
                self.at += n;
                return Ok(answer);
            }
            self.buf.copy_within(self.at..self.filled, 0);
            self.filled -= self.at;
            self.at = 0;
            match self.stream.read(&mut self.buf[self.filled..]) {
                Ok(0) => return Err(io::Error::other("the server closed the connection")),
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::other(format!("the server said nothing for {PATIENCE:?}")));
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Sends what is there and a ping behind it: after the pong all of it has been processed.
    pub fn settle(&mut self) -> io::Result<()> {
        frames::ping(&mut self.out, 0);
        self.flush()?;
        match self.answer()? {
            Answer::Pong { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}

pub fn unexpected(answer: &Answer) -> io::Error {
    io::Error::other(format!("not what was to come: {answer}"))
}
