//! What happens when the server itself is late: stopped over the end of many leases, or over the time that a frame or
//! full output has. What came in time counts, and a session whose end was there before is granted nothing.

use lockstead_testkit::{Answer, Arrival, Event, Raw, Server, frame, load};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn p05_a_session_that_closed_before_a_storm_is_granted_nothing_in_it() {
    // More than one turn's share of due events.
    const KEYS: u64 = 4_000;
    /// Longer than a busy machine takes to queue the waiters.
    const LEASE_S: u8 = 6;
    let server = Server::start(PROGRAM, &[]);
    let (mut holder, mut waiter) = (server.connect(), server.connect());
    let began = Instant::now();
    load::acquire_many(&mut holder, "storm", 0, KEYS, LEASE_S);
    for key in 0..KEYS {
        waiter.send(&frame::acquire(20, 30, 1_000_000 + key, format!("storm{key}")));
    }
    waiter.ping();
    server.pause();
    assert!(began.elapsed() < SECOND * LEASE_S.into(), "the storm began too early to say anything");
    drop(waiter);
    thread::sleep(SECOND * LEASE_S.into() + SECOND / 2);
    server.go_on();
    // A ping is answered in the middle of the storm, a query behind it; whoever ended has left by the end of that turn.
    holder.query("storm0");
    let held = (0..KEYS).filter(|key| holder.query(format!("storm{key}")).0 == 1).count();
    assert_eq!(held, 0, "keys held for a session that had closed before their leases ended");
}

#[test]
fn a_frame_that_was_finished_in_time_counts_however_late_the_server_is() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    let grant = session.hold(60, 1, "k");
    let release = frame::release(grant.token, "k");
    session.send(&release[..5]);
    let mut other = server.connect();
    other.ping();
    server.pause();
    session.send(&release[5..]);
    thread::sleep(SECOND * 21 / 2);
    server.go_on();
    session.expect(Answer::Released { token: grant.token }, "the answer to a release that was whole in time");
}

/// As before, with so much behind the frames that they are read over several turns.
#[test]
fn frames_that_were_finished_in_time_count_however_much_there_is_to_read() {
    let server = Server::start(PROGRAM, &[]);
    let release = frame::release(1, "k");
    let pings: Vec<u8> = (0..2_000).flat_map(frame::ping).collect();
    let mut sessions: Vec<Raw> = (0..60).map(|_| server.connect()).collect();
    for session in &mut sessions {
        session.send(&release[..5]);
    }
    let mut other = server.connect();
    other.ping();
    server.pause();
    for session in &mut sessions {
        session.send(&release[5..]);
        session.send(&pings);
    }
    thread::sleep(SECOND * 21 / 2);
    server.go_on();
    for session in &mut sessions {
        session.expect(Answer::NotHeld { token: 1 }, "the answer to a release that was whole in time");
    }
}

#[test]
fn output_that_was_read_in_time_counts_however_late_the_server_is() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    let queries: Vec<u8> = (0..1_000).flat_map(|id| frame::query(id, "k")).collect();
    let mut sent = 0;
    // Until nothing more is taken: the output is full, and so the reading has stopped.
    while session.try_send(&queries, SECOND / 2).is_ok() {
        sent += 1;
        assert!(sent < 10_000, "a client that never reads is read for ever");
    }
    server.pause();
    // All that the kernel has; what the server keeps behind it cannot come while it is stopped.
    let read = states(&mut session, SECOND);
    assert!(read > 0);
    thread::sleep(SECOND * 21 / 2);
    server.go_on();
    // The rest of what was asked is answered; a session that was cut would end with an error instead. The last batch
    // may not have been sent whole.
    let rest = states(&mut session, 2 * SECOND);
    assert!(read + rest >= sent * 1_000, "{read} and {rest} answers to {sent} thousand queries");
}

/// Reads states until nothing comes for this long.
fn states(session: &mut Raw, quiet: Duration) -> usize {
    let mut count = 0;
    loop {
        match session.event(quiet) {
            Event::Answer(Arrival { answer: Answer::State { .. }, .. }) => count += 1,
            Event::Quiet => return count,
            other => panic!("{other:?} instead of a state"),
        }
    }
}

#[test]
fn an_error_is_said_even_to_a_client_that_has_ended_its_output() {
    let server = Server::start(PROGRAM, &[]);
    for _ in 0..50 {
        let mut session = server.connect();
        session.send(b"z");
        session.end_output();
        session.expect_error(1, 0, "an unknown op");
        session.expect_end(SECOND, "the end behind the error");
    }
}

/// Sessions with very many waiters end at one moment. One that ends leaves in one step; all of them together would keep
/// everybody else waiting for as long as they take.
#[test]
fn sessions_that_end_together_leave_over_several_turns() {
    const SESSIONS: u64 = 24;
    /// As many as one session may have by default.
    const WAITERS: u64 = 32_768;
    let server = Server::start(PROGRAM, &[]);
    let mut holder = server.connect();
    let keys: Vec<String> = (0..SESSIONS).map(|n| format!("k{n}")).collect();
    for (owner, key) in keys.iter().enumerate() {
        holder.hold(255, owner as u64, key);
    }
    let waiting: Vec<Raw> = keys
        .iter()
        .map(|key| {
            let mut session = server.connect();
            for from in (0..WAITERS).step_by(1_024) {
                let requests: Vec<u8> =
                    (from..from + 1_024).flat_map(|owner| frame::acquire(255, 9, owner, key)).collect();
                session.send(&requests);
            }
            session.ping();
            session
        })
        .collect();
    server.pause();
    drop(waiting);
    server.go_on();
    holder.query(&keys[0]);
    // All ends had been read before this one was answered, so whoever leaves in the turn that reads the ends has left.
    // They leave in the order in which they ended, so the last ones are asked about first.
    let left: Vec<u32> = keys.iter().rev().map(|key| holder.query(key).2).collect();
    assert!(left.iter().any(|&waiters| waiters > 0), "all had left before a second request was answered");
    let deadline = Instant::now() + 20 * SECOND;
    while keys.iter().any(|key| holder.query(key).2 > 0) {
        assert!(Instant::now() < deadline, "some waiters never left");
    }
}
