//! The blocking shell.

use std::thread;
use std::time::{Duration, Instant};

use lockstead_client::blocking::Client;
use lockstead_client::{
    AcquireError, BuildError, ExtendError, KeyState, Lost, ReleaseOutcome, Stats, UnsentCause, UsageError,
};
use lockstead_proto::{Answer, Extended, NotHeld, Pong, Released, Request, State, Timeout};

use crate::peer::{Peer, SECOND, grant};

#[test]
fn the_whole_path_without_a_runtime() {
    let peer = Peer::new();
    let client = peer.blocking_client();
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
            Request::Extend(extend) => assert_eq!((extend.token, extend.lease_s), (41, 60)),
            other => panic!("{other:?}"),
        });
        connection.answer(Answer::Extended(Extended { token: 41, lease_s: 60 }));
        assert_eq!(connection.expect_release(), 41);
        connection.answer(Answer::Released(Released { token: 41 }));
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    });
    let ticket = client.acquire("job").wait(7 * SECOND).lease(20 * SECOND).call().unwrap();
    assert_eq!((ticket.key(), ticket.token(), ticket.lease()), ("job", 41, 10 * SECOND));
    assert!(ticket.valid() && ticket.lost_reason().is_none() && ticket.waited().is_zero());
    assert!(ticket.valid_for() > 9 * SECOND);
    let extended = ticket.extend(60 * SECOND).unwrap();
    assert_eq!(ticket.valid_until(), extended.valid_until);
    let lost = ticket.lost();
    let short = Duration::from_millis(20);
    let start = Instant::now();
    assert_eq!((lost.reason(), lost.wait_for(short)), (None, None));
    assert!(start.elapsed() >= short);
    let waiting = thread::spawn({
        let lost = lost.clone();
        move || lost.wait()
    });
    assert_eq!(ticket.release(), ReleaseOutcome::Released);
    assert_eq!((waiting.join().unwrap(), lost.wait_for(SECOND)), (Lost::Ended, Some(Lost::Ended)));
    assert_eq!(lost.reason(), Some(Lost::Ended));
    drop(lost);
    let stats = client.stats();
    assert!(stats.is_idle() && stats.sessions == 1, "{stats:?}");
    client.shutdown();
    script.join().unwrap();
    assert_eq!(client.acquire("job").call().unwrap_err(), AcquireError::Unsent(UnsentCause::ShutDown));
    assert_eq!(client.stats(), Stats::default());
}

#[test]
fn the_other_requests_without_a_runtime() {
    let peer = Peer::new();
    let client = peer.blocking_client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let id = connection.expect(|request| match request {
            Request::Query(query) => query.id,
            other => panic!("{other:?}"),
        });
        connection.answer(Answer::State(State { id, state: KeyState::Free, remaining_ms: 0, waiters: 0 }));
        let id = connection.expect(|request| match request {
            Request::Ping(ping) => ping.id,
            other => panic!("{other:?}"),
        });
        connection.answer(Answer::Pong(Pong { id }));
        assert_eq!(connection.expect_release(), 9);
        connection.answer(Answer::NotHeld(NotHeld { token: 9 }));
        connection.expect(|request| match request {
            Request::Extend(extend) => assert_eq!(extend.token, 9),
            other => panic!("{other:?}"),
        });
        connection.answer(Answer::NotHeld(NotHeld { token: 9 }));
        let owner = connection.expect_acquire();
        connection.answer(Answer::Timeout(Timeout { owner }));
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    });
    assert_eq!(client.query("k").unwrap().state, KeyState::Free);
    assert!(client.ping().unwrap() < SECOND);
    assert_eq!(client.release("k", 9), Ok(ReleaseOutcome::NotHeld));
    assert_eq!(client.extend("k", 9, SECOND), Err(ExtendError::Lost(Lost::NotHeld)));
    assert_eq!(client.acquire("k").call().unwrap_err(), AcquireError::Timeout);
    let wrong = client.acquire("k").wait(256 * SECOND).call().unwrap_err();
    assert_eq!(wrong, AcquireError::Usage(UsageError::WaitTooLong));
    drop(client);
    script.join().unwrap();
}

#[test]
fn a_thread_that_works_under_a_lock_hears_of_the_loss_in_time() {
    let peer = Peer::new();
    let client = peer.blocking_client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 1));
        // From here on the peer is mute, but the connection stays open.
        while connection.next(|_| ()).is_some() {}
    });
    let start = Instant::now();
    let ticket = client.acquire("k").lease(SECOND).call().unwrap();
    ticket.keep_alive();
    assert_eq!(ticket.lost().wait(), Lost::Expired);
    assert!(start.elapsed() < SECOND, "before the lease ends: {:?}", start.elapsed());
    drop((ticket, client));
    script.join().unwrap();
}

#[test]
fn threads_share_one_connection() {
    let peer = Peer::new();
    let client = peer.blocking_client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        // All of them are open at once before the first is answered.
        let mut owners: Vec<(u64, u64)> = (0..16)
            .map(|_| {
                connection.expect(|request| match request {
                    Request::Acquire(acquire) => (acquire.owner, acquire.key.parse().unwrap()),
                    other => panic!("{other:?}"),
                })
            })
            .collect();
        owners.reverse();
        for (owner, number) in owners {
            connection.answer(grant(owner, number + 100, 30));
        }
        for _ in 0..16 {
            let token = connection.expect_release();
            connection.answer(Answer::Released(Released { token }));
        }
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    });
    thread::scope(|scope| {
        for number in 0..16_u64 {
            let client = client.clone();
            scope.spawn(move || {
                let ticket = client.acquire(number.to_string()).call().unwrap();
                assert_eq!(ticket.token(), number + 100);
            });
        }
    });
    drop(client);
    script.join().unwrap();
}

#[tokio::test]
async fn inside_of_a_runtime_it_blocks_the_thread_and_does_not_panic() {
    let peer = Peer::new();
    let client = peer.blocking_client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 30));
        assert_eq!(connection.expect_release(), 5);
        connection.answer(Answer::Released(Released { token: 5 }));
        assert!(connection.next(|request| panic!("{request:?}")).is_none());
    });
    // Runs when this task lets it, which it does not do before the end.
    let other = tokio::spawn(async { Instant::now() });
    let ticket = client.acquire("k").call().unwrap();
    assert_eq!(ticket.release(), ReleaseOutcome::Released);
    client.shutdown();
    drop(client);
    let done = Instant::now();
    assert!(other.await.unwrap() >= done, "the only thread of the runtime was held up");
    script.join().unwrap();
}

#[test]
fn a_lease_within_the_margin_is_refused_at_once() {
    let client = Client::builder().margin(SECOND).connect().unwrap();
    let error = client.acquire("k").lease(SECOND).call().unwrap_err();
    let taken_off = SECOND + Duration::from_millis(1);
    assert_eq!(error, AcquireError::Usage(UsageError::LeaseWithinMargin { lease: SECOND, taken_off }));
    assert_eq!(client.stats(), Stats::default(), "nobody was looked for");
}

#[test]
fn a_wrong_setting_is_said_at_once() {
    let builder = || Client::builder();
    assert_eq!(builder().name("two words").connect().unwrap_err(), BuildError::Name);
    assert_eq!(builder().auth_token("").connect().unwrap_err(), BuildError::AuthToken);
    assert_eq!(builder().answer_allowance(SECOND).connect().unwrap_err(), BuildError::AnswerAllowance);
    assert_eq!(builder().margin(Duration::from_millis(19)).connect().unwrap_err(), BuildError::Margin);
    assert_eq!(builder().margin_percent(91).connect().unwrap_err(), BuildError::Margin);
}
