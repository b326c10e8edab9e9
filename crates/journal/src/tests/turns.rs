//! What is written when, and what is safe when.

use crate::tests::bench::{Bench, end, options, outgrow};
use crate::*;

const A: &str = "this boot";

fn appends(bench: &Bench, from: usize) -> usize {
    bench.storage.log()[from..].iter().filter(|op| matches!(op, Op::Append { .. })).count()
}

fn syncs(bench: &Bench, from: usize) -> usize {
    bench.storage.log()[from..].iter().filter(|op| matches!(op, Op::Sync { .. })).count()
}

/// A server that has given a lease of a minute, so that its ceiling is no matter any more.
fn serving(mode: Mode) -> Bench {
    let mut bench = Bench::open(Disk::default(), &options(mode, A, 1_000));
    let token = bench.first_token;
    bench.turn(1_000, |journal| journal.granted("first", token, end(1_000, 60)));
    bench.turn(2_000, |_| ());
    bench.turn(3_000, |_| ());
    assert_eq!(bench.journal.reached(), bench.journal.position());
    bench
}

#[test]
fn in_process_a_grant_is_safe_when_its_write_returns_and_a_turn_is_one_write() {
    let mut bench = serving(Mode::Process);
    let (token, from) = (bench.first_token, bench.storage.log_len());
    bench.journal.turn(4_000);
    let grant = bench.journal.granted("a", token + 1, end(4_000, 30));
    let extend = bench.journal.extended("first", token, end(4_000, 60));
    bench.journal.freed("a", token + 1);
    assert!(bench.journal.reached() < grant, "nothing is written yet");
    bench.journal.flush();
    assert!(grant < extend && bench.journal.reached() == bench.journal.position());
    assert_eq!((appends(&bench, from), syncs(&bench, from)), (1, 0));
}

#[test]
fn in_process_a_sync_follows_a_write_within_a_second_and_only_then() {
    let mut bench = serving(Mode::Process);
    let (token, from) = (bench.first_token, bench.storage.log_len());
    assert_eq!(bench.journal.deadline_ms(), None, "everything is synced");
    bench.turn(4_000, |journal| journal.freed("first", token));
    assert_eq!(bench.journal.deadline_ms(), Some(5_000));
    bench.turn(4_999, |_| ());
    assert_eq!(syncs(&bench, from), 0);
    bench.turn(5_000, |_| ());
    assert_eq!((syncs(&bench, from), bench.journal.deadline_ms()), (1, None));
}

#[test]
fn in_process_what_is_written_during_a_sync_is_synced_a_second_later() {
    let mut bench = serving(Mode::Process);
    let (token, from) = (bench.first_token, bench.storage.log_len());
    bench.turn(4_000, |journal| journal.extended("first", token, end(4_000, 60)));
    bench.journal.turn(5_000);
    bench.journal.flush();
    bench.journal.turn(5_001);
    bench.journal.freed("first", token);
    bench.journal.flush();
    assert!(bench.manual.step(), "the sync was under way");
    bench.turn(5_002, |_| ());
    assert_eq!((syncs(&bench, from), bench.journal.deadline_ms()), (1, Some(6_002)));
}

/// So that no sync is long.
#[test]
fn in_process_a_sync_follows_8_mib_at_once() {
    let mut bench = serving(Mode::Process);
    let from = bench.storage.log_len();
    bench.turn(4_000, |journal| outgrow(journal, 6 << 20));
    assert_eq!(syncs(&bench, from), 0);
    bench.turn(4_001, |journal| outgrow(journal, 3 << 20));
    assert_eq!((syncs(&bench, from), bench.journal.deadline_ms()), (1, None));
}

#[test]
fn in_process_the_first_longer_lease_waits_for_its_ceiling_on_stable_storage() {
    let mut bench = Bench::open(Disk::default(), &options(Mode::Process, A, 1_000));
    let token = bench.first_token;
    bench.journal.turn(1_000);
    let released = bench.journal.freed("x", token);
    let longer = bench.journal.granted("a", token, end(1_000, 30));
    bench.journal.flush();
    assert_eq!(bench.journal.reached(), released, "what was before does not wait");
    bench.work(1_001);
    assert!(bench.journal.reached() >= longer);
    bench.journal.turn(1_002);
    let shorter = bench.journal.granted("b", token + 1, end(1_002, 30));
    bench.journal.flush();
    assert_eq!(bench.journal.reached(), shorter, "the ceiling is high enough");
}

#[test]
fn in_process_a_raised_ceiling_is_synced_at_once() {
    let mut bench = serving(Mode::Process);
    let (token, from) = (bench.first_token, bench.storage.log_len());
    let longer = bench.turn(4_000, |journal| journal.extended("first", token, end(4_000, 200)));
    assert!(bench.journal.reached() >= longer);
    assert_eq!(syncs(&bench, from), 1);
}

#[test]
fn a_runs_lease_ceiling_begins_at_the_longest_time_left() {
    let bench = serving(Mode::Process);
    let mut next = Bench::open(bench.killed(), &options(Mode::Process, A, 11_000));
    let token = next.first_token;
    next.turn(11_000, |_| ());
    next.turn(12_000, |_| ());
    let mut waits = |lease_s: u64| {
        next.journal.turn(12_000);
        let position = next.journal.granted("k", token + lease_s, end(12_000, lease_s));
        next.journal.flush();
        let waits = next.journal.reached() < position;
        next.work(12_000);
        waits
    };
    // 50 s and a millisecond were left of `first`.
    assert!(!waits(50) && waits(51));
}

/// A ceiling that was raised in the old segment while the new one was being made is raised in the new one, too.
#[test]
fn a_checkpoint_ends_with_the_ceilings_of_its_end() {
    let small = OpenOptions { checkpoint_bytes: 1_000, ..options(Mode::Process, A, 1_000) };
    let mut bench = Bench::open(Disk::default(), &small);
    let token = bench.first_token;
    bench.journal.turn(1_000);
    outgrow(&mut bench.journal, 1_000);
    bench.journal.flush();
    for made in ["the ceiling of the tokens is synced", "the checkpoint's segment is made"] {
        assert!(bench.manual.step(), "{made}");
        bench.journal.turn(1_001);
        bench.journal.flush();
    }
    bench.journal.turn(1_002);
    bench.journal.granted("k", token, end(1_002, 200));
    bench.journal.freed("k", token);
    bench.journal.flush();
    assert_eq!(bench.storage.disk().names().count(), 2, "the segment behind it is being made");
    bench.work(1_002);
    assert_eq!(bench.journal.checkpoint(), Some(2));
    bench.turn(1_003, Journal::end_copies);
    let disk = bench.storage.disk();
    let names: Vec<&str> = disk.names().collect();
    assert_eq!(names, ["0000000000000002.journal", "0000000000000003.journal"], "the old segment is gone");
    let given = bench.turn(4_005, |journal| journal.granted("k", token + 1, end(4_005, 200)));
    assert!(bench.journal.reached() >= given, "the ceiling is high enough");
    let next = Bench::open(bench.cut_off(), &options(Mode::Process, "another boot", 9));
    assert_eq!((next.held(), next.recovery_ends_ms), (vec![], Some(9 + 200_001 + 1)));
}

#[test]
fn in_machine_nothing_is_safe_before_its_sync_and_all_that_wait_share_one() {
    let mut bench = serving(Mode::Machine);
    let (token, from) = (bench.first_token, bench.storage.log_len());
    let grant = |bench: &mut Bench, n: u64| {
        bench.journal.turn(4_000 + n);
        let position = bench.journal.granted(&format!("k{n}"), token + n, end(4_000 + n, 30));
        bench.journal.flush();
        position
    };
    let first = grant(&mut bench, 1);
    let others: Vec<Position> = (2..10).map(|n| grant(&mut bench, n)).collect();
    assert!(bench.journal.reached() < first);
    assert!(bench.manual.step());
    bench.journal.turn(4_010);
    assert_eq!(bench.journal.reached(), first);
    bench.journal.flush();
    assert!(bench.manual.step());
    bench.journal.turn(4_011);
    assert_eq!(Some(&bench.journal.reached()), others.last());
    assert_eq!((appends(&bench, from), syncs(&bench, from)), (2, 2));
    bench.journal.flush();
    assert!(!bench.manual.step(), "there is nothing more to do");
}

#[test]
fn tokens_come_in_blocks_that_are_safe_before_the_first_of_them_is_used() {
    for mode in [Mode::Process, Mode::Machine] {
        let started = OpenOptions { wall_us: 5_000_000, ..options(mode, A, 1_000) };
        let mut bench = Bench::open(Disk::default(), &started);
        assert_eq!(bench.first_token, 5_000_000, "the wall clock is the greatest");
        assert_eq!(bench.journal.take_tokens(0), None, "the next one is not even written");
        bench.turn(1_001, |_| ());
        let second = bench.journal.take_tokens(9_000_000_000).unwrap();
        assert_eq!(second.first, 5_000_000 + second.count, "it was reserved ahead, above the first");
        bench.turn(1_002, |_| ());
        let third = bench.journal.take_tokens(0).unwrap();
        assert_eq!(third.first, 9_000_000_000, "it begins where the wall clock was");
        let again = OpenOptions { wall_us: 7, ..options(mode, A, 2_000) };
        let next = Bench::open(bench.killed(), &again);
        assert!(next.first_token >= third.first + third.count, "a clock that was set back does not matter");
    }
}

#[test]
fn the_size_of_the_live_leases_is_known_without_a_table() {
    let mut bench = Bench::open(Disk::default(), &options(Mode::Process, A, 1_000));
    let token = bench.first_token;
    bench.turn(1_000, |journal| journal.granted("key", token, end(1_000, 30)));
    assert_eq!(bench.journal.live_bytes(), 23 + 3);
    bench.turn(1_001, |journal| journal.extended("key", token, end(1_001, 30)));
    bench.turn(1_002, |journal| journal.granted("other", token + 1, end(1_002, 30)));
    assert_eq!(bench.journal.live_bytes(), 26 + 28);
    bench.turn(1_003, |journal| journal.freed("key", token));
    assert_eq!(bench.journal.live_bytes(), 28);
    let again = Bench::open(bench.killed(), &options(Mode::Process, A, 2_000));
    assert_eq!(again.journal.live_bytes(), 28);
}

#[test]
fn a_clean_stop_leaves_nothing_to_recover_from() {
    for mode in [Mode::Process, Mode::Machine] {
        let mut bench = serving(mode);
        let token = bench.first_token;
        bench.journal.turn(4_000);
        bench.journal.granted("last", token + 1, end(4_000, 90));
        let Bench { journal, storage, .. } = bench;
        journal.stop().unwrap();
        let after = storage.disk().after_power_loss(&mut || 0);
        let next = Bench::open(after, &options(mode, "another boot", 500));
        assert_eq!((next.recovery_ends_ms, next.warnings.len()), (None, 0));
        let held = [("first", token, 500 + 60_001 + 1), ("last", token + 1, 500 + 90_001 + 1)];
        assert_eq!(next.held(), held, "what was left runs from the start");
        assert_eq!(next.run, 2);
    }
}
