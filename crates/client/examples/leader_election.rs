//! One leader at a time among several processes, and a hand-over when it is asked to stop.
//!
//! ```sh
//! lockstead serve --durability none &
//! cargo run -p lockstead-client --example leader_election -- anna   # in one terminal
//! cargo run -p lockstead-client --example leader_election -- bert   # in another
//! ```
//!
//! Press ctrl-C in the leader's terminal: it steps down, and the other leads at once. Kill it with SIGKILL instead: the
//! other leads when the lease has ended, after 5 s at the latest.

use std::error::Error;
use std::time::Duration;

use lockstead_client::{AcquireError, Client, Ticket};
use tokio::time::{interval, sleep};

const LEASE: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| format!("process-{}", std::process::id()));
    let server = std::env::var("LOCKSTEAD_SERVER").unwrap_or_else(|_| "127.0.0.1:5625".to_owned());
    let client = Client::builder().server(&server)?.name(&name).connect()?;
    tokio::select! {
        result = campaign(&client, &name) => result?,
        // The ticket, if there is one, is dropped with the campaign, and so released.
        signal = tokio::signal::ctrl_c() => signal?,
    }
    // Flushes that release: whoever waits leads now.
    client.shutdown().await;
    println!("{name} has stepped down");
    Ok(())
}

/// Waits to become the leader, leads while the lock is held, and starts over.
async fn campaign(client: &Client, name: &str) -> Result<(), AcquireError> {
    loop {
        println!("{name} waits");
        match client.acquire("leader").wait(Duration::from_secs(255)).lease(LEASE).await {
            Ok(ticket) => {
                ticket.keep_alive();
                tokio::select! {
                    () = lead(&ticket, name) => {}
                    why = ticket.lost() => println!("{name} leads no longer: {why}"),
                }
            }
            // The longest wait is over. Wait again; the place in the queue is a new one.
            Err(AcquireError::Timeout) => {}
            // Perhaps the lock is held in the name of that very call. It ends with its lease; queue behind it.
            Err(AcquireError::Indeterminate(why)) => println!("{name} does not know: {why}"),
            Err(error @ (AcquireError::Busy(_) | AcquireError::Unsent(_))) => {
                println!("{name} tries again: {error}");
                sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// What a leader does. Whatever it tells others carries its token, the term of its office: they refuse a smaller one.
async fn lead(ticket: &Ticket, name: &str) {
    println!("{name} leads with token {}", ticket.token());
    let mut beat = interval(Duration::from_secs(1));
    loop {
        beat.tick().await;
        println!("{name} leads for {:.1} s more, surely", ticket.valid_for().as_secs_f64());
    }
}
