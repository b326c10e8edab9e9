//! What a server that was killed or stopped goes on with, on the same boot of the machine.

use crate::support::{
    BOTH, FREE, HELD, PROGRAM, Place, SECOND, expect_no_grant, expect_warning, extend, is_active,
};
use lockstead_testkit::journal::{Record, segments};
use lockstead_testkit::{Answer, Builder, Ends, Raw, Server, frame};
use std::collections::HashSet;
use std::process::Command;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(10);

/// docs/guarantees.md: every lease is restored with its true end, without a pause. A waiter gets the key at that end,
/// neither before nor later than a waiter of a server that was never killed.
#[test]
fn a_lease_that_was_answered_ends_when_it_would_have() {
    for mode in BOTH {
        let place = Place::new();
        let mut ends = Ends::of(format!("{mode}: leases over a kill"));
        let mut server = place.serve(mode).start();
        let mut session = server.connect();
        let hold = |n: u64| (format!("k{n}"), session.hold(2 + n as u8 / 4, n, format!("k{n}")));
        let grants: Vec<_> = (0..12).map(hold).collect();
        let kept = session.hold(60, 99, "kept");
        server.kill();
        let server = place.serve(mode).start();
        let mut session = server.connect();
        let (state, remaining_ms, waiters) = session.query("kept");
        assert!(state == HELD && waiters == 0 && (50_000..=60_001).contains(&remaining_ms), "{remaining_ms}");
        let asked = Instant::now();
        for (n, (key, _)) in (0..).zip(&grants) {
            session.send(&frame::acquire(20, 5, n, key));
        }
        for (n, (_, grant)) in (0..).zip(&grants) {
            let next = session.granted(n, asked, WAIT, "the next holder after a restart");
            assert!(next.token > kept.token, "{} after {}", next.token, kept.token);
            ends.judge(grant.begun(), grant.lease(), next.at);
        }
        // In mode `machine` the grant has to wait for the disk, too, which may be busy with anything.
        if mode == "process" {
            ends.finish();
        }
        session.release(kept.token, "kept");
        // A key that nobody held is granted at once.
        session.hold(1, 10, "free");
    }
}

/// docs/guarantees.md: an extend that was answered counts, as an acquire does.
#[test]
fn a_later_end_that_was_answered_is_kept() {
    for mode in BOTH {
        let place = Place::new();
        let mut server = place.serve(mode).start();
        let mut session = server.connect();
        let grant = session.hold(2, 1, "k");
        let sent = Instant::now();
        extend(&mut session, 4, "k", grant.token);
        let answered = Instant::now();
        server.kill();
        let server = place.serve(mode).start();
        let mut session = server.connect();
        let asked = Instant::now();
        session.send(&frame::acquire(20, 1, 2, "k"));
        let next = session.granted(2, asked, WAIT, "the holder after the extended lease");
        Ends::of(format!("{mode}: an extended lease over a kill")).judge(
            (sent, answered),
            4 * SECOND,
            next.at,
        );
    }
}

/// docs/guarantees.md: an extend that moves no end writes nothing, and is answered all the same.
#[test]
fn an_extend_that_moves_no_end_writes_nothing() {
    for mode in BOTH {
        let place = Place::new();
        let mut server = place.serve(mode).start();
        let mut session = server.connect();
        let grant = session.hold(60, 1, "k");
        for lease_s in [1, 59] {
            extend(&mut session, lease_s, "k", grant.token);
        }
        extend(&mut session, 100, "k", grant.token);
        server.kill();
        let log = place.log();
        let extended = log.records().filter_map(|(_, record)| match record {
            Record::Extended(lease) => Some((lease.token, lease.left_ms)),
            _ => None,
        });
        let extended: Vec<(u64, u32)> = extended.collect();
        assert_eq!(extended, [(grant.token, 100_001)], "{mode}");
    }
}

/// docs/guarantees.md: waiters never survive; the key goes to those who ask the new server.
#[test]
fn waiters_do_not_survive() {
    for mode in BOTH {
        let place = Place::new();
        let mut server = place.serve(mode).start();
        let mut session = server.connect();
        let grant = session.hold(60, 1, "k");
        for owner in 2..10 {
            session.send(&frame::acquire(60, 60, owner, "k"));
        }
        assert_eq!(session.query("k").2, 8);
        server.kill();
        let server = place.serve(mode).start();
        let mut session = server.connect();
        assert_eq!((session.query("k").0, session.query("k").2), (HELD, 0));
        session.release(grant.token, "k");
        assert_eq!(session.query("k").0, FREE, "{mode}");
    }
}

/// docs/guarantees.md: a release that was answered and then lost keeps the key held, never the other way round; and a
/// release that was kept is not undone.
#[test]
fn a_release_frees_for_good_once_another_was_granted() {
    for mode in BOTH {
        let place = Place::new();
        let mut server = place.serve(mode).start();
        let mut session = server.connect();
        let first = session.hold(60, 1, "k");
        session.release(first.token, "k");
        let second = session.hold(60, 2, "k");
        server.kill();
        let server = place.serve(mode).start();
        let mut session = server.connect();
        assert!(!is_active(&mut session, "k", first.token), "{mode}: the first holder is back");
        assert!(is_active(&mut session, "k", second.token), "{mode}: the second holder is lost");
    }
}

/// docs/guarantees.md, *When the server stops or dies*: leases survive a clean stop, which does not wait for them;
/// the log ends with a stop record.
#[test]
fn a_clean_stop_leaves_its_leases_and_a_stop_record() {
    for mode in BOTH {
        let place = Place::new();
        let mut server = place.serve(mode).start();
        let mut session = server.connect();
        let grant = session.hold(60, 1, "k");
        session.send(&frame::acquire(60, 60, 2, "k"));
        session.ping();
        let asked = Instant::now();
        server.terminate();
        session.expect(Answer::Busy { owner: 2, reason: 5 }, "a waiter when the server drains");
        session.expect_end(5 * SECOND, "the end of a server that stops");
        assert_eq!(server.wait_exit(5 * SECOND, "a clean stop").code(), Some(0));
        assert!(asked.elapsed() < 4 * SECOND, "it waited {:?} for a lease", asked.elapsed());
        assert!(place.log().is_stopped(), "{mode}: {:?}", place.log().last_segment().last());
        let server = place.serve(mode).start();
        let mut session = server.connect();
        assert_eq!(session.query("k").0, HELD);
        assert!(is_active(&mut session, "k", grant.token), "{mode}");
        session.hold(1, 3, "free");
    }
}

/// docs/journal-format.md, *Log*: a start makes a checkpoint, and older segments go away.
#[test]
fn a_start_leaves_one_segment() {
    let place = Place::new();
    let mut newest = 0;
    for _ in 0..4 {
        let mut server = place.serve("process").start();
        let mut session = server.connect();
        session.hold(60, 1, format!("k{newest}"));
        let begun = Instant::now();
        while segments(&place.data()).is_ok_and(|segments| segments.len() > 1) {
            assert!(begun.elapsed() < 5 * SECOND, "older segments stay");
            session.ping();
        }
        server.kill();
        let log = place.log();
        let number = log.last_segment().number;
        assert!(number > newest, "segment {number} after {newest}");
        newest = number;
    }
    assert_eq!(place.log().leases().len(), 4);
}

/// docs/guarantees.md: tokens rise over restarts, also if the wall clock was set back in between.
#[test]
fn tokens_rise_though_the_wall_clock_is_set_back() {
    for mode in BOTH {
        let place = Place::new();
        std::fs::create_dir(place.beside("clock")).unwrap();
        let clock = lockstead_testkit::wall_clock::WallClock::new(&place.beside("clock"));
        let mut last_token = 0;
        let runs = [(0, false), (-1, true), (-400, false), (1, false), (0, true)];
        for (run, (days, is_clean)) in runs.into_iter().enumerate() {
            clock.set_offset_s(days * 86_400);
            let env = clock.env();
            let builder = env.iter().fold(place.serve(mode), |b, (name, value)| b.env(name, value));
            let mut server = builder.start();
            let mut session = server.connect();
            for owner in 0..5 {
                let grant = session.hold(60, owner, format!("{run}/{owner}"));
                assert!(grant.token > last_token, "{mode}: {} after {last_token}", grant.token);
                assert!(grant.token < 1 << 53, "{mode}: {} is not exact in JSON", grant.token);
                last_token = grant.token;
            }
            if is_clean {
                server.terminate();
                server.wait_exit(5 * SECOND, "a clean stop");
            } else {
                server.kill();
            }
        }
    }
}

/// docs/protocol.md, *Hello*: the id is drawn when the data directory is made, and no session's number is used twice
/// under it.
#[test]
fn the_id_stays_and_session_numbers_are_not_used_again() {
    let place = Place::new();
    let mut ids = HashSet::new();
    let mut numbers = HashSet::new();
    for round in 0..4 {
        let mut server = place.serve("process").start();
        for _ in 0..3 {
            let mut session = server.connect();
            let (id, number) = welcome(&mut session);
            ids.insert(id);
            assert!(numbers.insert(number.clone()), "session {number} once more");
        }
        if round == 1 {
            server.terminate();
            server.wait_exit(5 * SECOND, "a clean stop");
        } else {
            server.kill();
        }
    }
    assert_eq!(ids.len(), 1, "{ids:?}");
    let id = place.log().run().server_id.map(|byte| format!("{byte:02x}")).concat();
    assert!(ids.contains(&id), "the journal has {id}, clients were told {ids:?}");
}

fn welcome(session: &mut Raw) -> (String, String) {
    session.send(&frame::hello(1, 1, "name=checker"));
    let Answer::Welcome { text, .. } = session.next("a welcome").answer else { panic!("no welcome") };
    let value = |name: &str| {
        let mut pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.find(|(of, _)| *of == name).map(|(_, value)| value.to_owned()).unwrap()
    };
    (value("id"), value("session"))
}

/// docs/guarantees.md: the mode is `process` unless another is asked for.
#[test]
fn mode_process_is_the_default() {
    let place = Place::new();
    let data = place.data();
    let start = || -> Server {
        let builder = Builder::bare(PROGRAM).listen("127.0.0.1:0");
        builder.args(&["--data-dir", data.to_str().unwrap()]).start()
    };
    let mut server = start();
    let grant = server.connect().hold(60, 1, "k");
    server.kill();
    assert_eq!(place.log().run().mode, lockstead_testkit::journal::PROCESS);
    assert!(is_active(&mut start().connect(), "k", grant.token));
}

/// docs/guarantees.md, mode `none`: the directory is left alone, with a warning; the next start grants at once.
#[test]
fn mode_none_leaves_the_directory_alone_and_says_so() {
    let place = Place::new();
    let mut server = place.serve("none").start();
    expect_warning(&server, &["data-dir"]);
    let mut session = server.connect();
    session.hold(60, 1, "k");
    expect_no_grant(&mut session, "k");
    server.kill();
    assert!(!place.data().exists(), "mode none made a data directory");
    place.serve("none").start().connect().hold(60, 1, "k");
}

/// What `journal dump` says is what the files say.
#[test]
fn a_dump_shows_every_record() {
    let place = Place::new();
    let mut server = place.serve("process").start();
    let mut session = server.connect();
    let grant = session.hold(60, 1, "schlüssel");
    extend(&mut session, 90, "schlüssel", grant.token);
    session.release(grant.token, "schlüssel");
    session.hold(60, 2, "k");
    server.kill();
    let mut command = Command::new(PROGRAM);
    command.args(["journal", "dump", "--data-dir"]).arg(place.data());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let segments = segments(&place.data()).unwrap();
    let expected: Vec<serde_json::Value> = segments.iter().flat_map(|segment| segment.lines()).collect();
    assert_eq!(lines, expected);
}
