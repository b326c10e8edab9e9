//! The client's decisions, as a pure value: what may be sent, resent, released or called Indeterminate.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod outcome;
mod time;

pub use outcome::{
    AcquireError, CallError, ExtendError, Extended, IndeterminateCause, KeyInfo, Lost, ReleaseOutcome,
    UnsentCause, UsageError,
};
pub use time::Instant;
