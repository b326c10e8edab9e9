//! Starts, stops and kills a real server for tests; speaks raw bytes to it.
//!
//! This is the project's outside checker. It knows the protocol from its specification alone and shares no
//! code with the server or the client: its frames are put together byte by byte ([`frame`]) and its answers
//! are taken apart by its own parser ([`answer`]), so a mistake in the shared codec cannot hide itself.
//!
//! Everything here blocks and everything has a deadline: a test that would hang fails instead, with a message
//! that names what was awaited.

pub mod address;
pub mod answer;
pub mod arrival;
pub mod boottime;
pub mod data_dir;
pub mod frame;
pub mod history;
pub mod journal;
pub mod load;
pub mod mounts;
pub mod peer;
mod preload;
pub mod process;
pub mod proxy;
pub mod raw;
pub mod rng;
pub mod scenario;
pub mod server;
pub mod syncs;
mod sys;
pub mod timing;
pub mod wall_clock;
pub mod witness;

pub use address::Address;
pub use answer::Answer;
pub use arrival::{Arrival, Event, Grant};
pub use raw::Raw;
pub use server::{Builder, Server};
pub use timing::Ends;
pub use witness::Witness;
