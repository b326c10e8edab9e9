//! The limits of docs/protocol.md and the reasons of a `B`, with limits small enough to reach.

use lockstead_testkit::{Answer, Raw, Server, frame};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);
const KEY_QUEUE: u8 = 1;
const WAITERS: u8 = 2;
const KEYS: u8 = 3;
const SESSION: u8 = 4;

fn busy(session: &mut Raw, owner: u64, key: &str, reason: u8) {
    session.send(&frame::acquire(60, 5, owner, key));
    let bytes = [b"B", &owner.to_be_bytes()[..], &[reason], b"\n"].concat();
    session.expect_bytes(&bytes, "a busy answer");
}

fn queue(session: &mut Raw, owner: u64, key: &str) {
    session.send(&frame::acquire(60, 5, owner, key));
    session.ping();
}

#[test]
fn no_room_for_one_more_key() {
    let server = Server::start(PROGRAM, &["--max-keys", "2"]);
    let mut session = server.connect();
    let first = session.hold(1, 1, "a");
    let second = session.hold(60, 2, "b");
    for wait_s in [0, 9] {
        session.send(&frame::acquire(wait_s, 5, 10, "c"));
        session.expect_bytes(b"B\0\0\0\0\0\0\0\x0a\x03\n", "no room for one more key");
    }
    // A key that is there needs no more room, and a waiter is no key.
    session.send(&frame::acquire(0, 5, 11, "b"));
    session.expect(Answer::TimedOut { owner: 11 }, "a try of a key that is there");
    queue(&mut session, 12, "b");
    assert_eq!(session.query("c"), (0, 0, 0));
    // A lease that ends gives its room back, and so does a release.
    let ended = first.at + 3 * SECOND;
    while session.query("a").0 == 1 {
        assert!(Instant::now() < ended, "the lease does not end");
        thread::yield_now();
    }
    let third = session.hold(60, 3, "c");
    busy(&mut session, 13, "d", KEYS);
    session.send(&frame::cancel(12, "b"));
    session.expect(Answer::TimedOut { owner: 12 }, "the cancelled waiter");
    session.release(second.token, "b");
    session.hold(60, 4, "d");
    busy(&mut session, 14, "b", KEYS);
    session.release(third.token, "c");
    session.hold(60, 5, "b");
}

#[test]
fn the_queues_of_a_session_a_key_and_the_server_are_full() {
    let begun = Instant::now();
    let limits = ["--max-waiters", "5", "--max-waiters-per-key", "3", "--max-waiters-per-session", "2"];
    let server = Server::start(PROGRAM, &limits);
    let mut holder = server.connect();
    let held = ["a", "b", "c"].map(|key| holder.hold(255, 1, key));
    let mut sessions: Vec<Raw> = (0..4).map(|_| server.connect()).collect();
    queue(&mut sessions[0], 1, "a");
    queue(&mut sessions[0], 2, "a");
    busy(&mut sessions[0], 3, "a", SESSION);
    busy(&mut sessions[0], 3, "b", SESSION);
    queue(&mut sessions[1], 1, "a");
    busy(&mut sessions[1], 2, "a", KEY_QUEUE);
    // Its own limit goes before the key's.
    busy(&mut sessions[0], 3, "a", SESSION);
    queue(&mut sessions[1], 2, "b");
    queue(&mut sessions[2], 1, "b");
    // Five wait. Now the server's waiters are full: said when neither the session's nor the key's are.
    busy(&mut sessions[2], 2, "b", WAITERS);
    busy(&mut sessions[3], 1, "c", WAITERS);
    busy(&mut sessions[3], 1, "a", KEY_QUEUE);
    busy(&mut sessions[0], 3, "a", SESSION);
    busy(&mut sessions[0], 3, "c", SESSION);
    // None of these tries is queued, and none is needed by who does not wait.
    sessions[3].send(&frame::acquire(0, 5, 2, "a"));
    sessions[3].expect(Answer::TimedOut { owner: 2 }, "a try");
    sessions[3].hold(255, 2, "free");
    assert_eq!([holder.query("a").2, holder.query("b").2, holder.query("c").2], [3, 2, 0]);
    // Every way out of a queue gives the place back: a cancel, a grant, a closed session.
    sessions[0].send(&frame::cancel(1, "a"));
    sessions[0].expect(Answer::TimedOut { owner: 1 }, "the cancelled waiter");
    queue(&mut sessions[3], 3, "a");
    busy(&mut sessions[3], 4, "c", WAITERS);
    holder.release(held[1].token, "b");
    sessions[1].granted(2, begun, SECOND, "the first waiter of b");
    queue(&mut sessions[3], 4, "c");
    busy(&mut sessions[2], 5, "c", WAITERS);
    drop(sessions.remove(0));
    let closed = Instant::now();
    while holder.query("a").2 != 2 {
        assert!(closed.elapsed() < 10 * SECOND, "the waiter of a closed session is still there");
        thread::yield_now();
    }
    queue(&mut sessions[0], 5, "a");
    busy(&mut sessions[1], 6, "c", WAITERS);
}

#[test]
fn one_session_too_many_is_told_so_and_closed() {
    let server = Server::start_on_both(PROGRAM, &["--max-sessions", "3"]);
    let mut sessions: Vec<Raw> = (0..3).map(|n| Raw::connect(&server.addresses()[n % 2])).collect();
    sessions.iter_mut().for_each(|session| {
        session.ping();
    });
    for round in 0..20 {
        let mut extra = Raw::connect(&server.addresses()[round % 2]);
        extra.expect_error(9, 0, "one session too many");
        extra.expect_end(2 * SECOND, "the end of one session too many");
    }
    // One that has said something before it is told gets the same.
    let mut extra = server.connect();
    let _ = extra.try_send(&frame::acquire(0, 5, 1, "k"), SECOND);
    extra.expect_error(9, 0, "one session too many");
    assert_eq!(sessions[0].query("k"), (0, 0, 0));
    drop(extra);
    // A place that was given back is given to the next.
    for _ in 0..20 {
        drop(sessions.pop());
        let closed = Instant::now();
        let next = loop {
            assert!(closed.elapsed() < 10 * SECOND, "the place of a closed session is not given back");
            let mut next = server.connect();
            match next.ask_or_end(&frame::ping(1)) {
                Some(Answer::Pong { id: 1 }) => break next,
                Some(answer) => assert!(answer.is_error(9, 0), "{answer:?}"),
                None => {}
            }
        };
        sessions.push(next);
    }
}
