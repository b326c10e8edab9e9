//! The client's sessions with a real server: pipelines, broken connections, absent servers, Unix-domain sockets.

mod client_support;

use client_support::*;
use lockstead_client::{
    AcquireError, IndeterminateCause, KeyError, KeyState, ReleaseOutcome, UnsentCause, UsageError, blocking,
};
use lockstead_testkit::proxy::Command;
use lockstead_testkit::{Builder, Server};
use std::time::{Duration, Instant};

#[tokio::test]
async fn p18_a_wait_holds_up_no_release_behind_it() {
    let server = server();
    let client = client(&server);
    let first = take(&client, "k", 0, 60).await;
    let second = tokio::spawn(client.acquire("k").wait(10 * SECOND).lease(5 * SECOND).into_future());
    until_queued(&client, "k", 1).await;
    let start = Instant::now();
    let first_token = first.token();
    assert_eq!(first.release().await, ReleaseOutcome::Released);
    let second = second.await.expect("no panic").expect("granted");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert!(second.token() > first_token);
    assert_eq!(client.stats().sessions, 1);
}

#[tokio::test]
async fn p19_an_over_long_key_between_others_shifts_nothing() {
    let server = server();
    let client = client(&server);
    let long = "k".repeat(1_025);
    let (before, wrong, after) = tokio::join!(
        client.acquire("before").into_future(),
        client.acquire(long).into_future(),
        client.acquire("after").into_future(),
    );
    let (before, after) = (before.expect("granted"), after.expect("granted"));
    assert_eq!(wrong.unwrap_err(), AcquireError::Usage(UsageError::Key(KeyError::TooLong(1_025))));
    assert_eq!((before.key(), after.key()), ("before", "after"));
    assert_eq!(client.release("before", after.token()).await, Ok(ReleaseOutcome::NotHeld));
    assert_eq!(before.release().await, ReleaseOutcome::Released);
    assert_eq!(after.release().await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn p20_a_new_session_answers_only_its_own_calls() {
    let server = server();
    let holder = client(&server);
    let held = take(&holder, "busy", 0, 60).await;
    let (proxy, client) = behind_proxy(&server);
    let old: Vec<_> = (0..5).map(|_| tokio::spawn(client.acquire("busy").into_future())).collect();
    until_queued(&holder, "busy", 5).await;
    proxy.apply(Command::Reset);
    for call in old {
        let error = call.await.expect("no panic").unwrap_err();
        assert_eq!(error, AcquireError::Indeterminate(IndeterminateCause::SessionBroke));
    }
    until_queued(&holder, "busy", 0).await;
    let new: Vec<_> =
        (0..5).map(|number| tokio::spawn(client.acquire(format!("new{number}")).into_future())).collect();
    for (number, call) in new.into_iter().enumerate() {
        let ticket = call.await.expect("no panic").expect("granted");
        assert_eq!(ticket.key(), format!("new{number}"));
        let outcome = holder.release(ticket.key(), ticket.token()).await;
        assert_eq!(outcome, Ok(ReleaseOutcome::Released), "the token is the one of this key");
        ticket.leave();
    }
    assert_eq!(held.release().await, ReleaseOutcome::Released);
    let stats = client.stats();
    assert!(stats.is_idle() && stats.faults == 0, "{stats:?}");
}

#[tokio::test]
async fn p32_an_absent_server_is_said_in_time_and_found_when_it_comes() {
    let builder = Builder::new(PROGRAM);
    let address = format!("unix:{}", builder.dir().join("socket").display());
    let client = client_at(&address);
    let start = Instant::now();
    let error = client.acquire("k").wait(2 * SECOND).lease(5 * SECOND).await.unwrap_err();
    let took = start.elapsed();
    let last = format!("{address}: No such file or directory (os error {})", libc::ENOENT);
    assert_eq!(error, AcquireError::Unsent(UnsentCause::BudgetEnded { last: Some(last.into()) }));
    assert!(took >= 2 * SECOND && took < 2 * SECOND + AT_ONCE, "{took:?}");
    let mut server = builder.listen(&address).start();
    let ticket = take(&client, "k", 2, 5).await;
    assert_eq!(ticket.release().await, ReleaseOutcome::Released);
    // It goes, and nothing that was granted by it is believed.
    server.kill();
    let error = client.acquire("k").wait(SECOND).lease(5 * SECOND).await.unwrap_err();
    let known = matches!(error, AcquireError::Unsent(_) | AcquireError::Indeterminate(_));
    assert!(known, "{error:?}");
}

#[tokio::test]
async fn a_call_that_is_open_when_the_server_is_killed_is_indeterminate_at_once() {
    let mut server = server();
    let client = client(&server);
    let ticket = take(&client, "k", 0, 60).await;
    let call = tokio::spawn(client.acquire("k").wait(200 * SECOND).into_future());
    until_queued(&client, "k", 1).await;
    let start = Instant::now();
    server.kill();
    let error = call.await.expect("no panic").unwrap_err();
    assert_eq!(error, AcquireError::Indeterminate(IndeterminateCause::SessionBroke));
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert!(ticket.valid(), "a lock is not tied to a connection");
    ticket.leave();
}

#[tokio::test]
async fn everything_works_over_a_unix_domain_socket() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let [tcp, unix] = server.addresses() else {
        panic!("it listens twice");
    };
    let (over_tcp, over_unix) = (client_at(&tcp.to_string()), client_at(&unix.to_string()));
    let ticket = take(&over_unix, "k", 0, 30).await;
    let waiting = tokio::spawn(over_tcp.acquire("k").into_future());
    until_queued(&over_unix, "k", 1).await;
    assert_eq!(ticket.extend(60 * SECOND).await.expect("extended").lease, 60 * SECOND);
    assert_eq!(over_tcp.query("k").await.expect("answered").state, KeyState::Held);
    assert!(over_unix.ping().await.expect("a pong") < SECOND);
    assert_eq!(ticket.release().await, ReleaseOutcome::Released);
    let ticket = waiting.await.expect("no panic").expect("granted");
    ticket.keep_alive();
    drop(ticket);
    until_free(&over_unix, "k").await;
    over_unix.shutdown().await;
    assert_eq!(over_unix.stats().sessions, 0);
}

#[test]
fn the_blocking_client_and_a_real_server() {
    let server = Server::start_on_both(PROGRAM, &[]);
    for address in server.addresses() {
        let builder = blocking::Client::builder().server(&address.to_string()).expect("an address");
        let client = builder.connect().expect("the options are good");
        let ticket = client.acquire("k").wait(Duration::ZERO).lease(2 * SECOND).call().expect("granted");
        let busy = client.acquire("k").wait(Duration::ZERO).call().unwrap_err();
        assert_eq!(busy, AcquireError::Timeout);
        ticket.keep_alive();
        assert_eq!(ticket.lost().wait_for(3 * SECOND), None, "it is kept alive");
        assert_eq!(ticket.release(), ReleaseOutcome::Released);
        assert_eq!(client.query("k").expect("answered").state, KeyState::Free);
        assert!(client.stats().is_idle());
    }
}
