//! `repair` and `dump`.

use serde_json::Value;

use crate::tests::bench::{Bench, LONGEST_MS, end, newest, options};
use crate::*;

const A: &str = "this boot";
const RANDOM: [u8; 16] = [3; 16];

fn this_boot() -> Option<BootIdentity> {
    BootIdentity::new(A)
}

fn three_grants() -> (Disk, u64) {
    let mut bench = Bench::open(Disk::default(), &options(Mode::Process, A, 1_000));
    let token = bench.first_token;
    for (n, key) in ["one", "two", "three"].into_iter().enumerate() {
        bench.turn(1_000, |journal| journal.granted(key, token + n as u64, end(1_000, 30)));
    }
    (bench.killed(), token)
}

/// The disk with a bit of the last byte of its batch for `two` turned round.
fn damaged(disk: &Disk) -> Disk {
    let (name, mut bytes) = newest(disk);
    let at = bytes.windows(3).position(|window| window == b"two").unwrap() + 2;
    bytes[at] ^= 1;
    let mut damaged = Disk::default();
    damaged.put(&name, bytes);
    damaged
}

#[test]
fn a_report_says_what_is_in_each_segment_and_where_it_is_bad_and_changes_nothing() {
    let (disk, _) = three_grants();
    let storage = MemoryStorage::new(disk.clone());
    let good = report(&storage, this_boot().as_ref(), 1_000).unwrap();
    assert_eq!((good.cut.clone(), good.is_taken), (None, false));
    assert_eq!(good.segments.len(), 1);
    assert!(good.to_string().contains("run 1, mode process, complete"), "{good}");
    assert!(good.to_string().ends_with("nothing is damaged\n"), "{good}");

    let storage = MemoryStorage::new(damaged(&disk));
    let bad = report(&storage, this_boot().as_ref(), 1_000).unwrap();
    let cut = bad.cut.clone().unwrap();
    assert!(bad.segments[0].contains(&format!("bad from offset {} on", cut.offset)), "{bad}");
    assert!(bad.segments[0].contains("a good batch behind that"), "{bad}");
    assert_eq!(format!("{}:{}", cut.file, cut.offset).parse(), Ok(cut));
    assert_eq!(storage.log(), []);
}

#[test]
fn a_report_judges_as_a_start_would() {
    let (disk, _) = three_grants();
    let judged = |disk: &Disk, boot: &str| {
        let report =
            report(&MemoryStorage::new(disk.clone()), BootIdentity::new(boot).as_ref(), 2_000).unwrap();
        let start = Bench::try_open(disk.clone(), &options(Mode::Process, boot, 2_000));
        match (&report.start, start) {
            (Ok(warnings), Ok(bench)) => assert_eq!(warnings, &bench.warnings),
            (Err(refusal), Err(error)) => assert_eq!(refusal.to_string(), error.to_string()),
            (reported, start) => panic!("{reported:?}, but {:?}", start.map(|bench| bench.warnings)),
        }
        report
    };
    let same = judged(&damaged(&disk), A);
    assert!(same.start.is_err() && same.cut.is_some(), "{same}");
    assert!(same.to_string().contains("a start refuses: "), "{same}");
    let another = judged(&damaged(&disk), "another boot");
    assert!(another.start.is_ok_and(|warnings| warnings.len() == 1) && another.cut.is_none());

    let (name, bytes) = newest(&disk);
    let mut torn = disk.clone();
    torn.put(&name, bytes[..bytes.len() - 1].to_vec());
    let torn = judged(&torn, A);
    assert!(torn.to_string().contains("ends inside the batch") && torn.cut.is_none(), "{torn}");
    assert!(torn.to_string().ends_with("and nobody was told of it\n"), "{torn}");

    let restored = MemoryStorage::new(disk);
    mark_restored(&restored, &RANDOM).unwrap();
    assert!(judged(&restored.disk(), A).start.is_ok_and(|warnings| warnings == [Warning::Repaired]));
    let empty = report(&MemoryStorage::new(Disk::default()), None, 1_000);
    assert!(matches!(empty, Err(RepairError::NoData)));
}

#[test]
fn damage_in_a_void_segment_is_none() {
    let (disk, _) = three_grants();
    let mut with_void = damaged(&disk);
    let newer = Bench::open(disk, &options(Mode::Process, A, 2_000)).killed();
    let (name, bytes) = newest(&newer);
    with_void.put(&name, bytes);
    let storage = MemoryStorage::new(with_void);
    assert!(storage.lock().unwrap());
    let report = report(&storage, this_boot().as_ref(), 2_000).unwrap();
    assert!(report.start.as_ref().is_ok_and(Vec::is_empty) && report.cut.is_none(), "{report}");
    let [void, newest] = &report.segments[..] else { panic!("{report}") };
    assert!(void.contains("a good batch behind") && void.ends_with("; void: never read again"), "{void}");
    assert!(newest.ends_with("good to its end"), "{newest}");
    assert!(report.is_taken && report.to_string().starts_with("a server uses this directory"));
}

#[test]
fn a_cut_writes_a_new_directory_that_recovers_for_the_longest_lease() {
    let (disk, token) = three_grants();
    let from = MemoryStorage::new(damaged(&disk));
    let place = report(&from, this_boot().as_ref(), 1_000).unwrap().cut.unwrap();
    let to = MemoryStorage::new(Disk::default());
    cut(&from, &to, &place, &RANDOM).unwrap();
    assert_eq!(from.log(), [], "the old directory is as it was");

    let after = to.disk().after_power_loss(&mut || 0);
    let mut bench = Bench::open(after.clone(), &options(Mode::Process, A, 2_000));
    assert_eq!(bench.held(), [("one", token, 31_001)]);
    assert_eq!(bench.recovery_ends_ms, Some(2_000 + LONGEST_MS));
    assert_eq!(bench.warnings, [Warning::Repaired]);
    assert_eq!(bench.run, 2);
    assert!(bench.first_token > token + 2, "ceilings are kept");
    bench.turn(2_000, |_| ());
    // The mark is gone with the segment, the recovery goes on.
    let again = Bench::open(bench.killed(), &options(Mode::Process, A, 3_000));
    assert_eq!((again.recovery_ends_ms, again.warnings.len()), (Some(2_000 + LONGEST_MS), 0));
    let other_boot = Bench::open(after, &options(Mode::Machine, "another boot", 10));
    assert_eq!(other_boot.held(), [("one", token, 10 + 30_001 + 1)], "ends are of the boot that wrote them");
}

#[test]
fn a_cut_can_leave_out_a_segment_that_cannot_be_read_at_all() {
    let small = OpenOptions { checkpoint_bytes: 200, ..options(Mode::Process, A, 1_000) };
    let mut bench = Bench::open(Disk::default(), &small);
    let token = bench.first_token;
    bench.turn(1_000, |journal| journal.granted("one", token, end(1_000, 30)));
    bench.turn(1_001, |_| ());
    bench.turn(1_002, |journal| journal.granted("two", token + 1, end(1_002, 30)));
    let disk = bench.killed();
    let (name, mut bytes) = newest(&disk);
    // Its head, or the run record behind that.
    for (at, said) in [(0, 0), (70, 24)] {
        bytes[at] ^= 1;
        let mut bad = disk.clone();
        bad.put(&name, bytes.clone());
        let start = Bench::try_open(bad.clone(), &small);
        assert!(matches!(start, Err(OpenError::Corrupt { offset, .. }) if offset == said));
        let from = MemoryStorage::new(bad);
        let place = report(&from, this_boot().as_ref(), 1_000).unwrap().cut.unwrap();
        assert_eq!(place, Cut { file: name.clone(), offset: 0 });
        // The place that the start's message names does as well.
        for offset in [0, said] {
            let to = MemoryStorage::new(Disk::default());
            cut(&from, &to, &Cut { offset, ..place.clone() }, &RANDOM).unwrap();
            let repaired = Bench::open(to.disk(), &options(Mode::Process, A, 2_000));
            assert_eq!(repaired.held(), [("one", token, 31_001)]);
            assert_eq!(repaired.recovery_ends_ms, Some(2_000 + LONGEST_MS));
        }
        bytes[at] ^= 1;
    }
}

#[test]
fn a_cut_that_makes_no_sense_is_refused() {
    let (disk, _) = three_grants();
    let (name, _) = newest(&disk);
    let try_cut = |file: &str, offset, to: &MemoryStorage| {
        let from = MemoryStorage::new(disk.clone());
        cut(&from, to, &Cut { file: file.to_owned(), offset }, &RANDOM)
    };
    let empty = || MemoryStorage::new(Disk::default());
    assert!(matches!(try_cut("lock", 3, &empty()), Err(RepairError::NoSuchFile { .. })));
    let missing = "00000000000000ff.journal";
    assert!(matches!(try_cut(missing, 3, &empty()), Err(RepairError::NoSuchFile { .. })));
    assert!(matches!(try_cut(&name, 0, &empty()), Err(RepairError::NoData)));
    let full = MemoryStorage::new(disk.clone());
    assert!(matches!(try_cut(&name, 500, &full), Err(RepairError::NotEmpty)));
    let served = MemoryStorage::new(disk.clone());
    assert!(served.lock().unwrap());
    let result = cut(&served.another(), &empty(), &Cut { file: name, offset: 500 }, &RANDOM);
    assert!(matches!(result, Err(RepairError::InUse)));
    assert!("no colon".parse::<Cut>().is_err() && "x:y".parse::<Cut>().is_err());
}

#[test]
fn a_directory_that_was_restored_from_a_copy_recovers_for_the_longest_lease() {
    let (disk, token) = three_grants();
    let mut bench = Bench::open(disk, &options(Mode::Process, A, 2_000));
    bench.turn(2_000, |_| ());
    let Bench { journal, storage, .. } = bench;
    journal.stop().unwrap();
    let copy = MemoryStorage::new(storage.disk());
    assert!(Bench::open(storage.disk(), &options(Mode::Process, A, 3_000)).recovery_ends_ms.is_none());
    mark_restored(&copy, &RANDOM).unwrap();
    assert_eq!(copy.disk().names().count(), 1);
    let bench = Bench::open(copy.disk().after_power_loss(&mut || 1), &options(Mode::Machine, A, 3_000));
    assert_eq!(bench.held().len(), 3);
    assert_eq!(bench.recovery_ends_ms, Some(3_000 + LONGEST_MS));
    assert!(bench.first_token > token + 2);
    let empty = MemoryStorage::new(Disk::default());
    assert!(matches!(mark_restored(&empty, &RANDOM), Err(RepairError::NoData)));
    let corrupt = MemoryStorage::new({
        let mut disk = copy.disk();
        let (name, mut bytes) = newest(&disk);
        bytes[30] ^= 1;
        disk.put(&name, bytes);
        disk
    });
    assert!(matches!(mark_restored(&corrupt, &RANDOM), Err(RepairError::Corrupt { .. })));
    assert_eq!(corrupt.log(), []);
}

fn dumped(disk: Disk) -> Vec<Value> {
    let mut out = Vec::new();
    dump(&MemoryStorage::new(disk), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_dump_has_a_line_of_json_for_each_record() {
    let mut bench = Bench::open(Disk::default(), &options(Mode::Process, A, 1_000));
    let token = bench.first_token;
    let key = "a \"key\"\twith \u{1F512}";
    bench.turn(1_000, |journal| journal.granted(key, token, end(1_000, 30)));
    bench.turn(1_500, |journal| journal.freed(key, token));
    let Bench { journal, storage, .. } = bench;
    journal.stop().unwrap();
    let lines = dumped(storage.disk());
    let records: Vec<&str> = lines.iter().map(|line| line["record"].as_str().unwrap()).collect();
    let expected = [
        "run",
        "lease_ceiling",
        "token_ceiling",
        "end_mark",
        "token_ceiling",
        "lease_ceiling",
        "granted",
        "freed",
        "stop",
    ];
    assert_eq!(records, expected);
    assert_eq!(lines[0]["mode"], "process");
    assert_eq!(lines[0]["boot"], A);
    let granted = &lines[6];
    assert_eq!(granted["key"], key);
    assert_eq!((granted["token"].as_u64(), granted["ends_ms"].as_u64()), (Some(token), Some(31_001)));
    assert_eq!((granted["left_ms"].as_u64(), granted["at_ms"].as_u64()), (Some(30_001), Some(1_000)));
    assert_eq!(granted["file"], "0000000000000001.journal");
}

#[test]
fn a_dump_shows_what_is_bad_and_what_is_behind_it() {
    let (disk, _) = three_grants();
    let lines = dumped(damaged(&disk));
    let records: Vec<&str> = lines.iter().map(|line| line["record"].as_str().unwrap()).collect();
    assert_eq!(records[records.len() - 3..], ["granted", "bad", "granted"]);
    assert_eq!(lines.last().unwrap()["behind_bad"], true);
    assert!(lines[lines.len() - 2]["bytes"].as_u64().unwrap() > 36);

    let (name, mut bytes) = newest(&disk);
    bytes[0] = 0;
    let mut unreadable = Disk::default();
    unreadable.put(&name, bytes);
    assert_eq!(dumped(unreadable)[0]["record"], "unreadable");
    let empty = dump(&MemoryStorage::new(Disk::default()), &mut Vec::new());
    assert!(matches!(empty, Err(DumpError::NoData)));
}
