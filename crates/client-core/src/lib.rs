//! The client's decisions, as a pure value: what may be sent, resent, released or called Indeterminate.
//!
//! [`Core`] is one client: its acquires, its tickets, its other requests and its connections. It holds every rule of
//! docs/client-contract.md and nothing else: no clock, randomness, socket, task or thread. A shell drives it.
//!
//! # What a shell does
//!
//! Every input carries the instant at which it happened. After each input the shell takes all [`Output`]s with
//! [`Core::poll_output`], does what they say, calls [`Core::transmit`] for every connection that can take bytes until
//! it says [`Transmit::Idle`] or [`Transmit::Blocked`], and then waits, at the latest until [`Core::next_wakeup`], when
//! it calls [`Core::tick`].
//!
//! | input | when |
//! | --- | --- |
//! | [`Core::acquire`], then [`Core::take`] or [`Core::cancel`] | the program makes a call, picks up its outcome, gives it up |
//! | [`Core::keep_alive`], [`Core::extend_ticket`], [`Core::release_ticket`], [`Core::drop_ticket`], [`Core::leave_ticket`] | the program uses a ticket |
//! | [`Core::release`], [`Core::extend`], [`Core::query`], [`Core::ping`], then [`Core::take_result`] or [`Core::forget`] | the other requests |
//! | [`Core::connected`], [`Core::received`], [`Core::closed`] | something happened to a connection |
//! | [`Core::transmit`] | a connection can take bytes: it is offered some and says how many it took |
//! | [`Core::looked`] | after [`Output::Look`]: all that was received is handed in |
//! | [`Core::tick`], [`Core::shutdown`] | time passes; the client ends |
//!
//! # How it is built
//!
//! - `calls` holds an acquire from the call until its outcome is taken *and* its session has answered it or is closed.
//!   The same entry is what answers are matched with, so nothing that is not in it can be granted. Certainly unsent
//!   acquires are also in `unsent`, ordered by owner, which is their age.
//! - `ops` holds every other request until it is answered or its deadline comes. These may be sent again, so they are
//!   put back into `pending` whenever their session is suspect or gone. Their results go to `results`.
//! - `tickets` holds a ticket until the program has ended it and its release is over.
//! - A connection holds only what is under way on it: the order of releases and extends, pings, cancels, the rest of
//!   a frame. It is dropped as a whole.
//! - Composing a batch changes nothing; see `sending.rs`.
//! - Calls, tickets and requests have at most one timer each (`timers.rs`); sessions are few and compute theirs.
//!
//! # Choices where the contract leaves room
//!
//! - A connection is opened when there is something to send, never ahead of it. After a failure the next try comes with
//!   backoff, at the next address; a suspect session is replaced without delay.
//! - A connection that is not welcomed within a second is not waited for alone: another is opened beside it, and
//!   whichever is welcomed first is used. It is given up five seconds later.
//! - A session whose transport takes nothing for a second is suspect too: what waits behind it may go elsewhere.
//! - Before a suspect session is given up for its silence, and before a call ends at its deadline, the shell hands in
//!   what the kernel has ([`Output::Look`]).
//! - A lease of which the margin and the clocks leave nothing is a usage error: its ticket would be lost before it is
//!   there. An extend that keep-alive sends near its cap may be as short.
//! - A call that ends for want of a server says what came of the latest session that ended since the last welcome, or
//!   else how far the newest one has come.
//! - An error to the hello that is no refusal closes the session; the next try comes with backoff.
//! - Queries and pings are sent again like releases and extends. Requests with a token of the program's own end after
//!   [`TRANSPORT_DEADLINE`]; those of tickets when the lease has surely ended, an extend at the `valid_until` of then.
//!   When another server takes over, every request that names a token ends.
//! - Each sending of an extend counts when it is answered, even if the request is over by then. One that is confirmed
//!   after the release of its ticket was given up starts another release.
//! - A refusal at hello, or another server's id, ends what is queued and was never sent; releases of tickets and
//!   compensating releases stay, since another address may still take them.
//! - A closing `X` that names an acquire answers it (Rejected) before it breaks the session.
//! - Keep-alive extends no later than half-way to `valid_until`, which is before a third of the lease after an extend to
//!   a short one or with a great margin. A capped keep-alive asks for shorter leases at the end, so that the lock itself
//!   ends with the cap.
//! - A shutdown loses and releases every ticket in use, and cancels open acquires: what is not known of them after
//!   [`FLUSH`] is Indeterminate.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod acquiring;
mod answering;
mod backoff;
mod call;
mod config;
mod connecting;
mod core;
mod deadline;
mod fault;
mod ids;
mod lease;
mod op;
mod outcome;
mod requests;
mod sending;
mod servers;
mod session;
mod stopping;
mod ticket;
mod ticketing;
mod time;
mod timers;

pub use self::core::{Core, Counts, Output};
pub use config::Config;
pub use deadline::TRANSPORT_DEADLINE;
pub use fault::Fault;
pub use lease::Margin;
pub use op::OpResult;
pub use outcome::{
    AcquireError, CallError, ExtendError, Extended, IndeterminateCause, KeyInfo, Lost, ReleaseOutcome,
    UnsentCause, UsageError,
};
pub use sending::Transmit;
pub use session::SessionId;
pub use stopping::FLUSH;
pub use ticket::TicketView;
pub use ticketing::TicketFacts;
pub use time::Instant;
