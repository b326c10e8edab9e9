//! The whole path once: acquire, extend, release, query, ping, shutdown.

use std::thread;
use std::time::Duration;

use lockstead_client::{
    AcquireError, BusyReason, IndeterminateCause, KeyState, Lost, ReleaseOutcome, UnsentCause, now,
};
use lockstead_proto::{Answer, Busy, Extended, Pong, Released, Request, State, Timeout};

use crate::peer::{Peer, SECOND, grant};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_lock_is_taken_extended_and_released() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect(|request| match request {
            Request::Acquire(acquire) => {
                assert_eq!((acquire.wait_s, acquire.lease_s, acquire.key), (7, 20, "job"));
                acquire.owner
            }
            other => panic!("{other:?}"),
        });
        connection.answer(grant(owner, 41, 10));
        connection.expect(|request| match request {
            Request::Extend(extend) => {
                assert_eq!((extend.token, extend.lease_s, extend.key), (41, 60, "job"))
            }
            other => panic!("{other:?}"),
        });
        connection.answer(Answer::Extended(Extended { token: 41, lease_s: 60 }));
        assert_eq!(connection.expect_release(), 41);
        connection.answer(Answer::Released(Released { token: 41 }));
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    });
    let ticket = client.acquire("job").wait(7 * SECOND).lease(20 * SECOND).await.unwrap();
    assert_eq!((ticket.key(), ticket.token(), ticket.lease()), ("job", 41, 10 * SECOND));
    assert!(ticket.valid());
    assert!(ticket.valid_until() < now() + 10 * SECOND && ticket.valid_for() > 9 * SECOND);
    let extended = ticket.extend(60 * SECOND).await.unwrap();
    assert_eq!(extended.lease, 60 * SECOND);
    assert_eq!(ticket.valid_until(), extended.valid_until);
    let lost = ticket.lost();
    assert_eq!(ticket.release().await, ReleaseOutcome::Released);
    assert_eq!(lost.await, Lost::Ended);
    client.shutdown().await;
    script.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_other_answers_of_an_acquire() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(Answer::Timeout(Timeout { owner }));
        let owner = connection.expect_acquire();
        connection.answer(Answer::Busy(Busy { owner, reason: BusyReason::KeysFull }));
        connection.expect_acquire();
    });
    assert_eq!(client.acquire("k").await.unwrap_err(), AcquireError::Timeout);
    assert_eq!(client.acquire("k").await.unwrap_err(), AcquireError::Busy(BusyReason::KeysFull));
    assert_eq!(
        client.acquire("k").await.unwrap_err(),
        AcquireError::Indeterminate(IndeterminateCause::SessionBroke)
    );
    script.join().unwrap();
    client.shutdown().await;
    assert_eq!(client.acquire("k").await.unwrap_err(), AcquireError::Unsent(UnsentCause::ShutDown));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn query_ping_and_free_release() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let id = connection.expect(|request| match request {
            Request::Query(query) => query.id,
            other => panic!("{other:?}"),
        });
        connection.answer(Answer::State(State {
            id,
            state: KeyState::Held,
            remaining_ms: 1_500,
            waiters: 3,
        }));
        let id = connection.expect(|request| match request {
            Request::Ping(ping) => ping.id,
            other => panic!("{other:?}"),
        });
        connection.answer(Answer::Pong(Pong { id }));
        assert_eq!(connection.expect_release(), 9);
        connection.answer(Answer::NotHeld(lockstead_proto::NotHeld { token: 9 }));
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    });
    let info = client.query("k").await.unwrap();
    assert_eq!((info.state, info.remaining, info.waiters), (KeyState::Held, Duration::from_millis(1_500), 3));
    assert!(client.ping().await.unwrap() < SECOND);
    assert_eq!(client.release("k", 9).await, Ok(ReleaseOutcome::NotHeld));
    drop(client);
    script.join().unwrap();
}

#[test]
fn a_program_that_ends_gives_back_what_it_drops() {
    let peer = Peer::new();
    let address = peer.address.to_string();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 30));
        assert_eq!(connection.expect_release(), 5);
        connection.answer(Answer::Released(Released { token: 5 }));
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = lockstead_client::Client::builder().server(&address).unwrap().connect().unwrap();
        let ticket = client.acquire("k").await.unwrap();
        drop(ticket);
    });
    drop(runtime);
    script.join().unwrap();
}

/// What a program spawns, shares and keeps must be fit for it; this fails to compile if it is not.
#[tokio::test]
async fn calls_can_be_spawned_and_tickets_shared() {
    fn spawned<F: Future + Send + 'static>(future: F) -> F {
        future
    }
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 30));
        assert_eq!(connection.expect_release(), 5);
        connection.answer(Answer::Released(Released { token: 5 }));
    });
    shared(&client);
    let ticket = spawned(client.acquire("k").into_future()).await.unwrap();
    shared(&ticket);
    drop(spawned(ticket.lost()));
    let extend_in_a_task = spawned(async move {
        drop(ticket.extend(SECOND));
        ticket.release().await
    });
    assert_eq!(extend_in_a_task.await, ReleaseOutcome::Released);
    tokio::task::spawn_blocking(|| script.join().unwrap()).await.unwrap();
}

/// Nothing can be sent on what a mute server has left, so nothing is waited for.
#[test]
fn a_runtime_that_ends_before_a_mute_server_answers_is_not_held_up() {
    let peer = Peer::new();
    let builder = peer.builder();
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 1));
        // From here on the peer is mute, but the connection stays open.
        is_over.recv().unwrap_err();
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ticket = runtime.block_on(async {
        let client = builder.connect().unwrap();
        let ticket = client.acquire("k").lease(SECOND).await.unwrap();
        ticket.keep_alive();
        assert_eq!(ticket.lost().await, Lost::Expired);
        ticket
    });
    let start = std::time::Instant::now();
    drop(runtime);
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    drop((ticket, over));
    script.join().unwrap();
}
