//! How well the machine keeps time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long the watching thread sleeps at a time.
const SLEEP: Duration = Duration::from_millis(5);

/// Watches how late a thread is that only sleeps.
pub struct Steadiness {
    /// When it woke late, and by how much.
    late: Arc<Mutex<Vec<(Instant, Duration)>>>,
    over: Arc<AtomicBool>,
}

impl Steadiness {
    /// Begins to watch.
    pub fn watch() -> Self {
        let steadiness = Self { late: Arc::default(), over: Arc::default() };
        let (late, over) = (steadiness.late.clone(), steadiness.over.clone());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(SLEEP);
                let now = Instant::now();
                let lateness = (now - began).saturating_sub(SLEEP);
                if lateness > SLEEP {
                    late.lock().expect("no thread panics with the lock").push((now, lateness));
                }
            }
        });
        steadiness
    }

    /// The worst since then.
    pub fn worst_since(&self, began: Instant) -> Duration {
        let late = self.late.lock().expect("no thread panics with the lock");
        let since = late.iter().rev().take_while(|(at, _)| *at >= began);
        since.map(|(_, lateness)| *lateness).max().unwrap_or_default()
    }
}

impl Drop for Steadiness {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
