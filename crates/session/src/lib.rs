//! The server's side of one connection, as a plain value.
//!
//! Bytes that were read go in ([`Session::received`]) and come out as commands for the engine ([`Session::next`]); the
//! engine's answers go in ([`Session::answer`]) and come out as bytes to write ([`Session::output`]). In between live
//! the rules about limits, back-pressure, the journal gate, hello, and what happens when a session ends. The crate
//! knows no socket and no clock: the shell that owns both hands in what it read, how much the kernel accepted, and the
//! time.
//!
//! - `input`: received bytes that are not processed yet, and the time a frame may take.
//! - `output`: bytes for the peer, and the grants whose first byte the kernel has not accepted.
//! - `gate`: answers that wait for the journal.
//! - `greeting`, `fault`: what a hello and a bad request get.
//! - `session`: the rules that tie them together.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod fault;
mod gate;
mod greeting;
mod input;
mod output;
mod session;
#[cfg(test)]
mod tests;

pub use gate::Position;
pub use greeting::Facts;
pub use session::{
    FINISH_FRAME_MS, INPUT_LIMIT, LINGER_MS, NextRequests, OUTPUT_LIMIT, Phase, STALL_MS, Session,
};
