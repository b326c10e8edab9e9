//! The clock on which a server keeps its ends.

use crate::sys;
use std::time::{Duration, Instant};

/// Time since the machine was started, suspend included (CLOCK_BOOTTIME).
pub fn now() -> Duration {
    sys::boottime()
}

/// The time on that clock at which a moment of the recent past was, never too early.
pub fn of(moment: Instant) -> Duration {
    let elapsed = moment.elapsed();
    now().saturating_sub(elapsed)
}

/// Whole milliseconds, rounded down, as they stand in a journal.
pub fn ms(time: Duration) -> u64 {
    time.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_not_before_the_clock_was_read() {
        let before = now();
        let moment = Instant::now();
        let translated = of(moment);
        assert!(before <= translated && translated <= now(), "{before:?} {translated:?}");
    }
}
