//! `peers fsync`: how long a file system takes to make 4 KiB durable.

use crate::json::Line;
use crate::locker::R;
use hdrhistogram::Histogram;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;

/// It ends after this time or this many writes, whichever comes first.
const MOST: Duration = Duration::from_secs(2);
const MOST_WRITES: u64 = 1000;

/// Argument: DIR. Appends 4 KiB to a file in it and waits for fdatasync, again and again.
pub fn fsync(a: &[String]) -> R<()> {
    let [dir] = a else { return Err("fsync: see the head of main.rs".into()) };
    let path = Path::new(dir).join(format!("peers-fsync-{}", std::process::id()));
    let mut file = File::create(&path)?;
    let measured = measure(&mut file);
    fs::remove_file(&path)?;
    let hist = measured?;
    let us = |quantile: f64| hist.value_at_quantile(quantile) as f64 / 1e3;
    Line::default()
        .text("peer", "disk")
        .text("wl", "fsync")
        .int("n", hist.len())
        .num("p50", us(0.5), 1)
        .num("p99", us(0.99), 1)
        .print();
    Ok(())
}

fn measure(file: &mut File) -> R<Histogram<u64>> {
    let mut hist = Histogram::new_with_bounds(1, 60_000_000_000, 3)?;
    let block = [0x5A; BLOCK];
    let begun = Instant::now();
    while begun.elapsed() < MOST && hist.len() < MOST_WRITES {
        let t0 = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        hist.record(t0.elapsed().as_nanos().max(1) as u64)?;
    }
    Ok(hist)
}
