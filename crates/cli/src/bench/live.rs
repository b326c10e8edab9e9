//! The line that changes while a run goes on. Only for a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::tally::Tally;

/// Goes back to the begin of the line and deletes it.
const CLEAR: &str = "\r\x1b[K";

/// The line.
pub struct Live {
    is_shown: bool,
    begun: Instant,
    last: Instant,
    count: u64,
}

impl Live {
    /// How often it changes.
    pub const PERIOD: Duration = Duration::from_millis(500);

    /// Nothing yet.
    pub fn new() -> Self {
        let now = Instant::now();
        Self { is_shown: io::stderr().is_terminal(), begun: now, last: now, count: 0 }
    }

    /// Says what is done and how fast operations go.
    pub fn show(&mut self, doing: &str, tally: &Tally) {
        if !self.is_shown {
            return;
        }
        let (now, count, faults) = (Instant::now(), tally.count(), tally.fault_count());
        let rate = (count - self.count) as f64 / (now - self.last).as_secs_f64().max(0.001);
        (self.last, self.count) = (now, count);
        let elapsed = (now - self.begun).as_secs_f64();
        let errors = if faults > 0 { format!(", {faults} errors") } else { String::new() };
        write(&format!("{CLEAR}{doing}: {elapsed:.1} s, {rate:.0} a second{errors}"));
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if self.is_shown {
            write(CLEAR);
        }
    }
}

/// A terminal that has gone away is no reason to fail.
fn write(text: &str) {
    let mut stderr = io::stderr();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
