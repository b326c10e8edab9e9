//! Each rule of docs/client-contract.md, by its number, on the core with the clock in hand.

// These are tests: what must not happen may panic.
#![allow(clippy::unwrap_used)]

mod acquiring;
mod keep_alive;
mod requests;
mod sending;
mod servers;
mod sessions;
mod shutdown;
mod suspicion;
mod tickets;
mod unsent;
mod world;
