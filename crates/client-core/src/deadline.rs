//! The one deadline of a call (docs/client-contract.md, rules 1 to 4).

use core::time::Duration;

use crate::outcome::UsageError;
use crate::time::{Instant, seconds, whole_seconds};

/// How long a call with a wait of 0 may look for a session and then for its answer.
pub const TRANSPORT_DEADLINE: Duration = Duration::from_secs(5);

/// The two instants of a call, fixed when it is made. Nothing moves them later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// From here the wait on the wire is counted, and after it nothing is sent.
    pub(crate) end: Instant,
    /// When the call ends, whatever is known by then.
    pub(crate) deadline: Instant,
    /// A wait of 0: one immediate attempt, always 0 on the wire.
    immediate: bool,
}

impl Budget {
    /// Fixes the instants of a call made at `now`.
    pub(crate) fn new(now: Instant, wait: Duration, answer_allowance: Duration) -> Result<Self, UsageError> {
        let wait_s = whole_seconds(wait).ok_or(UsageError::WaitTooLong)?;
        if wait_s == 0 {
            let end = now + TRANSPORT_DEADLINE;
            return Ok(Self { end, deadline: end, immediate: true });
        }
        let end = now + seconds(wait_s);
        Ok(Self { end, deadline: end + answer_allowance, immediate: false })
    }

    /// The wait to put on the wire at `now`: what is left of the budget, rounded up. `None` when nothing may be sent
    /// any more.
    pub(crate) fn wire_wait_s(&self, now: Instant) -> Option<u8> {
        let left = self.end.since(now);
        if left.is_zero() {
            None
        } else if self.immediate {
            Some(0)
        } else {
            whole_seconds(left)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWANCE: Duration = Duration::from_secs(2);

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn rule01_the_two_instants_come_from_the_rounded_wait() {
        let budget = Budget::new(at_ms(500), Duration::from_millis(1_001), ALLOWANCE).unwrap();
        assert_eq!((budget.end, budget.deadline), (at_ms(2_500), at_ms(4_500)));
        let immediate = Budget::new(at_ms(500), Duration::ZERO, ALLOWANCE).unwrap();
        assert_eq!((immediate.end, immediate.deadline), (at_ms(5_500), at_ms(5_500)));
    }

    #[test]
    fn rule01_waits_out_of_range_are_refused() {
        let wait = |ms| Budget::new(at_ms(0), Duration::from_millis(ms), ALLOWANCE);
        assert!(wait(255_000).is_ok());
        assert_eq!(wait(255_001), Err(UsageError::WaitTooLong));
    }

    #[test]
    fn rule03_the_wire_wait_is_what_is_left_rounded_up() {
        let budget = Budget::new(at_ms(0), Duration::from_secs(60), ALLOWANCE).unwrap();
        assert_eq!(budget.wire_wait_s(at_ms(0)), Some(60));
        assert_eq!(budget.wire_wait_s(at_ms(1)), Some(60));
        assert_eq!(budget.wire_wait_s(at_ms(40_000)), Some(20));
        assert_eq!(budget.wire_wait_s(at_ms(59_999)), Some(1));
        let immediate = Budget::new(at_ms(0), Duration::ZERO, ALLOWANCE).unwrap();
        assert_eq!(immediate.wire_wait_s(at_ms(4_999)), Some(0));
    }

    #[test]
    fn rule04_at_the_budget_end_nothing_is_sent() {
        let budget = Budget::new(at_ms(0), Duration::from_secs(60), ALLOWANCE).unwrap();
        assert_eq!(budget.wire_wait_s(at_ms(60_000)), None);
        let immediate = Budget::new(at_ms(0), Duration::ZERO, ALLOWANCE).unwrap();
        assert_eq!(immediate.wire_wait_s(at_ms(5_000)), None);
    }
}
