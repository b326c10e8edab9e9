//! The client for programs without a runtime: the same names, and each call blocks its thread.
//!
//! A background thread looks after the connection, so tickets are kept alive and lost in time whatever the program's
//! own threads do.
//!
//! ```no_run
//! use std::time::Duration;
//! use lockstead_client::blocking::Client;
//!
//! let client = Client::builder().server("127.0.0.1:5625")?.connect()?;
//! let ticket = client.acquire("nightly-report").lease(Duration::from_secs(60)).call()?;
//! println!("mine until {:?}, token {}", ticket.valid_until(), ticket.token());
//! ticket.release();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A thread that must stop when the lock is lost looks at [`LostSignal::reason`] between its steps; one that cannot look
//! is watched by another, which waits with [`LostSignal::wait`]. The example `blocking_worker` does both.
//!
//! Inside of an async runtime use the async [`Client`](crate::Client). This one works there, and does not panic, but each
//! of its calls holds up its thread: no other task of that thread goes on meanwhile. If it must be, call it in
//! `tokio::task::spawn_blocking`.

mod acquire;
mod client;
mod park;
mod ticket;

pub use acquire::Acquire;
pub use client::Client;
pub use ticket::{LostSignal, Ticket};

/// Makes a [`Client`]; see [`Builder`](crate::Builder).
pub type Builder = crate::Builder<Client>;
