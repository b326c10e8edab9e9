//! The controlling terminal, and who is in its foreground.
//!
//! The command has a process group of its own, so it can read from the terminal, and ctrl-C can reach it, only when
//! that group is in the foreground. It is put there at its start if it seems to want the terminal for itself, and
//! otherwise as soon as it is stopped for touching it: in `lockstead run k -- make | less` the terminal is less's.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, stdin, stdout};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::{FileType, fstat};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use tracing::debug;

/// The controlling terminal of this process.
#[derive(Debug)]
pub struct Terminal {
    tty: OwnedFd,
    /// Whether the command's group was put into the foreground.
    given: bool,
}

impl Terminal {
    /// The terminal that this process can be controlled from; none in a cron job or a service.
    pub fn controlling() -> Option<Self> {
        let by_name = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_NOCTTY);
            options.open("/dev/tty").map(File::into)
        };
        // Some containers have a terminal and no /dev/tty.
        let by_stdin = || stdin().as_fd().try_clone_to_owned();
        let tty: OwnedFd = by_name().or_else(|_| by_stdin()).ok()?;
        tcgetpgrp(&tty).is_ok().then_some(Self { tty, given: false })
    }

    /// Whether the command should be in the foreground from its start: this program is, reads from the terminal, and
    /// does not write into a pipe whose reader may want the terminal too.
    pub fn is_for_command(&self) -> bool {
        let piped =
            || fstat(stdout()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        self.is_ours() && stdin().is_terminal() && !piped()
    }

    /// Whether this program's own group is in the foreground.
    pub fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|group| group == getpgrp())
    }

    /// A second handle, for the command to put itself into the foreground before it begins.
    pub fn for_command(&mut self) -> std::io::Result<OwnedFd> {
        self.given = true;
        self.tty.try_clone()
    }

    /// Puts the command's group into the foreground, if this program's group is there.
    pub fn give(&mut self, group: Pid) {
        if self.is_ours() {
            self.given = true;
            set_foreground(&self.tty, group);
        }
    }

    /// Puts the command's group into the foreground again, after a shell brought this program back there.
    pub fn give_again(&mut self, group: Pid) {
        if self.given {
            self.give(group);
        }
    }

    /// Takes the foreground back from a command that could not be started.
    pub fn keep(&mut self) {
        if std::mem::take(&mut self.given) {
            set_foreground(&self.tty, getpgrp());
        }
    }

    /// Takes the foreground back from the command's group; not from anybody else's.
    pub fn take_back(&self, group: Pid) {
        if tcgetpgrp(&self.tty).is_ok_and(|foreground| foreground == group) {
            set_foreground(&self.tty, getpgrp());
        }
    }
}

/// Puts a group into the foreground. TTOU must be blocked: it is sent to whoever does this from the background.
fn set_foreground(tty: &OwnedFd, group: Pid) {
    if let Err(error) = tcsetpgrp(tty, group) {
        debug!(%error, "cannot change the foreground of the terminal");
    }
}
