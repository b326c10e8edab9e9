//! Damage: what is dropped, what is recovered from, and what stops a start.

use crate::batch::{self, Place};
use crate::core::begin;
use crate::record::{Cause, Ceilings, End, Kind, LeaseRecord, Record, Run};
use crate::segment::Segment;
use crate::tests::bench::{Bench, LONGEST_MS, end, newest, options};
use crate::*;

const A: &str = "boot a";
const B: &str = "boot b";
const BOTH: [Mode; 2] = [Mode::Process, Mode::Machine];

/// A journal in which `one`, `two` and `three` were granted for 30 s, each in a batch of its own.
fn three_grants(mode: Mode) -> (Disk, u64) {
    let mut bench = Bench::open(Disk::default(), &options(mode, A, 1_000));
    let token = bench.first_token;
    for (n, key) in ["one", "two", "three"].into_iter().enumerate() {
        let now_ms = 1_000 + n as u64;
        bench.turn(now_ms, |journal| journal.granted(key, token + n as u64, end(1_000, 30)));
    }
    bench.turn(2_500, |_| ());
    (bench.killed(), token)
}

fn batches(bytes: &[u8]) -> Vec<(usize, usize)> {
    let segment = Segment::read(1, bytes.to_vec()).unwrap();
    segment.batches.iter().map(|batch| (batch.offset, batch.end)).collect()
}

/// The disk with its newest segment changed.
fn changed(disk: &Disk, change: impl FnOnce(&mut Vec<u8>)) -> Disk {
    let (name, mut bytes) = newest(disk);
    change(&mut bytes);
    let mut changed = Disk::default();
    changed.put(&name, bytes);
    changed
}

/// The disk with a byte of its batch, counted from the last one, turned round.
fn with_bad_batch(disk: &Disk, from_last: usize) -> (Disk, usize) {
    let (_, bytes) = newest(disk);
    let (offset, end) = batches(&bytes).into_iter().rev().nth(from_last).unwrap();
    (changed(disk, |bytes| bytes[end - 1] ^= 1), offset)
}

fn tokens_held(bench: &Bench) -> Vec<u64> {
    let mut tokens: Vec<u64> = bench.held().iter().map(|held| held.1).collect();
    tokens.sort_unstable();
    tokens
}

/// Expects the start to stop at a place, with nothing changed on the disk.
fn is_corrupt(disk: Disk, options: &OpenOptions, at: usize) {
    let (name, _) = newest(&disk);
    is_corrupt_in(&name, disk, options, at);
}

fn is_corrupt_in(name: &str, disk: Disk, options: &OpenOptions, at: usize) {
    let storage = std::sync::Arc::new(MemoryStorage::new(disk));
    match Bench::open_in(std::sync::Arc::clone(&storage), options).map(drop) {
        Err(OpenError::Corrupt { file, offset, .. }) => {
            assert_eq!((&*file, offset), (name, at as u64));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(storage.log(), [], "nothing was changed");
}

#[test]
fn a_write_that_never_ended_is_dropped_with_a_warning() {
    for mode in BOTH {
        let (disk, token) = three_grants(mode);
        let (last, end) = *batches(&newest(&disk).1).last().unwrap();
        for length in [last + 1, last + 35, last + 36, end - 1] {
            let torn = changed(&disk, |bytes| bytes.truncate(length));
            let bench = Bench::open(torn.clone(), &options(mode, A, 3_000));
            assert_eq!(tokens_held(&bench), [token, token + 1]);
            assert_eq!(bench.recovery_ends_ms, None, "nobody was told of it");
            let [Warning::Dropped { offset, .. }] = bench.warnings[..] else {
                panic!("{:?}", bench.warnings)
            };
            assert_eq!(offset, last as u64);
            let other = Bench::open(torn, &options(mode, B, 3_000));
            assert_eq!(tokens_held(&other), [token, token + 1]);
            assert_eq!(other.recovery_ends_ms.is_some(), mode == Mode::Process);
        }
    }
}

#[test]
fn bad_bytes_at_the_very_end_are_dropped_and_recovered_from_for_the_longest_lease() {
    for mode in BOTH {
        let (disk, token) = three_grants(mode);
        for (bad, _) in [with_bad_batch(&disk, 0), (changed(&disk, |bytes| bytes.extend([0; 40])), 0)] {
            let bench = Bench::open(bad, &options(mode, A, 3_000));
            assert!(tokens_held(&bench).starts_with(&[token, token + 1]));
            assert_eq!(bench.recovery_ends_ms, Some(3_000 + LONGEST_MS));
            assert_eq!(bench.warnings.len(), 1);
        }
    }
}

#[test]
fn a_bad_batch_with_a_good_one_behind_it_stops_the_start() {
    for mode in BOTH {
        let (disk, _) = three_grants(mode);
        for from_last in [1, 2, 3] {
            let (bad, offset) = with_bad_batch(&disk, from_last);
            is_corrupt(bad.clone(), &options(mode, A, 3_000), offset);
            if mode == Mode::Machine {
                is_corrupt(bad, &options(mode, B, 3_000), offset);
            }
        }
    }
}

#[test]
fn in_process_after_another_boot_everything_from_the_first_bad_batch_on_is_dropped() {
    let (disk, token) = three_grants(Mode::Process);
    let (bad, offset) = with_bad_batch(&disk, 1);
    let bench = Bench::open(bad, &options(Mode::Process, B, 500));
    assert_eq!(tokens_held(&bench), [token], "two is bad and three is behind it");
    assert_eq!(bench.recovery_ends_ms, Some(500 + 30_001 + 1));
    assert!(matches!(bench.warnings[..], [Warning::Dropped { offset: at, .. }] if at == offset as u64));
}

#[test]
fn in_process_after_another_boot_a_damaged_checkpoint_is_recovered_from_for_the_longest_lease() {
    let (disk, token) = three_grants(Mode::Process);
    let disk = Bench::open(disk, &options(Mode::Process, A, 3_000)).killed();
    let second = batches(&newest(&disk).1)[1];
    let bad = changed(&disk, |bytes| bytes[second.1 - 1] ^= 1);
    let bench = Bench::open(bad, &options(Mode::Process, B, 500));
    assert!(tokens_held(&bench).is_empty());
    assert_eq!(bench.recovery_ends_ms, Some(500 + 255_000 + 1), "the ceilings are lost as well");
    assert!(bench.first_token > token, "the run record tells how high tokens may have been");
}

#[test]
fn ceilings_behind_a_bad_batch_still_count() {
    let (disk, _) = three_grants(Mode::Process);
    let mut bench = Bench::open(disk, &options(Mode::Process, A, 3_000));
    let first = bench.first_token;
    bench.turn(3_000, |journal| journal.granted("a", first, end(3_000, 40)));
    let bad = bench.storage.disk();
    bench.turn(3_001, |_| ());
    let second = bench.journal.take_tokens(0).unwrap().first;
    bench.turn(3_002, |journal| journal.granted("b", second, end(3_002, 200)));
    let at = newest(&bad).1.len();
    let bad = changed(&bench.killed(), |bytes| bytes[at - 1] ^= 1);
    let next = Bench::open(bad, &options(Mode::Process, B, 500));
    assert!(next.first_token > second, "a token is never given twice");
    assert_eq!(next.recovery_ends_ms, Some(500 + 200_001 + 1), "a lease of 200 s may have been given");
}

#[test]
fn bytes_from_another_place_are_no_batch_here() {
    let (disk, token) = three_grants(Mode::Process);
    let (_, bytes) = newest(&disk);
    let [.., two, three] = batches(&bytes)[..] else { panic!("there are batches") };
    let of = |(from, to): (usize, usize)| bytes[from..to].to_vec();
    // An earlier batch of the same segment, as a disk may show it that reused the space.
    let repeated = changed(&disk, |bytes| bytes.extend(of(two)));
    let bench = Bench::open(repeated, &options(Mode::Process, A, 3_000));
    assert_eq!(bench.recovery_ends_ms, Some(3_000 + LONGEST_MS), "it is a bad tail");
    // The next batch, of another segment: same length, same number, a good checksum.
    let (other, _) = {
        let mut options = options(Mode::Process, A, 1_000);
        options.random = [9; 16];
        let mut bench = Bench::open(Disk::default(), &options);
        let token = bench.first_token;
        for (n, key) in ["one", "two", "three"].into_iter().enumerate() {
            bench.turn(1_000, |journal| journal.granted(key, token + n as u64, end(1_000, 30)));
        }
        (bench.killed(), token)
    };
    let foreign = newest(&other).1[three.0..three.1].to_vec();
    assert_eq!(foreign.len(), three.1 - three.0);
    let swapped = changed(&disk, |bytes| bytes[three.0..three.1].copy_from_slice(&foreign));
    let bench = Bench::open(swapped, &options(Mode::Process, A, 3_000));
    assert_eq!(tokens_held(&bench), [token, token + 1]);
    assert_eq!(bench.warnings.len(), 1);
}

#[test]
fn a_segment_without_a_readable_run_record_stops_the_start() {
    for mode in BOTH {
        let (disk, _) = three_grants(mode);
        for boot in [A, B] {
            let options = options(mode, boot, 3_000);
            is_corrupt(changed(&disk, |bytes| bytes[3] ^= 1), &options, 0);
            is_corrupt(changed(&disk, |bytes| bytes[17] ^= 1), &options, 24);
            is_corrupt(changed(&disk, |bytes| bytes[70] ^= 1), &options, 24);
            is_corrupt(changed(&disk, |bytes| bytes.truncate(100)), &options, 24);
            is_corrupt(changed(&disk, Vec::clear), &options, 0);
        }
    }
}

#[test]
fn a_checkpoint_that_is_cut_short_stops_the_start() {
    let (disk, _) = three_grants(Mode::Process);
    let again = Bench::open(disk, &options(Mode::Process, A, 3_000)).killed();
    let mark = batches(&newest(&again).1)[1];
    let cut = |length| changed(&again, |bytes| bytes.truncate(length));
    is_corrupt(cut(mark.0), &options(Mode::Process, A, 4_000), mark.0);
    is_corrupt(cut(mark.1 - 1), &options(Mode::Process, A, 4_000), mark.0);
    is_corrupt(cut(mark.0), &options(Mode::Process, B, 4_000), mark.0);
}

#[test]
fn a_newer_format_stops_the_start_and_changes_nothing() {
    let (disk, _) = three_grants(Mode::Process);
    let newer = changed(&disk, |bytes| {
        bytes[8..12].copy_from_slice(&2_u32.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[..12]);
        bytes[12..16].copy_from_slice(&checksum.to_be_bytes());
        bytes.truncate(16);
    });
    let mut both = disk;
    both.put("00000000000000ff.journal", newest(&newer).1);
    both.put("00000000000000fe.new", Vec::new());
    let storage = std::sync::Arc::new(MemoryStorage::new(both));
    let result = Bench::open_in(std::sync::Arc::clone(&storage), &options(Mode::Process, A, 3_000));
    let error = result.map(drop).unwrap_err();
    assert!(matches!(&error, OpenError::NewerFormat { version: 2, .. }), "{error}");
    assert_eq!(storage.log(), []);
}

/// In mode `process`, the segment before the newest ends in a failed write, and the newest goes on behind it.
#[test]
fn a_bad_end_of_a_segment_that_the_log_goes_on_behind_stops_the_start() {
    let small = OpenOptions { checkpoint_bytes: 200, ..options(Mode::Process, A, 1_000) };
    let mut bench = Bench::open(Disk::default(), &small);
    let token = bench.first_token;
    let (first, _) = newest(&bench.storage.disk());
    bench.turn(1_000, |journal| journal.granted("one", token, end(1_000, 30)));
    let begun = bench.storage.disk();
    let (second, head) = newest(&begun);
    assert_ne!(first, second);
    bench.turn(1_002, |journal| journal.granted("two", token + 1, end(1_002, 30)));
    let whole = bench.killed();
    assert_eq!(Bench::open(whole.clone(), &options(Mode::Process, A, 2_000)).held().len(), 2);
    let with = |bytes: &[u8]| {
        let mut disk = Disk::default();
        let mut torn = whole.content(&first).unwrap().to_vec();
        torn.truncate(torn.len() - 1);
        disk.put(&first, torn);
        disk.put(&second, bytes.to_vec());
        disk
    };
    let at = batches(whole.content(&first).unwrap()).last().unwrap().0 as u64;
    match Bench::try_open(with(whole.content(&second).unwrap()), &options(Mode::Process, A, 2_000)).map(drop)
    {
        Err(OpenError::Corrupt { file, offset, .. }) => assert_eq!((file, offset), (first.clone(), at)),
        other => panic!("{other:?}"),
    }
    // If nothing was ever written in it, the failed write is the end of the log.
    let bench = Bench::open(with(&head), &options(Mode::Process, A, 2_000));
    assert_eq!((bench.held(), bench.warnings.len(), bench.recovery_ends_ms), (vec![], 1, None));
}

#[test]
fn another_boot_is_assumed_when_in_doubt() {
    let (disk, token) = three_grants(Mode::Process);
    let open = |options: &OpenOptions| {
        let bench = Bench::open(disk.clone(), options);
        (bench.another_boot, bench.held()[0].2, bench.recovery_ends_ms.is_some())
    };
    assert_eq!(open(&options(Mode::Process, A, 2_002)), (false, 31_001, false));
    // The last of them was written two milliseconds after the first.
    let moved = |now_ms: u64| (true, now_ms + 29_999 + 1, true);
    assert_eq!(open(&options(Mode::Process, B, 2_002)), moved(2_002));
    assert_eq!(open(&options(Mode::Process, A, 1_000)), moved(1_000), "the clock is below a stamp");
    let unknown = OpenOptions { boot: None, ..options(Mode::Process, A, 2_002) };
    assert_eq!(open(&unknown), moved(2_002));
    // A run that did not know its boot is of another one for every start, itself included.
    let mut blind = Bench::open(disk.clone(), &unknown);
    blind.turn(2_003, |_| ());
    let disk = blind.killed();
    assert!(Bench::open(disk.clone(), &OpenOptions { now_ms: 2_010, ..unknown }).another_boot);
    assert!(Bench::open(disk, &options(Mode::Process, A, 2_010)).another_boot);
    assert!(token > 0);
}

#[test]
fn only_the_newest_complete_segment_counts_and_other_files_are_left_alone() {
    let (disk, _) = three_grants(Mode::Machine);
    let (old_name, old) = newest(&disk);
    let mut bench = Bench::open(disk, &options(Mode::Machine, A, 3_000));
    let keys = ["one", "two", "three"];
    let leases = bench.leases.clone();
    bench.turn(3_000, |journal| {
        for lease in leases.iter().filter(|lease| keys.contains(&&*lease.key)) {
            journal.freed(&lease.key, lease.token);
        }
    });
    let mut disk = bench.killed();
    // Unlinked, but the name came back with the power; and it is damaged, which nobody reads.
    disk.put(&old_name, old[..50].to_vec());
    disk.put("0000000000000099.new", b"half".to_vec());
    disk.put("notes.txt", b"mine".to_vec());
    let mut next = Bench::open(disk, &options(Mode::Machine, A, 4_000));
    next.turn(4_000, |_| ());
    assert_eq!(next.held(), []);
    let disk = next.killed();
    let names: Vec<&str> = disk.names().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(disk.content("notes.txt"), Some(&b"mine"[..]));
    assert!(names[0] > "0000000000000099", "a number is never used twice: {names:?}");
}

#[test]
fn a_directory_without_a_segment_is_new() {
    let mut disk = Disk::default();
    disk.put("0000000000000001.new", b"never got its name".to_vec());
    let strict = OpenOptions { require_data: true, ..options(Mode::Process, A, 1) };
    assert!(matches!(Bench::try_open(disk.clone(), &strict), Err(OpenError::NoData)));
    let bench = Bench::open(disk, &options(Mode::Process, B, 1));
    assert_eq!((bench.run, bench.recovery_ends_ms, bench.held()), (1, None, vec![]));
    let again = Bench::open(bench.killed(), &strict);
    assert_eq!(again.run, 2);
}

#[test]
fn memory_that_ends_with_the_machine_is_refused_in_machine_and_warned_of_in_process() {
    for mode in BOTH {
        let storage = std::sync::Arc::new(MemoryStorage::new(Disk::default()));
        storage.set_volatile();
        match (mode, Bench::open_in(storage, &options(mode, A, 1))) {
            (Mode::Machine, Err(OpenError::Volatile)) => {}
            (Mode::Process, Ok(bench)) => assert_eq!(bench.warnings, [Warning::Volatile]),
            (_, other) => panic!("{:?}", other.map(drop)),
        }
    }
}

#[test]
fn the_servers_id_is_drawn_once_and_runs_are_counted() {
    let first = Bench::open(Disk::default(), &options(Mode::Process, A, 1));
    let id = first.server_id;
    let mut disk = first.killed();
    for run in 2..6 {
        let mode = BOTH[run as usize % 2];
        let bench = Bench::open(disk, &options(mode, [A, B][run as usize % 2], 1_000 + run));
        assert_eq!((bench.server_id, bench.run), (id, run));
        disk = bench.killed();
    }
}

/// A first segment of these records, each in a batch of its own, behind an end mark; and the disk it is on.
fn written(mode: Mode, records: &[Record<'_>]) -> Disk {
    let run = Run {
        number: 1,
        mode,
        kind: Kind::Alone,
        server_id: [1; 16],
        ceilings: Ceilings { lease_ms: 30_001, token: 9 },
        recovery: None,
        boot: BootIdentity::new(A),
    };
    let mut bytes = begin(7, &Record::Run(run), 1_000);
    for (number, record) in [Record::EndMark].iter().chain(records).enumerate() {
        let mut buffer = batch::empty();
        record.encode(&mut buffer);
        batch::seal(&mut buffer, Place { tag: 7, number: number as u64 + 1 }, 1_000);
        bytes.append(&mut buffer);
    }
    let mut disk = Disk::default();
    disk.put("0000000000000001.journal", bytes);
    disk
}

#[test]
fn a_lease_is_over_when_its_token_or_a_later_one_was_freed() {
    let lease = |token| {
        let end = End { at_ms: 31_001, left_ms: 30_001 };
        Record::Lease(LeaseRecord { cause: Cause::Granted, token, end, key: "k" })
    };
    let freed = |token| Record::Freed { token, key: "k" };
    let tokens = |records: &[Record<'_>]| {
        tokens_held(&Bench::open(written(Mode::Process, records), &options(Mode::Process, A, 2_000)))
    };
    assert_eq!(tokens(&[lease(5), freed(4)]), [5]);
    assert!(tokens(&[lease(5), freed(5)]).is_empty());
    assert!(tokens(&[lease(5), freed(6)]).is_empty());
    assert_eq!(tokens(&[lease(5), freed(5), lease(6)]), [6]);
    assert_eq!(tokens(&[lease(6), lease(5)]), [5], "the newest record counts");
}

#[test]
fn only_a_stop_record_at_the_very_end_is_a_clean_stop() {
    let recovers =
        |disk: Disk| Bench::open(disk, &options(Mode::Process, B, 2_000)).recovery_ends_ms.is_some();
    let stopped = written(Mode::Process, &[Record::Stop]);
    assert!(!recovers(stopped.clone()));
    assert!(recovers(written(Mode::Process, &[Record::Stop, Record::Freed { token: 1, key: "k" }])));
    for junk in [&[0; 10][..], &[0; 50]] {
        assert!(recovers(changed(&stopped, |bytes| bytes.extend_from_slice(junk))));
    }
}

#[test]
fn a_segment_of_another_run_that_goes_on_stops_the_start() {
    let mut small = OpenOptions { checkpoint_bytes: 200, ..options(Mode::Process, A, 1_000) };
    small.random = [9; 16];
    let mut bench = Bench::open(Disk::default(), &small);
    let token = bench.first_token;
    bench.turn(1_000, |journal| journal.freed("a rather long key, so that the segment is large", token));
    assert_eq!(bench.journal.checkpoint(), Some(2));
    let (_, continuing) = newest(&bench.killed());
    let (mut disk, _) = three_grants(Mode::Process);
    disk.put("00000000000000aa.journal", continuing);
    for boot in [A, B] {
        match Bench::try_open(disk.clone(), &options(Mode::Process, boot, 3_000)).map(drop) {
            Err(OpenError::Corrupt { file, offset: 24, .. }) => assert_eq!(file, "00000000000000aa.journal"),
            other => panic!("{other:?}"),
        }
    }
}

/// A checkpoint after a failure made the segments before it void. If it is damaged later, they are no substitute, even if
/// a power loss brought their names back.
#[test]
fn void_segments_do_not_stand_in_for_a_damaged_one() {
    let mut bench = Bench::open(Disk::default(), &options(Mode::Process, A, 1_000));
    let token = bench.first_token;
    bench.turn(1_000, |journal| journal.granted("k", token, end(1_000, 30)));
    let (void, bytes) = newest(&bench.storage.disk());
    bench.storage.fail(Fault::Append, 1);
    bench.turn(2_000, |journal| journal.freed("k", token));
    bench.turn(3_000, |_| ());
    bench.turn(3_001, Journal::end_copies);
    let mut back = bench.killed();
    let checkpoint = back.names().next().expect("it is there, and a segment behind it").to_owned();
    assert_ne!(checkpoint, void);
    let whole = back.content(&checkpoint).unwrap();
    let mark = batches(whole)[1].0;
    let cut = whole[..mark].to_vec();
    back.put(&checkpoint, cut);
    back.put(&void, bytes);
    is_corrupt_in(&checkpoint, back, &options(Mode::Process, A, 4_000), mark);
}
