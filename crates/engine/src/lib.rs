//! The lock table of Lockstead, its queues and timers, as a pure value.
//!
//! Commands and the time go in, answers and decisions come out; the engine knows no clock, socket, file, task or
//! randomness. What it does to a key for each request and event is the matrix of docs/protocol.md, *Request × key
//! state*; a test reads that table and compares every cell.
//!
//! One turn of the caller: read the clock, [`Engine::advance`] until it says [`Progress::Done`], then [`Engine::run`]
//! for each request with the same instant. [`Engine::next_deadline`] tells when to come back.
//!
//! Inside, every record is named by its slot in a slab (`slab`), lists run through the records (`ring`), keys and
//! waiters are found by hash indexes that grow bucket by bucket (`linear_hash`), and timers are one list for each
//! duration (`duration_lists`). So every step is bounded, whatever the table holds; only the end of a session, the
//! start of draining and that of failing storage take a step for each waiter that leaves.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod command;
mod duration_lists;
mod effects;
mod engine;
mod events;
mod hash;
pub mod invariants;
mod key_store;
mod keys;
mod limits;
mod linear_hash;
mod pool;
mod requests;
mod ring;
mod slab;
mod slot_set;
mod time;
mod tokens;
mod waiters;
mod winner_tree;

#[cfg(test)]
mod tests;

pub use command::{Answer, Command, Counts, Effect, Held, KeyRef, Progress, SessionId, UnsentGrant};
pub use effects::Effects;
pub use engine::Engine;
pub use limits::Limits;
pub use time::Instant;
