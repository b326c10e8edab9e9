//! How a server stops: the first signal drains, the second ends at once.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use lockstead_engine::Instant;
use lockstead_journal::Journal;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::ServeError;

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

/// The journal's clean stop. It waits for the disk, which may hang; a second signal does not.
pub(crate) async fn cleanly(journal: Journal, mut signals: Signals) -> Result<(), ServeError> {
    let (done, mut stopped) = oneshot::channel();
    let stop = move || {
        // After a second signal nobody wants to know.
        let _ = done.send(journal.stop());
    };
    thread::Builder::new().name("stop".to_owned()).spawn(stop).map_err(ServeError::Stop)?;
    poll_fn(|cx| {
        if signals.poll(cx) > 0 {
            return Poll::Ready(Err(ServeError::SecondSignal));
        }
        let lost = |_| Err(io::Error::other("the thread that closes it has ended"));
        let stopped = Pin::new(&mut stopped).poll(cx);
        stopped.map(|result| result.unwrap_or_else(lost).map_err(ServeError::Stop))
    })
    .await
}

/// The end after a second signal. Dropping the journal would wait for the disk; the process ends now, and what is under
/// way with it.
pub(crate) fn at_once(journal: Journal) -> ServeError {
    std::mem::forget(journal);
    ServeError::SecondSignal
}
