//! The faults that hold now, shared by all threads of a proxy.

use super::{Command, Direction};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The faults of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    pub(super) delay: Duration,
    pub(super) split: bool,
    pub(super) blackhole: bool,
    /// How many bytes still pass, and whether a reset follows.
    pub(super) cut: Option<(u64, bool)>,
}

/// All faults.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) up: Way,
    pub(super) down: Way,
    pub(super) refuse: bool,
    /// The op of the answer that vanishes next.
    pub(super) drop_answer: Option<u8>,
    ended: bool,
}

impl Faults {
    pub(super) fn way(&mut self, direction: Direction) -> &mut Way {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    pub(super) fn apply(&mut self, command: Command) {
        match command {
            Command::Delay(direction, delay) => self.way(direction).delay = delay,
            Command::Split(direction) => self.way(direction).split = true,
            Command::Blackhole(direction) => self.way(direction).blackhole = true,
            Command::Cut { direction, bytes, reset } => self.way(direction).cut = Some((bytes, reset)),
            Command::DropAnswer(op) => self.drop_answer = Some(op),
            Command::Refuse => self.refuse = true,
            Command::Heal => *self = Self { ended: self.ended, ..Self::default() },
            Command::Reset => {}
        }
    }
}

/// The faults, and a way to wait for their change.
#[derive(Debug, Default)]
pub(super) struct Shared {
    faults: Mutex<Faults>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The faults as they are now.
    pub(super) fn now(&self) -> Faults {
        *self.lock()
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Faults) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// The proxy is gone.
    pub(super) fn end(&self) {
        self.change(|faults| faults.ended = true);
    }

    pub(super) fn ended(&self) -> bool {
        self.lock().ended
    }

    /// Waits until nothing is held back in this direction: the faults then; `None`: the proxy is gone.
    pub(super) fn wait_until_open(&self, direction: Direction) -> Option<Faults> {
        self.wait_while(|faults| faults.way(direction).blackhole)
    }

    /// Waits while `held`, until the proxy is gone.
    pub(super) fn wait_while(&self, mut held: impl FnMut(&mut Faults) -> bool) -> Option<Faults> {
        let mut faults = self.lock();
        while !faults.ended && held(&mut faults) {
            faults = self.changed.wait(faults).unwrap_or_else(PoisonError::into_inner);
        }
        (!faults.ended).then_some(*faults)
    }

    /// Waits until `due`, or until `over` says that there is nothing to wait for.
    pub(super) fn wait_until(&self, due: Instant, over: impl Fn() -> bool) {
        let mut faults = self.lock();
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || faults.ended || over() {
                return;
            }
            faults = self.changed.wait_timeout(faults, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
