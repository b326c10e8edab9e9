//! Who has something to do: each connection has one waker that puts it on one list and wakes the driver, and all else that
//! wakes it shares one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

#[derive(Default)]
struct List {
    slots: Vec<usize>,
    driver: Option<Waker>,
}

/// The connections that woke since the list was last taken, in the order in which they did.
#[derive(Clone, Default)]
pub(crate) struct ReadyList(Arc<Mutex<List>>);

impl ReadyList {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom to wake from now on.
    pub(crate) fn set_driver(&self, driver: &Waker) {
        let mut list = self.lock();
        if !list.driver.as_ref().is_some_and(|known| known.will_wake(driver)) {
            list.driver = Some(driver.clone());
        }
    }

    /// Wakes the driver, if it has run before; from any thread.
    pub(crate) fn wake_driver(&self) {
        if let Some(driver) = &self.lock().driver {
            driver.wake_by_ref();
        }
    }

    /// Moves everything on the list to the end of `into`.
    pub(crate) fn take(&self, into: &mut Vec<usize>) {
        into.append(&mut self.lock().slots);
    }

    /// A handle for the connection in `slot`.
    pub(crate) fn handle(&self, slot: usize) -> Arc<WakeHandle> {
        Arc::new(WakeHandle { slot, listed: AtomicBool::new(false), list: self.clone() })
    }
}

/// One connection's way onto the list.
pub(crate) struct WakeHandle {
    slot: usize,
    listed: AtomicBool,
    list: ReadyList,
}

impl WakeHandle {
    /// The connection was taken from the list: the next wake puts it there again.
    pub(crate) fn taken(&self) {
        self.listed.store(false, Ordering::Relaxed);
    }
}

impl Wake for WakeHandle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.listed.swap(true, Ordering::Relaxed) {
            let mut list = self.list.lock();
            list.slots.push(self.slot);
            if let Some(driver) = &list.driver {
                driver.wake_by_ref();
            }
        }
    }
}

/// What is seldom ready: signals, the alarm and the door. A look at them costs as much as a request, so the driver looks
/// only when one of them woke it.
pub(crate) struct Bell {
    waker: Waker,
    rung: Arc<Rung>,
}

struct Rung {
    is_rung: AtomicBool,
    list: ReadyList,
}

impl Bell {
    /// A bell that has rung: nobody knows its waker yet.
    pub(crate) fn new(list: ReadyList) -> Self {
        let rung = Arc::new(Rung { is_rung: AtomicBool::new(true), list });
        Self { waker: Waker::from(rung.clone()), rung }
    }

    /// Whether it rang since the last time. If so, all that may have rung it have to be polled until they are pending.
    pub(crate) fn take(&self) -> bool {
        self.rung.is_rung.swap(false, Ordering::Relaxed)
    }

    /// What rings it.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_rung.store(true, Ordering::Relaxed);
        self.list.wake_driver();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_tells_once_that_it_rang_and_wakes_the_driver() {
        let driver = Arc::new(Rung { is_rung: AtomicBool::new(false), list: ReadyList::default() });
        let list = ReadyList::default();
        list.set_driver(&Waker::from(driver.clone()));
        let bell = Bell::new(list);
        assert!(bell.take(), "all is looked at once");
        assert!(!bell.take());
        let waker = bell.waker();
        waker.wake_by_ref();
        waker.wake();
        assert!(driver.is_rung.load(Ordering::Relaxed));
        assert!(bell.take());
        assert!(!bell.take(), "however often it rang");
    }
}
