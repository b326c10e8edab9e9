//! The client's one clock, and the only place that knows a platform's clocks.
//!
//! Each of them is monotonic and goes on while the machine is suspended, so a lease that ends during a suspend is seen
//! to have ended when the machine wakes up (docs/client-contract.md, rule 1).
//!
//! | platform | clock | tested |
//! | --- | --- | --- |
//! | Linux, Android | `CLOCK_BOOTTIME`; `CLOCK_MONOTONIC` would stand still | on Linux |
//! | Apple's | `CLOCK_MONOTONIC_RAW`, which is `mach_continuous_time`; `CLOCK_UPTIME_RAW` would stand still | no |
//! | other Unix | `CLOCK_MONOTONIC`; whether it counts a suspend is up to the system | no |
//! | Windows | `QueryInterruptTimePrecise`; `QueryUnbiasedInterruptTime` would stand still, `GetTickCount64` is coarse | no |

use std::time::Duration;

use lockstead_client_core::Instant;

/// The runtime's timers stand still while the machine is suspended, so however far off the next thing is that is due,
/// the clock is looked at this often (docs/client-contract.md, rule 14).
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// Reads the client's clock: monotonic, suspended time included. [`Ticket::valid_until`](crate::Ticket::valid_until) is
/// an instant of this clock, which is neither [`std::time::Instant`]'s nor a time of day.
pub fn now() -> Instant {
    Instant::from_nanos(platform::nanos() + shift::nanos())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod platform {
    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn nanos() -> u64 {
        let time = clock_gettime(ClockId::Boottime);
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    }
}

#[cfg(target_vendor = "apple")]
mod platform {
    pub(super) fn nanos() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a timespec that the call may write to. It fails only for a clock that is not there, and
        // this one is on every system that Rust runs on.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    }
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))))]
mod platform {
    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn nanos() -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
    }
}

#[cfg(windows)]
mod platform {
    #[link(name = "api-ms-win-core-realtime-l1-1-1", kind = "raw-dylib")]
    unsafe extern "system" {
        fn QueryInterruptTimePrecise(time: *mut u64);
    }

    pub(super) fn nanos() -> u64 {
        let mut time = 0;
        // SAFETY: the call writes one number, in units of 100 ns, to where it is told to; it cannot fail.
        unsafe { QueryInterruptTimePrecise(&mut time) };
        time * 100
    }
}

/// Outside of tests the clock is what the platform says.
#[cfg(not(test))]
mod shift {
    pub(super) const fn nanos() -> u64 {
        0
    }
}

/// A test can make the clock jump for its own thread, as a suspend does for the machine: the runtime's timers do not
/// notice.
#[cfg(test)]
pub(crate) mod shift {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static SHIFT_NS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn nanos() -> u64 {
        SHIFT_NS.get()
    }

    pub(crate) fn jump(span: Duration) {
        SHIFT_NS.set(SHIFT_NS.get() + u64::try_from(span.as_nanos()).unwrap());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_runs_and_a_jump_is_seen_at_once() {
        let first = now();
        let mut second = now();
        while second == first {
            second = now();
        }
        assert!(second > first);
        shift::jump(Duration::from_secs(100));
        assert!(now().since(second) >= Duration::from_secs(100));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn on_linux_it_is_the_time_since_the_machine_was_started() {
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = text.split(' ').next().unwrap().parse().unwrap();
        let ours = now().as_nanos() as f64 / 1e9;
        assert!((ours - uptime).abs() < 1.0, "{ours} is not {uptime}");
    }
}
