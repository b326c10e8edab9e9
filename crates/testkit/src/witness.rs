//! A session that must notice nothing of what a test does to others.

use crate::Address;
use crate::raw::{PATIENCE, Raw};
use crate::{Answer, frame, timing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const KEY: &str = "the witness's own key";
const HOLDER: u64 = 1 << 63 | 1;
const WAITER: u64 = 1 << 63 | 2;

/// How often the witness looks.
const PERIOD: Duration = Duration::from_millis(2);

/// Holds a key, with a waiter behind it, and pings in a thread of its own until it is asked what it saw.
#[derive(Debug)]
pub struct Witness {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Witness {
    /// Connects and begins to look.
    ///
    /// # Panics
    /// When the server does not serve it.
    pub fn start(address: &Address) -> Self {
        let mut session = Raw::connect(address);
        let grant = session.hold(255, HOLDER, KEY);
        let queued = Instant::now();
        session.send(&frame::acquire(255, 255, WAITER, KEY));
        session.ping();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut pings = Vec::new();
            loop {
                pings.push(session.ping());
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                thread::sleep(PERIOD);
            }
            let (state, _, waiters) = session.query(KEY);
            assert_eq!((state, waiters), (1, 1), "the witness's key is no longer held with one waiter");
            session.send(&frame::release(grant.token, KEY));
            let mut answers =
                [session.next("the witness's release"), session.next("the witness's second grant")];
            answers.sort_by_key(|arrival| matches!(arrival.answer, Answer::Acquired { .. }));
            assert_eq!(answers[0].answer, Answer::Released { token: grant.token });
            match answers[1].answer {
                Answer::Acquired { owner: WAITER, token, waited_ms, .. } if token > grant.token => {
                    assert!(Duration::from_millis(waited_ms.into()) <= queued.elapsed(), "waited overstated");
                    session.release(token, KEY);
                }
                ref other => panic!("the witness's waiter got {other:?}"),
            }
            pings.sort_unstable();
            pings
        });
        Self { stop, thread }
    }

    /// Stops looking; the pings' times, sorted. Prints them as `what`.
    ///
    /// # Panics
    /// When the witness noticed something: a lost lock, a wrong answer, a ping unanswered.
    pub fn finish(self, what: &str) -> Vec<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let pings = match self.thread.join() {
            Ok(pings) => pings,
            Err(_) => panic!("the witness of `{what}` noticed something (its message is above)"),
        };
        println!(
            "{what}: the witness pinged {} times: median {:?}, p99 {:?}, most {:?}",
            pings.len(),
            timing::percentile(&pings, 50.0),
            timing::percentile(&pings, 99.0),
            timing::percentile(&pings, 100.0)
        );
        assert!(pings[pings.len() - 1] < PATIENCE, "{what}: a ping took too long");
        pings
    }
}
