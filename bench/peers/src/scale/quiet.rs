//! `idle`, `sessions`: what is there and does nothing costs memory alone.

use super::fill::{Lease, fill};
use super::wire::Wire;
use super::{Server, line, os, with_used};
use crate::locker::R;
use crate::usage::{Used, status_kib};
use std::thread;
use std::time::Duration;

/// How long the server may finish what it was given, and how long it is watched then.
const SETTLE: Duration = Duration::from_secs(2);
const WATCH: Duration = Duration::from_secs(10);

/// Files that this process has open besides its sessions.
const OTHER_FILES: usize = 64;

fn watch(server: Server) -> Used {
    thread::sleep(SETTLE);
    let meter = server.meter();
    thread::sleep(WATCH);
    meter.close()
}

pub fn idle(n: u64, server: Server) -> R<()> {
    fill(server.port, n, None, Lease::Same(255))?;
    with_used(line("idle", n), &watch(server)).print();
    Ok(())
}

/// Each has sent a ping and got its pong.
pub fn sessions(n: usize, server: Server) -> R<()> {
    os::want_files(n + OTHER_FILES)?;
    let before = status_kib(server.pid, "VmRSS:");
    let mut wires = Vec::with_capacity(n);
    for i in 0..n {
        let mut wire = Wire::connect(server.port)?;
        wire.settle().map_err(|e| format!("session {i}: {e}; how many may the server have (ulimit -n)?"))?;
        wires.push(wire);
    }
    let after = status_kib(server.pid, "VmRSS:");
    let line = line("sessions", n).int("rss_before", before).int("rss_after", after).num(
        "b_rss",
        (after as f64 - before as f64) * 1024.0 / n as f64,
        1,
    );
    with_used(line, &watch(server)).print();
    Ok(())
}
