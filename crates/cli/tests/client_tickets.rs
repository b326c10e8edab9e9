//! The client's tickets and a real server: loss, renewal, release, what outlives a connection.

mod client_support;

use client_support::*;
use lockstead_client::{AcquireError, BusyReason, IndeterminateCause, Lost, ReleaseOutcome};
use lockstead_testkit::proxy::Command;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

#[tokio::test]
async fn p26_the_holder_is_told_before_the_lease_ends_at_the_server() {
    let server = server();
    let witness = client(&server);
    let (proxy, client) = behind_proxy(&server);
    let sent = Instant::now();
    let ticket = take(&client, "k", 5, 3).await;
    swallow_everything(&proxy);
    ticket.keep_alive();
    assert_eq!(ticket.lost().await, Lost::Expired);
    assert!(sent.elapsed() < 3 * SECOND, "{:?}", sent.elapsed());
    assert!(held(&witness, "k").await, "at the server the lease still runs");
    assert!(!ticket.valid());
}

#[tokio::test]
async fn p28_a_panic_under_a_kept_lock_frees_it_for_good() {
    let server = server();
    let client = client(&server);
    let ticket = take(&client, "k", 0, 1).await;
    let first_end = ticket.valid_until();
    ticket.keep_alive();
    let work = tokio::spawn(async move {
        while ticket.valid_until() == first_end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("what the lock protects fails");
    });
    assert!(work.await.unwrap_err().is_panic());
    until_free(&client, "k").await;
    // Somebody else's lock on the same key is left alone by whatever is left of the first.
    let next = take(&client, "k", 0, 1).await;
    assert_eq!(next.lost().await, Lost::Expired);
    until_free(&client, "k").await;
    assert!(client.stats().tickets <= 1);
}

#[tokio::test]
async fn p28_a_renewal_with_a_cap_ends_with_it() {
    let server = server();
    let client = client(&server);
    let start = Instant::now();
    let ticket = take(&client, "k", 0, 1).await;
    ticket.keep_alive_for(3 * SECOND);
    assert_eq!(ticket.lost().await, Lost::Expired);
    let kept = start.elapsed();
    assert!(kept > 2 * SECOND && kept < 3 * SECOND + AT_ONCE, "{kept:?}");
    until_free(&client, "k").await;
    assert!(start.elapsed() < 3 * SECOND + 2 * AT_ONCE, "{:?}", start.elapsed());
}

#[tokio::test]
async fn p30_a_release_whose_answer_is_lost_ends_and_the_next_acquire_is_normal() {
    let server = server();
    let (proxy, client) = behind_proxy(&server);
    let ticket = take(&client, "k", 0, 30).await;
    proxy.apply(Command::DropAnswer(b'R'));
    let start = Instant::now();
    // The first send did it: the second is told `N`, while the lease would still run.
    assert_eq!(ticket.release().await, ReleaseOutcome::Released);
    let took = start.elapsed();
    assert!(took >= SECOND && took < 2 * SECOND + AT_ONCE, "{took:?}");
    let again = take(&client, "k", 0, 30).await;
    assert_eq!(again.release().await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn p30_a_release_after_the_lease_ends_says_so() {
    let server = server();
    let client = client(&server);
    let ticket = take(&client, "k", 0, 1).await;
    let token = ticket.token();
    assert_eq!(ticket.lost().await, Lost::Expired);
    until_free(&client, "k").await;
    let start = Instant::now();
    let outcome = ticket.release().await;
    // The client releases what it has lost; whether the server had it still when that arrived is not for us to say.
    let said =
        matches!(outcome, ReleaseOutcome::Released | ReleaseOutcome::NotHeld | ReleaseOutcome::Unknown);
    assert!(said && start.elapsed() < AT_ONCE, "{outcome:?} after {:?}", start.elapsed());
    assert_eq!(client.release("k", token).await, Ok(ReleaseOutcome::NotHeld));
    assert_eq!(take(&client, "k", 0, 1).await.release().await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn p31_a_grant_that_nobody_took_in_time_is_no_ticket_and_is_given_back() {
    let server = server();
    let client = client(&server);
    let mut call = pin!(client.acquire("k").lease(SECOND).into_future());
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // The program looks away for longer than the lease.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let error = call.await.unwrap_err();
    assert_eq!(error, AcquireError::Indeterminate(IndeterminateCause::TooLate));
    let ticket = take(&client, "k", 0, 1).await;
    assert_eq!(ticket.release().await, ReleaseOutcome::Released);
    assert!(client.stats().is_idle());
}

#[tokio::test]
async fn p31_known_outcomes_are_none_of_indeterminate() {
    let server = server();
    let client = client(&server);
    let ticket = take(&client, "k", 0, 30).await;
    assert_eq!(client.acquire("k").wait(Duration::ZERO).await.unwrap_err(), AcquireError::Timeout);
    let waiting = tokio::spawn(client.acquire("k").into_future());
    until_queued(&client, "k", 1).await;
    server.terminate();
    let drained = waiting.await.expect("no panic").unwrap_err();
    assert_eq!(drained, AcquireError::Busy(BusyReason::Draining));
    assert_eq!(
        ticket.release().await,
        ReleaseOutcome::Released,
        "a holder may release from a server that drains"
    );
}

#[tokio::test]
async fn p34_a_connection_that_is_closed_takes_no_lock_with_it() {
    let server = server();
    let witness = client(&server);
    let (proxy, first) = behind_proxy(&server);
    // Whether the connection breaks under a ticket or its client ends: the lock stays.
    let kept = take(&first, "kept", 0, 30).await;
    proxy.apply(Command::Reset);
    let second = client(&server);
    take(&second, "left", 0, 30).await.leave();
    drop(second);
    tokio::time::sleep(5 * SECOND).await;
    assert!(held(&witness, "kept").await && held(&witness, "left").await);
    assert!(kept.valid());
    assert_eq!(kept.release().await, ReleaseOutcome::Released, "over a new connection");
    assert!(!held(&witness, "kept").await);
}
