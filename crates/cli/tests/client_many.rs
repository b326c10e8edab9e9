//! Very many calls on one session, a third of them given up at some moment.

mod client_support;

use client_support::*;
use lockstead_client::{AcquireError, Client};
use lockstead_testkit::rng::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const CALLS: usize = 10_000;
const KEYS: usize = 100;

/// A call that is given up is given up within so many rounds of all tasks, in which others are served.
const PATIENCE: u64 = 100;

/// What a lock on one key protects.
#[derive(Default)]
struct Protected {
    busy: AtomicBool,
    last_token: AtomicU64,
}

/// Somebody is at it; also one who gives up just then leaves.
struct Inside<'a>(&'a Protected);

impl Protected {
    fn enter(&self, key: usize, token: u64) -> Inside<'_> {
        assert!(!self.busy.swap(true, Ordering::SeqCst), "two hold {key}");
        let before = self.last_token.swap(token, Ordering::SeqCst);
        assert!(before < token, "token {token} after {before}");
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Counts {
    granted: AtomicUsize,
    given_up: AtomicUsize,
}

/// Takes the lock and does what it protects: alone, and later than everybody before.
async fn call(client: Client, number: usize, protected: Arc<Vec<Protected>>) -> Result<(), AcquireError> {
    let key = number % KEYS;
    let ticket = client.acquire(key.to_string()).wait(100 * SECOND).lease(60 * SECOND).await?;
    assert_eq!(ticket.key(), key.to_string());
    let inside = protected[key].enter(key, ticket.token());
    tokio::task::yield_now().await;
    drop(inside);
    ticket.release().await;
    Ok(())
}

async fn lose_patience(rounds: Option<u64>) {
    let Some(rounds) = rounds else {
        return std::future::pending().await;
    };
    for _ in 0..rounds {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn ten_thousand_calls_on_one_session_leave_nothing_behind() {
    let server = server();
    let client = client(&server);
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let protected: Arc<Vec<Protected>> = Arc::new((0..KEYS).map(|_| Protected::default()).collect());
    let counts = Arc::new(Counts::default());
    let tasks: Vec<_> = (0..CALLS)
        .map(|number| {
            let call = call(client.clone(), number, protected.clone());
            let patience = (number % 3 == 0).then(|| rng.below(PATIENCE));
            let counts = counts.clone();
            tokio::spawn(async move {
                let outcome = tokio::select! {
                    outcome = call => Some(outcome),
                    () = lose_patience(patience) => None,
                };
                match outcome {
                    Some(outcome) => {
                        outcome.expect("granted");
                        counts.granted.fetch_add(1, Ordering::Relaxed);
                    }
                    None => {
                        counts.given_up.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let (granted, given_up) =
        (counts.granted.load(Ordering::Relaxed), counts.given_up.load(Ordering::Relaxed));
    println!("{granted} granted, {given_up} given up");
    assert_eq!(granted + given_up, CALLS);
    assert!(given_up > CALLS / 10, "too few were given up to mean anything: {given_up}");
    // What was given up last may still be on its way.
    for key in 0..KEYS {
        until_free(&client, &key.to_string()).await;
        until_queued(&client, &key.to_string(), 0).await;
    }
    let stats = client.stats();
    assert!(stats.is_idle(), "{stats:?}");
    assert_eq!((stats.sessions, stats.faults), (1, 0), "{stats:?}");
}
