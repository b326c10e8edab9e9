//! The Lockstead client: async and blocking shells.

mod acquire;
mod address;
mod builder;
mod client;
mod clock;
mod driver;
mod shared;
mod ticket;
mod transport;

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
pub use ticket::{LostSignal, Ticket};
