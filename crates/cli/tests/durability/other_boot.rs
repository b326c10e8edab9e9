//! The machine was started anew in between, or may have been. `--boot-id-file` stands for it.

use crate::disk::with_disk;
use crate::support::{
    FREE, HELD, Place, RECOVERING, SECOND, expect_no_grant, extend, is_active, log_of, on_boot, refused,
    serve,
};
use lockstead_testkit::data_dir::Snapshot;
use lockstead_testkit::journal::{Record, set_stamp};
use lockstead_testkit::{Answer, Ends, Event, Server, boottime, frame, mounts};
use std::path::Path;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(15);

/// docs/protocol.md, *Request × key state*: grants may have been lost with the machine, so nothing is granted for as
/// long as they could last; what is known goes on.
#[test]
fn after_another_boot_mode_process_recovers_and_known_leases_go_on() {
    let place = Place::new();
    let mut server = place.serve_on_boot("process", "first").start();
    let mut session = server.connect();
    let released = session.hold(4, 1, "released");
    let ends_first = session.hold(2, 2, "ends first");
    let extended = session.hold(2, 3, "extended");
    server.kill();
    let ceiling = Duration::from_millis(place.log().lease_ceiling_ms());
    assert!(ceiling >= 4 * SECOND, "{ceiling:?}");

    let server = place.serve_on_boot("process", "second").start();
    let mut session = server.connect();
    let (state, remaining_ms, waiters) = session.query("free");
    assert_eq!((state, waiters), (RECOVERING, 0));
    assert!(u64::from(remaining_ms) <= ceiling.as_millis() as u64 + 2, "{remaining_ms} ms of {ceiling:?}");
    expect_no_grant(&mut session, "free");
    expect_no_grant(&mut session, "ends first");
    // Holders from before extend and release; a key that comes free is granted to nobody yet.
    assert_eq!(session.query("ends first").0, HELD);
    extend(&mut session, 8, "extended", extended.token);
    session.release(released.token, "released");
    assert_eq!(session.query("released").0, RECOVERING);
    // Waiters queue, and are granted when the recovery ends.
    for (owner, key) in [(11, "free"), (12, "released"), (13, "ends first")] {
        session.send(&frame::acquire(60, 1, owner, key));
    }
    assert_eq!(session.query("free").2, 1);
    let mut ends = Ends::of("the recovery");
    for _ in 0..3 {
        let arrival = session.next_within(WAIT, "the end of the recovery");
        let Answer::Acquired { owner, token, .. } = arrival.answer else { panic!("{arrival:?}") };
        assert!((11..=13).contains(&owner) && token > extended.token);
        ends.judge(server.started(), ceiling, arrival.at);
    }
    assert!(is_active(&mut session, "extended", extended.token));
    assert!(!is_active(&mut session, "ends first", ends_first.token));
    session.hold(1, 14, "at once");
}

/// docs/journal-format.md, *Reading*: after another boot a lease runs what was left of it when it was written,
/// counted from the start, and is written anew with that end.
#[test]
fn after_another_boot_leases_run_what_was_left_of_them() {
    for mode in ["process", "machine"] {
        let place = Place::new();
        let mut server = place.serve_on_boot(mode, "first").start();
        let grant = server.connect().hold(3, 1, "k");
        // A second of it passes before the machine stops. (Nothing but time can be waited for.)
        assert_eq!(server.connect().event(SECOND), Event::Quiet);
        server.kill();
        let server = place.serve_on_boot(mode, "second").start();
        let mut session = server.connect();
        assert!(is_active(&mut session, "k", grant.token), "{mode}: a lease of 3 s was cut short");
        let remaining_ms = session.query("k").1;
        assert!(remaining_ms <= 3_002, "{mode}: {remaining_ms} ms are left");
        let asked = Instant::now();
        session.send(&frame::acquire(20, 1, 2, "k"));
        let next = session.granted(2, asked, WAIT, "the next holder");
        Ends::of(format!("{mode}: a lease over a boot")).judge(server.started(), 3 * SECOND, next.at);
        drop(server);
        let log = place.log();
        assert!(log.run().boot.starts_with("second/"), "{:?}", log.run());
        let copy = log.records().find_map(|(at_ms, record)| match record {
            Record::Copy(lease) if lease.token == grant.token => Some((at_ms, lease.end_ms)),
            _ => None,
        });
        let (at_ms, end_ms) = copy.expect("the lease is in the checkpoint of the start");
        assert!((at_ms + 3_000..=at_ms + 3_003).contains(&end_ms), "{mode}: {at_ms} to {end_ms} ms");
    }
}

/// docs/guarantees.md: neither a clean stop nor any number of restarts shortens a recovery.
#[test]
fn neither_stops_nor_kills_shorten_a_recovery() {
    let place = Place::new();
    let mut server = place.serve_on_boot("process", "first").start();
    server.connect().hold(6, 1, "k");
    server.kill();
    let ceiling = Duration::from_millis(place.log().lease_ceiling_ms());
    let mut server = place.serve_on_boot("process", "second").start();
    let recovering = server.started();
    for is_clean in [true, false, true] {
        assert_eq!(server.connect().query("free").0, RECOVERING);
        let mode = if is_clean {
            server.terminate();
            server.wait_exit(5 * SECOND, "a clean stop");
            "machine"
        } else {
            server.kill();
            "process"
        };
        // Not in the other mode either.
        server = place.serve_on_boot(mode, "second").start();
    }
    let mut session = server.connect();
    assert_eq!(session.query("free").0, RECOVERING);
    let asked = Instant::now();
    session.send(&frame::acquire(60, 1, 2, "free"));
    let granted = session.granted(2, asked, WAIT, "the end of the recovery");
    Ends::of("a recovery over three restarts").judge(recovering, ceiling, granted.at);
}

/// docs/guarantees.md: what was left of a recovery goes on over a further boot of the machine, too, although the run
/// before stopped cleanly.
#[test]
fn a_recovery_goes_on_over_a_further_boot() {
    let place = Place::new();
    let mut server = place.serve_on_boot("process", "first").start();
    server.connect().hold(30, 1, "k");
    server.kill();
    let mut server = place.serve_on_boot("process", "second").start();
    server.connect().ping();
    server.terminate();
    server.wait_exit(5 * SECOND, "a clean stop");
    let log = place.log();
    assert!(log.is_stopped() && log.run().recovery_left_ms >= 30_000, "{:?}", log.run());
    let server = place.serve_on_boot("machine", "third").start();
    let (state, remaining_ms, _) = server.connect().query("free");
    assert_eq!(state, RECOVERING);
    assert!(remaining_ms > 25_000, "{remaining_ms} ms are left");
}

/// docs/guarantees.md, mode `machine`: every lease is restored, and there is no recovery.
#[test]
fn after_another_boot_mode_machine_does_not_recover() {
    let place = Place::new();
    let mut server = place.serve_on_boot("machine", "first").start();
    let grant = server.connect().hold(60, 1, "k");
    server.kill();
    // What counts is the mode of the run that may have lost something, not that of the next.
    let server = place.serve_on_boot("process", "second").start();
    goes_on(&server, "k", grant.token);
}

/// docs/guarantees.md: after a clean stop another boot has lost nothing.
#[test]
fn after_a_clean_stop_another_boot_does_not_recover() {
    for mode in ["process", "machine"] {
        let place = Place::new();
        let mut server = place.serve_on_boot(mode, "first").start();
        let grant = server.connect().hold(60, 1, "k");
        server.terminate();
        server.wait_exit(5 * SECOND, "a clean stop");
        let server = place.serve_on_boot(mode, "second").start();
        goes_on(&server, "k", grant.token);
    }
}

/// The lease is there, and free keys are granted.
fn goes_on(server: &Server, key: &str, token: u64) {
    let mut session = server.connect();
    assert_eq!(session.query(key).0, HELD);
    assert_eq!(session.query("free").0, FREE);
    assert!(is_active(&mut session, key, token));
    session.hold(1, 2, "free");
}

/// docs/guarantees.md: a boot that the system does not tell is another one.
#[test]
fn a_boot_that_the_system_does_not_tell_is_another_one() {
    with_disk("other_boot::a_boot_that_the_system_does_not_tell_is_another_one", |disk| {
        // Hides the kernel's boot id from this test's servers.
        mounts::mount_tmpfs(Path::new("/proc/sys/kernel/random"), 4096).unwrap();
        let mut server = disk.serve();
        let grant = server.connect().hold(60, 1, "k");
        server.kill();
        assert_eq!(log_of(&disk.data()).run().boot, "");
        let server = disk.serve();
        let mut session = server.connect();
        assert_eq!(session.query("free").0, RECOVERING);
        assert!(is_active(&mut session, "k", grant.token));
    });
}

/// A file that was named for the boot id and cannot be read is a mistake of whoever named it.
#[test]
fn a_boot_id_file_that_is_not_there_is_refused() {
    let place = Place::new();
    place.serve_on_boot("process", "first").start().connect().hold(60, 1, "k");
    let before = Snapshot::of(&place.data());
    let missing = place.beside("missing");
    let missing = missing.to_str().unwrap();
    refused(place.serve("process").args(&["--boot-id-file", missing]), &[missing]);
    assert!(before == Snapshot::of(&place.data()), "a refused start changed {before:?}");
}

/// docs/journal-format.md, *Reading*: a clock below an instant in the journal is that of another boot, whatever the
/// boot id says.
#[test]
fn a_clock_below_the_newest_stamp_is_of_another_boot() {
    let place = Place::new();
    let mut server = place.serve_on_boot("process", "first").start();
    let grant = server.connect().hold(20, 1, "k");
    server.kill();
    let mut snapshot = Snapshot::of(&place.data());
    let log = place.log();
    let (name, last) = (log.last_segment().name.clone(), log.last_segment().last().offset);
    let later_ms = boottime::ms(boottime::now()) + 3_600_000;
    set_stamp(snapshot.bytes_mut(&name), last, later_ms);
    let forged = place.beside("forged");
    snapshot.write_to(&forged);
    let server = on_boot(serve("process", &forged), &place.beside("first"), "first").start();
    let mut session = server.connect();
    assert_eq!(session.query("free").0, RECOVERING);
    assert!(is_active(&mut session, "k", grant.token));
    assert!(session.query("k").1 <= 20_002, "an end of another boot was believed");
}
