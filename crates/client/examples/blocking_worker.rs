//! Work in steps that one process does at a time, without a runtime, and that ends when the lock is lost.
//!
//! ```sh
//! lockstead serve --durability none &
//! cargo run -p lockstead-client --example blocking_worker      # in as many terminals as you like
//! lockstead release import TOKEN                               # takes the lock away from the one that works
//! ```
//!
//! One worker imports its batches while the others wait. When the lock is taken away from it, it hears of that at its
//! next extend, after 2 s at the latest; when the server dies, before anybody else can have the lock.

use std::error::Error;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use lockstead_client::blocking::{Client, LostSignal, Ticket};

const BATCHES: u32 = 10;
const LEASE: Duration = Duration::from_secs(6);

/// No import takes longer; one that does hangs, and its lock shall not be held for ever.
const LONGEST: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::var("LOCKSTEAD_SERVER").unwrap_or_else(|_| "127.0.0.1:5625".to_owned());
    let client = Client::builder().server(&server)?.name("import").connect()?;
    let ticket = client.acquire("import").wait(Duration::from_secs(60)).lease(LEASE).call()?;
    ticket.keep_alive_for(LONGEST);
    // A thread that can do nothing but wait hears of the loss at once, whatever the worker is at: here it only says so;
    // it could as well shut down the socket that the worker writes to.
    let watcher = thread::spawn({
        let lost = ticket.lost();
        move || println!("the ticket ended: {}", lost.wait())
    });
    let result = import(&ticket, &ticket.lost());
    // After a loss this changes nothing: the outcome is what came of the client's own release.
    println!("at the end: {}", ticket.release());
    watcher.join().map_err(|_| "the watcher panicked")?;
    client.shutdown();
    result
}

/// Does one batch after the other, as long as the lock is held. The batch that is under way when it is lost is still
/// written; what keeps that from doing harm is the token.
fn import(ticket: &Ticket, lost: &LostSignal) -> Result<(), Box<dyn Error>> {
    for batch in 1..=BATCHES {
        // Cheap: it looks at the clock and asks nobody.
        if let Some(why) = lost.reason() {
            return Err(format!("stopped before batch {batch}: {why}").into());
        }
        write(batch, ticket.token())?;
    }
    Ok(())
}

/// Stands for a write that takes a second. A database would get the token along with it, and refuse a smaller one than
/// it has seen: this thread may be suspended between the look and the write.
fn write(batch: u32, token: u64) -> io::Result<()> {
    thread::sleep(Duration::from_secs(1));
    writeln!(io::stdout(), "batch {batch} of {BATCHES} is written under token {token}")
}
