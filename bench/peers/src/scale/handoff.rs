//! `handoff-waiters`: whether a long queue makes a hand-off dearer.

use super::wire::{Wire, unexpected};
use super::{Server, histogram, line, ms, with_used};
use crate::clients::key;
use crate::frames::{self, Answer};
use crate::locker::R;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

const WARM: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(4);

/// Attempts 0, 1, 2, … take turns on two connections, so that each grant comes on the other one than the grant before,
/// and waits for nothing but the hand-off: whose turn it is can simply be read.
struct Queue {
    wires: [Wire; 2],
    /// Of this run alone: its last grant, whose session ends, lives on.
    key: String,
    /// Where in the queue a new attempt stands.
    waiting: u64,
}

impl Queue {
    fn wire(&mut self, attempt: u64) -> &mut Wire {
        &mut self.wires[(attempt % 2) as usize]
    }

    fn ask(&mut self, attempt: u64) {
        let wire = &mut self.wires[(attempt % 2) as usize];
        frames::acquire(&mut wire.out, 255, 255, attempt, self.key.as_bytes());
    }

    /// Waits until it is this attempt's turn, and says its token.
    fn granted(&mut self, attempt: u64) -> R<u64> {
        loop {
            match self.wire(attempt).answer()? {
                Answer::Acquired { owner, token } if owner == attempt => return Ok(token),
                Answer::Released { .. } => {} // that of the turn before on this connection
                other => return Err(unexpected(&other).into()),
            }
        }
    }

    /// Queues up again and releases, in one write: `waiting` wait when it is released.
    fn hand_on(&mut self, attempt: u64, token: u64) -> R<Instant> {
        self.ask(attempt + self.waiting);
        self.release(attempt, token)
    }

    fn release(&mut self, attempt: u64, token: u64) -> R<Instant> {
        let wire = &mut self.wires[(attempt % 2) as usize];
        frames::release(&mut wire.out, token, self.key.as_bytes());
        let released = Instant::now();
        wire.flush()?;
        Ok(released)
    }
}

pub fn handoff_waiters(n: u64, server: Server) -> R<()> {
    assert!(n >= 2 && n.is_multiple_of(2), "an even number of waiters");
    let wires = [Wire::connect(server.port)?, Wire::connect(server.port)?];
    let mut queue = Queue { wires, key: key(&std::process::id().to_string(), 0, 0), waiting: n };
    queue.ask(0); // holds
    queue.wire(0).flush()?;
    let mut token = queue.granted(0)?;
    for attempt in 1..n {
        queue.ask(attempt);
        // one after the other: the order between two connections is otherwise anybody's
        queue.wire(attempt).settle()?;
    }
    let mut attempt = 0;
    let mut warm = histogram();
    turns(&mut queue, &mut attempt, &mut token, WARM, &mut warm)?;
    let (mut hist, meter) = (histogram(), server.meter());
    turns(&mut queue, &mut attempt, &mut token, WINDOW, &mut hist)?;
    let used = meter.close();
    queue.release(attempt, token)?;
    let grants = hist.len();
    let line = line("handoff-waiters", n)
        .int("grants", grants)
        .num("p50", ms(&hist, 0.5) * 1e3, 2)
        .num("p99", ms(&hist, 0.99) * 1e3, 2)
        .num("max", ms(&hist, 1.0) * 1e3, 2)
        .num("warm_max", ms(&warm, 1.0) * 1e3, 2)
        .num("cpu_us", used.server.sched_us / grants as f64, 3)
        .num("cli_us", used.own_us / grants as f64, 3);
    with_used(line, &used).print();
    Ok(())
}

/// Hands the key on and on for this long.
fn turns(
    queue: &mut Queue,
    attempt: &mut u64,
    token: &mut u64,
    lasts: Duration,
    hist: &mut Histogram<u64>,
) -> R<()> {
    let begun = Instant::now();
    loop {
        let released = queue.hand_on(*attempt, *token)?;
        *attempt += 1;
        *token = queue.granted(*attempt)?;
        let now = Instant::now();
        hist.record(now.duration_since(released).as_nanos().max(1) as u64)?;
        if now.duration_since(begun) >= lasts {
            return Ok(());
        }
    }
}
