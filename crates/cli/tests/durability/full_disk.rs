//! The disk is full, and has room again later.

use crate::disk::with_disk;
use crate::support::{FREE, HELD, SECOND, expect_warning, extend, is_active, log_of, refused, serve};
use lockstead_testkit::{Answer, Raw, frame};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How soon grants must go on when there is room again: the server tries every second.
const SOON: Duration = Duration::from_secs(5);

fn expect_busy(session: &mut Raw, owner: u64, awaited: &str) {
    session.expect(Answer::Busy { owner, reason: 6 }, awaited);
}

/// Acquires keys with long names until the disk takes no more; those that were granted, and the one that was not.
fn acquire_until_full(session: &mut Raw) -> (Vec<(String, u64)>, String) {
    let mut granted = Vec::new();
    for owner in 0..100 {
        let key = format!("{owner}/{}", "x".repeat(1000));
        match session.ask(&frame::acquire(0, 60, owner, &key)) {
            Answer::Acquired { owner: of, token, .. } if of == owner => granted.push((key, token)),
            Answer::Busy { owner: of, reason: 6 } if of == owner => return (granted, key),
            other => panic!("{other:?} on a full disk"),
        }
    }
    panic!("a disk without room took {} grants", granted.len());
}

/// Tries until a grant is given, and until then everything else must be `B` 6.
fn await_grants(session: &mut Raw, key: &str) -> u64 {
    let begun = Instant::now();
    for owner in 1_000.. {
        match session.ask(&frame::acquire(0, 60, owner, key)) {
            Answer::Acquired { token, .. } => return token,
            Answer::Busy { reason: 6, .. } => {
                assert!(
                    begun.elapsed() < SOON,
                    "nothing is granted {:?} after there was room",
                    begun.elapsed()
                );
                session.ping();
            }
            other => panic!("{other:?} while the storage fails"),
        }
    }
    unreachable!("there are more owners than time")
}

/// docs/protocol.md, *Request × key state*: nothing is granted and no end moves; releases work; when there is room
/// again, grants go on, and nothing that was answered is lost.
#[test]
fn a_full_disk_grants_nothing_and_loses_nothing() {
    with_disk("full_disk::a_full_disk_grants_nothing_and_loses_nothing", |disk| {
        let mut server = disk.serve();
        let (mut session, mut waiter) = (server.connect(), server.connect());
        let held: Vec<(String, u64)> =
            (0..6).map(|n| (format!("held{n}"), session.hold(60, n, format!("held{n}")).token)).collect();
        let short = session.hold(2, 50, "short");
        for owner in 1..=3 {
            waiter.send(&frame::acquire(60, 60, owner, "held0"));
        }
        waiter.ping();

        disk.fill();
        let (granted, taken_back) = acquire_until_full(&mut session);
        for owner in 1..=3 {
            expect_busy(&mut waiter, owner, "a waiter when the disk is full");
        }
        while_full(&mut session, &held, &taken_back);
        // A lease that ends frees its key, and still nobody is granted it.
        let begun = Instant::now();
        while session.query("short").0 == HELD {
            assert!(begun.elapsed() < 5 * SECOND, "a lease goes on for ever");
        }
        assert!(!is_active_while_full(&mut session, "short", short.token));
        assert_eq!(session.query("held1").0, FREE);
        session.send(&frame::acquire(60, 60, 70, "held1"));
        expect_busy(&mut session, 70, "an acquire of a key that came free");

        disk.make_room();
        let after = await_grants(&mut session, "after");
        assert!(granted.iter().chain(&held).all(|&(_, token)| token < after));
        extend(&mut session, 90, "held2", held[2].1);
        let last = session.hold(60, 80, &taken_back);
        server.kill();
        log_of(&disk.data());
        let server = disk.serve();
        let mut session = server.connect();
        for (key, token) in held.iter().chain(&granted) {
            let was_released = key == "held1";
            assert_eq!(is_active(&mut session, key, *token), !was_released, "{key} after a full disk");
        }
        assert!(is_active(&mut session, "after", after) && is_active(&mut session, &taken_back, last.token));
        assert!(session.query("held2").1 > 80_000, "an extend after a full disk is lost");
    });
}

/// What requests are answered while nothing can be written.
fn while_full(session: &mut Raw, held: &[(String, u64)], taken_back: &str) {
    for (owner, wait_s, key) in [(60, 0, "free"), (61, 9, "free"), (62, 0, "held0"), (63, 9, "held0")] {
        session.send(&frame::acquire(wait_s, 60, owner, key));
        expect_busy(session, owner, "an acquire while the disk is full");
    }
    assert_eq!(session.query(taken_back).0, FREE, "a grant that was not answered holds its key");
    let before_ms = session.query("held0").1;
    session.send(&frame::extend(200, held[0].1, "held0"));
    session.expect_error(10, held[0].1, "an extend while the disk is full");
    assert!(session.query("held0").1 <= before_ms, "the end moved");
    // Another token, as ever.
    session.send(&frame::extend(200, held[1].1, "held0"));
    session.expect(Answer::NotHeld { token: held[1].1 }, "an extend with another token");
    session.release(held[1].1, "held1");
    session.send(&frame::release(held[1].1, "held1"));
    session.expect(Answer::NotHeld { token: held[1].1 }, "a second release");
    assert_eq!(session.query("held1").0, FREE);
    assert_eq!(session.query("held0").0, HELD);
}

/// Whether a token is active, while an active one cannot be extended.
fn is_active_while_full(session: &mut Raw, key: &str, token: u64) -> bool {
    let answer = session.ask(&frame::extend(1, token, key));
    assert!(answer == Answer::NotHeld { token } || answer.is_error(10, token), "{answer:?}");
    answer.is_error(10, token)
}

/// docs/guarantees.md: a start that cannot write its checkpoint serves what it knows as *storage failing*; however
/// often it is killed, nothing of that is lost, and when there is room grants go on.
#[test]
fn a_start_on_a_full_disk_serves_what_it_knows() {
    with_disk("full_disk::a_start_on_a_full_disk_serves_what_it_knows", |disk| {
        let mut server = disk.serve();
        let mut session = server.connect();
        let held: Vec<(String, u64)> =
            (0..4).map(|n| (format!("held{n}"), session.hold(60, n, format!("held{n}")).token)).collect();
        disk.fill();
        let (granted, _) = acquire_until_full(&mut session);
        for round in 0..3 {
            server.kill();
            server = disk.serve();
            expect_warning(&server, &["cannot write"]);
            let mut session = server.connect();
            session.send(&frame::acquire(0, 60, 9, "free"));
            expect_busy(&mut session, 9, "an acquire of a start on a full disk");
            for (key, token) in held[1..].iter().chain(&granted) {
                assert!(is_active_while_full(&mut session, key, *token), "start {round}: {key} is lost");
            }
            if round == 2 {
                session.release(held[0].1, "held0");
            }
        }
        disk.make_room();
        let mut session = server.connect();
        let after = await_grants(&mut session, "after");
        assert!(held.iter().chain(&granted).all(|&(_, token)| token < after));
        server.kill();
        let server = disk.serve();
        let mut session = server.connect();
        for (key, token) in held.iter().chain(&granted) {
            assert_eq!(is_active(&mut session, key, *token), key != "held0", "{key} after two full starts");
        }
        assert!(is_active(&mut session, "after", after));
    });
}

/// docs/guarantees.md: on a disk that has become read-only, too.
#[test]
fn a_start_on_a_read_only_disk_serves_what_it_knows() {
    with_disk("full_disk::a_start_on_a_read_only_disk_serves_what_it_knows", |disk| {
        let mut server = disk.serve();
        let mut session = server.connect();
        let (kept, released) = (session.hold(60, 1, "kept"), session.hold(60, 2, "released"));
        server.kill();
        disk.make_read_only();
        let server = disk.serve();
        expect_warning(&server, &["cannot write"]);
        let mut session = server.connect();
        session.send(&frame::acquire(0, 60, 9, "free"));
        expect_busy(&mut session, 9, "an acquire of a start on a read-only disk");
        assert!(is_active_while_full(&mut session, "kept", kept.token));
        session.release(released.token, "released");
        refused(serve("process", &disk.data()), &["another server"]);
    });
}

/// docs/guarantees.md: an empty directory that cannot be written to is an error, not a server without a memory.
#[test]
fn a_first_start_on_a_full_disk_is_refused() {
    with_disk("full_disk::a_first_start_on_a_full_disk_is_refused", |disk| {
        fs::create_dir(disk.data()).unwrap();
        disk.fill();
        refused(serve("process", &disk.data()), &["data"]);
        disk.make_room();
        disk.serve().connect().hold(60, 1, "k");
    });
}

/// docs/guarantees.md: memory does not survive the machine, so mode `machine` refuses it, and `process` warns.
#[test]
fn a_directory_in_memory_is_refused_in_mode_machine() {
    with_disk("full_disk::a_directory_in_memory_is_refused_in_mode_machine", |disk| {
        let said = refused(serve("machine", &disk.data()), &["memory"]);
        assert!(names(&said, &disk.data()), "{said}");
        let server = disk.serve();
        expect_warning(&server, &["memory"]);
        server.connect().hold(60, 1, "k");
    });
}

fn names(said: &str, path: &Path) -> bool {
    said.contains(path.to_str().unwrap())
}
