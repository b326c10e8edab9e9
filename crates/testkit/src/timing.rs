//! Judges when leases and waits end: never early, and how late.

use std::time::{Duration, Instant};

/// What docs/protocol.md promises of an idle machine.
pub const PROMISED_LATENESS: Duration = Duration::from_millis(50);

/// What a single end may be late in a test. A test machine is not idle, so only the *middle* of all measured
/// ends is held to [`PROMISED_LATENESS`]; a single one later than this is a fault on any machine.
pub const TOLERATED_LATENESS: Duration = Duration::from_millis(1500);

/// The ends of one kind of lease or wait, judged as they come in and summed up by [`Ends::finish`].
#[derive(Debug)]
pub struct Ends {
    what: String,
    late: Vec<Duration>,
}

impl Ends {
    /// A judge of the ends of `what`.
    pub fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), late: Vec::new() }
    }

    /// Judges one end that was seen at `seen`, of something that lasts `duration` and began in `begun`: at
    /// its first instant at the earliest (the request was about to be sent), at its second at the latest (the
    /// answer was here).
    ///
    /// # Panics
    /// When the end was early for even the earliest beginning, or later than [`TOLERATED_LATENESS`] for the
    /// latest.
    pub fn judge(&mut self, begun: (Instant, Instant), duration: Duration, seen: Instant) {
        let lasted = seen.saturating_duration_since(begun.0);
        assert!(lasted >= duration, "{}: ended after {lasted:?}, before its {duration:?}", self.what);
        let late = seen.saturating_duration_since(begun.1 + duration);
        assert!(late <= TOLERATED_LATENESS, "{}: ended {late:?} late", self.what);
        self.late.push(late);
    }

    /// Adds what another judge of the same kind has seen.
    pub fn add(&mut self, other: Ends) {
        self.late.extend(other.late);
    }

    /// Prints the lateness and checks its middle.
    ///
    /// # Panics
    /// When the median is above [`PROMISED_LATENESS`], or nothing was judged.
    pub fn finish(mut self) {
        assert!(!self.late.is_empty(), "{}: no end was judged", self.what);
        self.late.sort_unstable();
        let median = percentile(&self.late, 50.0);
        println!(
            "{}: {} ends, late by median {median:?}, p99 {:?}, most {:?}",
            self.what,
            self.late.len(),
            percentile(&self.late, 99.0),
            percentile(&self.late, 100.0),
        );
        assert!(median <= PROMISED_LATENESS, "{}: the median end is {median:?} late", self.what);
    }
}

/// The value that `percent` of `sorted` do not exceed.
///
/// # Panics
/// When `sorted` is empty.
pub fn percentile(sorted: &[Duration], percent: f64) -> Duration {
    assert!(!sorted.is_empty(), "no percentile of nothing");
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn an_end_in_time_is_accepted() {
        let begun = Instant::now();
        let mut ends = Ends::of("lease");
        ends.judge((begun, begun + MILLI), SECOND, begun + SECOND);
        ends.judge((begun, begun), SECOND, begun + SECOND + 40 * MILLI);
        ends.finish();
    }

    #[test]
    #[should_panic(expected = "before its 1s")]
    fn a_canary_that_ends_early_is_found() {
        let begun = Instant::now();
        Ends::of("lease").judge(
            (begun, begun + 5 * MILLI),
            SECOND,
            begun + SECOND - Duration::from_micros(1),
        );
    }

    #[test]
    #[should_panic(expected = "late")]
    fn a_canary_that_ends_much_too_late_is_found() {
        let begun = Instant::now();
        Ends::of("lease").judge((begun, begun), SECOND, begun + 3 * SECOND);
    }

    #[test]
    #[should_panic(expected = "the median end is")]
    fn a_canary_that_is_always_a_little_late_is_found() {
        let begun = Instant::now();
        let mut ends = Ends::of("lease");
        for _ in 0..3 {
            ends.judge((begun, begun), SECOND, begun + SECOND + 60 * MILLI);
        }
        ends.finish();
    }

    #[test]
    #[should_panic(expected = "no end was judged")]
    fn a_judge_that_saw_nothing_says_so() {
        Ends::of("lease").finish();
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let sorted: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile(&sorted, 50.0), 50 * MILLI);
        assert_eq!(percentile(&sorted, 99.0), 99 * MILLI);
        assert_eq!(percentile(&sorted, 100.0), 100 * MILLI);
        assert_eq!(percentile(&sorted[..1], 99.0), MILLI);
    }
}
