//! Stories of crashes that lock servers are known to get wrong.

use crate::tests::bench::{Bench, end, options};
use crate::*;

const A: &str = "boot a";
const B: &str = "boot b";
const C: &str = "boot c";

/// A server in mode `process` with one lease of 30 s on `k`, given and synced at 1000.
fn with_a_lease() -> Bench {
    let mut bench = Bench::open(Disk::default(), &options(Mode::Process, A, 1_000));
    let token = bench.first_token;
    bench.turn(1_000, |journal| journal.granted("k", token, end(1_000, 30)));
    bench.turn(2_000, |_| ());
    bench.turn(3_000, |_| ());
    bench
}

/// Granted 5, then freed 5 and granted 9, and both of these are lost: the holder of 9 is at work, but the server
/// knows only 5. A release of 5 then frees the key, and yet nobody else may get it while 9 could run.
#[test]
fn a_lost_grant_behind_a_lost_release_is_waited_for() {
    let mut bench = with_a_lease();
    let five = bench.first_token;
    let nine = bench.turn(3_000, |journal| {
        journal.freed("k", five);
        journal.granted("k", five + 4, end(3_000, 30))
    });
    assert!(bench.journal.reached() >= nine, "9 was answered");
    let mut next = Bench::open(bench.cut_off(), &options(Mode::Process, B, 100));
    assert_eq!(next.held(), [("k", five, 100 + 30_001 + 1)]);
    next.turn(200, |journal| journal.freed("k", five));
    assert_eq!(next.recovery_ends_ms, Some(100 + 30_001 + 1), "9 has ended by then");
    assert!(next.first_token > five + 4);
}

#[test]
fn a_kill_during_a_recovery_does_not_shorten_it() {
    let first = Bench::open(with_a_lease().cut_off(), &options(Mode::Process, B, 100));
    assert_eq!(first.recovery_ends_ms, Some(30_102));
    let second = Bench::open(first.killed(), &options(Mode::Process, B, 9_000));
    assert_eq!(second.recovery_ends_ms, Some(30_102), "the same boot goes on: the same end");
    let third = Bench::open(second.cut_off(), &options(Mode::Machine, C, 50));
    // 21,102 ms were left when the second start wrote it; its own lease ceiling is the restored lease's.
    assert_eq!(third.recovery_ends_ms, Some(50 + 21_102 + 1));
    let over = Bench::open(third.killed(), &options(Mode::Machine, C, 21_153));
    assert_eq!(over.recovery_ends_ms, None, "it ends at last");
}

#[test]
fn a_clean_stop_during_a_recovery_does_not_shorten_it() {
    let Bench { journal, storage, .. } =
        Bench::open(with_a_lease().cut_off(), &options(Mode::Process, B, 100));
    journal.stop().unwrap();
    let stopped = storage.disk();
    let same_boot = Bench::open(stopped.clone(), &options(Mode::Process, B, 10_000));
    assert_eq!(same_boot.recovery_ends_ms, Some(30_102));
    let other_boot = Bench::open(stopped, &options(Mode::Process, C, 10));
    assert_eq!(other_boot.recovery_ends_ms, Some(10 + 30_002 + 1), "all that was left when it was written");
}

#[test]
fn a_power_loss_after_a_clean_stop_and_new_grants_is_recovered_from() {
    let Bench { journal, storage, .. } = with_a_lease();
    journal.stop().unwrap();
    let mut again = Bench::open(storage.disk(), &options(Mode::Process, A, 40_000));
    assert_eq!((again.held(), again.recovery_ends_ms), (vec![], None));
    let token = again.first_token;
    let position = again.turn(40_000, |journal| journal.granted("k", token, end(40_000, 20)));
    assert!(again.journal.reached() >= position);
    let next = Bench::open(again.cut_off(), &options(Mode::Process, B, 100));
    assert_eq!(next.recovery_ends_ms, Some(100 + 20_001 + 1), "the old stop says nothing of the new grant");
}

#[test]
fn a_power_loss_right_after_the_first_start_is_recovered_from() {
    let mut bench = Bench::open(Disk::default(), &options(Mode::Process, A, 1_000));
    let token = bench.first_token;
    let position = bench.turn(1_000, |journal| journal.granted("k", token, end(1_000, 255)));
    assert!(bench.journal.reached() >= position, "it was answered");
    let next = Bench::open(bench.cut_off(), &options(Mode::Process, B, 100));
    let covered = next.recovery_ends_ms.is_some_and(|ends_ms| ends_ms >= 100 + 255_000);
    assert!(covered || !next.held().is_empty());
    assert!(next.first_token > token);
}

#[test]
fn an_extend_that_was_answered_then_lost_is_waited_for_in_process_and_not_lost_in_machine() {
    for mode in [Mode::Process, Mode::Machine] {
        let mut bench = Bench::open(Disk::default(), &options(mode, A, 1_000));
        let token = bench.first_token;
        bench.turn(1_000, |journal| journal.granted("k", token, end(1_000, 30)));
        bench.turn(2_000, |_| ());
        bench.turn(3_000, |_| ());
        let position = bench.turn(20_000, |journal| journal.extended("k", token, end(20_000, 30)));
        assert!(bench.journal.reached() >= position, "it was answered");
        let next = Bench::open(bench.cut_off(), &options(mode, B, 100));
        assert_eq!(next.held(), [("k", token, 100 + 30_001 + 1)], "either record had as much left");
        let recovery = match mode {
            Mode::Process => Some(100 + 30_001 + 1),
            Mode::Machine => None,
        };
        assert_eq!(next.recovery_ends_ms, recovery);
    }
}

#[test]
fn a_disk_that_is_full_between_a_grant_and_its_release_keeps_the_key_held() {
    for mode in [Mode::Process, Mode::Machine] {
        let mut bench = Bench::open(Disk::default(), &options(mode, A, 1_000));
        let token = bench.first_token;
        let position = bench.turn(1_000, |journal| journal.granted("k", token, end(1_000, 30)));
        assert!(bench.journal.reached() >= position);
        bench.storage.fail(Fault::Append, u32::MAX);
        bench.storage.fail(Fault::Create, u32::MAX);
        bench.turn(2_000, |journal| journal.freed("k", token));
        assert!(bench.journal.is_failing());
        bench.turn(3_000, |_| ());
        let next = Bench::open(bench.killed(), &options(mode, A, 4_000));
        assert_eq!(next.held(), [("k", token, end(1_000, 30))], "late, never early");
        assert_eq!(
            next.recovery_ends_ms, None,
            "the failed write was the log's end and nobody was told of it"
        );
    }
}

#[test]
fn a_start_after_another_boot_writes_the_new_ends_before_it_serves() {
    let next = Bench::open(with_a_lease().killed(), &options(Mode::Process, B, 500_000));
    let token = next.held()[0].1;
    assert_eq!(next.held(), [("k", token, 500_000 + 30_001 + 1)]);
    // Killed before the first request, and started again on the same boot: the end has not moved.
    let again = Bench::open(next.cut_off(), &options(Mode::Process, B, 510_000));
    assert_eq!(again.held(), [("k", token, 500_000 + 30_001 + 1)]);
}

/// The newest run record says how much is left of a recovery, even before its segment is complete.
#[test]
fn a_recovery_that_was_going_on_runs_what_was_left_when_it_was_written_last() {
    let small = OpenOptions { checkpoint_bytes: 200, ..options(Mode::Machine, B, 100) };
    let mut bench = Bench::open(with_a_lease().cut_off(), &small);
    assert_eq!(bench.recovery_ends_ms, Some(30_102));
    let token = bench.first_token;
    bench.turn(20_102, |journal| journal.freed("a rather long key, so that the segment is large", token));
    assert!(bench.journal.checkpoint().is_some());
    let next = Bench::open(bench.cut_off(), &options(Mode::Machine, C, 5));
    assert_eq!(next.recovery_ends_ms, Some(5 + 10_000 + 1));
}
