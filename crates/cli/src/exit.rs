//! The exit statuses, all of them.

use std::process::ExitCode;

/// How the program ends. The numbers below 120 are the command's own under `run`, so that the statuses of this program
/// cannot be taken for those of an ordinary command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u8);

impl Status {
    /// It is done; for a query: the key is held, or its server is recovering.
    pub const DONE: Self = Self(0);
    /// The server's plain no: not held, free, or no answer to a ping.
    pub const NO: Self = Self(1);
    /// `run`: the lock was lost before the command ended.
    pub const LOST: Self = Self(120);
    /// Nobody knows whether it was done.
    pub const UNKNOWN: Self = Self(121);
    /// Certainly nothing was sent.
    pub const UNSENT: Self = Self(122);
    /// The server is busy.
    pub const BUSY: Self = Self(123);
    /// The lock did not become free in time.
    pub const TIMEOUT: Self = Self(124);
    /// Wrong usage, a request that the server refused, or another failure of this program's own.
    pub const FAILURE: Self = Self(125);
    /// `run`: the command was found and cannot be run.
    pub const CANNOT_RUN: Self = Self(126);
    /// `run`: there is no such command.
    pub const NOT_FOUND: Self = Self(127);

    /// `run`: as the command ended, with `code` from 0 to 255.
    pub fn of_code(code: i32) -> Self {
        // Only the low eight bits of an exit code ever reach a parent.
        Self((code & 0xFF) as u8)
    }

    /// `run`: the command was ended by this signal.
    pub fn of_signal(number: i32) -> Self {
        Self::of_code(128 + number)
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.0)
    }
}
