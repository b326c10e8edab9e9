//! `peers scale`: how Lockstead does with very many of something, one JSON line a figure. WHAT is one of
//!   handoff-waiters N        N wait for one key; who is granted it releases at once
//!   held N                   pairs while N keys are held, and what a held key takes
//!   keys BYTES               pairs with keys of this length
//!   grow N                   pings while N keys are acquired as fast as possible
//!   waiters N                N wait for N / 10 held keys: what a waiter takes, and pings
//!   end-second N             N leases end within one second
//!   end-instant N LEASE_S [RESTART]
//!                            N leases end at one instant: because the command RESTART kills the server and
//!                            starts it as if after another boot (it prints the new pid), or because the
//!                            server is stopped until all are over
//!   idle N                   CPU while N leases are held and nothing happens
//!   sessions N               what a session takes, and CPU while they are silent
//!   churn SECONDS            memory while keys come and go
//! and is followed by PORT SERVER_PID. `held`, `keys` use SECS and WARM of the environment.

mod churn;
mod ends;
mod fill;
mod handoff;
mod os;
mod pinger;
mod quiet;
mod under;
mod waiters;
mod wire;

use crate::json::Line;
use crate::locker::R;
use crate::usage::{Meter, Used};
use hdrhistogram::Histogram;
use std::time::Duration;

/// A server that somebody else has started.
#[derive(Clone, Copy)]
struct Server {
    port: u16,
    pid: i32,
}

impl Server {
    /// It has no children; and a look through all processes can be held up by one of them.
    fn meter(self) -> Meter {
        Meter::open(vec![self.pid])
    }
}

/// Arguments: WHAT … PORT SERVER_PID.
pub fn scale(a: &[String]) -> R<()> {
    let [what, n, more @ .., port, pid] = a else { return Err("scale: see the head of scale.rs".into()) };
    let server = Server { port: port.parse()?, pid: pid.parse()? };
    let n: u64 = n.parse()?;
    assert!(n <= 20_000_000, "bounded loads only");
    match (what.as_str(), more) {
        ("handoff-waiters", []) => handoff::handoff_waiters(n, server),
        ("held", []) => under::held(n, server),
        ("keys", []) => under::keys(usize::try_from(n)?, server),
        ("grow", []) => pinger::grow(n, server),
        ("waiters", []) => waiters::waiters(n, server),
        ("end-second", []) => ends::end_second(n, server),
        ("end-instant", [lease_s]) => ends::end_instant(n, lease_s.parse()?, None, server),
        ("end-instant", [lease_s, restart]) => ends::end_instant(n, lease_s.parse()?, Some(restart), server),
        ("idle", []) => quiet::idle(n, server),
        ("sessions", []) => quiet::sessions(usize::try_from(n)?, server),
        ("churn", []) => churn::churn(Duration::from_secs(n), server),
        _ => Err("scale: see the head of scale.rs".into()),
    }
}

/// The begin of each line.
fn line(what: &str, n: impl std::fmt::Display) -> Line {
    Line::default().text("peer", "lockstead").text("wl", what).int("n", n)
}

/// How long it was looked at, what CPU was used by whom, and whether the machine was ours.
fn with_used(line: Line, used: &Used) -> Line {
    let percent = |us: f64| us / 1e4 / used.secs;
    line.num("secs", used.secs, 3)
        .num("cpu_ms", used.server.sched_us / 1e3, 2)
        .num("cpu_percent", percent(used.server.sched_us), 2)
        .num("cli_percent", percent(used.own_us), 2)
        .num("steal", used.steal_percent, 2)
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("these bounds are valid")
}

/// A quantile of nanoseconds, in milliseconds.
fn ms(hist: &Histogram<u64>, quantile: f64) -> f64 {
    hist.value_at_quantile(quantile) as f64 / 1e6
}
