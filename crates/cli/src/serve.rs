//! `lockstead serve`: from options to a configuration, and the lines that say that it serves.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::ToSocketAddrs as _;

use anyhow::{Context as _, bail};
use lockstead_client::Address;
use lockstead_server::{Config, Limits, ListenAddr};
use rustix::process::{Resource, getrlimit};
use tracing::{debug, info, warn};

use crate::args::{Durability, ServeArgs};
use crate::exit::Status;
use crate::logs;

/// The most sessions, unless fewer files may be open (docs/protocol.md, *Bounded*).
const MAX_SESSIONS: u32 = 65_536;

/// Serves until it is told to stop.
pub fn serve(args: &ServeArgs) -> anyhow::Result<Status> {
    let config = resolve(args)?;
    logs::start(&args.log, tracing::Level::INFO).context("cannot start logging")?;
    if let Some(dir) = &args.data_dir {
        warn!(?dir, "durability is none: the data directory is ignored");
    }
    info!(
        version = env!("CARGO_PKG_VERSION"),
        durability = "none",
        "lockstead starts; durability is none: held locks are forgotten when the server stops, and its next start grants at once"
    );
    lockstead_server::run(config, |addresses| {
        announce(addresses);
        if let Err(error) = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]) {
            warn!(%error, "cannot tell systemd that the server is ready");
        }
    })?;
    Ok(Status::DONE)
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
    if args.durability != Durability::None {
        bail!(
            "--durability {}: the journal, which makes locks survive, is not built yet; only `none` is accepted",
            if args.durability == Durability::Process { "process" } else { "machine" }
        );
    }
    let listen =
        args.listen.iter().map(|address| listener(address, args.insecure)).collect::<anyhow::Result<_>>()?;
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
        drain_grace: args.drain_grace,
        durability: lockstead_server::Durability::None { recovery_pause: args.recovery_pause },
    })
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
