//! Storage that fails: what is lost, what is tried, and what is never tried.

use crate::batch::{self, Place};
use crate::core::begin;
use crate::job::publish;
use crate::record::{Cause, Kind, LeaseRecord, Record, Run};
use crate::replay::{Directory, Log};
use crate::segment::{self, Name};
use crate::tests::bench::{Bench, Rng, end, newest, options, outgrow};
use crate::*;

const A: &str = "this boot";
const BOTH: [Mode; 2] = [Mode::Process, Mode::Machine];

/// A server with a lease of a minute on `old`.
fn serving(mode: Mode) -> Bench {
    let mut bench = Bench::open(Disk::default(), &options(mode, A, 1_000));
    let token = bench.first_token;
    bench.turn(1_000, |journal| journal.granted("old", token, end(1_000, 60)));
    bench.turn(2_000, |_| ());
    bench.turn(3_000, |_| ());
    bench
}

fn failed_after(changes: &[Change]) -> Position {
    match changes {
        [Change::Failed { after, .. }] => *after,
        other => panic!("{other:?}"),
    }
}

/// Hands in the leases, turn by turn, until the journal has made its checkpoint.
fn recover(bench: &mut Bench, now_ms: u64, leases: &[(&str, u64, u64)]) {
    bench.turn(now_ms, |_| ());
    assert!(bench.journal.checkpoint().is_some(), "a checkpoint is tried");
    bench.turn(now_ms + 1, |journal| {
        assert!(journal.wants_copy());
        for &(key, token, ends_ms) in leases {
            journal.copy(key, token, ends_ms);
        }
        journal.end_copies();
    });
    assert_eq!(bench.changes(), [Change::Recovered]);
    assert!(!bench.journal.is_failing());
    assert_eq!(bench.journal.deadline_ms(), None, "everything is synced, so there is nothing to wake for");
    assert_eq!(bench.journal.reached(), bench.journal.position(), "nothing is left to wait for");
}

/// A server with a lease of half a minute on `k` that has done so many jobs towards a checkpoint: it synced its log, made
/// the checkpoint's segment, and made the one behind it. The next is under way.
fn after_jobs_of_a_checkpoint(jobs: usize) -> (Bench, u64) {
    let small = OpenOptions { checkpoint_bytes: 1_000, ..options(Mode::Process, A, 1_000) };
    let mut bench = Bench::open(Disk::default(), &small);
    let token = bench.first_token;
    bench.journal.turn(1_001);
    outgrow(&mut bench.journal, 1_000);
    bench.journal.granted("k", token, end(1_001, 30));
    bench.journal.flush();
    for _ in 0..jobs {
        assert!(bench.manual.step());
        bench.journal.turn(1_002);
        bench.journal.flush();
    }
    (bench, token)
}

#[test]
fn after_a_failed_write_nothing_is_appended_until_a_checkpoint_has_succeeded() {
    for mode in BOTH {
        let mut bench = serving(mode);
        let token = bench.first_token;
        let safe = bench.journal.reached();
        bench.storage.fail(Fault::Append, 1);
        let lost = bench.turn(4_000, |journal| journal.granted("new", token + 1, end(4_000, 30)));
        assert_eq!(failed_after(&bench.changes()), safe);
        assert!(bench.journal.is_failing() && bench.journal.reached() < lost);
        assert_eq!(bench.journal.take_tokens(0), None, "nothing is granted");
        let (name, torn) = newest(&bench.storage.disk());
        // The grant is taken back, something is released: nothing of that goes into the segment with the torn end.
        bench.turn(4_001, |journal| journal.freed("new", token + 1));
        assert_eq!(bench.journal.deadline_ms(), Some(5_000));
        bench.turn(4_999, |_| ());
        assert_eq!(bench.storage.disk().content(&name), Some(&torn[..]));

        recover(&mut bench, 5_000, &[("old", token, end(1_000, 60))]);
        let disk = bench.storage.disk();
        assert!(
            disk.names().all(|left| left != name) && disk.names().count() == 2,
            "the torn segment is gone"
        );
        let next = bench.turn(6_000, |journal| journal.granted("new", token + 2, end(6_000, 30)));
        assert!(bench.journal.reached() >= next);
        let again = Bench::open(bench.killed(), &options(mode, A, 7_000));
        assert_eq!(again.held(), [("new", token + 2, 36_001), ("old", token, 61_001)]);
        assert_eq!(again.warnings, []);
    }
}

#[test]
fn a_failed_sync_is_not_tried_again_as_if_it_had_worked() {
    for mode in BOTH {
        let mut bench = serving(mode);
        let token = bench.first_token;
        bench.storage.fail(Fault::Sync, 1);
        let position = bench.turn(4_000, |journal| journal.granted("new", token + 1, end(4_000, 30)));
        let was_answered = bench.journal.reached() >= position;
        assert_eq!(was_answered, mode == Mode::Process);
        bench.turn(5_000, |_| ());
        let after = failed_after(&bench.changes());
        assert_eq!(after >= position, mode == Mode::Process, "what was answered stays answered");
        let mut leases = vec![("old", token, end(1_000, 60))];
        leases.extend(was_answered.then_some(("new", token + 1, end(4_000, 30))));
        recover(&mut bench, 6_000, &leases);
        // What the failed sync was to keep is lost for good; the checkpoint has everything anew.
        let again = Bench::open(bench.cut_off(), &options(mode, A, 7_000));
        assert_eq!(again.held().len(), leases.len());
    }
}

/// It is written behind them, but they are synced, and there is nothing more to wake for.
#[test]
fn what_is_decided_before_the_copies_that_end_a_failure_is_safe_with_them() {
    for mode in BOTH {
        let mut bench = serving(mode);
        let token = bench.first_token;
        bench.storage.fail(Fault::Append, 1);
        bench.turn(4_000, |journal| journal.granted("lost", token + 1, end(4_000, 30)));
        bench.turn(5_000, |_| ());
        bench.turn(5_001, |journal| {
            assert!(journal.wants_copy(), "the try is under way");
            journal.freed("old", token);
            journal.end_copies();
        });
        bench.turn(5_002, |_| ());
        assert!(!bench.journal.is_failing());
        assert_eq!(bench.journal.reached(), bench.journal.position());
        bench.turn(6_002, |_| ());
        assert_eq!(bench.journal.deadline_ms(), None, "{mode:?}: nothing wakes the server again and again");
        assert_eq!(Bench::open(bench.cut_off(), &options(mode, A, 7_000)).held(), []);
    }
}

#[test]
fn in_machine_all_that_waits_behind_a_failure_fails_with_it() {
    let mut bench = serving(Mode::Machine);
    let token = bench.first_token;
    bench.storage.fail(Fault::Sync, 1);
    bench.journal.turn(4_000);
    bench.journal.granted("in flight", token + 1, end(4_000, 30));
    bench.journal.flush();
    bench.journal.turn(4_001);
    let waiting = bench.journal.granted("waiting", token + 2, end(4_001, 30));
    bench.journal.flush();
    assert!(bench.manual.step());
    bench.journal.turn(4_002);
    bench.journal.flush();
    failed_after(&bench.changes());
    assert!(!bench.manual.step() && bench.journal.reached() < waiting);
    recover(&mut bench, 6_000, &[("old", token, end(1_000, 60))]);
    let again = Bench::open(bench.killed(), &options(Mode::Machine, A, 7_000));
    assert_eq!(again.held(), [("old", token, end(1_000, 60))], "neither was granted");
}

#[test]
fn what_was_lost_is_not_safe_because_something_later_was_written() {
    for mode in BOTH {
        let mut bench = serving(mode);
        let token = bench.first_token;
        bench.storage.fail(Fault::Append, 1);
        let lost = bench.turn(4_000, |journal| journal.granted("new", token + 1, end(4_000, 30)));
        let after = failed_after(&bench.changes());
        bench.turn(5_000, |_| ());
        bench.turn(5_001, |journal| journal.freed("old", token));
        assert!(bench.journal.checkpoint().is_some() && bench.journal.is_failing());
        assert_eq!(bench.journal.reached(), after, "until all is written anew");
        bench.turn(5_002, Journal::end_copies);
        assert_eq!(bench.changes(), [Change::Recovered]);
        assert!(bench.journal.reached() > lost);
    }
}

/// Nobody is granted the key meanwhile, and the copy of its lease is older.
#[test]
fn what_ends_while_everything_is_written_anew_is_written_behind_it() {
    for mode in BOTH {
        let mut bench = serving(mode);
        let token = bench.first_token;
        bench.storage.fail(Fault::Append, 1);
        bench.turn(4_000, |journal| journal.extended("old", token, end(4_000, 60)));
        bench.turn(5_000, |_| ());
        bench.turn(5_001, |journal| journal.copy("old", token, end(4_000, 60)));
        bench.turn(5_002, |journal| journal.freed("old", token));
        bench.turn(5_003, Journal::end_copies);
        bench.turn(6_004, |_| ());
        assert!(!bench.journal.is_failing());
        assert_eq!(Bench::open(bench.killed(), &options(mode, A, 7_000)).held(), []);
    }
}

/// Nothing of it is written yet when the run goes on.
#[test]
fn what_ends_behind_the_copies_is_not_safe_before_it_is_written() {
    for mode in BOTH {
        let mut bench = serving(mode);
        let token = bench.first_token;
        bench.storage.fail(Fault::Append, 1);
        bench.turn(4_000, |journal| journal.extended("old", token, end(4_000, 60)));
        bench.turn(5_000, |_| ());
        bench.journal.turn(5_001);
        bench.journal.end_copies();
        bench.journal.flush();
        bench.journal.turn(5_002);
        let freed = bench.journal.freed("old", token);
        bench.journal.flush();
        while bench.journal.is_failing() {
            assert!(bench.journal.reached() < freed);
            assert!(bench.manual.step(), "{mode:?}: a job goes on");
            bench.journal.turn(5_003);
            if bench.journal.is_failing() {
                bench.journal.flush();
            }
        }
        assert!(bench.journal.reached() < freed, "{mode:?}");
        bench.journal.flush();
        bench.work(5_003);
        assert!(bench.journal.reached() >= freed, "{mode:?}");
    }
}

#[test]
fn a_sync_that_was_planned_before_a_failure_is_not_due_after_it() {
    let mut bench = serving(Mode::Process);
    let token = bench.first_token;
    bench.turn(4_000, |journal| journal.extended("old", token, end(4_000, 60)));
    assert_eq!(bench.journal.deadline_ms(), Some(5_000));
    bench.storage.fail(Fault::Append, 1);
    bench.turn(4_001, |journal| journal.freed("nobody", token));
    failed_after(&bench.changes());
    recover(&mut bench, 6_000, &[("old", token, end(4_000, 60))]);
}

/// A deadline in the past would keep a core busy until the next write.
#[test]
fn a_sync_that_ends_after_a_failure_plans_no_other() {
    let mut bench = serving(Mode::Process);
    let token = bench.first_token;
    bench.turn(4_000, |journal| journal.extended("old", token, end(4_000, 60)));
    bench.journal.turn(5_000);
    bench.journal.flush();
    // While the sync is under way one more write works, and the next does not.
    for (now_ms, fails) in [(5_010, 0), (5_020, 1)] {
        bench.storage.fail(Fault::Append, fails);
        bench.journal.turn(now_ms);
        bench.journal.extended("old", token, end(now_ms, 60));
        bench.journal.flush();
    }
    failed_after(&bench.changes());
    bench.work(5_030);
    recover(&mut bench, 6_100, &[("old", token, end(5_020, 60))]);
}

/// What was deleted a moment ago is no reason to wait: it may be what fills the disk.
#[test]
fn a_checkpoint_that_is_given_up_is_deleted_at_once() {
    for mode in BOTH {
        let small = OpenOptions { checkpoint_bytes: 1_000, ..options(mode, A, 1_000) };
        let mut bench = Bench::open(Disk::default(), &small);
        for now_ms in [1_001, 1_003] {
            bench.turn(now_ms, |journal| outgrow(journal, 1_500));
            bench.turn(now_ms, |_| ());
            assert!(bench.journal.checkpoint().is_some());
            if now_ms == 1_001 {
                bench.turn(1_002, Journal::end_copies);
                assert_eq!(bench.journal.checkpoint(), None, "what was before is void, and was deleted");
            }
        }
        let made = |bench: &Bench| bench.storage.disk().names().filter(|name| name.ends_with(".new")).count();
        assert_eq!(made(&bench), 1);
        bench.storage.fail(Fault::Append, 1);
        bench.turn(1_004, |journal| outgrow(journal, 200));
        failed_after(&bench.changes());
        bench.turn(1_004, |_| ());
        assert_eq!(made(&bench), 0, "{mode:?}");
    }
}

/// A write fails while the checkpoint gets its name: it is not gone on in, nor is it left behind.
#[test]
fn a_checkpoint_that_got_its_name_when_a_write_failed_goes_with_the_next() {
    let (mut bench, token) = after_jobs_of_a_checkpoint(3);
    bench.journal.copy("k", token, end(1_001, 30));
    bench.journal.end_copies();
    bench.journal.flush();
    assert!(bench.manual.step(), "the copies are written");
    bench.journal.turn(1_003);
    bench.journal.flush();
    bench.storage.fail(Fault::Append, 1);
    bench.journal.turn(1_004);
    bench.journal.extended("k", token, end(1_004, 30));
    bench.journal.flush();
    failed_after(&bench.changes());
    assert!(bench.manual.step(), "it gets its name all the same");
    let killed = Bench::open(bench.storage.disk(), &options(Mode::Process, A, 1_500));
    assert_eq!(killed.held(), [("k", token, end(1_001, 30))]);
    recover(&mut bench, 2_004, &[("k", token, end(1_004, 30))]);
    bench.turn(4_000, |_| ());
    assert_eq!(bench.storage.disk().names().count(), 2, "a checkpoint, and what is behind it");
}

/// A start counts on from the files it sees. A segment that an earlier process deleted may have a greater number, and a
/// power loss brings it back if the start has not seen to it that it stays deleted.
#[test]
fn a_deleted_segment_does_not_come_back_behind_the_next_start() {
    // The segment behind the checkpoint is being made.
    let (mut bench, token) = after_jobs_of_a_checkpoint(2);
    bench.storage.fail(Fault::Append, 1);
    bench.journal.extended("k", token, end(1_003, 30));
    bench.journal.flush();
    assert!(bench.manual.step(), "the segment behind it is made, and then deleted with it");
    bench.turn(1_004, |_| ());
    let before = bench.killed();
    let names: Vec<&str> = before.names().collect();
    assert_eq!(names, ["0000000000000001.journal"]);
    let next = Bench::open(before.clone(), &options(Mode::Process, A, 1_500));
    let mut disk = before.clone();
    for op in next.storage.log() {
        for seed in 0..50 {
            let mut rng = Rng(seed);
            let after = disk.after_power_loss(&mut || rng.draw());
            Bench::open(after, &options(Mode::Process, "another boot", 10));
        }
        disk.apply(&op);
    }
}

#[test]
fn a_lease_ceiling_that_could_not_be_synced_fails_the_lease_with_it() {
    let mut bench = Bench::open(Disk::default(), &options(Mode::Process, A, 1_000));
    let token = bench.first_token;
    bench.storage.fail(Fault::Sync, 1);
    let position = bench.turn(1_000, |journal| journal.granted("k", token, end(1_000, 30)));
    assert!(failed_after(&bench.changes()) < position);
    recover(&mut bench, 2_000, &[]);
    let shorter = bench.turn(3_000, |journal| journal.granted("k", token + 1, end(3_000, 30)));
    assert!(bench.journal.reached() >= shorter, "the checkpoint has the ceiling");
}

#[test]
fn a_checkpoint_is_tried_every_second_and_leaves_nothing_behind() {
    for (mode, fault) in BOTH.into_iter().flat_map(|mode| {
        [Fault::Create, Fault::Append, Fault::Sync, Fault::Rename, Fault::SyncDirectory].map(|f| (mode, f))
    }) {
        let mut bench = serving(mode);
        let token = bench.first_token;
        bench.storage.fail(Fault::Append, 1);
        bench.turn(4_000, |journal| journal.extended("old", token, end(4_000, 60)));
        failed_after(&bench.changes());
        for second in 5..8 {
            bench.storage.heal();
            bench.storage.fail(fault, 1);
            bench.turn(second * 1_000, |journal| journal.freed("nobody", token));
            bench.turn(second * 1_000, |journal| {
                if journal.wants_copy() {
                    journal.copy("old", token, end(1_000, 60));
                    journal.end_copies();
                }
            });
            assert!(bench.journal.is_failing(), "{fault:?}");
            assert_eq!(bench.journal.deadline_ms(), Some(second * 1_000 + 1_000), "{fault:?}");
        }
        bench.changes();
        bench.storage.heal();
        recover(&mut bench, 9_000, &[("old", token, end(1_000, 60))]);
        bench.turn(10_500, |_| ());
        assert_eq!(bench.storage.disk().names().count(), 2, "{fault:?}: a checkpoint, and what is behind it");
        let again = Bench::open(bench.killed(), &options(mode, A, 11_000));
        assert_eq!(again.held(), [("old", token, end(1_000, 60))]);
    }
}

#[test]
fn a_segment_that_cannot_be_made_while_serving_fails_the_storage() {
    for mode in BOTH {
        let small = OpenOptions { checkpoint_bytes: 1_000, ..options(mode, A, 1_000) };
        let mut bench = Bench::open(Disk::default(), &small);
        let token = bench.first_token;
        bench.storage.fail(Fault::SyncDirectory, 1);
        let granted = bench.turn(1_000, |journal| {
            outgrow(journal, 1_000);
            journal.granted("k", token, end(1_000, 30))
        });
        assert_eq!(failed_after(&bench.changes()), granted, "the grant was safe before");
        let killed = Bench::open(bench.storage.disk(), &options(mode, A, 1_500));
        assert_eq!(killed.held(), [("k", token, end(1_000, 30))], "the segment before is still the log");
        recover(&mut bench, 2_000, &[("k", token, end(1_000, 30))]);
    }
}

/// A write fails while the segment is being made in which the run was to go on.
#[test]
fn a_segment_that_was_being_made_when_a_write_failed_is_not_gone_on_in() {
    // The checkpoint's own segment, and the one behind it.
    for made_before in [0, 1] {
        let (mut bench, token) = after_jobs_of_a_checkpoint(1 + made_before);
        bench.storage.fail(Fault::Append, 1);
        bench.journal.turn(1_003);
        bench.journal.extended("k", token, end(1_003, 30));
        bench.journal.flush();
        failed_after(&bench.changes());
        assert_eq!(bench.storage.disk().names().count(), 1 + made_before);
        assert!(bench.manual.step(), "the new segment is made all the same");
        assert_eq!(bench.storage.disk().names().count(), 2 + made_before);
        let killed = Bench::open(bench.storage.disk(), &options(Mode::Process, A, 1_500));
        assert_eq!(killed.held(), [("k", token, end(1_001, 30))], "it is not part of the log");
        bench.turn(1_004, |_| ());
        assert_eq!(bench.journal.checkpoint(), None);
        assert_eq!(bench.storage.disk().names().count(), 1, "it goes at once");
        recover(&mut bench, 2_003, &[("k", token, end(1_003, 30))]);
        let again = Bench::open(bench.killed(), &options(Mode::Process, A, 3_000));
        assert_eq!(again.held(), [("k", token, end(1_003, 30))]);
    }
}

#[test]
fn a_checkpoint_during_a_recovery_keeps_what_is_left_of_it() {
    let before = serving(Mode::Process);
    let token = before.first_token;
    let small = OpenOptions { checkpoint_bytes: 1_000, ..options(Mode::Process, "boot b", 500) };
    let mut bench = Bench::open(before.cut_off(), &small);
    assert_eq!(bench.recovery_ends_ms, Some(500 + 60_001 + 1));
    // While serving.
    let moved = end(10_000, 60);
    bench.turn(10_000, |journal| {
        outgrow(journal, 1_000);
        journal.extended("old", token, moved);
    });
    bench.turn(10_001, |journal| {
        journal.copy("old", token, moved);
        journal.end_copies();
    });
    assert_eq!(bench.storage.disk().names().count(), 2);
    assert_eq!(bench.journal.checkpoint(), None, "it is complete");
    let check = |disk: Disk| {
        let same_boot = Bench::open(disk.clone(), &options(Mode::Process, "boot b", 30_000));
        assert_eq!(same_boot.recovery_ends_ms, Some(60_502));
        Bench::open(disk, &options(Mode::Process, "boot c", 7)).recovery_ends_ms
    };
    // This run's own lease ceiling is longer than what is left of the recovery.
    assert_eq!(check(bench.storage.disk()), Some(7 + 60_002 + 1));
    bench.storage.fail(Fault::Append, 1);
    bench.turn(20_000, |journal| journal.freed("old", token));
    failed_after(&bench.changes());
    recover(&mut bench, 21_000, &[]);
    check(bench.storage.disk());
    let Bench { journal, storage, .. } = bench;
    journal.stop().unwrap();
    let left_ms = 60_502 - 21_001;
    assert_eq!(check(storage.disk()), Some(7 + left_ms + 1), "after a clean stop only this is left");
}

#[test]
fn a_start_whose_checkpoint_fails_serves_without_granting() {
    for mode in BOTH {
        let before = serving(mode);
        let token = before.first_token;
        let storage = std::sync::Arc::new(MemoryStorage::new(before.killed()));
        storage.fail(Fault::Append, 1);
        let mut bench = Bench::open_in(storage, &options(mode, "another boot", 500)).unwrap();
        assert!(bench.journal.is_failing());
        assert!(matches!(bench.warnings[..], [Warning::CheckpointFailed(_)]));
        assert_eq!(bench.held(), [("old", token, 500 + 60_001 + 1)]);
        assert_eq!(bench.first_token, 0, "there are no tokens");
        recover(&mut bench, 1_500, &[("old", token, 500 + 60_001 + 1)]);
        assert!(bench.journal.take_tokens(0).unwrap().first > token);
        bench.turn(1_502, |_| ());
        let again = Bench::open(bench.killed(), &options(mode, "another boot", 2_000));
        assert_eq!(again.held(), [("old", token, 500 + 60_001 + 1)]);
        assert_eq!(again.run, 3);
    }
}

#[test]
fn a_start_that_cannot_write_to_an_empty_directory_is_an_error() {
    for fault in [Fault::Create, Fault::Append, Fault::Sync, Fault::Rename, Fault::SyncDirectory] {
        let storage = std::sync::Arc::new(MemoryStorage::new(Disk::default()));
        storage.fail(fault, 1);
        let result = Bench::open_in(storage, &options(Mode::Process, A, 1));
        assert!(matches!(result, Err(OpenError::Storage { .. })), "{fault:?}");
    }
}

#[test]
fn a_stop_on_failing_storage_says_so_and_leaves_no_stop_record() {
    for fault in [Fault::Append, Fault::Sync] {
        let mut bench = serving(Mode::Process);
        let token = bench.first_token;
        bench.journal.turn(4_000);
        bench.journal.granted("last", token + 1, end(4_000, 30));
        bench.storage.fail(fault, 1);
        let Bench { journal, storage, .. } = bench;
        assert!(journal.stop().is_err());
        let next = Bench::open(storage.disk(), &options(Mode::Process, "another boot", 10));
        assert!(next.recovery_ends_ms.is_some());
    }
}

/// A disk that has become read-only makes no file and deletes none.
#[test]
fn tries_to_make_a_segment_leave_no_names_behind_when_no_file_can_be_made() {
    for mode in BOTH {
        let mut bench = serving(mode);
        let token = bench.first_token;
        bench.storage.fail(Fault::Append, 1);
        bench.storage.fail(Fault::Create, 1_000);
        bench.storage.fail(Fault::Unlink, 1_000);
        for second in 4..15 {
            bench.turn(second * 1_000, |_| ());
            bench.turn(second * 1_000, |journal| journal.freed("nobody", token));
        }
        assert_eq!(bench.storage.faults_left(Fault::Create), 990, "{mode:?}: a try each second");
        assert_eq!(bench.storage.faults_left(Fault::Unlink), 1_000, "{mode:?}: there is nothing to delete");
    }
}

#[test]
fn files_that_cannot_be_deleted_do_no_harm() {
    let before = serving(Mode::Process);
    let token = before.first_token;
    let storage = std::sync::Arc::new(MemoryStorage::new(before.killed()));
    storage.fail(Fault::Unlink, 2);
    let mut bench = Bench::open_in(storage, &options(Mode::Process, A, 4_000)).unwrap();
    bench.turn(4_000, |journal| journal.freed("old", token));
    assert_eq!(bench.storage.disk().names().count(), 2);
    assert!(!bench.journal.is_failing());
    let again = Bench::open(bench.storage.disk(), &options(Mode::Process, A, 4_500));
    assert_eq!(again.held(), [], "the void segment is not read");
    let is_told = |changes: &[Change]| matches!(changes, [Change::NotDeleted { files: 1, .. }]);
    assert!(is_told(&bench.changes()));
    bench.turn(5_100, |_| ());
    bench.turn(6_200, |_| ());
    assert_eq!(bench.storage.disk().names().count(), 1, "it is tried again");
    assert_eq!(bench.changes(), [], "and that was told");
    for (failures, second) in [(2, 7), (1, 12)] {
        bench.storage.fail(Fault::Unlink, failures);
        bench.turn(second * 1_000, |journal| outgrow(journal, 33 << 20));
        while bench.journal.checkpoint().is_some() {
            bench.turn(second * 1_000 + 1, |journal| journal.wants_copy().then(|| journal.end_copies()));
        }
        (1..4).for_each(|more| bench.turn((second + more) * 1_000, |_| ()));
        assert!(matches!(&bench.changes()[..], [Change::NotDeleted { .. }]), "once each time that it begins");
        assert_eq!(bench.storage.disk().names().count(), 2, "the checkpoint and what is behind it");
    }
}

/// A start is killed between the name of its checkpoint and the sync of the directory. The next one cannot sync it either.
#[test]
fn void_segments_stay_until_the_name_of_what_made_them_void_is_safe() {
    for mode in BOTH {
        let before = serving(mode).killed();
        let log = Bench::open(before.clone(), &options(mode, A, 3_500)).storage.log();
        let renamed = log.iter().position(|op| matches!(op, Op::Rename { .. })).unwrap();
        let mut disk = before;
        log[..=renamed].iter().for_each(|op| disk.apply(op));
        let storage = std::sync::Arc::new(MemoryStorage::new(disk));
        storage.fail(Fault::SyncDirectory, 2);
        let mut bench = Bench::open_in(storage, &options(mode, A, 4_000)).unwrap();
        assert!(bench.journal.is_failing());
        bench.turn(4_001, |_| ());
        let disk = bench.killed();
        for seed in 0..100 {
            let mut rng = Rng(seed);
            let next =
                Bench::open(disk.after_power_loss(&mut || rng.draw()), &options(mode, "another boot", 10));
            assert_eq!(next.held().len(), 1, "{mode:?}, seed {seed}: {:?}", next.warnings);
        }
    }
}

/// Before 0.1.0 a checkpoint's copies went into a continuing segment, whose content was not always synced.
#[test]
fn segments_before_one_that_may_not_be_synced_stay_until_the_starts_checkpoint_is() {
    let disk = serving(Mode::Process).killed();
    let number = 2;
    let storage = MemoryStorage::new(disk);
    let log = Log::read(&storage, &Directory::list(&storage).unwrap()).unwrap().unwrap();
    let replay = log.replay(BootIdentity::new(A).as_ref(), 3_100).unwrap();
    let run = Run { kind: Kind::Continuing, ceilings: replay.ceilings, ..log.segments[0].run.clone() };
    let tag = segment::tag(&[7; 16], number);
    let file = storage.create(&Name::New(number).to_string()).unwrap();
    file.append(&begin(tag, &Record::Run(run), 3_100)).unwrap();
    publish(&storage, &file, &Name::New(number).to_string(), &Name::Journal(number).to_string()).unwrap();
    let mut copies = batch::empty();
    for (key, &(token, end)) in &replay.leases {
        Record::Lease(LeaseRecord { cause: Cause::Copy, token, end, key }).encode(&mut copies);
    }
    Record::EndMark.encode(&mut copies);
    batch::seal(&mut copies, Place { tag, number: 1 }, 3_101);
    file.append(&copies).unwrap();
    let before = storage.disk();
    let start = Bench::open(before.clone(), &options(Mode::Process, A, 3_500));
    assert_eq!(start.held().len(), 1);
    let log = start.storage.log();
    for place in 0..=log.len() {
        let mut disk = before.clone();
        log[..place].iter().for_each(|op| disk.apply(op));
        for seed in 0..50 {
            let mut rng = Rng(seed);
            let lost = disk.after_power_loss(&mut || rng.draw());
            let next = Bench::open(lost, &options(Mode::Process, "another boot", 10));
            let is_covered = next.recovery_ends_ms.is_some_and(|ends_ms| ends_ms > 57_000);
            assert!(is_covered || next.held().len() == 1, "place {place}, seed {seed}: {:?}", next.warnings);
        }
    }
}
