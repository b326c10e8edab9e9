//! A client for Lockstead, a small lock server that grants leases on named keys.
//!
//! A program asks for the lock on a key, gets a [`Ticket`] that says until when it surely holds it, does what only one
//! may do at a time, and releases it. If it dies instead, the lock ends with its lease.
//!
//! # From nothing to a guarded write
//!
//! In `Cargo.toml`, with Tokio's features as the program below needs them; a program without a runtime needs the first
//! line only:
//!
//! ```toml
//! [dependencies]
//! lockstead-client = "0.1"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! Start a server; it listens at `127.0.0.1:5625`:
//!
//! ```sh
//! lockstead serve --durability none
//! ```
//!
//! Take the lock, and do the work only while the ticket is good:
//!
//! ```no_run
//! use std::time::Duration;
//! use lockstead_client::{AcquireError, Client};
//!
//! # async fn write_report(token: u64) {}
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::builder().server("127.0.0.1:5625")?.connect()?;
//!     let acquire = client.acquire("report").wait(Duration::from_secs(10)).lease(Duration::from_secs(30));
//!     let ticket = match acquire.await {
//!         Ok(ticket) => ticket,
//!         // Somebody else has it. An ordinary thing: try again later, or leave it to them.
//!         Err(AcquireError::Timeout) => return Ok(()),
//!         // In every other case, too, the lock is not ours.
//!         Err(error) => return Err(error.into()),
//!     };
//!     ticket.keep_alive();
//!     tokio::select! {
//!         () = write_report(ticket.token()) => {}
//!         why = ticket.lost() => eprintln!("stopped half-way: {why}"),
//!     }
//!     ticket.release().await;
//!     client.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! Three things in it matter:
//!
//! - **The lease** is for the program that dies. A living one extends it with [`keep_alive`](Ticket::keep_alive), so it
//!   need not be as long as the work. Ten to thirty seconds suit most: the longest that others wait after a crash.
//! - **[`lost`](Ticket::lost)** resolves before anybody else can have the lock, even if the network is gone. Stop then.
//! - **[`token`](Ticket::token)** goes along with every write, because stopping in time is not enough: a program can be
//!   suspended between its last look at the ticket and the write. That is what the next step is about.
//!
//! # The fencing token
//!
//! Tokens rise: every grant has a greater one than each grant before it. So let whatever is written to remember the
//! greatest token that it has seen, and refuse a smaller one. In SQL that is one more column and one more condition:
//!
//! ```sql
//! ALTER TABLE report ADD COLUMN token bigint NOT NULL DEFAULT 0;
//!
//! UPDATE report SET body = $1, token = $2 WHERE id = $3 AND token <= $2;
//! ```
//!
//! When the update changes no row, a later holder has been there: the lock was lost, so throw the work away. With this
//! a late write does no harm, whatever was suspended or delayed in between. The example `fenced_row` shows it against a
//! PostgreSQL server. Tokens fit into a `bigint`; they are below 2^63.
//!
//! # When there is no ticket
//!
//! [`AcquireError`] has one variant for each outcome. In none of them may the program do what the lock protects.
//!
//! | outcome | what it means | what to do |
//! | --- | --- | --- |
//! | [`Timeout`](AcquireError::Timeout) | the wait is over, or with a wait of zero somebody has the lock | call again, or leave it |
//! | [`Busy`](AcquireError::Busy) | the server is full or is stopping | call again after a pause |
//! | [`Unsent`](AcquireError::Unsent) | no byte of the request left this process, so there is no grant | call again; the cause says what to mend |
//! | [`Indeterminate`](AcquireError::Indeterminate) | nobody knows whether there is a grant | see below |
//! | [`Rejected`](AcquireError::Rejected) | the server refused the request itself | mend the call |
//! | [`Usage`](AcquireError::Usage) | the call is wrong | mend the call |
//!
//! [`is_retryable`](AcquireError::is_retryable) tells the first four from the last two.
//!
//! **Indeterminate** is what other clients hide: the request may have reached the server, and then the connection broke
//! or the answer came too late. The lock may be held by this very call, with nobody to use it. Do not go on as if you
//! had it. Do not take it for "somebody else is at work" or "the server is down, so nobody can be". You may call again
//! at once, with a wait of at least the lease that the lost call asked for: a grant that nobody saw ends with its lease,
//! and the new call queues behind it like any other. With a shorter wait, above all zero, a
//! [`Timeout`](AcquireError::Timeout) may come from that unseen grant, and then does not mean that somebody is at work.
//! A program that must not wait so long should ask for shorter leases.
//!
//! A call ends by itself: after its wait and at most 2 s more ([`answer_allowance`](Builder::answer_allowance)), or with
//! a wait of zero after at most 5 s. It sends its request to a server once, never twice.
//!
//! # One run among many machines
//!
//! A lock keeps two from working at a time, not one after the other: a machine whose clock is behind takes the released
//! lock and runs the job a second time. Either end the run with [`extend`](Ticket::extend) and then
//! [`leave`](Ticket::leave), for longer than the machines' clocks differ (at most 255 s), or record the run where the
//! job writes, and check that under the lock. Only the second is safe when the server restarts.
//!
//! # Giving up, ending, dying
//!
//! - Dropping the future of a call gives it up. If it was granted all the same, the client releases that grant.
//! - Dropping a [`Ticket`], also in a panic, releases the lock in the background. [`release`](Ticket::release) does it
//!   in the foreground and says how it went; [`leave`](Ticket::leave) leaves the lock held until its lease ends.
//! - When the program returns from `main` or calls `exit`, releases that are still under way are flushed for at most a
//!   second. Tickets that are still in use then, in another thread or in a `static`, are left to their leases. After a
//!   crash all are.
//! - When the runtime ends, or after [`shutdown`](Client::shutdown), every ticket is lost, and released.
//! - In a forked child the client is dead: it sends nothing, its descriptors are closed, and every use is an error. Make
//!   a new client there. The child must not run the parent's runtime.
//!
//! # Without a runtime
//!
//! [`blocking`] has the same names for threads that may block.
//!
//! # Examples
//!
//! In `crates/client/examples` of the project, each with how to run it:
//!
//! | example | shows |
//! | --- | --- |
//! | `cron_job` | a job that is installed on several machines and runs on one; blocking |
//! | `blocking_worker` | work in steps that ends when the lock is lost; blocking |
//! | `leader_election` | one leader at a time, and a hand-over |
//! | `customer_jobs` | a key for each customer, and many calls at once |
//! | `fenced_row` | a PostgreSQL row that refuses a late write |
//!
//! # What is behind it
//!
//! One client is one connection at a time, however many calls are open; calls do not wait for each other. It is opened
//! when there is something to send, and opened anew when it breaks or stops answering: a lock is not tied to its
//! connection. [`Client::stats`] says what is in hand. Events are logged with `tracing`.
//!
//! The rules that this client keeps are numbered in docs/client-contract.md of the project. It is tested, and its
//! promises are made, on Linux.

mod acquire;
mod address;
mod asking;
pub mod blocking;
mod builder;
mod client;
mod clock;
mod driver;
mod process;
mod shared;
mod sockets;
mod stats;
#[cfg(test)]
mod suspend_tests;
mod ticket;
mod transport;
mod waiting;

pub use acquire::{Acquire, Acquiring};
pub use address::{Address, AddressError};
pub use builder::{BuildError, Builder};
pub use client::Client;
pub use clock::now;
pub use lockstead_client_core::{
    AcquireError, CallError, ExtendError, Extended, IndeterminateCause, Instant, KeyInfo, Lost,
    ReleaseOutcome, UnsentCause, UsageError,
};
pub use lockstead_proto::{BusyReason, ErrorCode, KeyError, KeyState};
pub use stats::Stats;
pub use ticket::{LostSignal, Ticket};

/// So that unit tests and integration tests can share a scripted peer.
#[cfg(test)]
extern crate self as lockstead_client;
