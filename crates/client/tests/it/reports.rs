//! What went wrong elsewhere, where only a scripted peer sees each frame (docs/field-reports.md).

use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use lockstead_client::{
    AcquireError, BusyReason, ErrorCode, IndeterminateCause, Lost, ReleaseOutcome, UnsentCause,
};
use lockstead_proto::{Answer, ErrorAnswer, Extended, Released, Request};

use crate::peer::{Connection, Peer, SECOND, grant};

fn expect_extend(connection: &mut Connection, token: u64) {
    connection.expect(|request| match request {
        Request::Extend(extend) => assert_eq!(extend.token, token),
        other => panic!("{other:?} instead of an extend"),
    });
}

/// Two renewals of a lease of one second would be due in this time.
const TWO_PERIODS: Duration = Duration::from_millis(700);

fn expect_silence(connection: &mut Connection) {
    connection.stream.set_read_timeout(Some(TWO_PERIODS)).unwrap();
    let mut bytes = [0; 64];
    let error = std::io::Read::read(&mut connection.stream, &mut bytes).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{bytes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p19_an_error_in_a_pipeline_shifts_no_answer() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let mut owners = [0; 3];
        for _ in 0..3 {
            connection.expect(|request| match request {
                Request::Acquire(acquire) => owners[acquire.key.parse::<usize>().unwrap()] = acquire.owner,
                other => panic!("{other:?}"),
            });
        }
        let code = ErrorCode::BadKey;
        connection.answer(grant(owners[0], 10, 30));
        connection.answer(Answer::Error(ErrorAnswer { code, id: owners[1], text: "no" }));
        connection.answer(grant(owners[2], 12, 30));
        while connection.next(|_| ()).is_some() {}
    });
    let (first, second, third) = tokio::join!(
        client.acquire("0").into_future(),
        client.acquire("1").into_future(),
        client.acquire("2").into_future()
    );
    assert_eq!(first.unwrap().token(), 10);
    let rejected = AcquireError::Rejected { code: ErrorCode::BadKey, message: "no".to_owned() };
    assert_eq!(second.unwrap_err(), rejected);
    assert_eq!(third.unwrap().token(), 12);
    client.shutdown().await;
    script.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p28_no_renewal_after_a_release_that_met_one_under_way() {
    let peer = Peer::new();
    let client = peer.client();
    let (met, is_met) = tokio::sync::oneshot::channel();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 1));
        expect_extend(&mut connection, 5);
        met.send(()).unwrap();
        assert_eq!(connection.expect_release(), 5);
        connection.answer(Answer::Extended(Extended { token: 5, lease_s: 1 }));
        connection.answer(Answer::Released(Released { token: 5 }));
        expect_silence(&mut connection);
    });
    let ticket = client.acquire("k").lease(SECOND).await.unwrap();
    ticket.keep_alive();
    is_met.await.unwrap();
    assert_eq!(ticket.release().await, ReleaseOutcome::Released);
    tokio::task::spawn_blocking(|| script.join().unwrap()).await.unwrap();
    assert!(client.stats().is_idle());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p28_a_panic_releases_and_ends_the_renewal() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 1));
        expect_extend(&mut connection, 5);
        connection.answer(Answer::Extended(Extended { token: 5, lease_s: 1 }));
        assert_eq!(connection.expect_release(), 5);
        connection.answer(Answer::Released(Released { token: 5 }));
        expect_silence(&mut connection);
    });
    let ticket = client.acquire("k").lease(SECOND).await.unwrap();
    ticket.keep_alive();
    let first_end = ticket.valid_until();
    let work = tokio::spawn(async move {
        while ticket.valid_until() == first_end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("what the lock protects fails");
    });
    assert!(work.await.unwrap_err().is_panic());
    tokio::task::spawn_blocking(|| script.join().unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p28_a_cap_ends_the_renewal() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 1));
        let mut extends = 0;
        loop {
            let extend = connection.expect(|request| match request {
                Request::Extend(extend) => Some(extend.lease_s),
                Request::Release(_) => None,
                other => panic!("{other:?}"),
            });
            match extend {
                Some(lease_s) => connection.answer(Answer::Extended(Extended { token: 5, lease_s })),
                None => break,
            }
            extends += 1;
        }
        connection.answer(Answer::Released(Released { token: 5 }));
        expect_silence(&mut connection);
        extends
    });
    let ticket = client.acquire("k").lease(SECOND).await.unwrap();
    let before = lockstead_client::now();
    ticket.keep_alive_for(2 * SECOND);
    let after = lockstead_client::now();
    assert_eq!(ticket.lost().await, Lost::Expired);
    // At the cap or within the second after it, whatever the threads of this test do meanwhile.
    let end = ticket.valid_until();
    assert!(end >= before + 2 * SECOND && end < after + 3 * SECOND, "{end:?}, capped from {before:?}");
    assert!(lockstead_client::now() >= end, "lost then, and not before");
    let extends = tokio::task::spawn_blocking(|| script.join().unwrap()).await.unwrap();
    assert!((3..=7).contains(&extends), "{extends}");
}

/// A program that asks for each outcome cannot take one for another; an outcome more or less fails to compile.
fn may_enter(outcome: &Result<lockstead_client::Ticket, AcquireError>) -> Result<bool, &'static str> {
    match outcome {
        Ok(ticket) => Ok(ticket.valid()),
        Err(AcquireError::Timeout | AcquireError::Busy(_)) => Ok(false),
        Err(AcquireError::Unsent(_) | AcquireError::Rejected { .. } | AcquireError::Usage(_)) => Ok(false),
        Err(AcquireError::Indeterminate(_)) => Err("nobody knows"),
    }
}

#[tokio::test]
async fn p31_not_knowing_is_an_outcome_of_its_own_and_a_late_grant_is_released_once() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 1));
        assert_eq!(connection.expect_release(), 5);
        connection.answer(Answer::Released(Released { token: 5 }));
        expect_silence(&mut connection);
    });
    let mut call = pin!(client.acquire("k").lease(SECOND).into_future());
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // The program looks away until the server's lease has ended.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let outcome = call.await;
    assert_eq!(may_enter(&outcome), Err("nobody knows"));
    assert_eq!(outcome.unwrap_err(), AcquireError::Indeterminate(IndeterminateCause::TooLate));
    tokio::task::spawn_blocking(|| script.join().unwrap()).await.unwrap();
    assert!(client.stats().is_idle());
    for known in [AcquireError::Timeout, AcquireError::Busy(BusyReason::Draining), unsent()] {
        assert_eq!(may_enter(&Err(known)), Ok(false));
    }
}

fn unsent() -> AcquireError {
    AcquireError::Unsent(UnsentCause::BudgetEnded { last: None })
}

/// A task that looks at a ticket for a while leaves nothing behind.
#[tokio::test]
async fn who_stops_waiting_for_a_loss_is_forgotten() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 30));
        while connection.next(|_| ()).is_some() {}
    });
    let ticket = client.acquire("k").await.unwrap();
    let before = client.stats();
    for _ in 0..100 {
        let lost = ticket.lost();
        let work = tokio::spawn(async move {
            tokio::select! {
                lost = lost => panic!("{lost:?}"),
                () = tokio::task::yield_now() => {}
            }
        });
        work.await.unwrap();
    }
    assert_eq!(client.stats(), before);
    assert_eq!((before.tickets, before.waiting), (1, 0));
    ticket.leave();
    client.shutdown().await;
    script.join().unwrap();
}
