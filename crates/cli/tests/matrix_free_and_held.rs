//! The request × key state matrix of docs/protocol.md over real sockets: a key that is free, and one that is
//! held.

use lockstead_testkit::{Answer, Ends, Raw, Server, frame};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

fn acquired(owner: u64, token: u64, lease_s: u8, waited_ms: u32) -> Vec<u8> {
    Answer::Acquired { owner, token, lease_s, waited_ms }.to_bytes()
}

// ---- Free ----

#[test]
fn an_acquire_of_a_free_key_is_granted_at_once_whatever_its_wait() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let mut last = 0;
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        for (wait_s, lease_s, owner) in [(0, 1, 7), (0, 255, 0), (1, 30, u64::MAX), (255, 30, 1 << 63)] {
            let key = format!("free/{address}/{wait_s}/{lease_s}");
            let answer = session.ask(&frame::acquire(wait_s, lease_s, owner, &key));
            let Answer::Acquired { token, .. } = answer else { panic!("{answer:?}") };
            assert_eq!(answer.to_bytes(), acquired(owner, token, lease_s, 0));
            assert!(token > last, "token {token} after {last}");
            last = token;
            assert_eq!(session.query(&key).0, 1);
        }
        session.ping();
    }
}

#[test]
fn a_release_or_extend_of_a_free_key_finds_nothing_held() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    let past = session.hold(30, 1, "once");
    session.release(past.token, "once");
    for key in ["once", "never"] {
        for token in [past.token, past.token + 1, 0, 1, 10, i64::MAX as u64, u64::MAX] {
            session.send(&frame::release(token, key));
            session
                .expect_bytes(&[b"N", &token.to_be_bytes()[..], b"\n"].concat(), "a release of a free key");
            session.send(&frame::extend(255, token, key));
            session
                .expect_bytes(&[b"N", &token.to_be_bytes()[..], b"\n"].concat(), "an extend of a free key");
        }
        assert_eq!(session.query(key), (0, 0, 0));
    }
}

#[test]
fn a_cancel_of_a_free_key_says_nothing() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    session.send(&[frame::cancel(0, "free"), frame::cancel(1, "free")].concat());
    session.ping();
    assert_eq!(session.query("free"), (0, 0, 0));
}

#[test]
fn a_query_of_a_free_key_is_state_zero() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    session.send(&frame::query(0x0a0b_0c0d_0e0f_1011, "free"));
    session.expect_bytes(b"Q\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\0\0\0\0\0\0\0\0\0\n", "a free key");
}

// ---- Held ----

#[test]
fn a_try_of_a_held_key_times_out_at_once_also_by_its_own_owner() {
    let server = Server::start(PROGRAM, &[]);
    let (mut holder, mut other) = (server.connect(), server.connect());
    let grant = holder.hold(30, 5, "k");
    for session in [&mut holder, &mut other] {
        for owner in [5, 6] {
            session.send(&frame::acquire(0, 9, owner, "k"));
            session.expect_bytes(&[b"T", &owner.to_be_bytes()[..], b"\n"].concat(), "a try of a held key");
        }
        assert_eq!((session.query("k").0, session.query("k").2), (1, 0));
    }
    holder.release(grant.token, "k");
}

#[test]
fn waiters_are_served_first_in_first_out_and_tokens_rise() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let mut sessions: Vec<Raw> = (0..4).map(|n| Raw::connect(&server.addresses()[n % 2])).collect();
    let mut grant = sessions[0].hold(30, 1000, "k");
    let mut sent = Vec::new();
    for owner in 0..12 {
        let session = &mut sessions[owner % 4];
        sent.push(Instant::now());
        session.send(&frame::acquire(60, 20, owner as u64, "k"));
        session.ping();
    }
    let mut holder = 0;
    for (owner, sent) in sent.into_iter().enumerate() {
        assert_eq!(sessions[3].query("k").2, 12 - owner as u32);
        // A newcomer in the same write as the release does not overtake the queue.
        let mut both = frame::release(grant.token, "k");
        both.extend(frame::acquire(0, 5, 77, "k"));
        sessions[holder].send(&both);
        let next = owner % 4;
        let mut expected = vec![Answer::Released { token: grant.token }, Answer::TimedOut { owner: 77 }];
        if next == holder {
            let answers: Vec<Answer> =
                (0..3).map(|_| sessions[next].next("release, grant, try").answer).collect();
            let granted =
                answers.iter().find(|a| matches!(a, Answer::Acquired { .. })).expect("one grant").clone();
            expected.push(granted.clone());
            assert!(expected.iter().all(|answer| answers.contains(answer)), "{answers:?}");
            let Answer::Acquired { owner: o, token, .. } = granted else { unreachable!() };
            assert_eq!(o, owner as u64);
            assert!(token > grant.token);
            grant.token = token;
        } else {
            sessions[holder].expect(expected.remove(0), "the release");
            sessions[holder].expect(expected.remove(0), "the newcomer's try");
            let granted = sessions[next].granted(owner as u64, sent, SECOND, "the first in the queue");
            assert!(granted.token > grant.token);
            grant = granted;
        }
        holder = next;
    }
    for session in &mut sessions {
        session.ping();
    }
}

#[test]
fn only_the_exact_token_releases_or_extends() {
    let server = Server::start(PROGRAM, &[]);
    let (mut session, mut waiter) = (server.connect(), server.connect());
    let old = session.hold(30, 1, "k");
    session.release(old.token, "k");
    let grant = session.hold(2, 2, "k");
    waiter.send(&frame::acquire(60, 1, 3, "k"));
    waiter.ping();
    for token in [0, 1, old.token, grant.token + 1, grant.token - 1, grant.token | 1 << 63, u64::MAX] {
        if token != grant.token {
            session.send(&frame::release(token, "k"));
            session.expect(Answer::NotHeld { token }, "a release of another token");
            session.send(&frame::extend(255, token, "k"));
            session.expect(Answer::NotHeld { token }, "an extend of another token");
        }
    }
    // The right token, but another key.
    session.send(&frame::release(grant.token, "K"));
    session.expect(Answer::NotHeld { token: grant.token }, "the right token of another key");
    // Nothing has changed: the waiter waits still, and is served when the lease that was asked for ends.
    assert_eq!((session.query("k").0, session.query("k").2), (1, 1));
    let mut ends = Ends::of("lease of 2 s that wrong tokens tried to change");
    let next = waiter.granted(3, grant.sent, 10 * SECOND, "the end of the lease");
    ends.judge(grant.begun(), 2 * SECOND, next.at);
    ends.finish();
    // Any session may use the exact token.
    session.release(next.token, "k");
}

#[test]
fn an_extend_never_shortens_and_begins_at_its_own_instant() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let mut longer = Ends::of("lease of 1 s, extended to 3 s");
    let mut shorter = Ends::of("lease of 3 s, extended by 1 s");
    let (mut a, mut b) = (server.connect(), Raw::connect(&server.addresses()[1]));
    let first = a.hold(1, 1, "longer");
    let second = a.hold(3, 2, "shorter");
    b.send(&[frame::acquire(60, 1, 1, "longer"), frame::acquire(60, 1, 2, "shorter")].concat());
    b.ping();
    let sent = Instant::now();
    // Another session than the one that was granted: the token is the authority.
    b.send(&frame::extend(3, first.token, "longer"));
    let extended = b.expect(Answer::Extended { token: first.token, lease_s: 3 }, "an extend");
    a.send(&frame::extend(1, second.token, "shorter"));
    a.expect(Answer::Extended { token: second.token, lease_s: 1 }, "an extend");
    let (state, remaining_ms, waiters) = a.query("shorter");
    assert_eq!((state, waiters), (1, 1));
    assert!(remaining_ms > 1_500, "an extend has shortened the lease to {remaining_ms} ms");
    for _ in 0..2 {
        let arrival = b.next_within(10 * SECOND, "the ends of both leases");
        match arrival.answer {
            Answer::Acquired { owner: 1, .. } => longer.judge((sent, extended), 3 * SECOND, arrival.at),
            Answer::Acquired { owner: 2, .. } => shorter.judge(second.begun(), 3 * SECOND, arrival.at),
            other => panic!("{other:?}"),
        }
    }
    longer.finish();
    shorter.finish();
}

#[test]
fn a_lease_above_the_greatest_is_granted_as_the_greatest() {
    let server = Server::start(PROGRAM, &["--max-lease", "2s"]);
    let (mut a, mut b) = (server.connect(), server.connect());
    let sent = Instant::now();
    a.send(&frame::acquire(0, 255, 1, "k"));
    let grant = a.granted(1, sent, SECOND, "a grant");
    assert_eq!(grant.lease_s, 2);
    let extended_key = a.hold(2, 2, "e");
    assert_eq!(extended_key.lease_s, 2);
    let sent = Instant::now();
    a.send(&frame::extend(3, extended_key.token, "e"));
    let at =
        a.expect(Answer::Extended { token: extended_key.token, lease_s: 2 }, "an extend above the greatest");
    b.send(&[frame::acquire(9, 1, 1, "k"), frame::acquire(9, 1, 2, "e")].concat());
    let mut ends = Ends::of("lease cut to the greatest, 2 s");
    for _ in 0..2 {
        let arrival = b.next_within(5 * SECOND, "the end of a lease of --max-lease");
        match arrival.answer {
            Answer::Acquired { owner: 1, .. } => ends.judge(grant.begun(), 2 * SECOND, arrival.at),
            Answer::Acquired { owner: 2, .. } => ends.judge((sent, at), 2 * SECOND, arrival.at),
            other => panic!("{other:?}"),
        }
    }
    ends.finish();
}

#[test]
fn a_cancel_takes_the_oldest_attempt_of_this_session_with_that_owner() {
    let server = Server::start(PROGRAM, &[]);
    let (mut holder, mut a, mut b) = (server.connect(), server.connect(), server.connect());
    let grant = holder.hold(30, 5, "k");
    a.send(&frame::acquire(60, 11, 5, "k"));
    a.ping();
    b.send(&frame::acquire(60, 22, 5, "k"));
    b.ping();
    a.send(&frame::acquire(60, 33, 5, "k"));
    a.ping();
    // The holder's own grant has that owner too, and is no queued attempt; another owner, another key.
    holder.send(&frame::cancel(5, "k"));
    holder.ping();
    a.send(&[frame::cancel(6, "k"), frame::cancel(5, "K")].concat());
    a.ping();
    assert_eq!((a.query("k").0, a.query("k").2), (1, 3));
    a.send(&frame::cancel(5, "k"));
    a.expect(Answer::TimedOut { owner: 5 }, "the cancelled attempt's own T");
    a.ping();
    assert_eq!(a.query("k").2, 2);
    // The oldest one has left: the other session is first now, and the younger attempt second.
    let sent = Instant::now();
    holder.release(grant.token, "k");
    let second = b.granted(5, grant.sent, SECOND, "the other session's attempt");
    assert_eq!(second.lease_s, 22);
    b.release(second.token, "k");
    let third = a.granted(5, grant.sent, SECOND, "the younger attempt");
    assert_eq!(third.lease_s, 33);
    assert!(sent.elapsed() < 10 * SECOND);
    // Two in one session, one more cancel than attempts.
    b.send(&[frame::acquire(60, 1, 9, "k"), frame::acquire(60, 1, 9, "k")].concat());
    b.send(&[frame::cancel(9, "k"), frame::cancel(9, "k"), frame::cancel(9, "k")].concat());
    b.expect(Answer::TimedOut { owner: 9 }, "the first cancel");
    b.expect(Answer::TimedOut { owner: 9 }, "the second cancel");
    b.ping();
    a.release(third.token, "k");
    assert_eq!(a.query("k"), (0, 0, 0));
}

#[test]
fn the_same_owner_twice_at_once_is_two_attempts() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    let sent = Instant::now();
    session.send(&[frame::acquire(5, 20, 9, "k"), frame::acquire(5, 20, 9, "k")].concat());
    let first = session.granted(9, sent, SECOND, "the first attempt");
    session.ping();
    assert_eq!(session.query("k").2, 1);
    session.send(&frame::release(first.token, "k"));
    session.expect(Answer::Released { token: first.token }, "the release of the first");
    let second = session.granted(9, sent, SECOND, "the second attempt");
    assert!(second.token > first.token);
    // It has neither got the active token nor renewed the lease.
    session.send(&frame::acquire(0, 255, 9, "k"));
    session.expect(Answer::TimedOut { owner: 9 }, "a third attempt");
    assert!(session.query("k").1 <= 20_001);
    session.release(second.token, "k");
}

#[test]
fn a_query_of_a_held_key_tells_remaining_time_and_waiters() {
    let server = Server::start(PROGRAM, &[]);
    let (mut session, mut other) = (server.connect(), server.connect());
    for lease_s in [1u8, 2, 30, 255] {
        let key = format!("held/{lease_s}");
        let grant = session.hold(lease_s, 1, &key);
        for waiters in 0..3 {
            let asked = Instant::now();
            let (state, remaining_ms, counted) = other.query(&key);
            let told = Instant::now();
            assert_eq!((state, counted), (1, waiters));
            let remaining = Duration::from_millis(remaining_ms.into());
            // From the earliest end seen as late as possible to the latest end seen as early as possible.
            let least = (grant.begun().0 + grant.lease()).saturating_duration_since(told);
            let most = (grant.at + grant.lease()).saturating_duration_since(asked) + Duration::from_millis(3);
            assert!(remaining >= least, "{remaining:?} remain, not even {least:?}");
            assert!(remaining <= most, "{remaining:?} remain, more than {most:?}");
            session.send(&frame::acquire(60, 1, 2, &key));
            session.ping();
        }
    }
    // Rounded up: until the end it is never 0 (the parser refuses a held key with nothing remaining).
    let grant = session.hold(1, 1, "to the end");
    let mut least = u32::MAX;
    loop {
        let (state, remaining_ms, _) = other.query("to the end");
        if state == 0 {
            break;
        }
        least = least.min(remaining_ms);
    }
    assert!(grant.sent.elapsed() >= SECOND, "the lease has ended early");
    println!("the least time that a held key was said to remain: {least} ms");
}

#[test]
fn the_end_of_a_lease_voids_its_token() {
    let server = Server::start(PROGRAM, &[]);
    let (mut a, mut b) = (server.connect(), server.connect());
    let alone = a.hold(1, 1, "alone");
    let queued = a.hold(1, 2, "queued");
    let sent = Instant::now();
    b.send(&frame::acquire(60, 60, 3, "queued"));
    let next = b.granted(3, sent, 5 * SECOND, "the end of the lease");
    assert!(next.token > queued.token);
    let mut ends = Ends::of("lease of 1 s");
    ends.judge(queued.begun(), SECOND, next.at);
    ends.finish();
    for (token, key, state) in [(alone.token, "alone", 0), (queued.token, "queued", 1)] {
        a.send(&[frame::extend(60, token, key), frame::release(token, key)].concat());
        a.expect(Answer::NotHeld { token }, "an extend after the end");
        a.expect(Answer::NotHeld { token }, "a release after the end");
        assert_eq!(a.query(key).0, state);
    }
}

#[test]
fn the_end_of_a_wait_takes_that_waiter_only() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    let grant = session.hold(30, 1, "k");
    let sent = Instant::now();
    let waits = [(2, 2u64), (1, 3), (60, 4), (1, 5)];
    for (wait_s, owner) in waits {
        session.send(&frame::acquire(wait_s, 5, owner, "k"));
    }
    session.ping();
    let queued = Instant::now();
    let mut ends = Ends::of("waits of 1 s and 2 s");
    for owner in [3, 5, 2] {
        let wait = Duration::from_secs(if owner == 2 { 2 } else { 1 });
        let at = {
            let arrival = session.next_within(5 * SECOND, "the end of a wait");
            assert_eq!(arrival.answer, Answer::TimedOut { owner });
            arrival.at
        };
        ends.judge((sent, queued), wait, at);
    }
    ends.finish();
    assert_eq!(session.query("k").2, 1);
    session.send(&frame::release(grant.token, "k"));
    session.expect(Answer::Released { token: grant.token }, "the release");
    let last = session.granted(4, sent, SECOND, "the waiter that has waited on");
    session.release(last.token, "k");
    assert_eq!(session.query("k"), (0, 0, 0));
}

#[test]
fn the_end_of_a_session_takes_its_waiters_and_leaves_its_locks() {
    let server = Server::start_on_both(PROGRAM, &[]);
    for (round, address) in server.addresses().iter().enumerate() {
        for reset in [false, true] {
            let key = format!("k/{round}/{reset}");
            let (mut stays, mut goes) = (Raw::connect(address), Raw::connect(address));
            let held = goes.hold(30, 1, format!("{key}/held"));
            let grant = stays.hold(30, 1, &key);
            goes.send(&[frame::acquire(60, 5, 2, &key), frame::acquire(60, 5, 3, &key)].concat());
            goes.ping();
            let sent = Instant::now();
            stays.send(&frame::acquire(60, 5, 4, &key));
            stays.ping();
            assert_eq!(stays.query(&key).2, 3);
            if reset {
                goes.reset();
            } else {
                drop(goes);
            }
            let gone = Instant::now();
            while stays.query(&key).2 != 1 {
                assert!(gone.elapsed() < 10 * SECOND, "the waiters of a closed session are still there");
                thread::yield_now();
            }
            stays.send(&frame::release(grant.token, &key));
            stays.expect(Answer::Released { token: grant.token }, "the release");
            stays.granted(4, sent, SECOND, "the waiter whose session is still there");
            assert_eq!(stays.query(format!("{key}/held")).0, 1);
            stays.release(held.token, format!("{key}/held"));
        }
    }
}
