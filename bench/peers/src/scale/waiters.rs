//! `waiters`: many wait for many keys.

use super::fill::{Lease, fill, name};
use super::pinger::Pinger;
use super::wire::{Wire, unexpected};
use super::{Server, line, with_used};
use crate::frames::{self, Answer};
use crate::locker::R;
use crate::usage::status_kib;
use std::ops::Range;
use std::time::Instant;

const A_KEY: u64 = 10;

/// A session may have 32,768 unless the server was told otherwise.
const A_SESSION: u64 = 25_000;

/// Waiters that are sent in one write.
const BLOCK: u64 = 1000;

pub fn waiters(n: u64, server: Server) -> R<()> {
    let keys = n.div_ceil(A_KEY);
    fill(server.port, keys, None, Lease::Same(255))?;
    let before = status_kib(server.pid, "VmRSS:");
    let pinger = Pinger::start(server.port)?;
    let (meter, begun) = (server.meter(), Instant::now());
    let mut sessions = Vec::new();
    for first in (0..n).step_by(A_SESSION as usize) {
        sessions.push(session(server, first..(first + A_SESSION).min(n), keys)?);
    }
    let (queued, used) = (Instant::now(), meter.close());
    let after = status_kib(server.pid, "VmRSS:");
    let rate = n as f64 / queued.duration_since(begun).as_secs_f64();
    // all sessions end at once
    drop(sessions);
    wait_until_gone(server, keys)?;
    let gone = Instant::now();
    let pings = pinger.stop()?;
    let line = line("waiters", n)
        .int("keys", keys)
        .num("b_rss", (after as f64 - before as f64) * 1024.0 / n as f64, 1)
        .num("rate", rate, 0)
        .num("cpu_us", used.server.sched_us / n as f64, 3)
        .num("leave_s", gone.duration_since(queued).as_secs_f64(), 3);
    pings.describe(with_used(line, &used), begun, gone).print();
    Ok(())
}

/// A session that waits with these numbers.
fn session(server: Server, waiters: Range<u64>, keys: u64) -> R<Wire> {
    let mut wire = Wire::connect(server.port)?;
    for first in waiters.clone().step_by(BLOCK as usize) {
        for i in first..(first + BLOCK).min(waiters.end) {
            frames::acquire(&mut wire.out, 255, 255, i, name(i % keys).as_bytes());
        }
        wire.flush()?;
    }
    wire.settle()?;
    Ok(wire)
}

/// Asks for a key of each session until nobody waits for any.
fn wait_until_gone(server: Server, keys: u64) -> R<()> {
    let mut wire = Wire::connect(server.port)?;
    for key in (0..keys).step_by(A_SESSION as usize) {
        loop {
            frames::query(&mut wire.out, key, name(key).as_bytes());
            wire.flush()?;
            match wire.answer()? {
                Answer::State { waiters: 0, .. } => break,
                Answer::State { .. } => {}
                other => return Err(unexpected(&other).into()),
            }
        }
    }
    Ok(())
}
