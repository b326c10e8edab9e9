//! One connection of the operating system.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::address::Address;

/// A connected byte stream.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Opens a connection. The sockets are close-on-exec, as the runtime makes them.
pub(crate) async fn connect(address: Address) -> io::Result<Stream> {
    match address {
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
        Address::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
    }
}

impl Stream {
    /// Reads what is there. `Ready(Ok(0))` is the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(buffer);
        let result = match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, &mut read),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, &mut read),
        };
        result.map_ok(|()| read.filled().len())
    }

    /// Reads what the kernel has, whatever the runtime believes about it.
    pub(crate) fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let socket = self.socket();
        loop {
            match (&*socket).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Hands over bytes without the runtime.
    pub(crate) fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.socket()).write(bytes)
    }

    /// Without a runtime there is nothing to be woken by: from now on reads and writes wait themselves, for so long.
    pub(crate) fn wait_in_calls(&self, longest: Duration) -> io::Result<()> {
        let socket = self.socket();
        socket.set_read_timeout(Some(longest))?;
        socket.set_write_timeout(Some(longest))?;
        socket.set_nonblocking(false)
    }

    fn socket(&self) -> SockRef<'_> {
        match self {
            Self::Tcp(stream) => SockRef::from(stream),
            Self::Unix(stream) => SockRef::from(stream),
        }
    }

    /// Hands over bytes, and says how many the kernel accepted.
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Closes at once; what the kernel still has goes nowhere.
    pub(crate) fn reset(self) {
        if let Self::Tcp(stream) = &self {
            // Without it the close is an ordinary one; there is nothing better to do.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}
