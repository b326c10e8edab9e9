//! The journal on real files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use lockstead_journal::*;

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
        let parent = tempfile::tempdir().unwrap();
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
fn a_second_server_is_refused_until_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (first, _woken) = open(dir.path(), &options(Mode::Process, 1)).unwrap();
    assert!(matches!(open(dir.path(), &options(Mode::Process, 1)), Err(OpenError::InUse)));
    first.journal.stop().unwrap();
    drop(open(dir.path(), &options(Mode::Process, 1)).unwrap());
    assert!(dir.path().join("lock").exists(), "a lock file is never deleted");
}

#[test]
fn an_empty_directory_can_be_made_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let strict = OpenOptions { require_data: true, ..options(Mode::Machine, 1) };
    assert!(matches!(open(dir.path(), &strict), Err(OpenError::NoData)));
    drop(open(dir.path(), &options(Mode::Machine, 1)).unwrap());
    drop(open(dir.path(), &strict).unwrap());
}
