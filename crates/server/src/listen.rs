//! Listeners: TCP addresses and Unix-domain paths.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, UnixListener, lookup_host};

use crate::ServeError;
use crate::stream::Stream;

/// How many connections may wait to be accepted; the kernel may allow fewer.
const BACKLOG: i32 = 4096;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// `host:port`; port 0 picks a free one.
    Tcp(String),
    /// The path of a Unix-domain socket. A file beside it, with `.lock` at the end, guards it.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => f.write_str(addr),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Where a server does listen, with the port that was picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundAddr {
    /// An address and port.
    Tcp(SocketAddr),
    /// A path.
    Unix(PathBuf),
}

impl fmt::Display for BoundAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

enum Socketed {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        /// Held as long as it is open.
        _lock: File,
    },
}

/// One open listener. It is never shared with another process.
pub(crate) struct Listener {
    socket: Socketed,
    addr: BoundAddr,
}

impl Listener {
    /// Opens what an address stands for: a name may have several addresses, and all of them are this server's.
    pub(crate) async fn bind(addr: &ListenAddr) -> Result<Vec<Self>, ServeError> {
        let failed = |source| ServeError::Listen { addr: addr.clone(), source };
        match addr {
            ListenAddr::Tcp(host_port) => bind_tcp(host_port).await.map_err(failed),
            ListenAddr::Unix(path) => {
                let lock = lock(path)?;
                let listener = bind_unix(path).map_err(failed)?;
                let socket = Socketed::Unix { listener, _lock: lock };
                Ok(vec![Self { socket, addr: BoundAddr::Unix(path.clone()) }])
            }
        }
    }

    pub(crate) fn addr(&self) -> &BoundAddr {
        &self.addr
    }

    /// The next connection. The error is the listener's, not a connection's.
    pub(crate) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Stream>>> {
        match &self.socket {
            // A peer that has gone already is no reason to stop accepting.
            Socketed::Tcp(listener) => {
                listener.poll_accept(cx).map_ok(|(stream, _)| Stream::tcp(stream).ok())
            }
            Socketed::Unix { listener, .. } => {
                listener.poll_accept(cx).map_ok(|(stream, _)| Some(Stream::Unix(stream)))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let BoundAddr::Unix(path) = &self.addr {
            // While the lock is held the path is this server's. A path that stays does no harm: the next one takes it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Listens on every address of a name. One that this machine does not have is passed over, as long as another is
/// there; any other failure is one: stepping over an address in use would let two servers answer to one name.
async fn bind_tcp(host_port: &str) -> io::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    let mut missing = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut port = None;
    for mut addr in lookup_host(host_port).await? {
        // Port 0 picks one for the first address, and the others have the same.
        addr.set_port(port.unwrap_or(addr.port()));
        if listeners.iter().any(|listener: &Listener| listener.addr == BoundAddr::Tcp(addr)) {
            continue;
        }
        match listen_tcp(addr) {
            Ok(socket) => {
                let addr = socket.local_addr()?;
                port = Some(addr.port());
                listeners.push(Listener { socket: Socketed::Tcp(socket), addr: BoundAddr::Tcp(addr) });
            }
            Err(error) if is_missing(&error) => missing = error,
            Err(error) => return Err(error),
        }
    }
    if listeners.is_empty() { Err(missing) } else { Ok(listeners) }
}

fn listen_tcp(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port that a former server's connections still linger on is free; one that is listened on is not.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG as u32)
}

/// Whether this machine has no such address, or no such kind of address.
fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

/// Takes the lock file that guards a Unix-domain path. It is never deleted: whoever deletes a lock file may delete the
/// next holder's.
fn lock(path: &Path) -> Result<File, ServeError> {
    let mut guard = path.as_os_str().to_owned();
    guard.push(".lock");
    let failed = |source| ServeError::Lock { path: PathBuf::from(&guard), source };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&guard)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ServeError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Binds a path whose lock is held: a socket that nobody listens on was left by a server that is gone.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::FileTypeExt;
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            if is_listened_on(path) {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens there"));
            }
            fs::remove_file(path)?;
        }
        Ok(_) => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is there"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    UnixListener::from_std(socket.into())
}

/// Whether some program listens on a socket. If that cannot be told, it does.
fn is_listened_on(path: &Path) -> bool {
    let connected = Socket::new(Domain::UNIX, Type::STREAM, None).and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(path)?)
    });
    !matches!(connected, Err(error) if error.kind() == io::ErrorKind::ConnectionRefused)
}
