//! Servers on data directories, and what all these tests ask of them.

use lockstead_testkit::journal::{self, Log};
use lockstead_testkit::{Answer, Builder, Raw, Server, frame};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
pub const SECOND: Duration = Duration::from_secs(1);
pub const BOTH: [&str; 2] = ["process", "machine"];

/// States in a `Q`.
pub const FREE: u8 = 0;
pub const HELD: u8 = 1;
pub const RECOVERING: u8 = 2;

/// How long a start recovers that cannot trust its directory, in milliseconds.
pub const LONGEST_MS: u32 = 255_000;

/// A place on a disk, for a data directory and what belongs to it.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        // A temporary directory of the system may be in memory, which does not keep what mode `machine` promises.
        Self { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    /// The data directory; it is not there until somebody makes it.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Another directory beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A server on the data directory.
    pub fn serve(&self, mode: &str) -> Builder {
        serve(mode, &self.data())
    }

    /// A server on the data directory that takes its boot id from elsewhere.
    pub fn serve_on_boot(&self, mode: &str, boot: &str) -> Builder {
        on_boot(self.serve(mode), &self.beside(boot), boot)
    }

    /// The log in the data directory; it must have no faults.
    pub fn log(&self) -> Log {
        log_of(&self.data())
    }

    /// Keeps everything for a person to look at.
    pub fn keep(self) -> PathBuf {
        self.dir.keep()
    }
}

/// A server on a data directory, with a port of its own.
pub fn serve(mode: &str, dir: &Path) -> Builder {
    let dir = dir.to_str().unwrap();
    let args = ["--admin", "off", "--durability", mode, "--data-dir", dir];
    Builder::bare(PROGRAM).listen("127.0.0.1:0").args(&args)
}

/// The same server with the boot id `boot`, kept in `file`.
pub fn on_boot(builder: Builder, file: &Path, boot: &str) -> Builder {
    fs::write(file, format!("{boot}\n")).unwrap();
    builder.args(&["--boot-id-file", file.to_str().unwrap()])
}

/// The log in a directory; it must have no faults.
pub fn log_of(dir: &Path) -> Log {
    let log = journal::log(dir).unwrap();
    assert_eq!(log.faults(), Vec::<String>::new());
    log
}

/// Runs a server that must refuse to start, and name all these words on stderr; returns that.
pub fn refused(builder: Builder, words: &[&str]) -> String {
    let (status, stdout, stderr) = builder.refused();
    assert!(!status.success(), "the server started: {stdout}");
    assert_eq!(status.code(), Some(125), "{stderr}");
    assert!(!stdout.contains("listening on"), "{stdout}");
    let said = stderr.to_lowercase();
    for word in words {
        assert!(said.contains(&word.to_lowercase()), "the message does not name `{word}`: {stderr}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

/// Whether a server has logged a warning with all these words on one line.
pub fn warned(server: &Server, words: &[&str]) -> bool {
    let stderr = server.stderr();
    stderr.lines().any(|line| line.contains("WARN") && words.iter().all(|word| line.contains(word)))
}

/// The server must have logged a warning with all these words on one line.
pub fn expect_warning(server: &Server, words: &[&str]) {
    assert!(warned(server, words), "no warning with {words:?} in:\n{}", server.stderr());
}

/// Whether this token is active. If it is, its lease lasts at least a second more.
pub fn is_active(session: &mut Raw, key: &str, token: u64) -> bool {
    match session.ask(&frame::extend(1, token, key)) {
        Answer::Extended { token: of, lease_s: 1 } if of == token => true,
        Answer::NotHeld { token: of } if of == token => false,
        other => panic!("an extend of {token} was answered {other:?}"),
    }
}

/// Extends, which must work.
pub fn extend(session: &mut Raw, lease_s: u8, key: &str, token: u64) {
    session.send(&frame::extend(lease_s, token, key));
    session.expect(Answer::Extended { token, lease_s }, "an extend of an active token");
}

/// Asks without waiting for a key that nobody can be granted now.
pub fn expect_no_grant(session: &mut Raw, key: &str) {
    session.send(&frame::acquire(0, 1, 77, key));
    session.expect(Answer::TimedOut { owner: 77 }, "a try that cannot be granted");
}
