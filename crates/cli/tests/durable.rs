//! What survives what: real servers that are killed, stopped and started again on one data directory.

// What fails in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod program_support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lockstead_testkit::{Answer, Builder, Grant, Raw, Server, frame};
use program_support::{Outcome, PROGRAM, lockstead, outcome};
use serde_json::Value;

const MODES: [&str; 2] = ["process", "machine"];
const SECOND: Duration = Duration::from_secs(1);
/// The longest recovery, with the millisecond that rounding costs.
const LONGEST_MS: u32 = 255_001;

/// A data directory on a disk (temporary files may be in memory), and a file that names the boot.
struct Site {
    parent: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { parent: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        site.boot("the first boot");
        site
    }

    fn path(&self, name: &str) -> String {
        self.parent.path().join(name).to_str().unwrap().to_owned()
    }

    fn data(&self) -> String {
        self.path("data")
    }

    /// From now on the machine has been booted anew.
    fn boot(&self, id: &str) {
        fs::write(self.path("boot-id"), id).unwrap();
    }

    fn builder(&self, mode: &str) -> Builder {
        let builder = Builder::bare(PROGRAM).listen("127.0.0.1:0");
        let (data, boot) = (self.data(), self.path("boot-id"));
        builder.args(&["--durability", mode, "--data-dir", &data, "--boot-id-file", &boot])
    }

    fn start(&self, mode: &str) -> Server {
        self.builder(mode).start()
    }

    /// The newest segment.
    fn segment(&self) -> PathBuf {
        let files = fs::read_dir(self.data()).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|kind| kind == "journal")).max().unwrap()
    }

    /// Runs a command on the data directory.
    fn run(&self, args: &[&str]) -> Outcome {
        let mut command = lockstead(args);
        command.args(["--data-dir", &self.data()]);
        outcome(command)
    }
}

/// Stops it by SIGTERM, which must not take long.
fn stop(mut server: Server) {
    server.terminate();
    assert_eq!(server.wait_exit(10 * SECOND, "a clean stop").code(), Some(0), "{}", server.stderr());
}

/// `key` is held by this grant and nobody else gets it.
fn is_held(session: &mut Raw, key: &str, grant: &Grant) {
    let (state, remaining_ms, _) = session.query(key);
    // One millisecond for what rounding may cost, and one more after another boot.
    let most_ms = u32::from(grant.lease_s) * 1_000 + 2;
    assert_eq!(state, 1, "{key} is held");
    assert!(remaining_ms > most_ms - 30_000 && remaining_ms <= most_ms, "{remaining_ms} of {most_ms}");
    assert_eq!(session.ask(&frame::acquire(0, 1, 99, key)), Answer::TimedOut { owner: 99 });
    let extend = frame::extend(1, grant.token, key);
    assert!(matches!(session.ask(&extend), Answer::Extended { token, .. } if token == grant.token));
}

#[test]
fn what_is_held_survives_a_killed_server() {
    for mode in MODES {
        let site = Site::new();
        let mut server = site.start(mode);
        let mut session = server.connect();
        let first = session.hold(60, 1, "first");
        let released = session.hold(60, 2, "released");
        session.release(released.token, "released");
        let second = session.hold(30, 3, "second");
        let extended = session.ask(&frame::extend(90, second.token, "second"));
        assert_eq!(extended, Answer::Extended { token: second.token, lease_s: 90 });
        server.kill();

        let server = site.start(mode);
        let mut session = server.connect();
        is_held(&mut session, "first", &first);
        is_held(&mut session, "second", &Grant { lease_s: 90, ..second });
        let next = session.hold(60, 4, "released");
        assert!(next.token > second.token, "tokens rise");
        session.release(first.token, "first");
        assert_eq!(session.query("first").0, 0);
    }
}

#[test]
fn a_stop_does_not_wait_for_holders_and_forgets_nothing() {
    for mode in MODES {
        let site = Site::new();
        let server = site.start(mode);
        let grant = server.connect().hold(255, 1, "k");
        let asked = Instant::now();
        stop(server);
        assert!(asked.elapsed() < 3 * SECOND, "it took {:?}", asked.elapsed());
        // Not even another boot makes a difference after a clean stop.
        site.boot("another boot");
        let server = site.start(mode);
        let mut session = server.connect();
        is_held(&mut session, "k", &grant);
        session.hold(1, 2, "free");
    }
}

#[test]
fn after_a_crash_of_the_machine_process_recovers_and_machine_goes_on() {
    for mode in MODES {
        let site = Site::new();
        let mut server = site.start(mode);
        let grant = server.connect().hold(60, 1, "k");
        server.kill();
        site.boot("another boot");
        let mut server = site.start(mode);
        let mut session = server.connect();
        is_held(&mut session, "k", &grant);
        if mode == "machine" {
            session.hold(1, 2, "free");
            continue;
        }
        let (state, remaining_ms, _) = session.query("free");
        assert_eq!(state, 2, "recovering");
        assert!(remaining_ms > 30_000 && remaining_ms <= 60_002, "the longest lease: {remaining_ms}");
        assert_eq!(session.ask(&frame::acquire(0, 1, 3, "free")), Answer::TimedOut { owner: 3 });
        session.release(grant.token, "k");
        assert_eq!(session.query("k").0, 2, "what is free now is recovering, too");
        // A restart does not shorten it.
        server.kill();
        let server = site.start(mode);
        assert_eq!(server.connect().query("free").0, 2);
    }
}

#[test]
fn a_directory_of_ones_own_is_made_where_systemd_or_the_user_keeps_state() {
    let site = Site::new();
    let builder = Builder::bare(PROGRAM).listen("127.0.0.1:0").env("XDG_STATE_HOME", site.path("state"));
    let mut server = builder.start();
    let grant = server.connect().hold(60, 1, "k");
    server.kill();
    let dir = site.path("state/lockstead");
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    let builder =
        Builder::bare(PROGRAM).listen("127.0.0.1:0").env("STATE_DIRECTORY", format!("{dir}:/dev/null"));
    is_held(&mut builder.start().connect(), "k", &grant);
}

#[test]
fn every_option_can_come_from_the_environment() {
    let site = Site::new();
    let builder = || {
        let builder = Builder::bare(PROGRAM).listen("127.0.0.1:0").env("LOCKSTEAD_DURABILITY", "process");
        builder.env("LOCKSTEAD_DATA_DIR", site.data()).env("LOCKSTEAD_BOOT_ID_FILE", site.path("boot-id"))
    };
    let strict = || builder().env("LOCKSTEAD_REQUIRE_DATA", "true");
    assert_eq!(strict().refused().0.code(), Some(125));
    let mut server = builder().start();
    server.connect().hold(60, 1, "k");
    server.kill();
    site.boot("another boot");
    assert_eq!(strict().start().connect().query("free").0, 2, "recovering");
}

#[test]
fn an_empty_directory_is_refused_where_data_is_required() {
    let site = Site::new();
    let advice = "is this the right directory, and is its volume mounted?";
    let refused = || {
        let (status, _, stderr) = site.builder("process").args(&["--require-data"]).refused();
        assert_eq!(status.code(), Some(125));
        let last = stderr.lines().last().unwrap().to_owned();
        assert!(last.starts_with(&format!("lockstead: the data directory {}: ", site.data())), "{last}");
        assert!(last.contains(advice), "{last}");
    };
    refused();
    assert!(!Path::new(&site.data()).exists(), "it is not made either");
    fs::create_dir(site.data()).unwrap();
    refused();
    stop(site.start("process"));
    stop(site.builder("process").args(&["--require-data"]).start());
}

#[test]
fn a_second_server_on_the_directory_says_so_and_stops() {
    let site = Site::new();
    let first = site.start("machine");
    let grant = first.connect().hold(60, 1, "k");
    let (status, stdout, stderr) = site.builder("machine").refused();
    assert_eq!((status.code(), stdout.as_str()), (Some(125), ""));
    let expected = format!(
        "lockstead: the data directory {}: another server uses this data directory; stop that server, or give this \
         one another --data-dir",
        site.data()
    );
    assert_eq!(stderr.lines().last(), Some(&*expected));
    is_held(&mut first.connect(), "k", &grant);
}

#[test]
fn a_damaged_journal_is_refused_and_can_be_cut() {
    let site = Site::new();
    let mut server = site.start("machine");
    let mut session = server.connect();
    let before = session.hold(200, 1, "before");
    session.hold(200, 2, "damaged");
    session.hold(200, 3, "behind");
    server.kill();
    let segment = site.segment();
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(7).position(|window| window == b"damaged").unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, &bytes).unwrap();

    let (status, stdout, stderr) = site.builder("machine").refused();
    assert_eq!((status.code(), stdout.as_str()), (Some(125), ""));
    let told = stderr.lines().last().unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap();
    assert!(told.contains(&format!("{name} is damaged at offset ")), "{told}");
    assert!(told.contains(&format!("`lockstead repair --data-dir {}`", site.data())), "{told}");
    assert_eq!(fs::read(&segment).unwrap(), bytes, "nothing was changed");

    let report = site.run(&["repair", "--boot-id-file", &site.path("boot-id")]);
    assert_eq!(report.code, Some(1), "{report:?}");
    let place = report.stdout.split("--cut ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let cut = site.run(&["repair", "--cut", place, "--to", &site.path("new")]);
    assert_eq!(cut.code, Some(0), "{cut:?}");
    fs::rename(site.data(), site.path("old")).unwrap();
    fs::rename(site.path("new"), site.data()).unwrap();
    let server = site.start("machine");
    let mut session = server.connect();
    is_held(&mut session, "before", &before);
    let (state, remaining_ms, _) = session.query("behind");
    assert_eq!(state, 2, "recovering");
    assert!(remaining_ms > 200_000 && remaining_ms <= LONGEST_MS, "{remaining_ms}");
}

#[test]
fn a_copy_that_is_put_back_recovers_when_it_is_marked() {
    let site = Site::new();
    let server = site.start("machine");
    let old = server.connect().hold(255, 1, "old");
    stop(server);
    let copy = fs::read(site.segment()).unwrap();
    let name = site.segment();
    let mut server = site.start("machine");
    server.connect().hold(255, 2, "not in the copy");
    server.kill();
    fs::remove_file(site.segment()).unwrap();
    fs::write(name, copy).unwrap();
    let marked = site.run(&["repair", "--restored"]);
    assert_eq!(marked.code, Some(0), "{marked:?}");
    let server = site.start("machine");
    let mut session = server.connect();
    is_held(&mut session, "old", &old);
    assert_eq!(session.query("not in the copy").0, 2, "recovering");
    assert_eq!(session.ask(&frame::acquire(0, 1, 3, "not in the copy")), Answer::TimedOut { owner: 3 });
}

#[test]
fn who_looks_at_a_running_servers_directory_sees_its_locks_and_does_no_harm() {
    let site = Site::new();
    let server = site.start("process");
    let grant = server.connect().hold(60, 1, "k");
    let dump = site.run(&["journal", "dump"]);
    assert_eq!(dump.code, Some(0));
    assert!(dump.stderr.contains("a server uses"), "{}", dump.stderr);
    let mut records = dump.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_grant = |record: &Value| record["record"] == "granted" && record["token"] == grant.token;
    assert!(records.any(|record| is_grant(&record) && record["key"] == "k"), "{}", dump.stdout);
    let report = site.run(&["repair"]);
    assert_eq!(report.code, Some(0), "{report:?}");
    assert!(report.stdout.starts_with("a server uses this directory"), "{report:?}");
    for args in [
        &["repair", "--restored"][..],
        &["repair", "--cut", "0000000000000001.journal:99", "--to", &site.path("new")],
    ] {
        let refused = site.run(args);
        assert_eq!(refused.code, Some(125));
        assert!(refused.stderr.ends_with("a server uses this data directory\n"), "{refused:?}");
    }
    is_held(&mut server.connect(), "k", &grant);
}

#[test]
fn while_the_disk_is_full_nothing_is_granted_and_holders_can_release() {
    for mode in MODES {
        let site = Site::new();
        let mut server = site.start(mode);
        let mut session = server.connect();
        let (kept, given_back) = (session.hold(200, 1, "kept"), session.hold(60, 2, "given back"));
        let mut waiting = server.connect();
        waiting.send(&frame::acquire(60, 60, 4, "kept"));
        while session.query("kept").2 == 0 {}
        server.fill_disk();
        let refused = Answer::Busy { owner: 3, reason: 6 };
        assert_eq!(session.ask(&frame::acquire(0, 60, 3, "k")), refused);
        waiting.expect(Answer::Busy { owner: 4, reason: 6 }, "what a waiter hears");
        let extended = session.ask(&frame::extend(250, kept.token, "kept"));
        assert!(extended.is_error(10, kept.token), "{extended:?}");
        session.release(given_back.token, "given back");
        assert_eq!(session.query("kept").0, 1);

        server.free_disk();
        assert!(granted_again(&mut session, 3, "k") > given_back.token);
        server.kill();
        let server = site.start(mode);
        let mut session = server.connect();
        assert_eq!((session.query("kept").0, session.query("k").0), (1, 1));
        assert_eq!(session.query("given back").0, 0, "the checkpoint knows of the release");
    }
}

/// Asks until the storage has recovered; the token.
fn granted_again(session: &mut Raw, owner: u64, key: &str) -> u64 {
    let asked = Instant::now();
    loop {
        match session.ask(&frame::acquire(0, 60, owner, key)) {
            Answer::Acquired { token, .. } => return token,
            other => assert_eq!(other, Answer::Busy { owner, reason: 6 }),
        }
        assert!(asked.elapsed() < 20 * SECOND, "grants do not go on");
    }
}

#[test]
fn a_start_on_a_full_disk_serves_what_it_knows_if_it_knows_anything() {
    for mode in MODES {
        let site = Site::new();
        // What it says goes to a file, too.
        let (status, stdout, _) = site.builder(mode).full_disk().refused();
        assert_eq!((status.code(), stdout.as_str()), (Some(125), ""));
        let mut server = site.start(mode);
        let grant = server.connect().hold(60, 1, "k");
        server.kill();
        let server = site.builder(mode).full_disk().start();
        let mut session = server.connect();
        assert_eq!(session.query("k").0, 1);
        assert_eq!(session.ask(&frame::acquire(0, 1, 2, "free")), Answer::Busy { owner: 2, reason: 6 });
        server.free_disk();
        assert!(granted_again(&mut session, 3, "free") > grant.token);
        is_held(&mut session, "k", &grant);
    }
}

#[test]
fn a_directory_in_memory_is_refused_in_machine_and_warned_of_in_process() {
    let memory = tempfile::tempdir_in("/dev/shm").expect("Linux has a file system in memory there");
    let data = memory.path().join("data").to_str().unwrap().to_owned();
    let builder = |mode| {
        let builder = Builder::bare(PROGRAM).listen("127.0.0.1:0");
        builder.args(&["--durability", mode, "--data-dir", &data])
    };
    let (status, _, stderr) = builder("machine").refused();
    assert_eq!(status.code(), Some(125));
    let told = stderr.lines().last().unwrap();
    assert!(told.contains("is in memory") && told.contains("--durability process"), "{told}");
    let server = builder("process").start();
    server.connect().hold(1, 1, "k");
    let log = server.stderr();
    let warned = log.lines().any(|line| line.contains("WARN") && line.contains("in memory"));
    assert!(warned, "{log}");
}
