//! `lockstead repair` and `lockstead journal dump` on directories that a journal has written, whole and damaged.

// What fails in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod program_support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use lockstead_journal::{BootIdentity, FileStorage, Journal, Mode, OpenOptions, Opened, Warning};
use program_support::{Outcome, lockstead, outcome, within};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

const SEGMENT: &str = "0000000000000001.journal";

fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec * 1_000 + now.tv_nsec / 1_000_000) as u64
}

/// A start of a server on this boot of the machine.
fn open(dir: &Path, mode: Mode) -> Opened {
    let mut options = OpenOptions::new(mode, now_ms(), 1_000, [7; 16]);
    options.boot = BootIdentity::read().ok();
    Journal::open(Arc::new(FileStorage::open(dir).unwrap()), &options, || ()).unwrap()
}

/// The data directory of a server that granted `one`, `two` and `three`, each with a write of its own, and was killed.
struct Data {
    dir: tempfile::TempDir,
}

impl Data {
    fn new(mode: Mode) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (wake, woken) = mpsc::channel();
        let storage = Arc::new(FileStorage::open(dir.path()).unwrap());
        let mut options = OpenOptions::new(mode, now_ms(), 1_000, [7; 16]);
        options.boot = BootIdentity::read().ok();
        let mut opened = Journal::open(storage, &options, move || wake.send(()).unwrap_or(())).unwrap();
        let journal = &mut opened.journal;
        for (token, key) in (1_000..).zip(["one", "two", "three"]) {
            journal.turn(now_ms());
            let position = journal.granted(key, token, now_ms() + 200_000);
            journal.flush();
            while journal.reached() < position {
                woken.recv().unwrap();
                journal.turn(now_ms());
                journal.flush();
            }
        }
        drop(opened);
        // Whoever only looks must not make it anew.
        fs::remove_file(dir.path().join("lock")).unwrap();
        Self { dir }
    }

    /// A bit of the write of `two` turned round; where that write begins.
    fn damaged(self) -> (Self, usize) {
        let mut bytes = self.bytes();
        let at = self.place_of("two") + 2;
        bytes[at] ^= 1;
        fs::write(self.segment(), &bytes).unwrap();
        let begins = self.offsets().into_iter().filter(|offset| *offset < at).max().unwrap();
        (self, begins)
    }

    /// Where writes begin, as the program itself says.
    fn offsets(&self) -> Vec<usize> {
        let dump = self.run(&["journal", "dump"]);
        let offset = |line: &str| serde_json::from_str::<Value>(line).unwrap()["offset"].as_u64().unwrap();
        dump.stdout.lines().map(|line| offset(line) as usize).collect()
    }

    fn place_of(&self, key: &str) -> usize {
        self.bytes().windows(key.len()).position(|window| window == key.as_bytes()).unwrap()
    }

    fn path(&self) -> &str {
        self.dir.path().to_str().unwrap()
    }

    fn segment(&self) -> PathBuf {
        self.dir.path().join(SEGMENT)
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.segment()).unwrap()
    }

    /// Runs a command on it.
    fn run(&self, args: &[&str]) -> Outcome {
        let mut command = lockstead(args);
        command.args(["--data-dir", self.path()]);
        outcome(command)
    }
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

fn held(opened: &Opened) -> Vec<(&str, u64)> {
    opened.leases.iter().map(|lease| (&*lease.key, lease.token)).collect()
}

fn is(outcome: &Outcome, code: i32, stdout: &str, stderr: &str) {
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), (stdout, stderr));
    assert_eq!(outcome.code, Some(code));
}

#[test]
fn of_a_whole_directory_it_says_that_nothing_is_damaged() {
    for mode in [Mode::Process, Mode::Machine] {
        let data = Data::new(mode);
        let before = files(data.dir.path());
        let length = data.bytes().len();
        let said = format!(
            "{SEGMENT}: {length} bytes, run 1, mode {}, complete, 5 batches, good to its end\nnothing is damaged\n",
            mode.as_str()
        );
        is(&data.run(&["repair"]), 0, &said, "");
        assert_eq!(files(data.dir.path()), before, "it only looks, and makes no lock file");
    }
}

#[test]
fn a_write_that_never_ended_is_no_damage() {
    let data = Data::new(Mode::Process);
    let bytes = data.bytes();
    fs::write(data.segment(), &bytes[..bytes.len() - 1]).unwrap();
    let last = data.offsets().pop().unwrap();
    let said = format!(
        "{SEGMENT}: {} bytes, run 1, mode process, complete, 4 batches, ends inside the batch at offset {last}\n\
         a start goes on with a warning: {SEGMENT} is read up to offset {last} only: the rest is a write that never \
         ended, and nobody was told of it\n",
        bytes.len() - 1
    );
    is(&data.run(&["repair"]), 0, &said, "");
}

#[test]
fn a_damaged_directory_is_cut_into_a_new_one_as_the_report_says() {
    let (data, begins) = Data::new(Mode::Process).damaged();
    let before = files(data.dir.path());
    let behind = data.offsets().pop().unwrap();
    let (length, path) = (data.bytes().len(), data.path());
    let place = format!("{SEGMENT}:{begins}");
    let said = format!(
        "{SEGMENT}: {length} bytes, run 1, mode process, complete, 3 batches, bad from offset {begins} on, and a good \
         batch behind that at {behind}\n\
         a start refuses: {SEGMENT} is damaged at offset {begins}: there is a bad batch, and good ones behind it\n\
         to go on with what comes before that place, and a recovery of 255 s:\n  \
         lockstead repair --data-dir {path} --cut {place} --to NEWDIR\n"
    );
    is(&data.run(&["repair"]), 1, &said, "");

    let parent = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let new = parent.path().join("new");
    let to = new.to_str().unwrap();
    let done = format!(
        "{to} holds what {path} holds before {place}; a start from it grants nothing for the first 255 s\n"
    );
    is(&data.run(&["repair", "--cut", &place, "--to", to]), 0, &done, "");
    assert_eq!(files(data.dir.path()), before, "the old directory is as it was");
    let again = data.run(&["repair", "--cut", &place, "--to", to]);
    let refused =
        format!("lockstead: cannot cut {path} into {to}: there is a journal in the new directory already\n");
    is(&again, 125, "", &refused);

    let opened = open(&new, Mode::Process);
    assert_eq!(held(&opened), [("one", 1_000)]);
    let left_ms = opened.recovery_ends_ms.unwrap() - now_ms();
    assert!((200_000..=255_001).contains(&left_ms), "{left_ms}");
}

#[test]
fn a_restored_directory_is_marked() {
    let data = Data::new(Mode::Machine);
    let path = data.path();
    let done = format!("{path} is marked; a start from it grants nothing for the first 255 s\n");
    is(&data.run(&["repair", "--restored"]), 0, &done, "");
    let report = data.run(&["repair"]);
    assert_eq!(report.code, Some(0));
    let last = report.stdout.lines().last().unwrap();
    let marked =
        "a start goes on with a warning: the data directory was repaired, so the server recovers for 255 s";
    assert_eq!(last, marked);
    let opened = open(data.dir.path(), Mode::Machine);
    assert_eq!(held(&opened), [("one", 1_000), ("two", 1_001), ("three", 1_002)]);
    assert!(opened.recovery_ends_ms.is_some());
    assert_eq!(opened.warnings, [Warning::Repaired]);

    let (damaged, begins) = Data::new(Mode::Machine).damaged();
    let before = damaged.bytes();
    let refused = damaged.run(&["repair", "--restored"]);
    let said = format!(
        "lockstead: cannot mark {}: {SEGMENT} is damaged at offset {begins}: there is a bad batch, and good ones \
         behind it\n",
        damaged.path()
    );
    is(&refused, 125, "", &said);
    assert_eq!(damaged.bytes(), before);
}

#[test]
fn another_users_directory_is_not_written_to() {
    let data = Data::new(Mode::Process);
    // Only root can give it away; everybody else finds one of root's.
    let foreign = match chown(data.dir.path(), Some(4711), None) {
        Ok(()) => data.path(),
        Err(_) => "/",
    };
    let owner = fs::metadata(foreign).unwrap().uid();
    let mut command = lockstead(&["repair", "--restored", "--data-dir"]);
    command.arg(foreign);
    let said = format!(
        "lockstead: {foreign} belongs to the user with the id {owner}, who could not read what this user writes there; \
         run this as that user, for example with `sudo -u '#{owner}'`\n"
    );
    is(&outcome(command), 125, "", &said);
    assert!(!data.dir.path().join("lock").exists());
}

#[test]
fn a_server_that_uses_the_directory_is_named() {
    let data = Data::new(Mode::Process);
    let server = open(data.dir.path(), Mode::Process);
    let report = data.run(&["repair"]);
    let (first, rest) = report.stdout.split_once('\n').unwrap();
    assert_eq!(first, "a server uses this directory; what it is just writing may look unfinished");
    assert!(rest.ends_with(", good to its end\nnothing is damaged\n"), "{rest}");
    assert_eq!((report.code, report.stderr.as_str()), (Some(0), ""));

    let path = data.path();
    let dump = data.run(&["journal", "dump"]);
    let note = format!("lockstead: a server uses {path}; what it is just writing may look unfinished\n");
    assert_eq!((dump.code, dump.stderr), (Some(0), note));
    assert!(dump.stdout.lines().any(|line| line.contains(r#""key":"three""#)), "{}", dump.stdout);

    let refused = format!("lockstead: cannot mark {path}: a server uses this data directory\n");
    is(&data.run(&["repair", "--restored"]), 125, "", &refused);
    let to = tempfile::tempdir().unwrap();
    let to = to.path().to_str().unwrap();
    let refused = format!("lockstead: cannot cut {path} into {to}: a server uses this data directory\n");
    is(&data.run(&["repair", "--cut", "0000000000000002.journal:200", "--to", to]), 125, "", &refused);
    server.journal.stop().unwrap();
}

#[test]
fn where_there_is_no_journal_it_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (empty, missing) = (dir.path().to_str().unwrap(), dir.path().join("missing"));
    let missing = missing.to_str().unwrap();
    for (args, cannot) in
        [(&["repair"][..], "look at"), (&["repair", "--restored"], "mark"), (&["journal", "dump"], "dump")]
    {
        let run = |path: &str| {
            let mut command = lockstead(args);
            outcome({
                command.args(["--data-dir", path]);
                command
            })
        };
        let said = format!("lockstead: cannot {cannot} {empty}: there is no journal in the data directory\n");
        is(&run(empty), 125, "", &said);
        let said = format!(
            "lockstead: cannot open the data directory {missing}: No such file or directory (os error 2)\n"
        );
        is(&run(missing), 125, "", &said);
        assert!(!Path::new(missing).exists());
        let file = run("/dev/null");
        assert_eq!(file.code, Some(125));
        assert!(
            file.stderr.contains("cannot open the data directory /dev/null: not a directory"),
            "{file:?}"
        );
    }
}

#[test]
fn wrong_usage_says_what_would_be_right() {
    let data = Data::new(Mode::Process);
    let new = tempfile::tempdir().unwrap();
    let to = new.path().to_str().unwrap();
    let place = format!("{SEGMENT}:300");
    for (args, hint) in [
        (&["repair", "--cut", &place][..], "--to <NEWDIR>"),
        (&["repair", "--to", to], "--cut <FILE:OFFSET>"),
        (&["repair", "--restored", "--cut", &place, "--to", to], "cannot be used with"),
        (&["repair", "--cut", "300", "--to", to], "expected FILE:OFFSET"),
        (&["repair", "--cut", "0000000000000001.journal:x", "--to", to], "the offset is not a number"),
        (&["repair", "--cut", "lock:0", "--to", to], "lock is no segment of the journal"),
        (
            &["repair", "--cut", "0000000000000002.journal:9", "--to", to],
            "0000000000000002.journal is no segment",
        ),
        (&["repair", "--cut", "0000000000000001.journal:0", "--to", to], "there is no journal"),
        (&["repair", "--boot-id-file", "/no/such/file"], "cannot read a boot id from /no/such/file"),
        (&["journal"], "dump"),
    ] {
        let mut command = lockstead(args);
        if args.len() > 1 {
            command.args(["--data-dir", data.path()]);
        }
        let got = outcome(command);
        assert_eq!((got.code, got.stdout.as_str()), (Some(125), ""), "{args:?}: {got:?}");
        assert!(got.stderr.contains(hint), "{args:?} should say {hint:?}: {}", got.stderr);
    }
    assert_eq!(files(data.dir.path()).keys().collect::<Vec<_>>(), [SEGMENT]);
}

#[test]
fn the_directory_is_the_one_that_serve_takes_by_default() {
    let data = Data::new(Mode::Process);
    let parent = tempfile::tempdir().unwrap();
    fs::create_dir(parent.path().join("lockstead")).unwrap();
    let state_file = parent.path().join("lockstead").join(SEGMENT);
    fs::copy(data.segment(), state_file).unwrap();
    for (name, value) in [
        ("STATE_DIRECTORY", format!("{}:/dev/null", data.path())),
        ("LOCKSTEAD_DATA_DIR", data.path().to_owned()),
        ("XDG_STATE_HOME", parent.path().to_str().unwrap().to_owned()),
    ] {
        for args in [&["repair"][..], &["journal", "dump"]] {
            let mut command = lockstead(args);
            command.env(name, &value);
            let got = outcome(command);
            assert_eq!(got.code, Some(0), "{name}: {got:?}");
            assert!(got.stdout.contains(SEGMENT), "{name}: {got:?}");
        }
    }
}

#[test]
fn whether_a_start_refuses_depends_on_the_boot() {
    let (data, _) = Data::new(Mode::Process).damaged();
    let boot = tempfile::NamedTempFile::new().unwrap();
    fs::write(boot.path(), "another boot\n").unwrap();
    let report = data.run(&["repair", "--boot-id-file", boot.path().to_str().unwrap()]);
    assert_eq!(report.code, Some(0), "{report:?}");
    let last = report.stdout.lines().last().unwrap();
    assert!(last.ends_with("the rest was not on stable storage when the machine stopped"), "{last}");
}

/// What is kept for later versions to read is just right for reading it here.
#[test]
fn a_dump_prints_every_record_of_a_directory_and_changes_nothing() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../journal/tests/fixtures/v1");
    for case in ["killed", "stopped", "continued", "torn", "recovering", "restored"] {
        let dir = fixtures.join(case);
        let before = files(&dir);
        let expected = fs::read_to_string(dir.with_extension("expected")).unwrap();
        let expected: Vec<&str> = expected.lines().filter(|line| line.starts_with('{')).collect();
        assert!(expected.len() > 3, "{case}");
        let mut command = lockstead(&["journal", "dump", "--data-dir"]);
        command.arg(&dir);
        let dump = outcome(command);
        assert_eq!((dump.code, dump.stderr.as_str()), (Some(0), ""), "{case}");
        assert_eq!(dump.stdout.lines().collect::<Vec<_>>(), expected, "{case}");
        let mut command = lockstead(&["repair", "--data-dir"]);
        command.arg(&dir);
        assert_eq!(outcome(command).code, Some(0), "{case}");
        assert_eq!(files(&dir), before, "{case}");
    }
}

#[test]
fn output_that_nobody_reads_is_said_and_fails() {
    let data = Data::new(Mode::Process);
    for args in [&["repair"][..], &["journal", "dump"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = lockstead(args);
        command.args(["--data-dir", data.path()]).stdout(writer).stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        drop(command);
        let output = within("output into a closed pipe", move || child.wait_with_output().unwrap());
        assert_eq!(output.status.code(), Some(125));
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.ends_with("Broken pipe (os error 32)\n") && told.lines().count() == 1, "{told}");
    }
}
