//! What goes wrong between a client and its server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use lockstead_client::{AcquireError, Client, IndeterminateCause, Lost, UnsentCause};
use lockstead_proto::{Acquired, Answer, Extended, Released, Request, Timeout};

use crate::peer::{Peer, SECOND, grant};

const LATE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p26_the_holder_is_told_in_time_when_the_server_is_gone() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(grant(owner, 5, 1));
        // From here on the peer is mute, but the connection stays open.
        while connection.next(|_| ()).is_some() {}
    });
    let start = Instant::now();
    let ticket = client.acquire("k").lease(SECOND).await.unwrap();
    ticket.keep_alive();
    assert!(ticket.valid());
    assert_eq!(ticket.lost().await, Lost::Expired);
    assert!(start.elapsed() < SECOND, "before the lease ends: {:?}", start.elapsed());
    assert!(!ticket.valid() && ticket.valid_for().is_zero());
    drop((ticket, client));
    script.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p29_a_lost_answer_is_indeterminate_and_the_next_acquire_is_not_confused() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut first = peer.welcome();
        let orphan = first.expect_acquire();
        drop(first);
        let mut second = peer.welcome();
        let owner = second.expect_acquire();
        assert_ne!(orphan, owner);
        second.answer(grant(orphan, 5, 30));
        second.answer(grant(owner, 6, 30));
        assert_eq!(second.expect_release(), 6);
        second.answer(Answer::Released(Released { token: 6 }));
    });
    let lost = client.acquire("k").await.unwrap_err();
    assert_eq!(lost, AcquireError::Indeterminate(IndeterminateCause::SessionBroke));
    let ticket = client.acquire("k").await.unwrap();
    assert_eq!(ticket.token(), 6);
    ticket.release().await;
    script.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p32_no_server_is_said_in_time_and_a_server_that_comes_back_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = Client::builder().server(&address.to_string()).unwrap().connect().unwrap();
    let start = Instant::now();
    let error = client.acquire("k").wait(SECOND).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "nothing was sent: no server answered in time; {address}: Connection refused (os error {})",
            libc::ECONNREFUSED
        )
    );
    assert!(start.elapsed() >= SECOND && start.elapsed() < SECOND + LATE, "{:?}", start.elapsed());
    let peer = Peer::at(address);
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        connection.answer(Answer::Timeout(Timeout { owner }));
    });
    assert_eq!(client.acquire("k").wait(2 * SECOND).await.unwrap_err(), AcquireError::Timeout);
    script.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rule16_a_server_that_takes_connections_and_closes_them_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test's process.
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let hello = connection.read(&mut [0; 1_024]).unwrap();
            assert!(hello > 0);
        }
    });
    let client = Client::builder().server(&address.to_string()).unwrap().connect().unwrap();
    let error = client.acquire("k").wait(SECOND).await.unwrap_err();
    let last = Some(format!("{address}: the connection was closed").into());
    assert_eq!(error, AcquireError::Unsent(UnsentCause::BudgetEnded { last }));
    let error = client.ping().await.unwrap_err();
    assert!(error.to_string().ends_with(": the connection was closed"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rule07_a_mute_server_gets_a_reset_at_the_deadline() {
    let peer = Peer::new();
    let client = peer.builder().answer_allowance(Duration::from_millis(1_100)).connect().unwrap();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        connection.expect_acquire();
        let error = connection.stream.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    });
    let start = Instant::now();
    let error = client.acquire("k").wait(SECOND).await.unwrap_err();
    assert_eq!(error, AcquireError::Indeterminate(IndeterminateCause::NoAnswer));
    let late = start.elapsed().saturating_sub(Duration::from_millis(2_100));
    assert!(late < LATE, "{late:?}");
    script.join().unwrap();
}

/// What is looked at then is what had come by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rule07_a_server_that_never_stops_talking_holds_no_deadline_up() {
    let peer = Peer::new();
    let client = peer.builder().answer_allowance(Duration::from_millis(1_100)).connect().unwrap();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        let mut strays = Vec::new();
        while strays.len() < 1 << 20 {
            Answer::Timeout(Timeout { owner: owner ^ 1 }).encode(&mut strays);
        }
        while connection.stream.write_all(&strays).is_ok() {}
    });
    let start = Instant::now();
    let error = client.acquire("k").wait(SECOND).await.unwrap_err();
    assert_eq!(error, AcquireError::Indeterminate(IndeterminateCause::NoAnswer));
    let late = start.elapsed().saturating_sub(Duration::from_millis(2_100));
    assert!(late < LATE, "{late:?}");
    script.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rule10_a_dropped_future_cancels_and_its_grant_is_given_back() {
    let peer = Peer::new();
    let client = peer.client();
    let (sent, is_sent) = tokio::sync::oneshot::channel();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        let owner = connection.expect_acquire();
        sent.send(()).unwrap();
        connection.expect(|request| match request {
            Request::Cancel(cancel) => assert_eq!((cancel.owner, cancel.key), (owner, "k")),
            other => panic!("{other:?}"),
        });
        connection.answer(grant(owner, 5, 30));
        assert_eq!(connection.expect_release(), 5);
        connection.answer(Answer::Released(Released { token: 5 }));
    });
    tokio::select! {
        outcome = client.acquire("k") => panic!("{outcome:?}"),
        _ = is_sent => {}
    }
    tokio::task::spawn_blocking(|| script.join().unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p27_keep_alive_survives_a_session_that_stops_answering() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut first = peer.welcome();
        let owner = first.expect_acquire();
        first.answer(grant(owner, 5, 2));
        let extended = |request: Request<'_>| match request {
            Request::Extend(extend) => assert_eq!((extend.token, extend.lease_s), (5, 2)),
            other => panic!("{other:?}"),
        };
        first.expect(extended);
        let mut second = peer.welcome();
        for _ in 0..4 {
            second.expect(extended);
            second.answer(Answer::Extended(Extended { token: 5, lease_s: 2 }));
        }
        assert_eq!(second.expect_release(), 5);
        second.answer(Answer::Released(Released { token: 5 }));
    });
    let ticket = client.acquire("k").lease(2 * SECOND).await.unwrap();
    ticket.keep_alive();
    let lost = ticket.lost();
    tokio::select! {
        lost = lost => panic!("{lost:?}"),
        () = tokio::time::sleep(Duration::from_millis(3_500)) => {}
    }
    assert!(ticket.valid());
    ticket.release().await;
    script.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn answers_cut_at_every_byte_are_understood() {
    let peer = Peer::new();
    let client = peer.client();
    let script = thread::spawn(move || {
        let mut connection = peer.welcome();
        for token in 1..=22 {
            let owner = connection.expect_acquire();
            let mut bytes = Vec::new();
            Acquired { owner, token, lease_s: 10, waited_ms: 10 }.encode(&mut bytes);
            let (front, back) = bytes.split_at(token as usize);
            connection.stream.write_all(front).unwrap();
            thread::sleep(Duration::from_millis(2));
            connection.stream.write_all(back).unwrap();
        }
        while connection.next(|_| ()).is_some() {}
    });
    for token in 1..=22 {
        let ticket = client.acquire("k").await.unwrap();
        assert_eq!(ticket.token(), token);
        ticket.leave();
    }
    client.shutdown().await;
    script.join().unwrap();
}
