//! The order of requests, answers and events (docs/protocol.md, *Order* and *Queue*), and the keeping alive
//! of connections.

use lockstead_testkit::{Answer, Ends, Raw, Server, frame, process};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);
const KEYS: u64 = 100;

/// Requests that are read together have one instant: a lease of 1 s and a wait of 1 s for its key end
/// together, and then the lease ends first, so that the waiter is granted.
#[test]
fn at_equal_instants_a_lease_ends_before_a_wait() {
    let server = Server::start_on_both(PROGRAM, &[]);
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        let mut bytes = Vec::new();
        for n in 0..KEYS {
            bytes.extend(frame::acquire(0, 1, n, format!("{address}/{n}")));
            bytes.extend(frame::acquire(1, 60, KEYS + n, format!("{address}/{n}")));
        }
        let sent = Instant::now();
        session.send(&bytes);
        let granted: Vec<Instant> =
            (0..KEYS).map(|n| session.granted(n, sent, SECOND, "a free key").at).collect();
        let mut ends = Ends::of(format!("lease of 1 s that ends together with a wait, {address}"));
        for n in 0..KEYS {
            // In the order in which they were armed.
            let next =
                session.granted(KEYS + n, sent, 5 * SECOND, "a grant at the instant of the wait's end");
            ends.judge((sent, granted[n as usize]), SECOND, next.at);
        }
        ends.finish();
        session.ping();
    }
}

#[test]
fn leases_that_end_together_end_in_the_order_of_their_grants() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    let mut bytes = Vec::new();
    for n in 0..KEYS {
        bytes.extend(frame::acquire(0, 1, n, format!("k{n}")));
    }
    // The waiters come in the opposite order.
    for n in (0..KEYS).rev() {
        bytes.extend(frame::acquire(60, 60, KEYS + n, format!("k{n}")));
    }
    let sent = Instant::now();
    session.send(&bytes);
    let mut last = 0;
    for owner in 0..2 * KEYS {
        let grant = session.granted(owner, sent, 5 * SECOND, "grants in the order of the ends");
        assert!(grant.token > last, "tokens do not rise");
        last = grant.token;
    }
}

#[test]
fn waits_that_end_together_end_in_the_order_of_their_requests() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    session.hold(60, 0, "a");
    session.hold(60, 0, "b");
    let keys = ["a", "b"];
    let waits = (0..KEYS).flat_map(|owner| frame::acquire(1, 60, owner, keys[owner as usize % 2]));
    session.send(&waits.collect::<Vec<u8>>());
    for owner in 0..KEYS {
        session.expect(Answer::TimedOut { owner }, "waits in the order of their ends");
    }
    session.ping();
}

/// Two requests of one write in which the first decides the second's answer, for each such pair.
#[test]
fn requests_of_one_session_are_processed_in_their_order() {
    let server = Server::start_on_both(PROGRAM, &[]);
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        let key = format!("k/{address}");
        let grant = session.hold(60, 1, &key);
        // A release, then everything that finds the key free.
        let mut bytes = frame::release(grant.token, &key);
        bytes.extend(frame::release(grant.token, &key));
        bytes.extend(frame::extend(9, grant.token, &key));
        bytes.extend(frame::query(7, &key));
        bytes.extend(frame::acquire(0, 60, 2, &key));
        bytes.extend(frame::acquire(0, 60, 3, &key));
        bytes.extend(frame::query(8, &key));
        session.send(&bytes);
        session.expect(Answer::Released { token: grant.token }, "the release");
        session.expect(Answer::NotHeld { token: grant.token }, "the second release");
        session.expect(Answer::NotHeld { token: grant.token }, "the extend behind it");
        let free = Answer::State { id: 7, state: 0, remaining_ms: 0, waiters: 0 };
        session.expect(free, "the query behind them");
        let sent = Instant::now() - SECOND;
        let next = session.granted(2, sent, SECOND, "the acquire of the freed key");
        session.expect(Answer::TimedOut { owner: 3 }, "the try behind it");
        let answer = session.next("the last query").answer;
        assert!(matches!(answer, Answer::State { id: 8, state: 1, waiters: 0, .. }), "{answer:?}");
        // A waiter that is cancelled, and one that is not, behind the release that would serve the first.
        let mut bytes = frame::acquire(60, 60, 4, &key);
        bytes.extend(frame::acquire(60, 60, 5, &key));
        bytes.extend(frame::cancel(4, &key));
        bytes.extend(frame::release(next.token, &key));
        bytes.extend(frame::cancel(5, &key));
        session.send(&bytes);
        session.expect(Answer::TimedOut { owner: 4 }, "the cancelled waiter");
        let mut answers =
            [session.next("the release"), session.next("the grant")].map(|arrival| arrival.answer);
        answers.sort_by_key(|answer| matches!(answer, Answer::Acquired { .. }));
        assert_eq!(answers[0], Answer::Released { token: next.token });
        let Answer::Acquired { owner: 5, token, .. } = answers[1] else { panic!("{answers:?}") };
        // The second cancel found it granted, not queued.
        session.ping();
        session.release(token, &key);
    }
}

/// Dead peers must give their places back: the server's sockets have a keepalive timer of 10 s.
#[test]
fn an_idle_connection_is_kept_alive_after_ten_seconds() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    session.ping();
    let timer = process::tcp_keepalive(&session).expect("the server's socket has no keepalive timer");
    println!("the next keepalive probe is due in {timer:?}");
    assert!(timer <= 10 * SECOND + SECOND / 2, "the first probe comes after {timer:?}");
}
