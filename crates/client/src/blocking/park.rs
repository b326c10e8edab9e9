//! Blocks a thread on a future.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::clock::now;

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future in this thread.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    wait(future, || {
        thread::park();
        true
    })
    .expect("it was waited for to the end")
}

/// Waits for a future in this thread, for so long at most.
pub(super) fn block_on_for<F: Future>(future: F, longest: Duration) -> Option<F::Output> {
    let until = now() + longest;
    wait(future, || {
        let left = until.since(now());
        thread::park_timeout(left);
        !left.is_zero()
    })
}

/// Polls, and between two polls lets `park` wait, which says whether to go on.
fn wait<F: Future>(future: F, park: impl Fn() -> bool) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        if !park() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_wake_from_another_thread_ends_the_wait() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let other = thread::spawn(move || sender.send(7));
        assert_eq!(block_on(receiver), Ok(7));
        assert_eq!(other.join().unwrap(), Ok(()));
    }

    #[test]
    fn an_unpark_that_means_something_else_does_no_harm() {
        thread::current().unpark();
        assert_eq!(block_on(async { 7 }), 7);
        let start = Instant::now();
        let longest = Duration::from_millis(30);
        assert_eq!(block_on_for(std::future::pending::<()>(), longest), None);
        assert!(start.elapsed() >= longest);
        assert_eq!(block_on_for(std::future::pending::<()>(), Duration::ZERO), None);
        assert_eq!(block_on_for(async { 7 }, Duration::ZERO), Some(7));
    }
}
