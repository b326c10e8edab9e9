//! Runs the real program, in pipes and on a terminal. Everything that is awaited has a deadline, so a test that would
//! hang fails instead and says what it was waiting for.

// Each test file uses its own part of this.
#![allow(dead_code, unused_imports)]

mod program;
mod terminal;

pub use program::{Outcome, Program, outcome, within};
pub use terminal::Terminal;

use std::process::Command;

use lockstead_testkit::{Builder, Raw, Server};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");

/// `lockstead` with these arguments, without options from the environment of the test, and without a default data
/// directory that it could write to.
pub fn lockstead(args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCKSTEAD_")) {
        command.env_remove(name);
    }
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", "/dev/null");
    command
}

/// A server on a free port, and `lockstead` for it.
pub struct World {
    pub server: Server,
}

impl World {
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// A server with further arguments.
    pub fn with(args: &[&str]) -> Self {
        Self { server: Builder::new(PROGRAM).listen("127.0.0.1:0").args(args).start() }
    }

    /// A client command for this server.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = lockstead(args);
        command.env("LOCKSTEAD_SERVER", self.server.address().to_string());
        command
    }

    /// Runs a client command to its end.
    pub fn outcome(&self, args: &[&str]) -> Outcome {
        outcome(self.command(args))
    }

    /// Starts a client command.
    pub fn start(&self, args: &[&str]) -> Program {
        Program::start(self.command(args))
    }

    /// Takes a lock and leaves it held; its token.
    pub fn hold(&self, key: &str, lease: &str) -> String {
        let got = self.outcome(&["acquire", key, "--wait", "0s", "--lease", lease]);
        assert_eq!(got.code, Some(0), "{got:?}");
        let token = got.stdout.lines().next().and_then(|line| line.strip_prefix("token "));
        token.unwrap_or_else(|| panic!("no token: {got:?}")).to_owned()
    }

    /// `free` or `held`, as `lockstead query` says.
    pub fn state(&self, key: &str) -> String {
        self.outcome(&["query", key]).stdout.lines().next().unwrap_or_default().to_owned()
    }

    /// Waits until so many attempts queue for the key.
    pub fn await_waiters(&self, key: &str, waiters: u32) {
        let (mut raw, key): (Raw, _) = (self.server.connect(), key.to_owned());
        within("waiters in the queue", move || while raw.query(&key).2 != waiters {});
    }
}
