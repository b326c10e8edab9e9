//! A cron job that is installed on several machines and runs on one of them.
//!
//! ```sh
//! lockstead serve --durability none &
//! cargo run -p lockstead-client --example cron_job -- echo "the report is written" & # one machine
//! cargo run -p lockstead-client --example cron_job -- echo "the report is written"   # another
//! ```
//!
//! (`lockstead run KEY -- COMMAND` does this for any command, and stops it when the lock is lost. Here is how a program
//! does it itself.)

use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Duration;

use lockstead_client::blocking::{Client, Ticket};
use lockstead_client::{AcquireError, now};

/// The clocks of the machines differ by less than this, and so do the starts of their jobs.
const SKEW: Duration = Duration::from_secs(60);

/// How often a running job is looked at.
const LOOK: Duration = Duration::from_millis(100);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut job: Vec<String> = std::env::args().skip(1).collect();
    if job.is_empty() {
        job.extend(["echo", "the nightly report"].map(String::from));
    }
    let server = std::env::var("LOCKSTEAD_SERVER").unwrap_or_else(|_| "127.0.0.1:5625".to_owned());
    let client = Client::builder().server(&server)?.name("nightly-report").connect()?;
    // One attempt, without queueing: if somebody has the lock, the job is being done, or was done just now.
    match client.acquire("cron/nightly-report").wait(Duration::ZERO).lease(SKEW).call() {
        Ok(ticket) => run(ticket, &job),
        Err(AcquireError::Timeout) => {
            println!("another machine does it");
            Ok(ExitCode::SUCCESS)
        }
        // Not knowing is no reason to do it: perhaps another machine is at it. Whoever watches the cron jobs should
        // hear of this one.
        Err(error @ AcquireError::Indeterminate(_)) => Err(format!("not run, for {error}").into()),
        Err(error) => Err(error.into()),
    }
}

/// Runs the job while the lock is held.
fn run(ticket: Ticket, job: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let started = now();
    ticket.keep_alive();
    let mut child = Command::new(&job[0]).args(&job[1..]).spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Some(lost) = ticket.lost().wait_for(LOOK) {
            child.kill()?;
            child.wait()?;
            return Err(format!("the job was stopped: {lost}").into());
        }
    };
    if now().since(started) < SKEW {
        // A machine whose clock is behind has not looked yet. So the lock is not released but left to its lease.
        ticket.leave();
    } else {
        ticket.release();
    }
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
