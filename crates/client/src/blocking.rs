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
//! Inside of a runtime use the async [`Client`](crate::Client): a call of this one would hold up a thread of the
//! runtime.

mod acquire;
mod client;
mod park;
mod ticket;

pub use acquire::Acquire;
pub use client::Client;
pub use ticket::{LostSignal, Ticket};

/// Makes a [`Client`]; see [`Builder`](crate::Builder).
pub type Builder = crate::Builder<Client>;
