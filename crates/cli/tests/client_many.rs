//! Very many calls on one session, a third of them given up at some moment.

mod client_support;

use client_support::*;
use lockstead_client::{AcquireError, Client};
use lockstead_testkit::rng::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const CALLS: usize = 10_000;
const KEYS: usize = 100;

/// A call that is given up is given up within this time, in which the others are served.
const GIVE_UP_WITHIN_MS: u64 = 400;

/// What a lock on one key protects.
#[derive(Default)]
struct Protected {
    busy: AtomicBool,
    last_token: AtomicU64,
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
    let mine = &protected[key];
    assert!(!mine.busy.swap(true, Ordering::SeqCst), "two hold {key}");
    let before = mine.last_token.swap(ticket.token(), Ordering::SeqCst);
    assert!(before < ticket.token(), "token {} after {before}", ticket.token());
    tokio::task::yield_now().await;
    mine.busy.store(false, Ordering::SeqCst);
    ticket.release().await;
    Ok(())
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
            let given_up_at = (number % 3 == 0).then(|| Duration::from_millis(rng.below(GIVE_UP_WITHIN_MS)));
            let counts = counts.clone();
            tokio::spawn(async move {
                let outcome = match given_up_at {
                    Some(after) => tokio::time::timeout(after, call).await.ok(),
                    None => Some(call.await),
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
    assert!(given_up > CALLS / 30, "too few were given up to mean anything: {given_up}");
    // What was given up last may still be on its way.
    for key in 0..KEYS {
        until_free(&client, &key.to_string()).await;
        until_queued(&client, &key.to_string(), 0).await;
    }
    let stats = client.stats();
    assert!(stats.is_idle(), "{stats:?}");
    assert_eq!((stats.sessions, stats.faults), (1, 0), "{stats:?}");
}
