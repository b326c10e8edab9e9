//! The one place where the server reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use lockstead_engine::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The engine clock: whole milliseconds, rounded down, of the time since boot. It counts suspend, so a lease that ends
/// while the machine sleeps has ended when it wakes; and no change of the wall clock moves it.
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::Boottime);
    let ms = time.tv_sec * 1_000 + time.tv_nsec / 1_000_000;
    Instant(u64::try_from(ms).expect("the time since boot is not negative"))
}

/// The wall clock, in microseconds since 1970. Only tokens start from it; no wait and no lease ever depends on it.
pub(crate) fn wall_us() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_micros()).unwrap_or(0)
}
