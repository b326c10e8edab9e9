//! `end-second`, `end-instant`: many leases that end together. Somebody waits for every thousandth key, so that the end
//! of its lease is seen as a grant.

use super::fill::{Filled, Lease, fill, name};
use super::pinger::{Pinger, Pings};
use super::wire::{Wire, unexpected};
use super::{Server, histogram, line, ms, os, with_used};
use crate::frames::{self, Answer};
use crate::locker::R;
use crate::usage::Used;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How many keys are waited for, over the whole range, with the first and the last.
const SAMPLE: u64 = 1000;

/// `end-second`: over how long the leases begin, and how long the first ones last.
const BEGIN: Duration = Duration::from_secs(4);
const FIRST_S: u8 = 9;

/// How long before the first end, and after the last one, the server's CPU is counted.
const MARGIN: Duration = Duration::from_millis(100);

/// A key of the sample that somebody waits for.
struct Watched {
    key: u64,
    /// The server said before that its lease ends no sooner, and at most [`ROUNDING`] and half a round trip later.
    due: Instant,
}

/// Each key is asked about so often, and the latest of these instants counts: a slow round trip makes one too early.
const ASKED: usize = 3;

/// The server counts in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// The sample's waiters: they are on one connection, and each has its place in the list as its owner.
struct Sample {
    wire: Wire,
    watched: Vec<Watched>,
}

/// What was seen of the ends.
struct Ends {
    /// When each of the sample was seen to have ended.
    seen: Vec<Instant>,
    used: Used,
    pings: Pings,
    /// All that was due before was made to be due now.
    not_before: Option<Instant>,
}

impl Sample {
    /// Queues the waiters, and asks when the leases end.
    fn of(server: Server, n: u64) -> R<Self> {
        let mut wire = Wire::connect(server.port)?;
        let count = SAMPLE.min(n);
        let keys: Vec<u64> = (0..count).map(|i| i * (n - 1) / (count - 1).max(1)).collect();
        for (owner, &key) in keys.iter().enumerate() {
            frames::acquire(&mut wire.out, 255, 255, owner as u64, name(key).as_bytes());
        }
        wire.settle().map_err(|e| format!("a lease ended too soon, or: {e}"))?;
        let mut asking = Wire::connect(server.port)?;
        let mut watched: Vec<_> = keys.into_iter().map(|key| Watched { key, due: Instant::now() }).collect();
        for _ in 0..ASKED {
            for one in &mut watched {
                one.due = one.due.max(due(&mut asking, one.key)?);
            }
        }
        Ok(Self { wire, watched })
    }

    fn first(&self) -> Instant {
        self.watched.iter().map(|w| w.due).min().expect("there is one key at least")
    }

    fn last(&self) -> Instant {
        self.watched.iter().map(|w| w.due).max().expect("there is one key at least")
    }

    /// Watches until the last end; `at_first` runs shortly before the first.
    fn watch(&mut self, server: Server, at_first: impl FnOnce(&Self) -> R<Option<Instant>>) -> R<Ends> {
        let pinger = Pinger::start(server.port)?;
        let ahead = self.first().checked_duration_since(Instant::now() + MARGIN);
        thread::sleep(ahead.ok_or("the first lease ended before all was ready: let them last longer")?);
        let meter = server.meter();
        let not_before = at_first(self)?;
        let mut seen = vec![None; self.watched.len()];
        while seen.iter().any(Option::is_none) {
            match self.wire.answer()? {
                Answer::Acquired { owner, .. } => seen[owner as usize] = Some(Instant::now()),
                other => return Err(unexpected(&other).into()),
            }
        }
        thread::sleep(MARGIN);
        let used = meter.close();
        Ok(Ends { seen: seen.into_iter().flatten().collect(), used, pings: pinger.stop()?, not_before })
    }
}

/// The earliest instant at which the lease of this key can end, by the server's own word.
fn due(wire: &mut Wire, key: u64) -> R<Instant> {
    frames::query(&mut wire.out, key, name(key).as_bytes());
    let asked = Instant::now();
    wire.flush()?;
    match wire.answer()? {
        Answer::State { state: 1, remaining_ms, .. } => {
            Ok(asked + Duration::from_millis(remaining_ms.into()) - ROUNDING)
        }
        other => Err(unexpected(&other).into()),
    }
}

fn print(what: &str, n: u64, extra: &[(&str, f64)], filled: &Filled, sample: &Sample, ends: &Ends) -> R<()> {
    let (mut hist, mut early) = (histogram(), 0);
    let mut last_seen = ends.seen[0];
    for (watched, &seen) in sample.watched.iter().zip(&ends.seen) {
        if seen < watched.due || seen < filled.ends_after(watched.key) {
            early += 1;
        }
        let due = ends.not_before.map_or(watched.due, |at| at.max(watched.due));
        hist.record(seen.saturating_duration_since(due).as_nanos().max(1) as u64)?;
        last_seen = last_seen.max(seen);
    }
    let since = ends.not_before.map_or(sample.first(), |at| at.max(sample.first()));
    let spread_ms = sample.last().saturating_duration_since(since).as_secs_f64() * 1e3;
    // What the work itself takes is the server's CPU; so much of it as does not fit between the ends must come later.
    let work_ms = ends.used.server.sched_us / 1e3;
    let beyond_ms = ms(&hist, 1.0) - (work_ms - spread_ms).max(0.0);
    let mut line = line(what, n)
        .int("sample", hist.len())
        .num("spread_ms", spread_ms, 1)
        .num("late_p50_ms", ms(&hist, 0.5), 2)
        .num("late_p99_ms", ms(&hist, 0.99), 2)
        .num("late_max_ms", ms(&hist, 1.0), 2)
        .num("beyond_ms", beyond_ms, 2)
        .int("early", early)
        .num("fill_s", filled.took.as_secs_f64(), 2);
    for (name, value) in extra {
        line = line.num(name, *value, 2);
    }
    ends.pings.describe(with_used(line, &ends.used), since, last_seen).print();
    Ok(())
}

pub fn end_second(n: u64, server: Server) -> R<()> {
    let filled = fill(server.port, n, Some(BEGIN), Lease::Meeting(FIRST_S))?;
    let mut sample = Sample::of(server, n)?;
    let ends = sample.watch(server, |_| Ok(None))?;
    print("end-second", n, &[], &filled, &sample, &ends)
}

/// Without a command that restarts the server, the server is stopped from before the first end until after the last:
/// then it finds all of them due at once.
pub fn end_instant(n: u64, lease_s: u8, restart: Option<&String>, mut server: Server) -> R<()> {
    let filled = fill(server.port, n, None, Lease::Same(lease_s))?;
    let Some(restart) = restart else {
        let mut sample = Sample::of(server, n)?;
        let ends = sample.watch(server, |sample| {
            os::stop(server.pid)?;
            thread::sleep(sample.last().saturating_duration_since(Instant::now()) + 2 * ROUNDING);
            let now = Instant::now();
            os::go_on(server.pid)?;
            Ok(Some(now))
        })?;
        return print("end-instant", n, &[], &filled, &sample, &ends);
    };
    let begun = Instant::now();
    let out = Command::new("sh").arg("-c").arg(restart).output()?;
    let restart_s = begun.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&out.stdout);
    server.pid = said.trim().parse().map_err(|_| {
        format!("RESTART prints the new pid, not {said:?}; {}", String::from_utf8_lossy(&out.stderr))
    })?;
    let mut sample = Sample::of(server, n)?;
    let ends = sample.watch(server, |_| Ok(None))?;
    print("end-instant", n, &[("restart_s", restart_s)], &filled, &sample, &ends)
}
