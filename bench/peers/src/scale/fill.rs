//! Many keys held, and nobody there who holds them: a lease needs no session.

use super::wire::{Wire, unexpected};
use crate::clients::key;
use crate::frames::{self, Answer};
use crate::locker::R;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

/// Keys that are sent in one write, unless a pace says otherwise.
const BLOCK: u64 = 1000;

/// The longest that a paced fill sleeps for.
const TICK: Duration = Duration::from_millis(1);

/// The name of a key that fills.
pub fn name(i: u64) -> String {
    key("held", 0, i as usize)
}

/// The leases, in seconds.
#[derive(Clone, Copy)]
pub enum Lease {
    Same(u8),
    /// This many at the begin, and one less each second, so that all end within one second.
    Meeting(u8),
}

impl Lease {
    fn after(self, since: Duration) -> u8 {
        match self {
            Lease::Same(lease_s) => lease_s,
            Lease::Meeting(lease_s) => {
                lease_s.saturating_sub(u8::try_from(since.as_secs()).unwrap_or(255)).max(1)
            }
        }
    }
}

pub struct Filled {
    pub begun: Instant,
    pub took: Duration,
    block: u64,
    /// When each block began to be sent, and its lease.
    sent: Vec<(Instant, u8)>,
}

impl Filled {
    /// The lease of this key cannot have ended before.
    pub fn ends_after(&self, i: u64) -> Instant {
        let (sent, lease_s) = self.sent[(i / self.block) as usize];
        sent + Duration::from_secs(lease_s.into())
    }
}

/// Acquires the keys number 0 to `n` over one connection, as fast as possible, or evenly over the given time.
pub fn fill(port: u16, n: u64, over: Option<Duration>, lease: Lease) -> R<Filled> {
    let mut wire = Wire::connect(port)?;
    let writer = wire.writer()?;
    let block = over.map_or(BLOCK, |over| n.div_ceil(over.as_millis().max(1) as u64).max(1));
    let begun = Instant::now();
    let sent = thread::scope(|scope| {
        let sending = scope.spawn(|| send(writer, n, block, over.is_some(), lease));
        for i in 0..n {
            match wire.answer()? {
                Answer::Acquired { owner, .. } if owner == i => {}
                other => return Err(unexpected(&other)),
            }
        }
        sending.join().map_err(|_| io::Error::other("the thread that fills has panicked"))?
    })?;
    Ok(Filled { begun, took: begun.elapsed(), block, sent })
}

/// A block after the other; with a pace, the k-th at the k-th tick.
fn send(
    mut stream: TcpStream,
    n: u64,
    block: u64,
    paced: bool,
    lease: Lease,
) -> io::Result<Vec<(Instant, u8)>> {
    let (mut out, mut sent) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    for from in (0..n).step_by(block as usize) {
        if paced {
            let due = begun + TICK * sent.len() as u32;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let now = Instant::now();
        let lease_s = lease.after(now.duration_since(begun));
        encode(&mut out, from..(from + block).min(n), lease_s);
        sent.push((now, lease_s));
        stream.write_all(&out)?;
        out.clear();
    }
    Ok(sent)
}

fn encode(out: &mut Vec<u8>, keys: Range<u64>, lease_s: u8) {
    for i in keys {
        frames::acquire(out, 0, lease_s, i, name(i).as_bytes());
    }
}
