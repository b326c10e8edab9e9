//! Pings at a steady pace over a connection of their own, whatever else the server has to do.

use super::fill::{Lease, fill};
use super::wire::{Wire, unexpected};
use super::{Server, histogram, line, ms, os, with_used};
use crate::frames::{self, Answer};
use crate::json::Line;
use crate::locker::R;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PACE: Duration = Duration::from_millis(1);

/// The id of the last ping; all others have their time of sending.
const LAST: u64 = u64::MAX;

pub struct Pinger {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<io::Result<Sent>>,
    receiver: JoinHandle<io::Result<Vec<Ping>>>,
}

struct Sent {
    /// How much later than planned one was sent: the generator's fault, not the server's.
    late: Duration,
    /// Whether the threads run before all others.
    first: bool,
}

struct Ping {
    at: Instant,
    took: Duration,
}

/// All pings from start to stop.
pub struct Pings {
    all: Vec<Ping>,
    sent: Sent,
}

impl Pinger {
    pub fn start(port: u16) -> R<Self> {
        let wire = Wire::connect(port)?;
        let (stop, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let (writer, until) = (wire.writer()?, stop.clone());
        let sender = thread::spawn(move || send(writer, begun, &until));
        let receiver = thread::spawn(move || receive(wire, begun));
        Ok(Self { stop, sender, receiver })
    }

    /// Waits for the pongs that are outstanding.
    pub fn stop(self) -> R<Pings> {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().map_err(|_| "the thread that pings has panicked")??;
        let all = self.receiver.join().map_err(|_| "the thread that reads pongs has panicked")??;
        Ok(Pings { all, sent })
    }
}

fn send(mut stream: TcpStream, begun: Instant, stop: &AtomicBool) -> io::Result<Sent> {
    let (first, mut late, mut out) = (os::go_first(), Duration::ZERO, Vec::new());
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        late = late.max(now.saturating_duration_since(next));
        out.clear();
        frames::ping(&mut out, now.duration_since(begun).as_nanos() as u64);
        stream.write_all(&out)?;
        next += PACE;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    out.clear();
    frames::ping(&mut out, LAST);
    stream.write_all(&out)?;
    Ok(Sent { late, first })
}

fn receive(mut wire: Wire, begun: Instant) -> io::Result<Vec<Ping>> {
    os::go_first();
    let mut all = Vec::new();
    loop {
        match wire.answer()? {
            Answer::Pong { id: LAST } => return Ok(all),
            Answer::Pong { id } => {
                let at = begun + Duration::from_nanos(id);
                all.push(Ping { at, took: at.elapsed() });
            }
            other => return Err(unexpected(&other)),
        }
    }
}

impl Pings {
    /// Adds what the pings took that were sent from one instant to the other.
    pub fn describe(&self, line: Line, from: Instant, to: Instant) -> Line {
        let mut hist = histogram();
        let mut worst: Option<&Ping> = None;
        for ping in self.all.iter().filter(|ping| (from..=to).contains(&ping.at)) {
            let _ = hist.record(ping.took.as_nanos().max(1) as u64); // the bounds hold ten minutes
            if worst.is_none_or(|other| other.took < ping.took) {
                worst = Some(ping);
            }
        }
        let worst_at = worst.map_or(0.0, |ping| ping.at.duration_since(from).as_secs_f64());
        line.int("ping_n", hist.len())
            .num("ping_p50_ms", ms(&hist, 0.5), 3)
            .num("ping_p99_ms", ms(&hist, 0.99), 3)
            .num("ping_max_ms", ms(&hist, 1.0), 3)
            .num("ping_max_at_s", worst_at, 3)
            .num("ping_sent_late_ms", self.sent.late.as_secs_f64() * 1e3, 3)
            .int("ping_goes_first", self.sent.first)
    }
}

/// `grow`: whether growing tables stall a ping.
pub fn grow(n: u64, server: Server) -> R<()> {
    let pinger = Pinger::start(server.port)?;
    let meter = server.meter();
    let filled = fill(server.port, n, None, Lease::Same(255))?;
    let (done, used) = (Instant::now(), meter.close());
    let pings = pinger.stop()?;
    let line = line("grow", n).num("rate", n as f64 / filled.took.as_secs_f64(), 0).num(
        "cpu_us",
        used.server.sched_us / n as f64,
        3,
    );
    pings.describe(with_used(line, &used), filled.begun, done).print();
    Ok(())
}
