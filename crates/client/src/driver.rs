//! The background task of a client: it moves the connections, and sleeps in between.

use std::pin::Pin;
use std::sync::{Arc, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use lockstead_client_core::{Core, FLUSH, Instant};
use tokio::time::{Sleep, sleep};

use crate::clock::{LOOK, now};
use crate::process::EXIT_FLUSH;
use crate::shared::{Afterwards, Shared, State};

/// How often a flush looks for answers.
const FLUSH_LOOK: Duration = Duration::from_millis(1);

/// The background task.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    /// Present until the task ends.
    alarm: Option<Alarm>,
    /// Whether it has let others go first since it was woken.
    yielded: bool,
}

impl Driver {
    /// Needs a runtime.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, alarm: Some(Alarm::new()), yielded: false }
    }

    /// When the program asks for something, whatever else is ready to run goes first, once: it may ask for something
    /// too, and all of it goes out in one write.
    fn lets_others_go_first(&mut self, context: &Context<'_>) -> bool {
        let asked = self.shared.with(|state| std::mem::take(&mut state.asked));
        self.yielded = asked && !self.yielded;
        if self.yielded {
            context.waker().wake_by_ref();
        }
        self.yielded
    }

    /// Nothing moves any more: sleeps until a socket, the program or the clock wakes it.
    fn fall_asleep(&mut self, context: &mut Context<'_>) -> Rest {
        let due = self.shared.with(|state| {
            if state.core.is_stopped() && state.io.is_empty() {
                return Err(Rest::Over);
            }
            if std::mem::take(&mut state.asked) {
                return Err(Rest::Awake);
            }
            state.driver = Some(context.waker().clone());
            Ok(state.core.next_wakeup())
        });
        match due {
            Err(rest) => rest,
            Ok(due) => {
                let rings =
                    due.zip(self.alarm.as_mut()).is_some_and(|(due, alarm)| alarm.rings(due, context));
                if rings { Rest::Awake } else { Rest::Asleep }
            }
        }
    }
}

/// What a driver does when nothing moves.
enum Rest {
    /// Something is to be done after all.
    Awake,
    /// It is woken when something is.
    Asleep,
    /// The client has stopped.
    Over,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        if driver.shared.check_process().is_err() {
            return Poll::Ready(());
        }
        if driver.lets_others_go_first(context) {
            return Poll::Pending;
        }
        loop {
            let mut sockets = driver.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner);
            while sockets.turn(&driver.shared, context) {}
            drop(sockets);
            match driver.fall_asleep(context) {
                Rest::Awake => {}
                Rest::Asleep => return Poll::Pending,
                Rest::Over => return Poll::Ready(()),
            }
        }
    }
}

/// The runtime may end before the client does, as it does when a program returns from its main function. What is to be
/// given back is flushed here then, for a bounded time, and everything else that is open ends.
impl Drop for Driver {
    fn drop(&mut self) {
        if self.shared.check_process().is_err() {
            // A timer of a runtime that belongs to the parent, whose locks may be held by threads that are not here.
            std::mem::forget(self.alarm.take());
            return;
        }
        let mut afterwards = Afterwards::default();
        self.shared.drive(&mut afterwards, |state| state.core.shutdown(now()));
        // What cannot be sent on the connections that there are cannot be sent any more.
        self.shared.flush(now() + EXIT_FLUSH, |core, sent| sent && !core.is_stopped());
        // Whatever was not answered by now ends here.
        self.shared.drive(&mut afterwards, |state| state.core.tick(now() + FLUSH));
        self.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner).end(&self.shared);
        self.shared.with(State::end).into_iter().for_each(Waker::wake);
    }
}

impl Shared {
    /// Does the I/O in the calling thread while it makes sense, which `worthwhile` says, given whether anything was
    /// sent: for a bounded time. Nothing happens in a forked child.
    pub(crate) fn flush(&self, until: Instant, worthwhile: impl Fn(&Core, bool) -> bool) {
        if self.check_process().is_err() {
            return;
        }
        let mut sent = false;
        loop {
            match self.sockets.try_lock() {
                Ok(mut sockets) => sent |= sockets.exchange(self),
                Err(TryLockError::Poisoned(poisoned)) => sent |= poisoned.into_inner().exchange(self),
                // The driver is at it.
                Err(TryLockError::WouldBlock) => {}
            }
            let over = self.try_lock().is_some_and(|state| !worthwhile(&state.core, sent));
            if over || now() >= until {
                return;
            }
            thread::sleep(FLUSH_LOOK);
        }
    }
}

/// Wakes the driver when something is due by the client's clock.
struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// What the sleep is armed for.
    set_for: Option<Instant>,
}

impl Alarm {
    fn new() -> Self {
        Self { sleep: Box::pin(sleep(Duration::ZERO)), set_for: None }
    }

    /// Whether it is `due`. If not, the task is woken when it is: the sleep is armed for then, but for no later than
    /// the next look at the clock. A sleep that ends too early does no harm, so it is only moved when it would end too
    /// late.
    fn rings(&mut self, due: Instant, context: &mut Context<'_>) -> bool {
        loop {
            let now = now();
            if due <= now {
                return true;
            }
            let next = due.min(now + LOOK);
            if self.set_for.is_none_or(|at| next < at) {
                self.sleep.as_mut().reset(tokio::time::Instant::now() + next.since(now));
                self.set_for = Some(next);
            }
            if self.sleep.as_mut().poll(context).is_pending() {
                return false;
            }
            self.set_for = None;
        }
    }
}
