//! `churn`: memory while keys of all lengths come and go, and their number stays the same.

use super::wire::{Wire, unexpected};
use super::{Server, line, with_used};
use crate::frames::{self, Answer};
use crate::locker::R;
use crate::usage::status_kib;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many keys are held.
const HELD: usize = 100_000;

/// Keys that come and go in one write.
const BLOCK: u64 = 500;

/// About so many times the memory is looked at.
const LOOKS: u32 = 60;

/// A new one each time, of 20 to 275 bytes.
fn name(i: u64) -> String {
    let length = 20 + (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize;
    format!("{i:0length$}")
}

pub fn churn(lasts: Duration, server: Server) -> R<()> {
    let mut wire = Wire::connect(server.port)?;
    let mut held = VecDeque::new();
    let (meter, begun) = (server.meter(), Instant::now());
    let (mut next, mut pairs, mut rss) = (0, 0, Vec::new());
    while begun.elapsed() < lasts {
        let goes = if held.len() < HELD { 0 } else { BLOCK };
        for i in next..next + BLOCK {
            frames::acquire(&mut wire.out, 0, 255, i, name(i).as_bytes());
        }
        for (i, token) in held.drain(..goes as usize) {
            frames::release(&mut wire.out, token, name(i).as_bytes());
        }
        wire.flush()?;
        for _ in 0..BLOCK + goes {
            match wire.answer()? {
                Answer::Acquired { owner, token } => held.push_back((owner, token)),
                Answer::Released { .. } => pairs += 1,
                other => return Err(unexpected(&other).into()),
            }
        }
        next += BLOCK;
        if goes > 0 && begun.elapsed() >= lasts / LOOKS * (rss.len() as u32 + 1) {
            rss.push(status_kib(server.pid, "VmRSS:"));
        }
    }
    let used = meter.close();
    let (Some(last), Some(most)) = (rss.last(), rss.iter().max()) else {
        return Err("it was too short to hold all keys".into());
    };
    // the first tenth may still fill up what is kept for reuse
    let early = rss[rss.len() / 10];
    let line = line("churn", lasts.as_secs())
        .int("held", HELD)
        .int("pairs", pairs)
        .num("cpu_us", used.server.sched_us / pairs as f64, 3)
        .num("grows_percent", (*last as f64 / early as f64 - 1.0) * 100.0, 2)
        .int("rss_most", most)
        .int("rss_kib", format!("{rss:?}"));
    with_used(line, &used).print();
    Ok(())
}
