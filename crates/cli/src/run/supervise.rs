//! Stays with a running command: passes signals on, stops and continues it, and ends it before its lock can be
//! somebody else's. Knows nothing of a lock but what [`Guard`] says.
//!
//! The command is told to end (TERM) when its time is nearly over, `kill_after` before the lock is lost; what is then
//! left of its group is killed when the lock is lost. If the server says that the lock is lost already, the command is
//! told at once, and has `kill_after` from then on.

use std::io;
use std::pin::pin;
use std::time::Duration;

use lockstead_client::Lost;
use rustix::process::{Signal, getpid, kill_process};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::group::{Change, Exit, Group};
use super::signals::Signals;
use super::sys;
use super::terminal::Terminal;

#[cfg(test)]
mod tests;

/// How long the command has to stop by itself, before it is stopped.
const STOP_WITHIN: Duration = Duration::from_millis(500);

/// How often it is looked whether the rest of a group has ended: nobody tells about the children of others.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What there is to know about the lock.
pub trait Guard {
    /// How long the lock is surely held from now on; zero once it is lost. Grows when the lock is extended.
    fn valid_for(&self) -> Duration;
    /// Why the lock is lost, if it is, by a clock read now.
    fn loss(&self) -> Option<Lost>;
    /// Resolves when the lock is lost, at the latest when `valid_for` has become zero.
    fn lost(&self) -> impl Future<Output = Lost>;
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How the command itself ended.
    pub exit: Exit,
    /// Whether the lock was lost before, or the command was told to end because it was about to be.
    pub lost: bool,
}

/// Stays with `group` until its command has ended; if the lock was lost, until the whole group has.
pub async fn supervise<G: Guard>(
    group: Group,
    terminal: Option<Terminal>,
    signals: &mut Signals,
    guard: &G,
    kill_after: Duration,
) -> io::Result<Ended> {
    let mut lost = pin!(guard.lost());
    let mut it = Supervisor {
        group,
        terminal,
        guard,
        kill_after,
        exit: None,
        told: None,
        loss: None,
        kill_at: None,
        killed: false,
        stop_at: None,
        halted: false,
    };
    // A command may end before anybody listens.
    it.look_at_command()?;
    loop {
        if let Some(ended) = it.ended() {
            return Ok(ended);
        }
        let wake = it.do_what_is_due();
        tokio::select! {
            biased;
            reason = &mut lost, if it.loss.is_none() => it.lose(reason),
            signal = signals.recv() => it.take(signal)?,
            () = until(wake) => {}
        }
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

struct Supervisor<'a, G> {
    group: Group,
    terminal: Option<Terminal>,
    guard: &'a G,
    kill_after: Duration,
    /// How the command ended, once it has.
    exit: Option<Exit>,
    /// Until when the command may take to end, once it was told to because of the lock.
    told: Option<Instant>,
    /// Why the lock is lost, once that is known.
    loss: Option<Lost>,
    /// When what is left is killed, if the lock was lost before its time.
    kill_at: Option<Instant>,
    killed: bool,
    /// When the command is stopped if it has not stopped by itself.
    stop_at: Option<Instant>,
    /// Whether somebody else stopped the command.
    halted: bool,
}

impl<G: Guard> Supervisor<'_, G> {
    /// Does what the clock asks for, and says when to look again. This clock does not count the time that the machine
    /// is suspended; the guard's does, so after a suspension TERM may come late, but not KILL.
    fn do_what_is_due(&mut self) -> Option<Instant> {
        if self.stop_at.is_some_and(|at| at <= Instant::now()) {
            self.stop();
        }
        if let Some(reason) = self.guard.loss() {
            self.lose(reason);
        }
        let now = Instant::now();
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill();
        }
        let left = self.guard.valid_for();
        if left <= self.kill_after && !self.is_doomed() {
            warn!(?left, "the lock is about to be lost: the command is told to end");
            self.tell(now + left);
        }
        let nearly_over = (!self.is_doomed()).then(|| now + left.saturating_sub(self.kill_after));
        let look = self.exit.map(|_| now + LOOK_EVERY);
        [nearly_over, self.kill_at.filter(|_| !self.killed), self.stop_at, look].into_iter().flatten().min()
    }

    /// Whether the command must end because of the lock.
    fn is_doomed(&self) -> bool {
        self.told.is_some() || self.loss.is_some()
    }

    /// The lock is lost: the command must end.
    fn lose(&mut self, reason: Lost) {
        if self.loss.is_some() {
            return;
        }
        self.loss = Some(reason);
        if reason == Lost::Expired {
            warn!("the lock is lost: {reason}; the command is killed");
            return self.kill();
        }
        warn!("the lock is lost: {reason}; the command is told to end");
        self.kill_at = Some(self.tell(Instant::now() + self.kill_after));
    }

    /// Tells the group to end by `latest`, unless it was told before; until when it may take. A stopped group hears of
    /// it only if it goes on.
    fn tell(&mut self, latest: Instant) -> Instant {
        *self.told.get_or_insert_with(|| {
            self.group.adopt_orphans();
            self.group.signal(Signal::TERM);
            self.group.signal(Signal::CONT);
            latest
        })
    }

    fn kill(&mut self) {
        if !self.killed {
            self.killed = true;
            self.group.signal(Signal::KILL);
        }
    }

    /// The end, if it has come. Of a command that ended by itself the rest may go on; of one that lost its lock it may
    /// not.
    fn ended(&self) -> Option<Ended> {
        let exit = self.exit?;
        let lost = self.is_doomed();
        if lost && !self.killed && self.group.is_alive() {
            return None;
        }
        if let Some(terminal) = &self.terminal {
            terminal.take_back(self.group.id());
        }
        Some(Ended { exit, lost })
    }

    fn take(&mut self, signal: Signal) -> io::Result<()> {
        match signal {
            Signal::CHILD => self.look_at_command()?,
            Signal::CONT => self.continued(),
            Signal::TSTP => {
                self.group.signal(Signal::TSTP);
                self.stop_at = Some(Instant::now() + STOP_WITHIN);
            }
            signal => self.group.signal(signal),
        }
        Ok(())
    }

    fn look_at_command(&mut self) -> io::Result<()> {
        while self.exit.is_none()
            && let Some(change) = self.group.change()?
        {
            match change {
                Change::Ended(exit) => {
                    // The clock is read before anything else: the lock may have been lost while this program slept.
                    self.loss = self.loss.or(self.guard.loss());
                    self.exit = Some(exit);
                    self.stop_at = None;
                }
                Change::Stopped(_) if self.stop_at.is_some() => self.stop(),
                Change::Stopped(number) => self.stopped_by(number),
            }
        }
        Ok(())
    }

    /// The command was stopped, and not by this program. If it was the terminal's doing, this program stops too, so
    /// that the shell sees a stopped job. Anything else is somebody's who will continue it as well; the lock is kept.
    fn stopped_by(&mut self, number: i32) {
        let by_terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
        let signal = by_terminal.into_iter().find(|signal| signal.as_raw() == number);
        let (Some(signal), Some(terminal)) = (signal, &mut self.terminal) else {
            self.halted = true;
            return;
        };
        if signal != Signal::TSTP && terminal.is_ours() {
            // It wants the terminal, and can have it.
            terminal.give(self.group.id());
            return self.group.signal(Signal::CONT);
        }
        // Those of the group that do not listen to the terminal must not go on without anybody watching the lock.
        self.group.signal(Signal::STOP);
        if let Err(error) = sys::stop_own_group() {
            debug!(%error, "cannot stop");
        }
        self.go_on();
    }

    /// Stops the whole group for certain, then this program.
    fn stop(&mut self) {
        self.stop_at = None;
        self.group.signal(Signal::STOP);
        if let Err(error) = kill_process(getpid(), Signal::STOP) {
            debug!(%error, "cannot stop");
        }
        self.go_on();
    }

    /// Somebody sent CONT to this program. A stop that is under way is over then: nobody would continue it once more. If
    /// this program had stopped itself, it has gone on already: a second CONT for the command could undo a ctrl-Z that
    /// came in between.
    fn continued(&mut self) {
        if self.stop_at.take().is_some() || self.halted {
            self.go_on();
        } else if let Some(terminal) = &mut self.terminal {
            terminal.give_again(self.group.id());
        }
    }

    /// The command may go on, if the lock is still held.
    fn go_on(&mut self) {
        self.halted = false;
        if let Some(reason) = self.guard.loss() {
            self.lose(reason);
        }
        if self.killed {
            return;
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.give_again(self.group.id());
        }
        if self.exit.is_none() {
            self.group.signal(Signal::CONT);
        }
    }
}
