//! One connection: bytes out, answers in.

use std::io;
use std::time::Duration;

use lockstead_client::Address;
use lockstead_proto::{Answer, CLIENT_ID_BIT, Hello, VERSION, decode_answer};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// How long the server may be silent when it owes an answer, and how long it may take no bytes.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Room for the input at the start; it grows to the answers of a full pipeline.
const INPUT: usize = 16 * 1024;

/// What a connection reads from and writes to.
trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// A connection. Its requests are collected in `output` and sent together.
pub struct Wire {
    stream: Box<dyn Stream>,
    /// Requests that are not sent yet.
    pub output: Vec<u8>,
    input: Vec<u8>,
    /// Where in `input` the next answer begins.
    at: usize,
}

impl Wire {
    /// Connects to the first of these addresses that takes it, and says hello.
    pub async fn open(servers: &[Address], auth: Option<&str>) -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for server in servers {
            match timeout(PATIENCE, connect(server)).await.unwrap_or_else(|_| Err(silent())) {
                Ok(stream) => {
                    let (output, input) = (Vec::new(), Vec::with_capacity(INPUT));
                    let mut wire = Self { stream, output, input, at: 0 };
                    wire.greet(auth).await?;
                    return Ok(wire);
                }
                Err(error) => {
                    failed = io::Error::new(error.kind(), format!("{server}: {error}{}", advice(&error)))
                }
            }
        }
        Err(failed)
    }

    async fn greet(&mut self, auth: Option<&str>) -> io::Result<()> {
        let mut text = format!("name=lockstead-bench/{}", std::process::id());
        if let Some(token) = auth {
            text = format!("{text} auth={token}");
        }
        Hello { version: VERSION, id: CLIENT_ID_BIT, text: &text }.encode(&mut self.output);
        self.send().await?;
        loop {
            match self.answer()? {
                Some(Answer::Welcome(_)) => return Ok(()),
                Some(Answer::Error(refused)) => {
                    let why = format!("the server refused: {} ({})", refused.code, refused.text);
                    return Err(io::Error::other(why));
                }
                Some(other) => return Err(io::Error::other(format!("no welcome but {other:?}"))),
                None => self.receive_soon().await?,
            }
        }
    }

    /// Sends what is in `output`.
    pub async fn send(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            let sent = timeout(PATIENCE, self.stream.write_all(&self.output)).await;
            sent.unwrap_or_else(|_| Err(silent()))?;
            self.output.clear();
        }
        Ok(())
    }

    /// Waits for bytes, however long it takes. Nothing is lost if this is dropped.
    pub async fn receive(&mut self) -> io::Result<()> {
        self.input.drain(..self.at);
        self.at = 0;
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            _ => Ok(()),
        }
    }

    /// Waits for bytes, but not longer than a server that owes them may take.
    pub async fn receive_soon(&mut self) -> io::Result<()> {
        timeout(PATIENCE, self.receive()).await.unwrap_or_else(|_| Err(silent()))
    }

    /// The next whole answer among the received bytes.
    pub fn answer(&mut self) -> io::Result<Option<Answer<'_>>> {
        match decode_answer(&self.input[self.at..]) {
            Ok(Some((answer, len))) => {
                self.at += len;
                Ok(Some(answer))
            }
            Ok(None) => Ok(None),
            Err(malformed) => Err(io::Error::new(io::ErrorKind::InvalidData, malformed)),
        }
    }
}

async fn connect(server: &Address) -> io::Result<Box<dyn Stream>> {
    Ok(match server {
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
    })
}

/// What to do about it, if that is not said already.
fn advice(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => "; open fewer --connections, or allow more open files (ulimit -n)",
        _ => "",
    }
}

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("nothing happened for {} s", PATIENCE.as_secs()))
}
