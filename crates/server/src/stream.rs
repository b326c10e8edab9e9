//! One byte stream, whichever way it came in.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A dead peer is asked after this long without a byte, …
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
/// … then again at this interval, …
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
/// … this often, before its connection ends.
const KEEPALIVE_TRIES: u32 = 3;
/// What was sent must be acknowledged within this time.
const USER_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection's socket.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// A TCP connection that sends small answers at once and gives a dead peer's place back.
    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_AFTER)
            .with_interval(KEEPALIVE_EVERY)
            .with_retries(KEEPALIVE_TRIES);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
        Ok(Self::Tcp(stream))
    }

    /// Reads once into `buf`. `Ready(Ok(0))` is end of stream; `Pending` has registered the waker.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        let polled = match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buf),
        };
        polled.map_ok(|()| buf.filled().len())
    }

    /// Writes once, as much as the kernel takes now.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Asks for a wake-up when the kernel takes more bytes. `true`: it does so already.
    pub(crate) fn wake_when_writable(&self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx).is_ready(),
            Self::Unix(stream) => stream.poll_write_ready(cx).is_ready(),
        }
    }

    /// Says that nothing more will be written. The peer may have gone already, which is just as well.
    pub(crate) fn shut_down_writing(&self) {
        let _ = match self {
            Self::Tcp(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
            Self::Unix(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
        };
    }
}
