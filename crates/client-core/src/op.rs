//! One request that may be sent again: release, extend, query, ping (docs/client-contract.md, rule 13).

use alloc::sync::Arc;
use core::time::Duration;

use crate::outcome::{CallError, ExtendError, Extended, KeyInfo, ReleaseOutcome};
use crate::time::Instant;

/// A request that is not answered yet. It is sent again on a new session whenever the old one is suspect or gone, until
/// it is answered or its deadline comes.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) kind: OpKind,
    pub(crate) key: Arc<str>,
    pub(crate) token: u64,
    /// How often a byte of it may have left.
    pub(crate) sends: u32,
    /// Whether the program waits for the result.
    pub(crate) watched: bool,
    pub(crate) timer: Option<Instant>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    /// Frees a lock.
    Release {
        /// The ticket that it ends.
        ticket: Option<u64>,
        /// Before this instant a server that does not know the token must have freed it for us.
        valid_until: Option<Instant>,
    },
    /// Moves the end of a lease.
    Extend {
        /// The ticket that it is for.
        ticket: Option<u64>,
        lease_s: u8,
    },
    /// Asks for the state of a key.
    Query,
    /// Asks whether the server is there.
    Ping,
}

/// How a request other than an acquire ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// Of a release.
    Release(ReleaseOutcome),
    /// Of an extend.
    Extend(Result<Extended, ExtendError>),
    /// Of a query.
    Query(Result<KeyInfo, CallError>),
    /// Of a ping: the time from sending it to the answer.
    Ping(Result<Duration, CallError>),
}

impl OpKind {
    /// The ticket that the request is for.
    pub(crate) fn ticket(self) -> Option<u64> {
        match self {
            Self::Release { ticket, .. } | Self::Extend { ticket, .. } => ticket,
            Self::Query | Self::Ping => None,
        }
    }

    /// Whether it names a token. Such a request never goes to another server than the one that the client knew when it
    /// was made: that one could take the token for one of its own.
    pub(crate) fn names_token(self) -> bool {
        matches!(self, Self::Release { .. } | Self::Extend { .. })
    }

    /// The result when there is no answer, and `failure` says what is known.
    pub(crate) fn failed(self, failure: CallError) -> OpResult {
        match self {
            Self::Query => OpResult::Query(Err(failure)),
            Self::Ping => OpResult::Ping(Err(failure)),
            Self::Release { .. } => OpResult::Release(match failure {
                CallError::Rejected { code, message } => ReleaseOutcome::Rejected { code, message },
                CallError::Unsent(cause) => ReleaseOutcome::Unsent(cause),
                CallError::Unknown | CallError::Usage(_) => ReleaseOutcome::Unknown,
            }),
            Self::Extend { .. } => OpResult::Extend(Err(match failure {
                CallError::Rejected { code, message } => ExtendError::Rejected { code, message },
                CallError::Unsent(cause) => ExtendError::Unsent(cause),
                CallError::Unknown => ExtendError::Unknown,
                CallError::Usage(error) => ExtendError::Usage(error),
            })),
        }
    }
}
