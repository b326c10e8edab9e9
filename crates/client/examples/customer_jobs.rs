//! Many workers, one job at a time for each customer: jobs of different customers run side by side, those of one
//! customer one after the other, on however many machines.
//!
//! ```sh
//! lockstead serve --durability none &
//! cargo run -p lockstead-client --example customer_jobs   # in as many terminals as you like
//! ```

use std::error::Error;
use std::time::Duration;

use lockstead_client::{AcquireError, Client, Ticket};
use tokio::task::JoinSet;
use tokio::time::sleep;

const CUSTOMERS: [&str; 3] = ["arena", "bridge", "castle"];
const JOBS_EACH: u32 = 4;

/// How long one job of a customer may hold up the next one if its worker dies.
const LEASE: Duration = Duration::from_secs(10);

/// A job that hangs is given up after this time; the customer's other jobs go on.
const LONGEST_JOB: Duration = Duration::from_secs(60);

/// A job of one customer.
#[derive(Clone, Copy, Debug)]
struct Job {
    customer: &'static str,
    number: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::var("LOCKSTEAD_SERVER").unwrap_or_else(|_| "127.0.0.1:5625".to_owned());
    let client = Client::builder().server(&server)?.name("jobs").connect()?;
    let mut workers = JoinSet::new();
    for number in 0..JOBS_EACH {
        for customer in CUSTOMERS {
            let client = client.clone();
            workers.spawn(async move { work(&client, Job { customer, number }).await });
        }
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    client.shutdown().await;
    Ok(())
}

/// Does one job when it is the customer's turn. All calls share one connection, and none waits for another.
async fn work(client: &Client, job: Job) -> Result<(), AcquireError> {
    let ticket = loop {
        let acquire = client.acquire(format!("customer/{}", job.customer));
        match acquire.wait(Duration::from_secs(60)).lease(LEASE).await {
            Ok(ticket) => break ticket,
            // It is still somebody else's turn, or nobody knows whose: in both cases not ours. Queue again.
            Err(AcquireError::Timeout | AcquireError::Indeterminate(_)) => {}
            Err(AcquireError::Busy(_)) => sleep(Duration::from_secs(1)).await,
            Err(error) => return Err(error),
        }
    };
    ticket.keep_alive_for(LONGEST_JOB);
    tokio::select! {
        () = run(job, &ticket) => {}
        why = ticket.lost() => println!("{job:?} is given up: {why}"),
    }
    ticket.release().await;
    Ok(())
}

async fn run(job: Job, ticket: &Ticket) {
    let Job { customer, number } = job;
    println!("{customer}: job {number} begins after {:?}, token {}", ticket.waited(), ticket.token());
    sleep(Duration::from_millis(200)).await;
    println!("{customer}: job {number} is done");
}
