//! What waits for the disk and what does not, with a disk whose syncs wait, or fail.

use crate::support::{BOTH, FREE, HELD, Place, SECOND, extend, is_active, log_of};
use lockstead_testkit::syncs::Syncs;
use lockstead_testkit::{Answer, Event, Raw, Server, frame};
use std::fs;
use std::time::{Duration, Instant};

/// Long enough for an answer that does not wait for the disk.
const A_WHILE: Duration = Duration::from_millis(300);
/// How soon grants must go on when the disk works again: the server tries every second.
const SOON: Duration = Duration::from_secs(5);

/// A place with a disk that a test controls.
struct Controlled {
    place: Place,
    syncs: Syncs,
}

impl Controlled {
    fn new() -> Self {
        let place = Place::new();
        let dir = place.beside("syncs");
        fs::create_dir(&dir).unwrap();
        Self { place, syncs: Syncs::new(&dir) }
    }

    fn start(&self, mode: &str) -> Server {
        let env = self.syncs.env();
        env.iter().fold(self.place.serve(mode), |builder, (name, value)| builder.env(name, value)).start()
    }

    /// After a kill: the next run, with a disk that works, has all these leases.
    fn judge_next_run(&self, mode: &str, held: &[(&str, u64)]) {
        log_of(&self.place.data());
        let server = self.place.serve(mode).start();
        let mut session = server.connect();
        for (key, token) in held {
            assert!(is_active(&mut session, key, *token), "{mode}: {key} is lost");
        }
    }
}

fn expect_quiet(session: &mut Raw, what: &str) {
    let event = session.event(A_WHILE);
    assert_eq!(event, Event::Quiet, "{what}");
}

/// docs/guarantees.md, mode `machine`: a grant and an extend are answered when they are on the disk; what stands
/// behind the extend waits with it, and nothing else waits.
#[test]
fn mode_machine_answers_a_grant_when_it_is_on_the_disk() {
    let disk = Controlled::new();
    let mut server = disk.start("machine");
    let (mut session, mut other) = (server.connect(), server.connect());
    // The longest lease first, so that none of the next has to wait for anything but itself.
    let first = session.hold(255, 1, "first");
    let second = session.hold(60, 2, "second");
    let third = other.hold(60, 3, "third");
    disk.syncs.hold();
    session.send(&frame::acquire(0, 60, 4, "k"));
    session.ping();
    expect_quiet(&mut session, "a grant that is not on the disk was answered");
    session.send(&frame::extend(255, first.token, "first"));
    session.send(&frame::release(second.token, "second"));
    session.send(&frame::release(second.token, "second"));
    expect_quiet(&mut session, "an extend that is not on the disk was answered, or what is behind it");
    // Everything else goes on.
    assert_eq!(session.query("k").0, HELD);
    other.ping();
    other.release(third.token, "third");
    other.send(&frame::acquire(0, 1, 5, "k"));
    other.expect(Answer::TimedOut { owner: 5 }, "a try for a key that is held");
    disk.syncs.work();
    let arrival = session.next("the grant, once it is on the disk");
    let Answer::Acquired { owner: 4, token, .. } = arrival.answer else { panic!("{arrival:?}") };
    session.expect(Answer::Extended { token: first.token, lease_s: 255 }, "the extend behind it");
    session.expect(Answer::Released { token: second.token }, "the release behind that");
    session.expect(Answer::NotHeld { token: second.token }, "the second release");
    server.kill();
    disk.judge_next_run("machine", &[("first", first.token), ("k", token)]);
}

/// docs/guarantees.md, mode `process`: the system has taken the record, and that is enough. A disk that does not
/// answer delays no grant, and a kill loses none.
#[test]
fn mode_process_does_not_wait_for_the_disk() {
    let disk = Controlled::new();
    let mut server = disk.start("process");
    let mut session = server.connect();
    let first = session.hold(255, 1, "first");
    disk.syncs.hold();
    let second = session.hold(60, 2, "second");
    extend(&mut session, 255, "first", first.token);
    server.kill();
    disk.syncs.work();
    disk.judge_next_run("process", &[("first", first.token), ("second", second.token)]);
}

/// docs/guarantees.md, mode `process`: it is on the disk about a second later.
#[test]
fn mode_process_syncs_about_every_second() {
    let disk = Controlled::new();
    let server = disk.start("process");
    let mut session = server.connect();
    session.hold(255, 1, "first");
    for round in 0..3 {
        let before = disk.syncs.count();
        let begun = Instant::now();
        let grant = session.hold(60, 2, "k");
        while disk.syncs.count() == before {
            assert!(begun.elapsed() < 3 * SECOND, "grant {round} is not synced after {:?}", begun.elapsed());
            session.ping();
        }
        session.release(grant.token, "k");
    }
}

/// docs/journal-format.md, *Records*: a lease longer than all before is given only when the disk knows that there may
/// be such leases, in every mode.
#[test]
fn a_longer_lease_waits_until_its_ceiling_is_on_the_disk() {
    for mode in BOTH {
        let disk = Controlled::new();
        let mut server = disk.start(mode);
        let mut session = server.connect();
        disk.syncs.hold();
        let ceiling_ms = log_of(&disk.place.data()).lease_ceiling_ms();
        assert!(ceiling_ms < 200_000, "{mode}: a first run begins with a ceiling of {ceiling_ms} ms");
        session.send(&frame::acquire(0, 200, 1, "k"));
        expect_quiet(&mut session, "a lease above the ceiling was given");
        disk.syncs.work();
        let arrival = session.next("the grant, once its ceiling is on the disk");
        let Answer::Acquired { owner: 1, token, lease_s: 200, .. } = arrival.answer else {
            panic!("{mode}: {arrival:?}")
        };
        server.kill();
        disk.judge_next_run(mode, &[("k", token)]);
    }
}

/// docs/protocol.md, *Request × key state*: a sync that failed is not taken for one that worked. What waited for it
/// is not granted; when the disk works again, grants go on, and nothing that was answered is lost.
#[test]
fn a_sync_that_fails_grants_nothing() {
    for mode in BOTH {
        let disk = Controlled::new();
        let mut server = disk.start(mode);
        let (mut session, mut waiter) = (server.connect(), server.connect());
        let first = session.hold(255, 1, "first");
        let second = session.hold(60, 2, "second");
        waiter.send(&frame::acquire(255, 60, 3, "first"));
        waiter.ping();
        disk.syncs.fail();
        // In mode `process` the disk is asked in the background.
        let mut given = Vec::new();
        let begun = Instant::now();
        for owner in 10.. {
            assert!(begun.elapsed() < SOON, "{mode}: grants go on although no sync works");
            match session.ask(&frame::acquire(0, 60, owner, format!("k{owner}"))) {
                Answer::Acquired { token, .. } => given.push((format!("k{owner}"), token)),
                answer => {
                    assert_eq!(answer, Answer::Busy { owner, reason: 6 }, "{mode}");
                    break;
                }
            }
        }
        assert!(mode == "process" || given.is_empty(), "{mode}: {given:?} were given without the disk");
        waiter.expect(Answer::Busy { owner: 3, reason: 6 }, "a waiter when the disk fails");
        session.send(&frame::extend(255, first.token, "first"));
        session.expect_error(10, first.token, "an extend while the disk fails");
        session.release(second.token, "second");
        disk.syncs.work();
        let begun = Instant::now();
        let after = loop {
            match session.ask(&frame::acquire(0, 60, 4, "after")) {
                Answer::Acquired { token, .. } => break token,
                answer => assert_eq!(answer, Answer::Busy { owner: 4, reason: 6 }, "{mode}"),
            }
            assert!(
                begun.elapsed() < SOON,
                "{mode}: nothing is granted {:?} after the fault",
                begun.elapsed()
            );
        };
        extend(&mut session, 255, "first", first.token);
        server.kill();
        let mut held: Vec<(&str, u64)> = given.iter().map(|(key, token)| (key.as_str(), *token)).collect();
        held.extend([("first", first.token), ("after", after)]);
        disk.judge_next_run(mode, &held);
        let leases = log_of(&disk.place.data()).leases();
        assert!(!leases.contains_key("second"), "{mode}: a release that was answered is undone");
    }
}

/// docs/protocol.md, *Session close*: a stop closes the sessions, and a grant that nobody was told of by then is freed,
/// so that the next run does not hold a key for nobody.
#[test]
fn a_grant_that_nobody_was_told_of_does_not_outlive_the_stop() {
    let disk = Controlled::new();
    let mut server = disk.start("machine");
    let mut session = server.connect();
    let told = session.hold(60, 1, "told");
    disk.syncs.hold();
    session.send(&frame::acquire(0, 60, 2, "untold"));
    session.ping();
    server.terminate();
    // Answers are written for a second; then every session is closed, before the clean stop.
    session.expect_end(SOON, "a stop closes the session");
    disk.syncs.work();
    let status = server.wait_exit(SOON, "the clean stop, once the disk works");
    assert!(status.success(), "{status}: {}", server.stderr());
    disk.judge_next_run("machine", &[("told", told.token)]);
    let server = disk.place.serve("machine").start();
    assert_eq!(server.connect().query("untold").0, FREE, "a key is held for nobody");
}

/// docs/operations.md, *Stopping, and moving to another machine*: a second signal ends at once, though the disk hangs,
/// while the last answers wait for it and while the journal makes its clean stop.
#[test]
fn a_second_signal_does_not_wait_for_the_disk() {
    for in_clean_stop in [false, true] {
        let disk = Controlled::new();
        let mut server = disk.start("machine");
        let mut session = server.connect();
        let told = session.hold(60, 1, "told");
        disk.syncs.hold();
        if in_clean_stop {
            // The stop record waits for the disk, and no answer does.
            server.terminate();
            session.expect_end(SOON, "a stop closes the session");
        } else {
            session.send(&frame::acquire(0, 60, 2, "untold"));
            session.ping();
            server.terminate();
            while !server.stderr().contains("drained") {
                std::thread::yield_now();
            }
        }
        server.terminate();
        let status = server.wait_exit(SOON, "the end after a second signal");
        assert!(!status.success(), "it was no clean stop");
        assert!(server.stderr().contains("second signal"), "{}", server.stderr());
        disk.syncs.work();
        disk.judge_next_run("machine", &[("told", told.token)]);
    }
}
