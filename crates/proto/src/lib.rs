//! The Lockstead wire protocol: frames, codec, limits and ids, as docs/protocol.md defines them.
//!
//! Every frame is one op byte, a binary header whose length depends on the op alone, for some ops a text, and one
//! newline. The header is read by count, never by searching for the newline: it may contain one.
//!
//! The crate is pure: it reads from byte slices, writes to a `Vec<u8>`, never panics on what a peer sent and never
//! allocates by what a peer claims (decoding does not allocate at all).
//!
//! One file holds one request with its answers: [`acquire`], [`release`], [`extend`], [`cancel`], [`query`],
//! [`ping`], [`hello`], [`error`]. [`decode_request`] is the server's door, [`decode_answer`] the client's.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod acquire;
mod answer;
pub mod cancel;
mod codes;
pub mod error;
pub mod extend;
pub mod hello;
mod key;
pub mod ping;
pub mod query;
mod reader;
pub mod release;
mod request;

pub use acquire::{Acquire, Acquired, Busy, Timeout};
pub use answer::{Answer, MalformedAnswer, answer_len, decode_answer};
pub use cancel::Cancel;
pub use codes::{BusyReason, ErrorCode, KeyState};
pub use error::ErrorAnswer;
pub use extend::{Extend, Extended};
pub use hello::{Hello, HelloText, Welcome, WelcomeText};
pub use key::{KeyError, check_key};
pub use ping::{Ping, Pong};
pub use query::{Query, State};
pub use release::{NotHeld, Release, Released};
pub use request::{Request, RequestError, decode_request};

/// The one version of the protocol that exists; hello and welcome carry it.
pub const VERSION: u8 = 1;

/// The TCP port when none is named (L-O-C-K on a phone).
pub const DEFAULT_PORT: u16 = 5625;

/// The longest key, in bytes. A key has at least one byte.
pub const MAX_KEY: usize = 1024;

/// The longest text that is not a key, in bytes. It may be empty.
pub const MAX_TEXT: usize = 1024;

/// The longest request there is, in bytes: an acquire with a key of [`MAX_KEY`] bytes.
pub const MAX_REQUEST: usize = 12 + MAX_KEY;

/// The bit that official clients set in every owner and id they draw, so that an error answer can never be mistaken
/// for one about a token: tokens stay below it.
pub const CLIENT_ID_BIT: u64 = 1 << 63;

/// Ends every frame.
const NEWLINE: u8 = b'\n';
