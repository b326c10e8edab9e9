//! What goes into the engine and what comes out: a closed set of commands, a closed set of answers.

use lockstead_proto::{BusyReason, KeyState};

use crate::time::Instant;

/// A session of the engine: a slot given by [`Engine::open_session`](crate::Engine::open_session), given again to
/// another session after [`Engine::close_session`](crate::Engine::close_session).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

/// The place of a key in the table. It is given again to another key later, so it means something only together
/// with the token that proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRef(pub(crate) u32);

/// A request, checked for form: the key has 1..=1024 bytes and a lease is at least 1 (docs/protocol.md, *Requests*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `A`: take the key, waiting at most `wait_s` in its queue, not at all if that is 0.
    Acquire {
        /// The longest wait, in seconds.
        wait_s: u8,
        /// The wished lease, in seconds, 1..=255.
        lease_s: u8,
        /// The correlation id of the attempt.
        owner: u64,
        /// The key.
        key: &'a str,
    },
    /// `R`: give the key back, if `token` is its active one.
    Release {
        /// The token of the grant.
        token: u64,
        /// The key.
        key: &'a str,
    },
    /// `E`: move the end of the lease to `lease_s` from now, if that is later and `token` is the active one.
    Extend {
        /// The wished lease from now, in seconds, 1..=255.
        lease_s: u8,
        /// The token of the grant.
        token: u64,
        /// The key.
        key: &'a str,
    },
    /// `C`: end the oldest queued attempt of this session with this owner on this key.
    Cancel {
        /// The correlation id of the attempt.
        owner: u64,
        /// The key.
        key: &'a str,
    },
    /// `Q`: tell the state of the key.
    Query {
        /// The correlation id of the query.
        id: u64,
        /// The key.
        key: &'a str,
    },
}

/// An answer to a command, at once or later (docs/protocol.md, *Answers*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `A`: the attempt has the key now.
    Acquired {
        /// The correlation id of the attempt.
        owner: u64,
        /// The token of the grant, greater than every earlier one.
        token: u64,
        /// The lease that is kept, in seconds.
        lease_s: u8,
        /// The time from asking to the grant, in milliseconds, never overstated.
        waited_ms: u32,
        /// Where the key is, for [`UnsentGrant`].
        key: KeyRef,
    },
    /// `T`: the attempt has ended without the key.
    Timeout {
        /// The correlation id of the attempt.
        owner: u64,
    },
    /// `B`: there is no room, or the server grants nothing.
    Busy {
        /// The correlation id of the attempt.
        owner: u64,
        /// Why.
        reason: BusyReason,
    },
    /// `R`: the key has been given back.
    Released {
        /// The token of the grant.
        token: u64,
    },
    /// `E`: the lease ends no earlier than `lease_s` from now.
    Extended {
        /// The token of the grant.
        token: u64,
        /// The lease that is kept from now, in seconds.
        lease_s: u8,
    },
    /// `X` 10: the token is the active one, but a later end could not be made durable, so the end is what it was.
    NotDurable {
        /// The token of the grant.
        token: u64,
    },
    /// `N`: the token is not the active one of the key.
    NotHeld {
        /// The token as it was sent.
        token: u64,
    },
    /// `Q`: the state of the key.
    State {
        /// The correlation id of the query.
        id: u64,
        /// Free, held or recovering.
        state: KeyState,
        /// Until the lease or the recovery ends, in milliseconds, rounded up; 0 for a free key.
        remaining_ms: u32,
        /// The waiters in the queue of the key.
        waiters: u32,
    },
}

/// An answer and the session that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Whom it is for.
    pub session: SessionId,
    /// What it says.
    pub answer: Answer,
}

/// A grant of which not even the first byte was sent; closing its session takes it back, and so does storage that
/// could not make it durable (docs/protocol.md, *Session close* and *Request × key state*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsentGrant {
    /// Where the key was at the grant.
    pub key: KeyRef,
    /// The token of the grant. Only while the key has this very token, it is freed.
    pub token: u64,
}

/// A key with an active token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<'a> {
    /// Where it is, for [`Engine::held_from`](crate::Engine::held_from).
    pub place: u32,
    /// The key.
    pub key: &'a str,
    /// Its token.
    pub token: u64,
    /// The end of its lease.
    pub ends: Instant,
}

/// Whether [`Engine::advance`](crate::Engine::advance) has come to the end of what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "commands may be run only when nothing is due any more"]
pub enum Progress {
    /// Nothing is due any more: commands may be run.
    Done,
    /// The budget was spent and more is due: call again.
    More,
}

/// What the engine holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys with an active token.
    pub held: u32,
    /// Keys that take room: held, or free with waiters while recovering.
    pub keys: u32,
    /// Queued attempts.
    pub waiters: u32,
}
