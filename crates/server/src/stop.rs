//! How a server stops: the first signal drains, the second ends at once.

use std::io;
use std::task::Context;

use lockstead_engine::Instant;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Answers that are made when the drain is over are written for at most this long.
const FLUSH_MS: u64 = 1_000;

/// Where a server is between its start and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No signal has come.
    Serving,
    /// Nothing is granted; holders may release until then.
    Draining(Instant),
    /// What was answered is written until then.
    Flushing(Instant),
}

impl Stage {
    /// The stage that follows the drain.
    pub(crate) fn flushing(now: Instant) -> Self {
        Self::Flushing(Instant(now.0 + FLUSH_MS))
    }

    /// When the stage is over.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Serving => None,
            Self::Draining(until) | Self::Flushing(until) => Some(until),
        }
    }
}

/// SIGTERM and SIGINT.
pub(crate) struct Signals([Signal; 2]);

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?]))
    }

    /// How many signals have come since the last time.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> usize {
        self.0.iter_mut().map(|signal| std::iter::from_fn(|| is_some(signal, cx)).count()).sum()
    }
}

fn is_some(signal: &mut Signal, cx: &mut Context<'_>) -> Option<()> {
    match signal.poll_recv(cx) {
        std::task::Poll::Ready(received) => received,
        std::task::Poll::Pending => None,
    }
}
