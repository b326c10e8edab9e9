//! The conditions of the whole server that change the matrix of docs/protocol.md: *recovering* and
//! *draining*.

use lockstead_testkit::{Answer, Ends, Raw, Server, frame};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);
const DRAINING: u8 = 5;

// ---- Recovering ----

#[test]
fn recovering_grants_nobody_and_answers_the_rest_as_for_a_free_key() {
    let server = Server::start_on_both(PROGRAM, &["--recovery-pause", "60s"]);
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        session.send(&frame::acquire(0, 5, 10, "k"));
        session.expect_bytes(b"T\0\0\0\0\0\0\0\x0a\n", "a try while recovering");
        let asked = Instant::now();
        let (state, remaining_ms, waiters) = session.query("k");
        let remaining = Duration::from_millis(remaining_ms.into());
        assert_eq!((state, waiters), (2, 0));
        let (earliest, latest) = server.started();
        assert!(remaining + earliest.elapsed() >= 60 * SECOND, "{remaining:?} until recovery ends");
        let most = (latest + 60 * SECOND).saturating_duration_since(asked) + Duration::from_millis(3);
        assert!(remaining <= most, "{remaining:?} until recovery ends, more than {most:?}");
        for token in [0, 1, u64::MAX] {
            session.send(&[frame::release(token, "k"), frame::extend(5, token, "k")].concat());
            session.expect(Answer::NotHeld { token }, "a release while recovering");
            session.expect(Answer::NotHeld { token }, "an extend while recovering");
        }
        session.send(&frame::acquire(9, 0, 1, "k"));
        session.expect_error(3, 1, "a lease of 0 while recovering");
        session.send(&frame::cancel(10, "k"));
        session.ping();
        assert_eq!((session.query("k").0, session.query("k").2), (2, 0));
    }
}

#[test]
fn recovering_queues_on_free_keys_and_serves_each_first_waiter_at_its_end() {
    let pause = 2 * SECOND;
    let server = Server::start(PROGRAM, &["--recovery-pause", "2s"]);
    let (mut a, mut b, mut gone) = (server.connect(), server.connect(), server.connect());
    let sent = Instant::now();
    a.send(&frame::acquire(60, 20, 1, "k"));
    a.ping();
    gone.send(&frame::acquire(60, 20, 2, "k"));
    gone.ping();
    b.send(&frame::acquire(60, 20, 3, "k"));
    b.send(&[frame::acquire(60, 20, 4, "l"), frame::acquire(60, 20, 5, "l")].concat());
    b.ping();
    assert_eq!((a.query("k").0, a.query("k").2), (2, 3));
    // A wait that ends, a cancel and a closed session leave the queues as they do of a held key.
    a.send(&[frame::acquire(60, 20, 6, "m"), frame::cancel(6, "m")].concat());
    a.expect(Answer::TimedOut { owner: 6 }, "a cancel while recovering");
    assert_eq!((a.query("m").0, a.query("m").2), (2, 0));
    let short_sent = Instant::now();
    a.send(&frame::acquire(1, 20, 7, "l"));
    a.ping();
    let short_queued = Instant::now();
    drop(gone);
    let closed = Instant::now();
    while a.query("k").2 != 2 {
        assert!(closed.elapsed() < 10 * SECOND, "the waiter of a closed session is still there");
        thread::yield_now();
    }
    let arrival = a.next_within(5 * SECOND, "the end of a wait while recovering");
    assert_eq!(arrival.answer, Answer::TimedOut { owner: 7 });
    let mut ends = Ends::of("wait of 1 s while recovering");
    ends.judge((short_sent, short_queued), SECOND, arrival.at);
    ends.finish();

    let mut ends = Ends::of("recovery of 2 s");
    let first = a.granted(1, sent, 10 * SECOND, "the end of recovery");
    ends.judge(server.started(), pause, first.at);
    let second = b.granted(4, sent, SECOND, "the other key's first waiter");
    ends.judge(server.started(), pause, second.at);
    ends.finish();
    assert_ne!(first.token, second.token);
    a.ping();
    b.ping();
    assert_eq!((a.query("k").0, a.query("k").2), (1, 1));
    assert_eq!((a.query("l").0, a.query("l").2), (1, 1));
    assert_eq!(a.query("m"), (0, 0, 0));
    a.release(first.token, "k");
    let third = b.granted(3, sent, SECOND, "the second waiter");
    assert!(third.token > first.token.max(second.token));
    a.hold(5, 9, "m");
}

#[test]
fn recovering_counts_keys_with_waiters_against_the_room() {
    let args = ["--recovery-pause", "60s", "--max-keys", "2", "--max-waiters-per-key", "2"];
    let server = Server::start(PROGRAM, &args);
    let mut session = server.connect();
    for owner in [1, 2] {
        session.send(&frame::acquire(60, 5, owner, format!("k{owner}")));
    }
    session.ping();
    session.send(&frame::acquire(60, 5, 3, "k3"));
    session.expect(Answer::Busy { owner: 3, reason: 3 }, "no room for one more key");
    session.send(&frame::acquire(0, 5, 4, "k3"));
    session.expect(Answer::TimedOut { owner: 4 }, "a try while recovering needs no room");
    session.send(&[frame::acquire(60, 5, 5, "k1"), frame::acquire(60, 5, 6, "k1")].concat());
    session.expect(Answer::Busy { owner: 6, reason: 1 }, "the queue of the key is full");
    session.send(&frame::cancel(2, "k2"));
    session.expect(Answer::TimedOut { owner: 2 }, "the cancelled waiter");
    session.send(&frame::acquire(60, 5, 7, "k3"));
    session.ping();
    assert_eq!((session.query("k3").0, session.query("k3").2), (2, 1));
}

// ---- Draining ----

/// A server with a long grace that drains, a session on it, and the token of `k`, which it holds.
fn draining(args: &[&str]) -> (Server, Raw, u64) {
    let server = Server::start_on_both(PROGRAM, &[&["--drain-grace", "60s"], args].concat());
    let mut session = server.connect();
    let grant = session.hold(255, 1, "k");
    session.send(&frame::acquire(255, 5, 2, "k"));
    session.ping();
    server.terminate();
    session.expect(Answer::Busy { owner: 2, reason: DRAINING }, "a waiter when draining starts");
    (server, session, grant.token)
}

#[test]
fn draining_tells_every_waiter_and_every_newcomer() {
    let (mut server, mut session, token) = draining(&[]);
    for (wait_s, owner, key) in [(0, 10, "k"), (9, 11, "k"), (0, 12, "free"), (9, 13, "free")] {
        session.send(&frame::acquire(wait_s, 5, owner, key));
        let bytes = [b"B", &u64::to_be_bytes(owner)[..], b"\x05\n"].concat();
        session.expect_bytes(&bytes, "an acquire while draining");
    }
    // The frame and the key are judged before the condition.
    session.send(&frame::acquire(0, 0, 14, "k"));
    session.expect_error(3, 14, "a lease of 0 while draining");
    session.send(&frame::acquire(0, 5, 15, ""));
    session.expect_error(2, 15, "an empty key while draining");
    assert_eq!((session.query("k").0, session.query("k").2), (1, 0));
    assert_eq!(session.query("free"), (0, 0, 0));
    for address in server.addresses() {
        let mut newcomer = Raw::connect(address);
        newcomer.send(&frame::acquire(0, 5, 1, "free"));
        newcomer.expect(Answer::Busy { owner: 1, reason: DRAINING }, "a newcomer's acquire");
    }
    session.send(&frame::cancel(2, "k"));
    session.ping();
    session.send(&frame::release(token, "k"));
    session.expect(Answer::Released { token }, "the last release");
    session.expect_end(5 * SECOND, "the end of the last session");
    assert!(server.wait_exit(5 * SECOND, "nothing is held any more").success());
}

#[test]
fn draining_serves_releases_and_extends_and_grants_nobody() {
    let server = Server::start_on_both(PROGRAM, &["--drain-grace", "60s"]);
    let mut session = server.connect();
    let keep = session.hold(255, 1, "keep");
    let extended = session.hold(2, 2, "extended");
    let ends_alone = session.hold(2, 3, "ends");
    for owner in 10..13 {
        session.send(&frame::acquire(255, 5, owner, ["keep", "extended", "ends"][owner as usize - 10]));
    }
    session.ping();
    server.terminate();
    let mut told: Vec<Answer> = (0..3).map(|_| session.next("each waiter's B").answer).collect();
    told.sort_by_key(|answer| answer.to_bytes());
    assert_eq!(told, [10, 11, 12].map(|owner| Answer::Busy { owner, reason: DRAINING }));
    session.send(&frame::extend(255, extended.token, "extended"));
    session.expect(Answer::Extended { token: extended.token, lease_s: 255 }, "an extend while draining");
    session.send(&[frame::extend(9, extended.token, "keep"), frame::release(1, "keep")].concat());
    session.expect(Answer::NotHeld { token: extended.token }, "an extend of another token");
    session.expect(Answer::NotHeld { token: 1 }, "a release of another token");
    // A lease end voids the token and grants nobody.
    let until = ends_alone.at + 4 * SECOND;
    while session.query("ends").0 == 1 {
        assert!(Instant::now() < until, "the lease does not end while draining");
        thread::yield_now();
    }
    assert!(ends_alone.sent.elapsed() >= 2 * SECOND, "the lease has ended early");
    session.send(&frame::release(ends_alone.token, "ends"));
    session.expect(Answer::NotHeld { token: ends_alone.token }, "a release after the end");
    assert_eq!(session.query("extended").0, 1);
    session.release(extended.token, "extended");
    assert_eq!(session.query("extended"), (0, 0, 0));
    // A holder without a session still finds a listener.
    drop(session);
    let mut last = Raw::connect(&server.addresses()[1]);
    last.send(&frame::hello(1, 7, "name=late"));
    assert!(matches!(last.next("a welcome while draining").answer, Answer::Welcome { id: 7, .. }));
    last.send(&frame::release(keep.token, "keep"));
    last.expect(Answer::Released { token: keep.token }, "the last release");
    let mut server = server;
    assert!(server.wait_exit(5 * SECOND, "nothing is held any more").success());
}

#[test]
fn draining_while_recovering_refuses_those_who_wait_for_its_end() {
    let mut server = Server::start(PROGRAM, &["--recovery-pause", "60s", "--drain-grace", "60s"]);
    let mut session = server.connect();
    session.send(&frame::acquire(255, 5, 1, "k"));
    session.ping();
    server.terminate();
    session.expect(Answer::Busy { owner: 1, reason: DRAINING }, "a waiter when draining starts");
    session.expect_end(5 * SECOND, "nothing is held");
    assert!(server.wait_exit(5 * SECOND, "nothing is held").success());
}
