//! The server's shell: the only thing that touches sockets and clocks, and it holds no rules. What a request means is
//! the engine's; what a connection may do is the session's; here is only who is read, when, and in which order.
//!
//! - `driver`: the turn of the loop: read, stamp the time, due events, requests, write.
//! - `connection`, `stream`, `wake`: one connection, its socket, and how it gets on the list of the ready.
//! - `listen`, `accept`: listeners, and what happens when there is no room.
//! - `store`, `steps`: what survives, and how the engine's decisions get there.
//! - `alarm`, `timeouts`: the one timer, and the deadlines of the connections themselves.
//! - `memory`: what a peak took goes back to the system.
//! - `clock`, `random`, `tokens`: the one place each for time, chance and numbers that only rise.

#![cfg(target_os = "linux")]

mod accept;
mod alarm;
mod clock;
mod connection;
mod driver;
mod listen;
mod memory;
mod random;
mod steps;
mod stop;
mod store;
mod stream;
mod timeouts;
mod tokens;
mod wake;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use listen::{BoundAddr, ListenAddr};
pub use lockstead_engine::Limits;
pub use lockstead_journal::{Mode, OpenError};

use driver::Driver;
use listen::Listener;

/// What a server is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: Vec<ListenAddr>,
    /// How much the lock table may hold, and the longest lease.
    pub limits: Limits,
    /// The most sessions at once; half of the process's file handles if that is less.
    pub max_sessions: u32,
    /// How long a stopping server lets holders release.
    pub drain_grace: Duration,
    /// What survives the end of the process.
    pub durability: Durability,
}

/// What survives the end of the process (docs/guarantees.md).
#[derive(Clone, Debug)]
pub enum Durability {
    /// Nothing: the next start grants at once, or after a pause.
    None {
        /// How long to grant nothing after the start, so that grants of a former run surely have ended.
        recovery_pause: Option<Duration>,
    },
    /// Every lease, in a journal.
    Journal(JournalConfig),
}

/// Where the journal is and what answers wait for.
#[derive(Clone, Debug)]
pub struct JournalConfig {
    /// The data directory; it is made, with mode 0700, if it is not there.
    pub dir: PathBuf,
    /// What answers wait for.
    pub mode: Mode,
    /// An empty directory is an error.
    pub require_data: bool,
    /// A file with another boot id than the kernel's; it must not outlive the boot.
    pub boot_id_file: Option<PathBuf>,
}

/// Why a server did not start, or stopped before its time.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The operator's: there is nowhere to listen.
    #[error("there is no address to listen on")]
    NoListener,
    /// The operator's, or another program's that has the address.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address as it was given.
        addr: ListenAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Another server listens there.
    #[error("another server is listening on unix:{}", path.display())]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The operator's: the file beside a Unix-domain socket cannot be locked.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The path of the lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The data directory's; see there.
    #[error("the data directory {}: {source}", dir.display())]
    Open {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        source: OpenError,
    },
    /// The operator's: the file that was named in the place of the boot id cannot be read.
    #[error("the boot id file {}: {source}", path.display())]
    BootId {
        /// The path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk's: the journal did not come to a clean stop. The next start decides as after a crash.
    #[error("the journal could not be closed, so the next start goes on as after a crash: {0}")]
    Stop(io::Error),
    /// The system's: something that every server needs is not to be had.
    #[error("cannot {what}: {source}")]
    System {
        /// What could not be done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A second signal came while the server was draining.
    #[error("stopped at once by a second signal")]
    SecondSignal,
}

impl ServeError {
    fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Serves until SIGTERM or SIGINT, then drains. Calls `ready` once with the addresses when clients can connect.
///
/// Everything happens on the calling thread.
pub fn run(config: Config, ready: impl FnOnce(&[BoundAddr])) -> Result<(), ServeError> {
    // No timers of its own: the driver has one, and the runtime's would cost two looks at a clock for each wait.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(ServeError::system("start the event loop"))?;
    runtime.block_on(async {
        if config.listen.is_empty() {
            return Err(ServeError::NoListener);
        }
        let mut listeners = Vec::new();
        for addr in &config.listen {
            listeners.extend(Listener::bind(addr).await?);
        }
        let addrs: Vec<BoundAddr> = listeners.iter().map(|listener| listener.addr().clone()).collect();
        let mut driver = Driver::new(&config, listeners)?;
        ready(&addrs);
        // The driver is one task that does bounded work in each turn: tokio need not make it pause in the middle.
        tokio::task::unconstrained(std::future::poll_fn(|cx| driver.poll(cx))).await?;
        driver.stop().await
    })
}

/// Whole milliseconds, rounded up; at most thousands of years, so that no sum with them overflows.
fn millis_up(duration: Duration) -> u64 {
    let ms = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).unwrap_or(u64::MAX).min(lockstead_engine::Instant::LIMIT.0)
}
