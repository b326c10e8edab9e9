//! The journal on real files.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use lockstead_journal::*;

/// A directory that is surely not in memory, as those for temporary files may be.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory can be made")
}

fn options(mode: Mode, now_ms: u64) -> OpenOptions {
    let boot = BootIdentity::new("this boot");
    OpenOptions { boot, ..OpenOptions::new(mode, now_ms, 1_000, [7; 16]) }
}

fn open(dir: &Path, options: &OpenOptions) -> Result<(Opened, Receiver<()>), OpenError> {
    let (wake, woken) = mpsc::channel();
    let storage = Arc::new(FileStorage::open(dir).expect("a temporary directory can be used"));
    let opened = Journal::open(storage, options, move || {
        // Nobody waits any more when the test is over.
        let _ = wake.send(());
    })?;
    Ok((opened, woken))
}

/// Turns until everything that was appended is safe.
fn settle(journal: &mut Journal, woken: &Receiver<()>, now_ms: u64) {
    journal.flush();
    while journal.reached() < journal.position() {
        woken.recv().expect("the journal wakes after each job");
        journal.turn(now_ms);
        journal.flush();
    }
}

fn keys(opened: &Opened) -> Vec<(&str, u64, u64)> {
    opened.leases.iter().map(|lease| (&*lease.key, lease.token, lease.ends_ms)).collect()
}

#[test]
fn leases_survive_the_process_in_both_modes() {
    for mode in [Mode::Process, Mode::Machine] {
        let parent = on_disk();
        let dir = parent.path().join("state/lockstead");
        let (mut opened, woken) = open(&dir, &options(mode, 1_000)).unwrap();
        assert!(opened.is_new && opened.leases.is_empty() && opened.recovery_ends_ms.is_none());
        let permissions = std::fs::metadata(&dir).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, 0o700);
        let journal = &mut opened.journal;
        let first = journal.take_tokens(1_000).unwrap().first;
        assert_eq!(first, 1_000, "tokens begin at the wall clock");
        journal.turn(1_000);
        journal.granted("a", first, 31_001);
        journal.granted("b", first + 1, 11_001);
        journal.granted("c", first + 2, 21_001);
        settle(journal, &woken, 1_001);
        journal.turn(2_000);
        journal.freed("c", first + 2);
        journal.extended("b", first + 1, 42_001);
        settle(journal, &woken, 2_001);
        drop(opened);

        let (mut again, _woken) = open(&dir, &options(mode, 3_000)).unwrap();
        assert_eq!(keys(&again), [("a", first, 31_001), ("b", first + 1, 42_001)]);
        assert_eq!((again.recovery_ends_ms, again.run, again.is_new), (None, 2, false));
        assert_eq!(again.warnings, []);
        assert!(again.journal.take_tokens(0).unwrap().first > first + 2);
        again.journal.stop().unwrap();
    }
}

#[test]
fn a_sync_reserves_room_ahead_and_the_file_stays_as_long_as_what_was_written() {
    let dir = on_disk();
    let probe = std::fs::File::create(dir.path().join("probe")).unwrap();
    let keep_size = rustix::fs::FallocateFlags::KEEP_SIZE;
    let can_reserve = rustix::fs::fallocate(&probe, keep_size, 0, 1).is_ok();
    // In mode machine nothing is written during a sync.
    for (mode, reserves) in [(Mode::Process, can_reserve), (Mode::Machine, false)] {
        let dir = on_disk();
        let (opened, _woken) = open(dir.path(), &options(mode, 1)).unwrap();
        opened.journal.stop().unwrap();
        let segment = std::fs::metadata(dir.path().join("0000000000000001.journal")).unwrap();
        assert!(segment.len() < 1_024, "{} bytes", segment.len());
        let taken = segment.blocks() * 512;
        assert_eq!(taken >= 2 << 20, reserves, "{taken} bytes on the disk");
        assert!(taken <= 3 << 20, "{taken} bytes on the disk");
    }
}

#[test]
fn a_second_server_is_refused_until_the_first_is_gone() {
    let dir = on_disk();
    let (first, _woken) = open(dir.path(), &options(Mode::Process, 1)).unwrap();
    assert!(matches!(open(dir.path(), &options(Mode::Process, 1)), Err(OpenError::InUse)));
    first.journal.stop().unwrap();
    drop(open(dir.path(), &options(Mode::Process, 1)).unwrap());
    assert!(dir.path().join("lock").exists(), "a lock file is never deleted");
}

#[test]
fn who_only_looks_leaves_the_directory_as_it_is_and_keeps_nobody_out() {
    let dir = on_disk();
    let (first, _woken) = open(dir.path(), &options(Mode::Process, 1)).unwrap();
    let storage = FileStorage::open_existing(dir.path()).unwrap();
    assert!(storage.is_taken().unwrap());
    first.journal.stop().unwrap();
    assert!(!storage.is_taken().unwrap());
    std::fs::remove_file(dir.path().join("lock")).unwrap();

    let boot = BootIdentity::new("this boot");
    let good = report(&storage, boot.as_ref(), 1).unwrap();
    assert!(!good.is_taken && good.start.is_ok_and(|warnings| warnings.is_empty()));
    dump(&storage, &mut Vec::new()).unwrap();
    let parent = on_disk();
    let to = FileStorage::open(&parent.path().join("new")).unwrap();
    let place = Cut { file: "0000000000000001.journal".to_owned(), offset: 500 };
    cut(&storage, &to, &place, &[1; 16]).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["0000000000000001.journal"]);
    drop(open(dir.path(), &options(Mode::Process, 1)).unwrap());
    assert!(to.is_taken().unwrap());
}

#[test]
fn an_empty_directory_can_be_made_an_error() {
    let dir = on_disk();
    let strict = OpenOptions { require_data: true, ..options(Mode::Machine, 1) };
    assert!(matches!(open(dir.path(), &strict), Err(OpenError::NoData)));
    drop(open(dir.path(), &options(Mode::Machine, 1)).unwrap());
    drop(open(dir.path(), &strict).unwrap());
}

#[test]
fn file_systems_in_memory_are_told_from_others() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mut seen = 0;
    for line in mounts.lines() {
        let [_, path, kind, ..] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let expected = match kind {
            "tmpfs" | "ramfs" => true,
            "ext4" | "xfs" | "btrfs" | "overlay" | "proc" => false,
            _ => continue,
        };
        // Not every mount is a directory, or is for us to look at; and a later mount may hide an earlier one.
        let hidden = mounts.lines().filter(|other| other.split(' ').nth(1) == Some(path)).count() > 1;
        let Ok(storage) = FileStorage::open_existing(Path::new(path)) else { continue };
        if !hidden && let Ok(is_volatile) = storage.is_volatile() {
            assert_eq!(is_volatile, expected, "{line}");
            seen += 1;
        }
    }
    assert!(seen > 0, "{mounts}");
}

#[test]
fn checkpoints_are_made_while_serving_and_old_segments_go() {
    for mode in [Mode::Process, Mode::Machine] {
        let dir = on_disk();
        let small = OpenOptions { checkpoint_bytes: 4_000, ..options(mode, 1_000) };
        let (mut opened, woken) = open(dir.path(), &small).unwrap();
        let journal = &mut opened.journal;
        let first = journal.take_tokens(0).unwrap().first;
        let (mut now_ms, mut checkpoints, mut copying, mut copied) = (1_000, 0, None, 0);
        let mut ends = [0; 50];
        while checkpoints < 8 {
            now_ms += 1;
            journal.turn(now_ms);
            for (n, end) in ends.iter_mut().enumerate() {
                let is_new = *end == 0;
                *end = now_ms + 60_001;
                let (key, token) = (format!("key {n}"), first + n as u64);
                if is_new {
                    journal.granted(&key, token, *end)
                } else {
                    journal.extended(&key, token, *end)
                };
            }
            if copying != journal.checkpoint() {
                checkpoints += u32::from(copying.is_some());
                (copying, copied) = (journal.checkpoint(), 0);
            }
            while journal.wants_copy() {
                match ends.get(copied) {
                    Some(&end) => journal.copy(&format!("key {copied}"), first + copied as u64, end),
                    None => {
                        journal.end_copies();
                        break;
                    }
                }
                copied += 1;
            }
            settle(journal, &woken, now_ms);
            assert_eq!(journal.next_change(), None);
            // The lock; the last checkpoint and what is behind it; and two that are being made, or that go.
            assert!(std::fs::read_dir(dir.path()).unwrap().count() <= 5);
        }
        drop(opened);
        let (again, _woken) = open(dir.path(), &options(mode, now_ms)).unwrap();
        let mut held: Vec<_> = again.leases.iter().map(|lease| (lease.token, lease.ends_ms)).collect();
        held.sort_unstable();
        let expected: Vec<_> = (first..).zip(ends).collect();
        assert_eq!(held, expected);
    }
}
