//! `lockstead serve`: from options to a configuration, and the lines that say that it serves.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::ToSocketAddrs as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use lockstead_client::Address;
use lockstead_server::{Config, Durability as Kept, JournalConfig, Limits, ListenAddr, Mode};
use rustix::process::{Resource, getrlimit};
use tracing::{debug, info, warn};

use crate::args::{Durability, ServeArgs};
use crate::exit::Status;
use crate::{advice, data_dir, logs};

/// The most sessions, unless fewer files may be open (docs/protocol.md, *Bounded*).
const MAX_SESSIONS: u32 = 65_536;

/// How long a stop waits for holders if what they hold is forgotten with it.
const DRAIN_GRACE: Duration = Duration::from_secs(5);

/// Serves until it is told to stop.
pub fn serve(args: &ServeArgs) -> anyhow::Result<Status> {
    let config = resolve(args)?;
    logs::start(&args.log, tracing::Level::INFO).context("cannot start logging")?;
    ignore_file_size_signal();
    say_what_survives(args, &config.durability);
    let journal = match &config.durability {
        Kept::None { .. } => None,
        Kept::Journal(journal) => Some(journal.clone()),
    };
    let served = lockstead_server::run(config, |addresses| {
        announce(addresses);
        if let Err(error) = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]) {
            warn!(%error, "cannot tell systemd that the server is ready");
        }
    });
    match (served, journal) {
        (Ok(()), _) => Ok(Status::DONE),
        (Err(error), None) => Err(error.into()),
        (Err(error), Some(journal)) => Err(advice::with_advice(error, &journal.dir, journal.require_data)),
    }
}

/// The first line of the log.
fn say_what_survives(args: &ServeArgs, kept: &Kept) {
    let version = env!("CARGO_PKG_VERSION");
    match kept {
        Kept::None { .. } => {
            let ignored = [("--data-dir", &args.data_dir), ("--boot-id-file", &args.boot_id_file)];
            for (option, path) in ignored {
                if let Some(path) = path {
                    warn!(
                        option,
                        ?path,
                        "durability is none: the data directory and what belongs to it is ignored"
                    );
                }
            }
            info!(
                version,
                durability = "none",
                "lockstead starts; durability is none: held locks are forgotten when the server stops, and its next start grants at once"
            );
        }
        Kept::Journal(JournalConfig { dir, mode: Mode::Process, .. }) => info!(
            version,
            durability = "process",
            data_dir = %dir.display(),
            "lockstead starts; durability is process: held locks survive the end of the server; after a crash of the machine its next start may recover first"
        ),
        Kept::Journal(JournalConfig { dir, mode: Mode::Machine, .. }) => info!(
            version,
            durability = "machine",
            data_dir = %dir.display(),
            "lockstead starts; durability is machine: held locks survive the end of the server and of the machine"
        ),
    }
}

/// A limit of the size of files (RLIMIT_FSIZE) is a full disk like any other, and no reason to die.
fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal installs no handler and touches no memory of this program.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Says where the server listens. It serves on even if nobody can be told.
fn announce(addresses: &[impl Display]) {
    let mut stdout = io::stdout().lock();
    for address in addresses {
        info!(%address, "listening");
        let said = writeln!(stdout, "listening on {address}").and_then(|()| stdout.flush());
        if let Err(error) = said {
            debug!(%error, "nobody reads stdout");
        }
    }
}

/// What the options mean, or why they cannot be meant.
fn resolve(args: &ServeArgs) -> anyhow::Result<Config> {
    if args.admin != "off" {
        bail!("--admin {:?}: the admin interface is not built yet; only `off` is accepted", args.admin);
    }
    let listen =
        args.listen.iter().map(|address| listener(address, args.insecure)).collect::<anyhow::Result<_>>()?;
    let durability = durability(args)?;
    let default = Limits::default();
    Ok(Config {
        listen,
        limits: Limits {
            max_keys: args.max_keys.unwrap_or(default.max_keys),
            max_waiters: args.max_waiters.unwrap_or(default.max_waiters),
            max_waiters_per_key: args.max_waiters_per_key.unwrap_or(default.max_waiters_per_key),
            max_waiters_per_session: args.max_waiters_per_session.unwrap_or(default.max_waiters_per_session),
            max_lease_s: args.max_lease.unwrap_or(default.max_lease_s),
        },
        max_sessions: args.max_sessions.unwrap_or_else(default_max_sessions),
        drain_grace: args.drain_grace.unwrap_or(match durability {
            Kept::None { .. } => DRAIN_GRACE,
            // What is held outlives the stop: nobody need hurry.
            Kept::Journal(_) => Duration::ZERO,
        }),
        durability,
    })
}

/// What the options say about what survives.
fn durability(args: &ServeArgs) -> anyhow::Result<Kept> {
    let mode = match args.durability {
        Durability::None if args.require_data => bail!(
            "--require-data is a contradiction to --durability none, which reads no data and forgets all held locks; \
             leave one of them out"
        ),
        Durability::None => return Ok(Kept::None { recovery_pause: args.recovery_pause }),
        Durability::Process => Mode::Process,
        Durability::Machine => Mode::Machine,
    };
    if args.recovery_pause.is_some() {
        bail!(
            "--recovery-pause belongs to --durability none: a server with a data directory knows by itself whether \
             and how long it must recover. (A directory that was put back from a copy does not know it; mark it \
             with `lockstead repair --restored`.)"
        );
    }
    Ok(Kept::Journal(JournalConfig {
        dir: data_dir::resolve(args.data_dir.as_deref())?,
        mode,
        require_data: args.require_data,
        boot_id_file: args.boot_id_file.clone(),
    }))
}

/// Where to listen; refuses to do so in the clear beyond this machine unless that was asked for.
fn listener(address: &Address, insecure: bool) -> anyhow::Result<ListenAddr> {
    let (host, port) = match address {
        Address::Unix(path) => return Ok(ListenAddr::Unix(path.clone())),
        Address::Tcp { host, port } => (host, *port),
    };
    if !insecure && !is_loopback(host, port).with_context(|| format!("--listen {address}"))? {
        bail!(
            "--listen {address}: everybody who can reach this address could read and take locks, as nothing is \
             encrypted; if that is meant, say --insecure"
        );
    }
    Ok(ListenAddr::Tcp(address.to_string()))
}

/// Whether every address that the name stands for is of this machine alone.
fn is_loopback(host: &str, port: u16) -> io::Result<bool> {
    Ok((host, port).to_socket_addrs()?.all(|address| address.ip().to_canonical().is_loopback()))
}

fn default_max_sessions() -> u32 {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    u32::try_from(files / 2).map_or(MAX_SESSIONS, |half| half.min(MAX_SESSIONS))
}
