//! One connection of the operating system.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::address::Address;
use crate::process::Guarded;

/// A connected byte stream.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(Guarded<TcpStream>),
    Unix(Guarded<UnixStream>),
}

/// How long one of several addresses of a host is given before the next one is tried. A host may have addresses that
/// swallow everything; the last one is waited for as long as the caller likes.
const SHARE: Duration = Duration::from_millis(500);

/// Opens a connection, to the first of the host's addresses that takes it.
pub(crate) async fn connect(address: Address) -> io::Result<Stream> {
    match address {
        Address::Tcp { host, port } => {
            let addresses = look_up(host, port).await?;
            connect_any(addresses).await.map(Stream::Tcp)
        }
        Address::Unix(path) => connect_unix(&path).await.map(Stream::Unix),
    }
}

/// The addresses of a host.
async fn look_up(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    match host.parse::<IpAddr>() {
        Ok(ip) => Ok(vec![SocketAddr::new(ip, port)]),
        Err(_) => apart(move || (host.as_str(), port).to_socket_addrs().map(Iterator::collect)).await,
    }
}

/// Does something that blocks in a thread of its own, which is left behind when nobody waits for it any more. A name
/// server that does not answer takes the system tens of seconds, and a runtime does not end before its own blocking
/// tasks do: one of those would hold the program up long after the deadline of its call.
async fn apart<T: Send + 'static>(what: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let (sender, receiver) = oneshot::channel();
    thread::Builder::new().name("lockstead-apart".to_owned()).spawn(move || sender.send(what()))?;
    receiver.await.map_err(io::Error::other)?
}

async fn connect_any(mut addresses: Vec<SocketAddr>) -> io::Result<Guarded<TcpStream>> {
    let last = addresses.pop().ok_or(io::ErrorKind::NotFound)?;
    for address in addresses {
        if let Ok(Ok(stream)) = timeout(SHARE, connect_tcp(address)).await {
            return Ok(stream);
        }
    }
    connect_tcp(last).await
}

async fn connect_tcp(address: SocketAddr) -> io::Result<Guarded<TcpStream>> {
    let stream = Guarded::open(|| {
        let domain = Domain::for_address(address);
        let socket = begin(domain, Some(Protocol::TCP), &address.into())?;
        socket.set_tcp_nodelay(true)?;
        TcpStream::from_std(socket.into())
    })?;
    stream.writable().await?;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    refuse_itself(&stream)?;
    Ok(stream)
}

/// A connection to a port of this machine where nobody listens may be given that very port as its own: it is connected to
/// itself then, hears its own hello as the welcome, and keeps the server from its port. Nobody listens, so it is refused.
fn refuse_itself(stream: &TcpStream) -> io::Result<()> {
    if stream.local_addr()? != stream.peer_addr()? {
        return Ok(());
    }
    SockRef::from(stream).set_linger(Some(Duration::ZERO))?;
    Err(io::Error::from_raw_os_error(libc::ECONNREFUSED))
}

async fn connect_unix(path: &Path) -> io::Result<Guarded<UnixStream>> {
    let path = SockAddr::unix(path)?;
    let stream = Guarded::open(|| UnixStream::from_std(begin(Domain::UNIX, None, &path)?.into()))?;
    stream.writable().await?;
    stream.take_error()?.map_or(Ok(stream), Err)
}

/// A socket that is being connected. It is close-on-exec from its first moment.
fn begin(domain: Domain, protocol: Option<Protocol>, to: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM, protocol)?;
    socket.set_nonblocking(true)?;
    match socket.connect(to) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
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
            Self::Tcp(stream) => Pin::new(&mut **stream).poll_read(context, &mut read),
            Self::Unix(stream) => Pin::new(&mut **stream).poll_read(context, &mut read),
        };
        result.map_ok(|()| read.filled().len())
    }

    /// Hands over bytes, and says how many the kernel accepted.
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
        }
    }

    /// How many bytes the kernel has received and nobody has read.
    pub(crate) fn received(&self) -> u64 {
        ioctl_fionread(&*self.socket()).unwrap_or(0)
    }

    /// Reads what the kernel has, whatever the runtime believes about it, and whether or not there is one.
    pub(crate) fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&*self.socket()).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Hands over bytes without a runtime.
    pub(crate) fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match (&*self.socket()).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Closes at once; what the kernel still has goes nowhere.
    pub(crate) fn reset(self) {
        if let Self::Tcp(stream) = &self {
            // Without it the close is an ordinary one; there is nothing better to do.
            let _ = SockRef::from(&**stream).set_linger(Some(Duration::ZERO));
        }
    }

    fn socket(&self) -> SockRef<'_> {
        match self {
            Self::Tcp(stream) => SockRef::from(&**stream),
            Self::Unix(stream) => SockRef::from(&**stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::mpsc;

    /// An address where nobody listens.
    fn closed() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn the_next_address_of_a_host_is_tried_when_one_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let stream = connect_any(vec![closed(), open, closed()]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        assert!(stream.nodelay().unwrap());
        let refused = connect_any(vec![closed(), closed()]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect_any(vec![]).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn a_connection_to_itself_is_refused() {
        let itself = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        itself.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        itself.connect(&itself.local_addr().unwrap()).unwrap();
        itself.set_nonblocking(true).unwrap();
        let stream = TcpStream::from_std(itself.into()).unwrap();
        let address = stream.local_addr().unwrap();
        assert_eq!(refuse_itself(&stream).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        drop(stream);
        TcpListener::bind(address).expect("the port is free again");
    }

    #[tokio::test]
    async fn the_next_address_of_a_host_is_tried_when_one_swallows_everything() {
        // A listener whose queue is full does not answer any more.
        let swallows = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        swallows.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        swallows.listen(0).unwrap();
        let address = swallows.local_addr().unwrap().as_socket().unwrap();
        let _in_its_queue = std::net::TcpStream::connect(address).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let stream = connect_any(vec![address, open]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
    }

    #[tokio::test]
    async fn names_and_numbers_are_looked_up() {
        let found = |host: &str| look_up(host.to_owned(), 7);
        assert_eq!(found("127.0.0.2").await.unwrap(), [SocketAddr::from(([127, 0, 0, 2], 7))]);
        assert_eq!(found("::1").await.unwrap(), ["[::1]:7".parse::<SocketAddr>().unwrap()]);
        assert!(found("localhost").await.unwrap().iter().all(|found| found.ip().is_loopback()));
        assert!(found("no host").await.is_err());
    }

    #[test]
    fn the_end_of_a_runtime_does_not_wait_for_a_mute_name_server() {
        let (answer, answered) = mpsc::channel::<()>();
        let (end, ended) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let looking_up = apart(move || Ok(answered.recv()));
            let in_time = runtime.block_on(async { timeout(Duration::from_millis(20), looking_up).await });
            drop(runtime);
            end.send(in_time.is_ok()).unwrap();
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(10)), Ok(false));
        drop(answer);
    }
}
