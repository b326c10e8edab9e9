//! What clients saw over many runs of one server, to be judged afterwards.
//!
//! All times are of CLOCK_BOOTTIME ([`crate::boottime`]): before a request was handed to the kernel, and when its
//! answer had been read. What happened in between is unknown, and every rule allows for it: a fault is found only
//! where no instant in between could make it right.

mod durable;
mod recorder;
mod safety;
mod service;
mod story;

#[cfg(test)]
mod tests;

pub use durable::judge_durability;
pub use recorder::{Heard, Recorder};
pub use safety::judge_safety;
pub use service::{Service, judge_service};

use crate::journal::{Log, Tenure};
use std::time::Duration;

/// Everything that was asked and said, over all runs.
#[derive(Debug, Default)]
pub struct History {
    /// The runs of the server, one after the other.
    pub runs: Vec<Run>,
    /// All requests of all clients, in any order.
    pub calls: Vec<Call>,
}

/// One run of the server.
#[derive(Debug)]
pub struct Run {
    /// Before its process was made.
    pub spawned: Duration,
    /// When it was surely gone.
    pub ended: Duration,
    /// What its journal said then.
    pub kept: Kept,
}

/// A journal, as far as the judges need it.
#[derive(Debug, Default)]
pub struct Kept {
    /// When the run's first batch was written.
    pub begun_ms: u64,
    /// Who held what.
    pub tenures: Vec<Tenure>,
}

impl Kept {
    /// The log of a run that has ended.
    pub fn of(log: &Log) -> Self {
        let begun_ms = log.batches().next().map_or(0, |batch| batch.stamp_ms);
        Self { begun_ms, tenures: log.tenures() }
    }
}

/// One request and what came of it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The run that was asked, an index.
    pub run: usize,
    /// The key.
    pub key: String,
    /// What was asked.
    pub request: Request,
    /// Before its first byte was handed to the kernel.
    pub sent: Duration,
    /// The answer, if one was read.
    pub reply: Option<Reply>,
    /// When the client closed its connection, if it did so without the answer.
    pub left: Option<Duration>,
}

/// What is asked about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `A`.
    Acquire {
        /// The longest wait in seconds.
        wait_s: u8,
        /// The lease in seconds.
        lease_s: u8,
    },
    /// `E`.
    Extend {
        /// The token.
        token: u64,
        /// The lease in seconds.
        lease_s: u8,
    },
    /// `R`.
    Release {
        /// The token.
        token: u64,
    },
    /// `Q`.
    Query,
}

/// An answer and when it had been read.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// What was said.
    pub said: Said,
    /// When it had been read.
    pub at: Duration,
}

/// What a server says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// `A`.
    Granted {
        /// The token.
        token: u64,
        /// The lease that the server keeps, in seconds.
        lease_s: u8,
        /// The wait in milliseconds, never overstated.
        waited_ms: u32,
    },
    /// `T`.
    TimedOut,
    /// `B` and its reason.
    Busy(u8),
    /// `E` and the lease that the server keeps, in seconds.
    Extended(u8),
    /// `R`.
    Released,
    /// `N`.
    NotHeld,
    /// `Q` and its state.
    State(u8),
    /// `X` and its code.
    Refused(u8),
}

/// A lease of so many seconds.
pub(crate) fn seconds(lease_s: u8) -> Duration {
    Duration::from_secs(lease_s.into())
}

impl History {
    /// The run that was asked.
    pub(crate) fn run_of(&self, call: &Call) -> &Run {
        &self.runs[call.run]
    }

    /// When a call had been processed at the latest: its answer was there, or its server was gone.
    pub(crate) fn done_by(&self, call: &Call) -> Duration {
        let ended = self.run_of(call).ended;
        call.reply.map_or(ended, |reply| reply.at.min(ended))
    }
}

impl Call {
    /// How long its client waited for the answer: until it came, it left, or the server was gone.
    pub(crate) fn waited_until(&self, history: &History) -> Duration {
        history.done_by(self).min(self.left.unwrap_or(Duration::MAX))
    }

    /// What was said, if something was.
    pub fn said(&self) -> Option<Said> {
        self.reply.map(|reply| reply.said)
    }

    /// Whether the answer says that the request's token was active.
    pub(crate) fn calls_active(&self) -> bool {
        matches!(self.said(), Some(Said::Released | Said::Extended(_)))
    }

    /// The token that was granted, if one was.
    pub fn granted(&self) -> Option<u64> {
        match self.said() {
            Some(Said::Granted { token, .. }) => Some(token),
            _ => None,
        }
    }
}
