//! The command's process group: its start, its signals, its end.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal, test_kill_process_group, waitpgid, waitpid,
};

use super::sys;
use super::terminal::Terminal;

/// A running command and all that it starts, as long as that stays in its group.
#[derive(Debug)]
pub struct Group {
    /// The command's process, and by that the group's id.
    leader: Pid,
}

/// What happened to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was stopped by this signal.
    Stopped(i32),
    /// It ended.
    Ended(Exit),
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Group {
    /// Starts `command` in a group of its own, in the foreground of the terminal if that is for it. An error of the
    /// operating system says why it was not started.
    ///
    /// To be called on the main thread: the command is killed when the thread ends that started it.
    pub fn spawn(mut command: Command, mut terminal: Option<&mut Terminal>) -> io::Result<Self> {
        let parent = getpid();
        let tty = match &mut terminal {
            Some(terminal) if terminal.is_for_command() => Some(terminal.for_command()?),
            _ => None,
        };
        command.process_group(0);
        // SAFETY: the closure runs between fork and exec and makes system calls only: it neither allocates nor locks.
        unsafe { command.pre_exec(move || prepare(parent, tty.as_ref())) };
        match command.spawn() {
            Ok(child) => Ok(Self { leader: Pid::from_child(&child) }),
            Err(error) => {
                if let Some(terminal) = terminal {
                    terminal.keep();
                }
                Err(error)
            }
        }
    }

    /// The group's id.
    pub fn id(&self) -> Pid {
        self.leader
    }

    /// Sends a signal to every process of the group. None may be left: then there is nothing to do.
    pub fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process_group(self.leader, signal)
            && error != Errno::SRCH
        {
            tracing::warn!(%error, ?signal, "cannot send a signal to the command");
        }
    }

    /// Makes this program the parent of those in the group that lose theirs from now on, so that their end can be seen.
    /// Before, they go where orphans go: a command may well leave a daemon behind.
    pub fn adopt_orphans(&self) {
        if let Err(error) = set_child_subreaper(Some(getpid())) {
            tracing::debug!(%error, "cannot adopt orphans");
        }
    }

    /// Whether any process is left in the group of a command that has ended.
    pub fn is_alive(&self) -> bool {
        // An adopted orphan that has ended stays in its group until it was waited for.
        while let Ok(Some(_)) = waitpgid(self.leader, WaitOptions::NOHANG) {}
        test_kill_process_group(self.leader) != Err(Errno::SRCH)
    }

    /// What has happened to the command since the last call, if anything.
    pub fn change(&self) -> io::Result<Option<Change>> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        Ok(waitpid(Some(self.leader), options)?.and_then(|(_, status)| what(status)))
    }
}

fn what(status: WaitStatus) -> Option<Change> {
    let stopped = status.stopping_signal().map(Change::Stopped);
    let exited = || status.exit_status().map(|code| Change::Ended(Exit::Code(code)));
    let killed = || status.terminating_signal().map(|number| Change::Ended(Exit::Signal(number)));
    stopped.or_else(exited).or_else(killed)
}

/// The command's own first steps, before it becomes the command: it dies with its parent, and takes the terminal.
fn prepare(parent: Pid, tty: Option<&OwnedFd>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        // The parent died before that, so no signal will come.
        return Err(Errno::SRCH.into());
    }
    if let Some(tty) = tty {
        // A terminal that was hung up meanwhile is no reason not to run.
        let _ = rustix::termios::tcsetpgrp(tty, getpid());
    }
    // Blocked in the parent, and until here needed here too.
    sys::unblock(Signal::TTOU);
    Ok(())
}
