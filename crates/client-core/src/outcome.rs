//! How calls end. Every enum says who is at fault: the caller ([`UsageError`]), the server's answer, or nobody that
//! can be named (`Unsent`, `Indeterminate`, `Unknown`).

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use lockstead_proto::{BusyReason, ErrorCode, KeyError, KeyState};

use crate::time::Instant;

/// Why an acquire gave no ticket (docs/client-contract.md, *Outcomes of a call*).
///
/// In none of these cases may the program do what the lock protects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// The server says: the wait ended without a grant, or for a wait of 0 the key was not free. Call again if you
    /// like.
    #[error("the lock did not become free in time")]
    Timeout,
    /// The server says: neither granted nor queued. Call again after a pause.
    #[error("the server is busy: {0}")]
    Busy(BusyReason),
    /// The server refused the request itself. Calling again without a change cannot help.
    #[error("the server refused the request: {message} ({code})")]
    Rejected {
        /// What is wrong with it.
        code: ErrorCode,
        /// The server's own sentence.
        message: String,
    },
    /// Certainly no byte of the request left the process: there is no grant, and there will be none from this call.
    #[error("nothing was sent: {0}")]
    Unsent(UnsentCause),
    /// Nobody knows whether the lock was granted. Do **not** do what it protects, and do not take this for
    /// [`Timeout`](Self::Timeout): somebody may hold the lock, and it may be the grant of this very call that nobody
    /// saw. Calling again is allowed, with a wait of at least the lease of this call: such a grant ends with its lease,
    /// and the new call waits for that. With a shorter wait a `Timeout` may come from that very grant.
    #[error("whether the lock was granted is not known: {0}")]
    Indeterminate(IndeterminateCause),
    /// The call itself is wrong; said at once, nothing was sent.
    #[error(transparent)]
    Usage(#[from] UsageError),
}

impl AcquireError {
    /// Whether the contract allows the same call once more (docs/client-contract.md, *Outcomes of a call*): after
    /// [`Timeout`](Self::Timeout), [`Unsent`](Self::Unsent) and [`Indeterminate`](Self::Indeterminate) at once, after
    /// [`Busy`](Self::Busy) with a pause. Not after [`Rejected`](Self::Rejected) and [`Usage`](Self::Usage), where the
    /// call itself must be mended.
    ///
    /// Allowed means that it does no harm, not that it helps: after most causes of `Unsent` something else is to be
    /// mended first, as [`UnsentCause`] says. So count the tries.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout | Self::Busy(_) | Self::Unsent(_) | Self::Indeterminate(_) => true,
            Self::Rejected { .. } | Self::Usage(_) => false,
        }
    }
}

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// The key cannot be sent.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A wait is at most 255 s; there is no endless wait.
    #[error("the wait is longer than 255 s, the longest there is")]
    WaitTooLong,
    /// The margin that this client is configured with, and what is taken off for the clocks, leave nothing of the lease
    /// (rule 12): a ticket would be lost before it is there. Ask for a longer lease.
    #[error(
        "a lease of {lease:?} leaves no time to use it: {taken_off:?} are taken off as margin and for the clocks"
    )]
    LeaseWithinMargin {
        /// The lease as it would be asked for, in whole seconds.
        lease: Duration,
        /// What is taken off it.
        taken_off: Duration,
    },
    /// A lease is more than 0 and at most 255 s.
    #[error("the lease is not between 1 s and 255 s")]
    LeaseOutOfRange,
    /// Tokens are numbers from 1 to 2^63 - 1.
    #[error("this number is no token")]
    TokenOutOfRange,
}

/// Why a request was certainly never sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsentCause {
    /// No session became usable before the time for sending was over. Call again; is the address right?
    #[error("no server answered in time{}", after_semicolon(last.as_deref()))]
    BudgetEnded {
        /// For people: the address that was tried last, and what came of it, such as
        /// `127.0.0.1:5625: Connection refused (os error 111)`.
        last: Option<Arc<str>>,
    },
    /// The client already has as many calls open as it may have: 65,536 acquires, and as many other requests. Call
    /// again after a pause.
    #[error("the client's own queue is full")]
    QueueFull,
    /// The client was shut down. Make a new one.
    #[error("the client is shut down")]
    ShutDown,
    /// The server refused the client at hello. Mend the configuration.
    #[error("the server refused this client: {message} ({code})")]
    Refused {
        /// Why.
        code: ErrorCode,
        /// The server's own sentence.
        message: String,
    },
    /// The address leads to another server than the one that this client knows. Mend the list of addresses.
    #[error("the address leads to another server than before")]
    OtherServer,
    /// The process was forked after the client was made; in the child the client is dead. Make a new one there.
    #[error("the client belongs to the parent process")]
    ForkedChild,
}

impl UnsentCause {
    /// One word for programs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::BudgetEnded { .. } => "budget_ended",
            Self::QueueFull => "queue_full",
            Self::ShutDown => "shut_down",
            Self::Refused { .. } => "refused",
            Self::OtherServer => "other_server",
            Self::ForkedChild => "forked_child",
        }
    }
}

fn after_semicolon(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!("; {text}"))
}

/// Why nobody knows how an acquire ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndeterminateCause {
    /// A byte may have left, and no answer came by the deadline.
    #[error("no answer came before the deadline")]
    NoAnswer,
    /// A byte may have left, and then the session broke.
    #[error("the session broke before the answer")]
    SessionBroke,
    /// The grant came, but too late to be used; it is being released.
    #[error("the grant came too late to be used and is being given back")]
    TooLate,
    /// The grant came, and before it was used another server took the place of the one that gave it.
    #[error("another server answers at the address now")]
    ServerChanged,
    /// A byte may have left, and then the client was shut down.
    #[error("the client was shut down before the answer")]
    ShutDown,
    /// The call was made before the process was forked, and this is the child: the outcome is the parent's (rule 15).
    #[error("the call belongs to the parent process")]
    ForkedChild,
}

impl IndeterminateCause {
    /// One word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoAnswer => "no_answer",
            Self::SessionBroke => "session_broke",
            Self::TooLate => "too_late",
            Self::ServerChanged => "server_changed",
            Self::ShutDown => "shut_down",
            Self::ForkedChild => "forked_child",
        }
    }
}

/// How a release ended. None of these needs an action for safety: a lock that was not freed ends with its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The lock was freed by this release, before its lease could have ended.
    Released,
    /// The server did not know the token any more: the lease had ended before, or somebody freed the lock.
    NotHeld,
    /// The server refused the request.
    Rejected {
        /// Why.
        code: ErrorCode,
        /// The server's own sentence.
        message: String,
    },
    /// It was sent, and nobody can say whether the lock was freed by it or had ended before.
    Unknown,
    /// It was never sent; the lock ends with its lease.
    Unsent(UnsentCause),
}

impl ReleaseOutcome {
    /// One word for programs. The particulars (code, cause) have words of their own.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::NotHeld => "not_held",
            Self::Rejected { .. } => "rejected",
            Self::Unknown => "unknown",
            Self::Unsent(_) => "unsent",
        }
    }

    /// Whether the lock was surely freed by this release.
    pub const fn is_released(&self) -> bool {
        matches!(self, Self::Released)
    }
}

impl fmt::Display for ReleaseOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("the lock is released"),
            Self::NotHeld => f.write_str("the lock is not held with this token"),
            Self::Rejected { code, message } => {
                write!(f, "the server refused the request: {message} ({code})")
            }
            Self::Unknown => f.write_str("it is not known whether this release freed the lock"),
            Self::Unsent(cause) => write!(f, "nothing was sent: {cause}"),
        }
    }
}

/// Why an extend gave no later end. The ticket's old end stands, except after [`Lost`](Self::Lost).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtendError {
    /// The lock is not held any more.
    #[error("the lock is lost: {0}")]
    Lost(Lost),
    /// The server refused the request.
    #[error("the server refused the request: {message} ({code})")]
    Rejected {
        /// Why; [`ErrorCode::NotDurable`] may be over soon.
        code: ErrorCode,
        /// The server's own sentence.
        message: String,
    },
    /// It was sent, and no answer came in time.
    #[error("no answer came in time")]
    Unknown,
    /// It was never sent.
    #[error("nothing was sent: {0}")]
    Unsent(UnsentCause),
    /// The call itself is wrong; nothing was sent.
    #[error(transparent)]
    Usage(#[from] UsageError),
}

/// Why a query or a ping has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server refused the request.
    #[error("the server refused the request: {message} ({code})")]
    Rejected {
        /// Why.
        code: ErrorCode,
        /// The server's own sentence.
        message: String,
    },
    /// It was sent, and no answer came in time.
    #[error("no answer came in time")]
    Unknown,
    /// It was never sent.
    #[error("nothing was sent: {0}")]
    Unsent(UnsentCause),
    /// The call itself is wrong; nothing was sent.
    #[error(transparent)]
    Usage(#[from] UsageError),
}

/// Why a ticket is no longer good. Final: a lost ticket never becomes valid again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// Its `valid_until` has passed.
    #[error("its time is over")]
    Expired,
    /// The server does not know its token any more.
    #[error("the server says that it is not held")]
    NotHeld,
    /// Another server answers at the address now.
    #[error("another server answers at the address now")]
    ServerChanged,
    /// The client was shut down, which gives every ticket back.
    #[error("the client is shut down")]
    ShutDown,
    /// The program itself ended the ticket.
    #[error("the program ended the ticket")]
    Ended,
    /// The process was forked after the ticket was made; in the child it is dead.
    #[error("the ticket belongs to the parent process")]
    ForkedChild,
}

impl Lost {
    /// One word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NotHeld => "not_held",
            Self::ServerChanged => "server_changed",
            Self::ShutDown => "shut_down",
            Self::Ended => "ended",
            Self::ForkedChild => "forked_child",
        }
    }
}

/// What an extend achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// The lease that the server keeps from then on: the one asked for, or the server's longest.
    pub lease: Duration,
    /// Until when the lock is surely held, by this extend alone.
    pub valid_until: Instant,
}

/// What a query found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Whether somebody holds the key.
    pub state: KeyState,
    /// How long the lease, or the recovery of the server, still lasts.
    pub remaining: Duration,
    /// How many attempts queue for the key.
    pub waiters: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn each_cause_is_one_word_for_programs() {
        let refused = UnsentCause::Refused { code: ErrorCode::Forbidden, message: String::new() };
        let unsent = [
            (UnsentCause::BudgetEnded { last: None }, "budget_ended"),
            (UnsentCause::QueueFull, "queue_full"),
            (UnsentCause::ShutDown, "shut_down"),
            (refused, "refused"),
            (UnsentCause::OtherServer, "other_server"),
            (UnsentCause::ForkedChild, "forked_child"),
        ];
        assert!(unsent.iter().all(|(cause, word)| cause.as_str() == *word));
        let indeterminate = [
            (IndeterminateCause::NoAnswer, "no_answer"),
            (IndeterminateCause::SessionBroke, "session_broke"),
            (IndeterminateCause::TooLate, "too_late"),
            (IndeterminateCause::ServerChanged, "server_changed"),
            (IndeterminateCause::ShutDown, "shut_down"),
            (IndeterminateCause::ForkedChild, "forked_child"),
        ];
        assert!(indeterminate.iter().all(|(cause, word)| cause.as_str() == *word));
        let lost = [
            (Lost::Expired, "expired"),
            (Lost::NotHeld, "not_held"),
            (Lost::ServerChanged, "server_changed"),
            (Lost::ShutDown, "shut_down"),
            (Lost::Ended, "ended"),
            (Lost::ForkedChild, "forked_child"),
        ];
        assert!(lost.iter().all(|(cause, word)| cause.as_str() == *word));
    }

    #[test]
    fn each_outcome_of_a_release_is_one_word_for_programs_and_a_sentence_for_people() {
        let rejected = ReleaseOutcome::Rejected { code: ErrorCode::Forbidden, message: "no".into() };
        let outcomes = [
            (ReleaseOutcome::Released, "released", "the lock is released"),
            (ReleaseOutcome::NotHeld, "not_held", "the lock is not held with this token"),
            (rejected, "rejected", "the server refused the request: no (forbidden by policy)"),
            (ReleaseOutcome::Unknown, "unknown", "it is not known whether this release freed the lock"),
            (
                ReleaseOutcome::Unsent(UnsentCause::QueueFull),
                "unsent",
                "nothing was sent: the client's own queue is full",
            ),
        ];
        for (outcome, word, sentence) in outcomes {
            assert_eq!((outcome.as_str(), outcome.to_string().as_str()), (word, sentence));
            assert_eq!(outcome.is_released(), word == "released");
        }
    }

    #[test]
    fn an_end_of_the_budget_says_what_was_tried_last() {
        let said = |last: Option<&str>| UnsentCause::BudgetEnded { last: last.map(Arc::from) }.to_string();
        assert_eq!(said(None), "no server answered in time");
        assert_eq!(said(Some("h:1: refused")), "no server answered in time; h:1: refused");
    }

    #[test]
    fn a_lease_within_the_margin_is_said_with_its_numbers() {
        let lease = Duration::from_secs(1);
        let error = UsageError::LeaseWithinMargin { lease, taken_off: Duration::from_millis(1_501) };
        let sentence =
            "a lease of 1s leaves no time to use it: 1.501s are taken off as margin and for the clocks";
        assert_eq!(error.to_string(), sentence);
    }

    #[test]
    fn a_call_may_be_made_again_after_every_outcome_but_those_that_blame_it() {
        let rejected = AcquireError::Rejected { code: ErrorCode::BadKey, message: String::new() };
        let outcomes = [
            (AcquireError::Timeout, true),
            (AcquireError::Busy(BusyReason::Draining), true),
            (rejected, false),
            (AcquireError::Unsent(UnsentCause::QueueFull), true),
            (AcquireError::Indeterminate(IndeterminateCause::NoAnswer), true),
            (AcquireError::Usage(UsageError::WaitTooLong), false),
        ];
        assert!(outcomes.iter().all(|(error, again)| error.is_retryable() == *again));
    }
}
