//! `lockstead run`: a command that runs while a lock is held, and not a moment longer.
//!
//! This file is the lock's part: it takes the lock, keeps it alive, and gives it back. What happens to the command
//! meanwhile is [`supervise`]'s.

mod group;
pub mod signals;
mod supervise;
pub mod sys;
mod terminal;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use lockstead_client::{Client, Lost, Ticket};
use tracing::warn;

use crate::args::RunArgs;
use crate::connect::{connect, runtime};
use crate::exit::Status;
use crate::failed::Failed;
use crate::output;
use group::{Exit, Group};
use signals::Signals;
use supervise::{Guard, supervise};
use terminal::Terminal;

/// How long the release after the command may take. A lock whose release got lost ends with its lease.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// Runs the command under the lock.
pub fn run(args: &RunArgs) -> anyhow::Result<Status> {
    // The lease as it will be asked for: in whole seconds, rounded up.
    let lease = Duration::from_secs(args.lease.lease.as_nanos().div_ceil(1_000_000_000) as u64);
    if args.kill_after.is_some_and(|kill_after| kill_after > lease / 3) {
        bail!("--kill-after is at most a third of the lease, which is {} s", lease.as_secs());
    }
    // The kernel ends the command when the thread ends that started it: that must be this one, the main thread.
    runtime()?.block_on(locked(args))
}

async fn locked(args: &RunArgs) -> anyhow::Result<Status> {
    let mut signals = Signals::interrupts()?;
    let client = connect(&args.client, "run")?;
    let call = client.acquire(&args.key).wait(args.lease.wait).lease(args.lease.lease);
    let outcome = tokio::select! {
        outcome = call.into_future() => outcome,
        signal = signals.recv() => {
            client.shutdown().await;
            signals::end_by(signal);
        }
    };
    match outcome {
        Ok(ticket) => {
            let status = under_lock(args, &ticket, signals).await;
            give_back(ticket, &client).await;
            status
        }
        Err(error) => {
            client.shutdown().await;
            let failed = Failed::try_from(error)?;
            output::complain(&failed.sentence);
            Ok(failed.status)
        }
    }
}

/// Starts the command and stays with it to its end.
async fn under_lock(args: &RunArgs, ticket: &Ticket, mut signals: Signals) -> anyhow::Result<Status> {
    let kill_after = kill_after(args.kill_after, ticket.lease());
    ticket.keep_alive();
    if ticket.valid_for() <= kill_after {
        // The grant was so long on its way that the command would be told to end at once.
        if let Err(error) = ticket.extend(args.lease.lease).await {
            output::complain(&format!("the grant came too late to be used: {error}"));
            return Ok(Status::UNKNOWN);
        }
    }
    signals.listen_for_command()?;
    let (name, arguments) = args.command.split_first().context("no command")?;
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env("LOCKSTEAD_KEY", ticket.key())
        .env("LOCKSTEAD_TOKEN", ticket.token().to_string());
    let mut terminal = Terminal::controlling();
    let group = match Group::spawn(command, terminal.as_mut()) {
        Ok(group) => group,
        Err(error) => return Ok(not_run(name.to_string_lossy().as_ref(), &error)),
    };
    let ended = supervise(group, terminal, &mut signals, ticket, kill_after).await?;
    Ok(match (ended.lost, ended.exit) {
        (true, _) => Status::LOST,
        (false, Exit::Code(code)) => Status::of_code(code),
        (false, Exit::Signal(number)) => Status::of_signal(number),
    })
}

/// How long the command gets between TERM and KILL, of a lease as it was granted.
fn kill_after(wanted: Option<Duration>, lease: Duration) -> Duration {
    match wanted {
        None => lease / 4,
        Some(wanted) if wanted > lease / 3 => {
            warn!(?lease, "the server granted a shorter lease; --kill-after becomes a third of it");
            lease / 3
        }
        Some(wanted) => wanted,
    }
}

/// The status for a command that could not be started, as env(1) has it.
fn not_run(name: &str, error: &std::io::Error) -> Status {
    output::complain(&format!("cannot run {name:?}: {error}"));
    match error.raw_os_error() {
        Some(libc::ENOENT) => Status::NOT_FOUND,
        // No process could be made: the command is not at fault.
        Some(libc::EAGAIN | libc::ENOMEM) => Status::FAILURE,
        _ => Status::CANNOT_RUN,
    }
}

/// Gives the lock back and waits a little for the answer, so that whoever starts after this program finds it free; not
/// if it is lost already. What becomes of it changes nothing for the command that has run.
async fn give_back(ticket: Ticket, client: &Client) {
    let within = RELEASE_WITHIN.min(ticket.valid_for());
    if tokio::time::timeout(within, ticket.release()).await.is_ok() {
        client.shutdown().await;
    }
}

impl Guard for Ticket {
    fn valid_for(&self) -> Duration {
        Ticket::valid_for(self)
    }

    fn loss(&self) -> Option<Lost> {
        self.lost_reason()
    }

    fn lost(&self) -> impl Future<Output = Lost> {
        Ticket::lost(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_end_follows_the_lease_that_was_granted() {
        let s = Duration::from_secs;
        assert_eq!(kill_after(None, s(20)), s(5));
        assert_eq!(kill_after(Some(s(2)), s(9)), s(2));
        assert_eq!(kill_after(Some(s(3)), s(9)), s(3));
        assert_eq!(kill_after(Some(s(4)), s(9)), s(3));
    }
}
