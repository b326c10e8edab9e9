//! The Lockstead client: async and blocking shells.

mod address;
mod builder;
mod client;
mod clock;
mod ticket;

pub use address::{Address, AddressError};
pub use builder::{BuildError, Builder};
pub use client::{Acquire, Client};
pub use clock::now;
pub use lockstead_client_core::{
    AcquireError, CallError, ExtendError, Extended, IndeterminateCause, Instant, KeyInfo, Lost,
    ReleaseOutcome, UnsentCause, UsageError,
};
pub use lockstead_proto::{BusyReason, ErrorCode, KeyError, KeyState};
pub use ticket::{LostSignal, Ticket};
