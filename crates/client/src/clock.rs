//! The client's one clock: the only place that knows a platform's clocks.

use lockstead_client_core::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Reads the client's clock: monotonic, suspended time included.
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    let ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    Instant::from_nanos(u64::try_from(ns).unwrap_or(0))
}
