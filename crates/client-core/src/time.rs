//! Instants of the client's one clock.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// One whole second in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// An instant of the client's clock: nanoseconds since the machine was started, suspended time included.
///
/// Programs read the clock with `now` of the client. Add or take off a [`Duration`], compare two instants, or ask how
/// long one is before the other with [`since`](Self::since). Instants of two machines, or of one machine before and
/// after it was started anew, say nothing about each other, and none is a time of day.
///
/// The core never reads a clock; every input carries its instant. Arithmetic saturates: an instant after the end of
/// time is the end of time, and the time since a later instant is zero.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The instant at which a clock reads `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// The nanoseconds on the clock.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long `earlier` is ago; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Seconds on the clock.
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({}.{:09} s)", self.0 / SECOND_NS, self.0 % SECOND_NS)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration in whole seconds, rounded up, so that nothing above 0 becomes 0. `None` above 255, the most that one
/// byte of the wire says.
pub(crate) fn whole_seconds(span: Duration) -> Option<u8> {
    u8::try_from(nanos(span).div_ceil(SECOND_NS)).ok()
}

/// Seconds as a duration.
pub(crate) const fn seconds(s: u8) -> Duration {
    Duration::from_secs(s as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let early = Instant::from_nanos(5);
        assert_eq!(early + Duration::from_nanos(3), Instant::from_nanos(8));
        assert_eq!(early - Duration::from_nanos(3), Instant::from_nanos(2));
        assert_eq!(early - Duration::from_secs(1), Instant::from_nanos(0));
        assert_eq!(early + Duration::MAX, Instant::from_nanos(u64::MAX));
        assert_eq!((early + Duration::from_secs(1)).since(early), Duration::from_secs(1));
        assert_eq!(early.since(early + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(early.as_nanos(), 5);
    }

    #[test]
    fn people_read_seconds() {
        assert_eq!(std::format!("{:?}", Instant::from_nanos(12_000_000_345)), "Instant(12.000000345 s)");
    }

    #[test]
    fn seconds_are_rounded_up_and_end_at_255() {
        assert_eq!(whole_seconds(Duration::ZERO), Some(0));
        assert_eq!(whole_seconds(Duration::from_nanos(1)), Some(1));
        assert_eq!(whole_seconds(Duration::from_millis(2_000)), Some(2));
        assert_eq!(whole_seconds(Duration::from_millis(2_001)), Some(3));
        assert_eq!(whole_seconds(Duration::from_secs(255)), Some(255));
        assert_eq!(whole_seconds(Duration::from_millis(255_001)), None);
        assert_eq!(whole_seconds(Duration::MAX), None);
    }
}
