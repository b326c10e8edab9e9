//! A suspend of the machine, as the client sees it: the clock jumps, and the runtime's timers do not notice
//! (docs/client-contract.md, rules 1 and 14).

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lockstead_proto::{Answer, Released};

use crate::clock::{LOOK, shift};
use crate::{AcquireError, IndeterminateCause, Lost};
use peer::{Peer, SECOND, grant};

#[path = "../tests/it/peer.rs"]
#[allow(dead_code)]
mod peer;

/// A busy machine may be so much later.
const SLACK: Duration = Duration::from_millis(500);

/// Grants a lock for 100 s, and takes its release.
fn one_lock(peer: Peer) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 41, 100));
        assert_eq!(connection.expect_release(), 41);
        connection.answer(Answer::Released(Released { token: 41 }));
    })
}

#[tokio::test]
async fn rule14_the_first_use_after_a_suspend_sees_that_the_lease_is_over() {
    let peer = Peer::new();
    let client = peer.client();
    let script = one_lock(peer);
    let ticket = client.acquire("k").lease(100 * SECOND).await.unwrap();
    shift::jump(80 * SECOND);
    assert!(ticket.valid() && ticket.valid_for() < 15 * SECOND, "{:?}", ticket.valid_for());
    shift::jump(20 * SECOND);
    assert!(!ticket.valid() && ticket.valid_for().is_zero());
    assert_eq!(ticket.lost_reason(), Some(Lost::Expired));
    drop(ticket);
    tokio::task::spawn_blocking(|| script.join().unwrap()).await.unwrap();
}

#[tokio::test]
async fn rule14_after_a_suspend_the_loss_is_told_without_any_use() {
    let peer = Peer::new();
    let client = peer.client();
    let script = one_lock(peer);
    let ticket = client.acquire("k").lease(100 * SECOND).await.unwrap();
    let lost = ticket.lost();
    // What wakes a task is polled by the driver's own look at the clock: the jump comes when both are asleep.
    let told = tokio::spawn(lost);
    tokio::task::yield_now().await;
    shift::jump(100 * SECOND);
    let start = Instant::now();
    assert_eq!(told.await.unwrap(), Lost::Expired);
    assert!(start.elapsed() < LOOK + SLACK, "{:?}", start.elapsed());
    tokio::task::spawn_blocking(|| script.join().unwrap()).await.unwrap();
}

#[tokio::test]
async fn rule01_a_suspend_counts_as_waiting() {
    let peer = Peer::new();
    let client = peer.client();
    let (sent, is_sent) = tokio::sync::oneshot::channel();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        connection.expect_acquire();
        sent.send(()).unwrap();
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    });
    let call = tokio::spawn(client.acquire("k").wait(200 * SECOND).into_future());
    is_sent.await.unwrap();
    shift::jump(203 * SECOND);
    let start = Instant::now();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error, AcquireError::Indeterminate(IndeterminateCause::NoAnswer));
    assert!(start.elapsed() < LOOK + SLACK, "{:?}", start.elapsed());
    tokio::task::spawn_blocking(|| script.join().unwrap()).await.unwrap();
}
