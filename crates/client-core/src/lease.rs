//! How long a lease surely runs, and when it has surely ended (docs/client-contract.md, rules 12 and 13).

use core::time::Duration;

use crate::core::Core;
use crate::outcome::UsageError;
use crate::time::{Instant, seconds, whole_seconds};

/// The assumed bound on how much faster one of the two clocks may run: one part in this many.
const RATE: u32 = 1_000;
const LEAST_RATE_ALLOWANCE: Duration = Duration::from_millis(1);

/// What is taken off a lease for late timers and for the time that stopping takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margin {
    /// In percent of the lease.
    pub percent: u8,
    /// But at least this.
    pub least: Duration,
}

impl Margin {
    /// The smallest margin there is, and the default.
    pub const DEFAULT: Self = Self { percent: 5, least: Duration::from_millis(20) };

    fn of(self, lease: Duration) -> Duration {
        (lease * u32::from(self.percent) / 100).max(self.least)
    }

    /// What is taken off a lease that was granted after a wait of `waited`: the allowance for the clocks and the margin.
    fn taken_off(self, waited: Duration, lease: Duration) -> Duration {
        let allowance = ((waited + lease) / RATE).max(LEAST_RATE_ALLOWANCE);
        allowance.saturating_add(self.of(lease))
    }
}

/// A lease in whole seconds, rounded up; one of which nothing would be left is refused.
pub(crate) fn lease_seconds(lease: Duration, margin: Margin) -> Result<u8, UsageError> {
    let lease_s = whole_seconds(lease).filter(|&lease_s| lease_s > 0).ok_or(UsageError::LeaseOutOfRange)?;
    let lease = seconds(lease_s);
    let taken_off = margin.taken_off(Duration::ZERO, lease);
    if lease <= taken_off {
        return Err(UsageError::LeaseWithinMargin { lease, taken_off });
    }
    Ok(lease_s)
}

impl Core {
    /// A lease in whole seconds, as this client may ask for it.
    pub(crate) fn lease_seconds(&self, lease: Duration) -> Result<u8, UsageError> {
        lease_seconds(lease, self.margin)
    }
}

/// Until when a lease of `lease_s` seconds surely runs that began no earlier than `sent` + `waited`.
pub(crate) fn valid_until(sent: Instant, waited: Duration, lease_s: u8, margin: Margin) -> Instant {
    let lease = seconds(lease_s);
    sent + (waited + lease) - margin.taken_off(waited, lease)
}

/// When a lease of `lease_s` seconds has surely ended whose confirmation came at `received`.
pub(crate) fn surely_ended(received: Instant, lease_s: u8) -> Instant {
    let lease = seconds(lease_s);
    received + lease + lease / RATE + LEAST_RATE_ALLOWANCE
}

/// The wait that the server claims, unless it is longer than the time since the request was sent: then `None`.
pub(crate) fn believable_wait(waited_ms: u32, sent: Instant, received: Instant) -> Option<Duration> {
    let waited = Duration::from_millis(u64::from(waited_ms));
    (waited - waited / RATE <= received.since(sent)).then_some(waited)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn rule12_valid_until_counts_from_sent_and_leaves_allowance_and_margin() {
        let until = |waited, lease_s| valid_until(at_ms(1_000), waited, lease_s, Margin::DEFAULT);
        assert_eq!(until(ms(0), 1), at_ms(1_000 + 1_000 - 1 - 50));
        assert_eq!(until(ms(0), 30), at_ms(1_000 + 30_000 - 30 - 1_500));
        assert_eq!(until(ms(10_000), 30), at_ms(1_000 + 10_000 + 30_000 - 40 - 1_500));
    }

    #[test]
    fn rule12_the_margin_can_be_raised() {
        let until = |margin| valid_until(at_ms(0), ms(0), 10, margin);
        let least = Margin { percent: 5, least: ms(3_000) };
        assert_eq!(until(least), at_ms(10_000 - 10 - 3_000));
        let percent = Margin { percent: 50, least: ms(20) };
        assert_eq!(until(percent), at_ms(10_000 - 10 - 5_000));
    }

    #[test]
    fn rule01_leases_out_of_range_are_refused() {
        let lease = |ms| lease_seconds(Duration::from_millis(ms), Margin::DEFAULT);
        assert_eq!(lease(0), Err(UsageError::LeaseOutOfRange));
        assert_eq!(lease(1), Ok(1));
        assert_eq!(lease(254_001), Ok(255));
        assert_eq!(lease(255_001), Err(UsageError::LeaseOutOfRange));
    }

    #[test]
    fn rule12_a_lease_that_the_margin_eats_up_is_refused() {
        let least = |least| lease_seconds(ms(1_000), Margin { percent: 5, least });
        let within = |lease, taken_off| Err(UsageError::LeaseWithinMargin { lease, taken_off });
        assert_eq!(least(ms(999) - Duration::from_nanos(1)), Ok(1), "a nanosecond is left");
        assert_eq!(least(ms(999)), within(ms(1_000), ms(1_000)), "nothing is left");
        assert_eq!(least(ms(1_500)), within(ms(1_000), ms(1_501)));
        assert_eq!(least(Duration::MAX), within(ms(1_000), Duration::MAX));
        assert_eq!(lease_seconds(ms(255_000), Margin { percent: 90, least: ms(20) }), Ok(255));
        let long = lease_seconds(ms(254_500), Margin { percent: 5, least: ms(254_745) });
        assert_eq!(long, within(ms(255_000), ms(255_000)), "the lease as it would be asked for");
    }

    #[test]
    fn rule13_a_lease_has_surely_ended_after_it_and_a_bit() {
        assert_eq!(surely_ended(at_ms(500), 30), at_ms(500 + 30_000 + 30 + 1));
    }

    #[test]
    fn rule12_a_wait_longer_than_the_round_trip_is_not_believed() {
        let waited = |waited_ms| believable_wait(waited_ms, at_ms(1_000), at_ms(2_000));
        assert_eq!(waited(0), Some(ms(0)));
        assert_eq!(waited(1_000), Some(ms(1_000)));
        assert_eq!(waited(1_001), Some(ms(1_001)), "0.1 % may come from the clocks");
        assert_eq!(waited(1_002), None);
        assert_eq!(waited(u32::MAX), None);
    }
}
