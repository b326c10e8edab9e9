//! The driver's one timer, on the clock that its deadlines are on: it rings after a suspend too, and to the
//! millisecond.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use lockstead_engine::Instant;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Wakes the driver at a deadline.
pub(crate) struct Alarm {
    fd: AsyncFd<OwnedFd>,
    armed: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Boottime, flags)?;
        // SAFETY: the descriptor is open and owned by the `AsyncFd`, which nothing ever takes it out of.
        let fd = unsafe { AsyncFd::register(fd) }?;
        Ok(Self { fd, armed: None })
    }

    /// Makes sure that the driver is woken at `deadline` at the latest. If the alarm already rings before, it is left
    /// alone: waking once too often costs less than setting it for every request.
    pub(crate) fn ring_at(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let Some(deadline) = deadline else { return Ok(()) };
        if self.armed.is_some_and(|armed| armed <= deadline) {
            return Ok(());
        }
        let seconds = i64::try_from(deadline.0 / 1_000).unwrap_or(i64::MAX);
        let nanoseconds = i64::from((deadline.0 % 1_000) as u32) * 1_000_000;
        let time = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            // All zero would switch the timer off; the past rings at once just as well.
            it_value: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.max(1) },
        };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &time)?;
        self.armed = Some(deadline);
        Ok(())
    }

    /// Registers for the next ring, and notes one that came.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Poll::Ready(guard) = self.fd.poll_read_ready(cx) {
            // Setting the timer anew takes back what it has to say, so nothing is read from it.
            guard?.clear_ready();
            self.armed = None;
        }
        Ok(())
    }
}
