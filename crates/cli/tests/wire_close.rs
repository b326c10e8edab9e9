//! How a session ends: what was read counts, what was not sent is thrown away for good, and a grant that
//! nobody can have heard of is given back (docs/protocol.md, *Session close*).

use lockstead_testkit::{Address, Answer, Event, Raw, Server, Witness, frame, load};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

/// Pings between two acquires of [`fill`]; each has an answer of 10 bytes.
const PINGS: usize = 1_000;

fn wait_for(awaited: &str, within: Duration, mut condition: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < within, "{awaited}: not within {within:?}");
        thread::yield_now();
    }
    begun.elapsed()
}

fn nth_key(prefix: &str, n: usize) -> String {
    format!("{prefix}/{n}")
}

/// Sends pings and acquires of ever new keys without reading, until so much of the answers is in the server's
/// own output that the last grants cannot have been accepted by the kernel. Returns how many keys were asked
/// for; all are granted.
fn fill(session: &mut Raw, observer: &mut Raw, prefix: &str) -> usize {
    const UNSENT: usize = 300_000;
    let pings: Vec<u8> = (0..PINGS as u64).flat_map(frame::ping).collect();
    for keys in 0.. {
        let answered = keys * (PINGS * 10 + 23);
        // The kernel's table is long and slow to read: not for each chunk.
        if keys.is_multiple_of(8) && answered >= UNSENT + session.in_kernel() {
            return keys;
        }
        let mut chunk = pings.clone();
        chunk.extend(frame::acquire(0, 255, keys as u64, nth_key(prefix, keys)));
        session.send(&chunk);
        wait_for("the next chunk is processed", 10 * SECOND, || observer.query(nth_key(prefix, keys)).0 == 1);
    }
    unreachable!("the kernel does not accept bytes without end");
}

/// Compares the grants that were heard of with the keys that are held.
fn compare(observer: &mut Raw, prefix: &str, keys: usize, heard: usize) {
    println!("{prefix}: {keys} keys were granted, {heard} grants were (at least begun to be) sent");
    assert!(heard < keys, "no grant was left unsent: the test does not reach what it is about");
    assert!(heard > 0, "no grant was sent");
    for n in 0..keys {
        let expected = u8::from(n < heard);
        let (state, ..) = observer.query(nth_key(prefix, n));
        assert_eq!(state, expected, "{prefix}: key {n} of {keys}, of whose grants {heard} were sent");
    }
}

/// Grants among these answers and the bytes of a cut one.
fn grants(answers: &[Answer], cut: &[u8]) -> usize {
    let whole = answers.iter().filter(|answer| matches!(answer, Answer::Acquired { .. })).count();
    whole + usize::from(cut.first() == Some(&b'A'))
}

#[test]
fn a_grant_that_was_never_sent_is_given_back_when_its_session_ends() {
    let server = Server::start_on_both(PROGRAM, &[]);
    thread::scope(|scope| {
        for address in server.addresses() {
            scope.spawn(move || {
                let prefix = format!("unsent/{address}");
                let mut observer = Raw::connect(address);
                let blocked = observer.hold(255, 1, format!("{prefix}/blocked"));
                let mut session = Raw::connect(address);
                session.send(&frame::acquire(255, 5, 2, format!("{prefix}/blocked")));
                let keys = fill(&mut session, &mut observer, &prefix);
                assert_eq!(observer.query(format!("{prefix}/blocked")).2, 1);
                session.end_output();
                let (answers, cut) =
                    session.read_to_end(10 * SECOND, "the end of a session that ended its stream");
                assert_eq!(observer.query(format!("{prefix}/blocked")).2, 0, "its waiter has not left");
                compare(&mut observer, &prefix, keys, grants(&answers, &cut));
                observer.release(blocked.token, format!("{prefix}/blocked"));
            });
        }
    });
}

#[test]
fn a_closing_error_is_the_last_thing_written_behind_what_was_begun() {
    let server = Server::start_on_both(PROGRAM, &[]);
    thread::scope(|scope| {
        for address in server.addresses() {
            scope.spawn(move || {
                let prefix = format!("error/{address}");
                let mut observer = Raw::connect(address);
                let mut session = Raw::connect(address);
                let keys = fill(&mut session, &mut observer, &prefix);
                session.send(b"Z and what follows is no request any more");
                let awaited = "the closing error of a session with unsent output";
                let (mut answers, cut) = session.read_to_end(10 * SECOND, awaited);
                assert_eq!(cut, b"", "a frame that was begun is finished");
                let last = answers.pop().expect("some answers");
                assert!(last.is_error(1, 0), "the last answer is {last:?}");
                let pongs = answers
                    .iter()
                    .all(|answer| matches!(answer, Answer::Pong { .. } | Answer::Acquired { .. }));
                assert!(pongs, "something else before the error");
                compare(&mut observer, &prefix, keys, grants(&answers, &[]));
            });
        }
    });
}

#[test]
fn an_error_can_be_read_by_a_client_that_has_sent_on_and_the_server_reads_away_for_a_second() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let witness = Witness::start(server.address());
    let open = server.open_files();
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        let mut bytes = frame::hello(1, 1, "");
        bytes.push(b'?');
        bytes.resize(300_000, b'x');
        session.send(&bytes);
        assert!(matches!(
            session.next("the welcome or the error").answer,
            Answer::Welcome { .. } | Answer::Error { .. }
        ));
        let told = Instant::now();
        match session.event(10 * SECOND) {
            Event::Answer(arrival) => {
                assert!(arrival.answer.is_error(1, 0), "{arrival:?}");
                session.expect_end(2 * SECOND, "the end of the server's output");
            }
            other => assert_eq!(other, Event::End),
        }
        // The client neither closes nor stops sending; the server is done with it all the same.
        let mut refused = false;
        let lasted = wait_for("the server gives the session up", 10 * SECOND, || {
            refused |= session.try_send(&[b'x'; 100], SECOND).is_err();
            thread::sleep(Duration::from_millis(5));
            refused && server.open_files() == open
        });
        println!("{address}: given up {:?} after the error", told.elapsed());
        assert!(lasted < 2 * SECOND, "reading away took {lasted:?}");
    }
    witness.finish("sessions that close with an error");
}

#[test]
fn a_release_followed_at_once_by_a_close_counts() {
    let server = Server::start_on_both(PROGRAM, &[]);
    for address in server.addresses() {
        let mut waiter = Raw::connect(address);
        for round in 0..100 {
            let mut holder = Raw::connect(address);
            let grant = holder.hold(255, 1, "k");
            let sent = Instant::now();
            waiter.send(&frame::acquire(60, 60, round, "k"));
            waiter.ping();
            if round % 2 == 0 {
                // Pipelined behind other things whose answers nobody reads.
                holder.send(&[frame::ping(1), frame::query(2, "k"), frame::ping(3)].concat());
            }
            holder.send(&frame::release(grant.token, "k"));
            drop(holder);
            let next = waiter.granted(round, sent, 5 * SECOND, "the waiter behind a release and close");
            waiter.release(next.token, "k");
        }
    }
}

/// More than the server reads of one session in a turn, and the end right behind it.
#[test]
fn many_releases_followed_at_once_by_the_end_all_count() {
    const KEYS: u64 = 20_000;
    let server = Server::start_on_both(PROGRAM, &[]);
    for address in server.addresses() {
        let mut holder = Raw::connect(address);
        let prefix = format!("many/{address}/");
        let tokens = load::acquire_many(&mut holder, &prefix, 0, KEYS, 255);
        let mut session = Raw::connect(address);
        let mut writer = session.second_handle();
        let releases =
            tokens.iter().enumerate().flat_map(|(n, &token)| frame::release(token, format!("{prefix}{n}")));
        let bytes: Vec<u8> = releases.collect();
        let sender = thread::spawn(move || {
            writer.send(&bytes);
            writer.end_output();
        });
        // Its answers may be thrown away with the end of the session, its releases may not.
        let (answers, _) = session.read_to_end(20 * SECOND, "the end of a session");
        sender.join().expect("the sender has its own message");
        assert!(answers.iter().all(|answer| matches!(answer, Answer::Released { .. })));
        for n in 0..KEYS {
            assert_eq!(
                holder.query(format!("{prefix}{n}")),
                (0, 0, 0),
                "release {n} of {KEYS} does not count"
            );
        }
    }
}

#[test]
fn an_acquire_followed_at_once_by_the_end_is_heard_of_or_given_back() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let mut heard = [0; 2];
    for (which, address) in server.addresses().iter().enumerate() {
        let mut observer = Raw::connect(address);
        for round in 0..300 {
            let key = format!("k/{address}/{round}");
            let mut session = Raw::connect(address);
            if round % 3 == 1 {
                session.ping();
            }
            session.send(&frame::acquire(0, 255, 1, &key));
            if round % 3 == 2 {
                observer.ping();
            }
            session.end_output();
            let (answers, cut) = session.read_to_end(10 * SECOND, "the end of a session");
            let grants = grants(&answers, &cut);
            heard[which] += grants;
            let (state, ..) = observer.query(&key);
            assert_eq!(usize::from(state), grants, "{key}: {answers:?}");
        }
    }
    println!("{heard:?} of 300 grants were sent before the end was read");
}

#[test]
fn a_frame_cut_by_the_end_changes_nothing() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let mut observer = server.connect();
    let grant = observer.hold(255, 1, "k");
    let frames = [
        frame::acquire(0, 60, 1, "free"),
        frame::release(grant.token, "k"),
        frame::extend(1, grant.token, "k"),
        frame::query(1, "k"),
        frame::ping(1),
        frame::hello(1, 1, "name=cut"),
    ];
    for address in server.addresses() {
        for bytes in &frames {
            for cut in 1..bytes.len() {
                let mut session = Raw::connect(address);
                // A whole request before it counts.
                session.send(&[&frame::ping(9)[..], &bytes[..cut]].concat());
                if cut % 2 == 0 {
                    session.expect(Answer::Pong { id: 9 }, "a ping before a cut frame");
                }
                session.end_output();
                let awaited = "the end of a session whose last frame was cut";
                let (answers, rest) = session.read_to_end(10 * SECOND, awaited);
                assert!(answers.iter().all(|answer| *answer == Answer::Pong { id: 9 }), "{answers:?}");
                assert_eq!(rest, b"");
            }
        }
    }
    assert_eq!(observer.query("free"), (0, 0, 0));
    assert_eq!((observer.query("k").0, observer.query("k").2), (1, 0));
    observer.release(grant.token, "k");
}

/// Answers that a session must be given without having asked again do not fit: it is closed, long before its
/// 10 s.
#[test]
fn events_that_overflow_the_output_close_the_session() {
    const WAITERS: u64 = 30_000;
    let server = Server::start(PROGRAM, &[]);
    let witness = Witness::start(server.address());
    let mut observer = server.connect();
    observer.hold(255, 1, "blocked");
    let open = server.open_files();
    let mut session = server.connect();
    session.shrink_receive_buffer();
    let waits: Vec<u8> = (0..WAITERS).flat_map(|owner| frame::acquire(4, 5, owner, "blocked")).collect();
    let queued = Instant::now();
    session.send(&waits);
    session.ping();
    assert_eq!(observer.query("blocked").2, WAITERS as u32);
    // 30,000 timeouts are 300 kB; this leaves no room for them.
    let pings: Vec<u8> = (0..PINGS as u64).flat_map(frame::ping).collect();
    while session.try_send(&pings, Duration::from_millis(200)).is_ok() {}
    let filled = queued.elapsed();
    assert!(filled < 4 * SECOND, "the machine is too slow for this test: filling took {filled:?}");
    wait_for("the waits have ended", 10 * SECOND, || observer.query("blocked").2 == 0);
    wait_for("the session is closed", 3 * SECOND, || server.open_files() == open);
    assert!(queued.elapsed() >= 4 * SECOND, "closed before anything overflowed");
    witness.finish("a session that is overflown by events");
}

/// Sessions that are closed and opened in turn get none of each other's answers.
#[test]
fn a_new_session_never_gets_what_was_meant_for_an_older_one() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let mut holder = server.connect();
    for round in 0..300u64 {
        let address: &Address = &server.addresses()[round as usize % 2];
        let grant = holder.hold(255, 1, "k");
        let mut old = Raw::connect(address);
        old.send(&[frame::acquire(60, 1, 1, "k"), frame::acquire(60, 1, 2, "k")].concat());
        old.ping();
        drop(old);
        let mut new = Raw::connect(address);
        holder.send(&frame::release(grant.token, "k"));
        holder.expect(Answer::Released { token: grant.token }, "a release");
        new.ping();
        // Had the release been read before the close, the old session was granted: its lease of 1 s ends.
        let deadline = Instant::now() + 5 * SECOND;
        while new.query("k").0 == 1 {
            assert!(Instant::now() < deadline, "a closed session's waiters hold the key");
        }
    }
}
