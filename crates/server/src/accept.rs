//! Who may come in, and what happens when there is no room.

use std::io;
use std::task::{Context, Poll};

use lockstead_engine::Instant;
use rustix::process::{Resource, getrlimit};

use crate::listen::Listener;
use crate::stream::Stream;

/// When a connection cannot be accepted, the next try is this much later.
const RETRY_MS: u64 = 100;
/// The listeners, and how many sessions they may let in.
pub(crate) struct Door {
    listeners: Vec<Listener>,
    max_sessions: usize,
    closed_until: Option<Instant>,
    /// The operator was told that connections cannot be accepted.
    told: bool,
}

impl Door {
    /// Half of the file handles are kept for everything else: those who are told that there is no room, and why.
    pub(crate) fn new(listeners: Vec<Listener>, max_sessions: u32) -> Self {
        let handles = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let half = usize::try_from(handles / 2).unwrap_or(usize::MAX);
        let wanted = usize::try_from(max_sessions).unwrap_or(usize::MAX);
        if half < wanted {
            tracing::warn!(
                max_sessions = half,
                handles,
                "fewer sessions than asked for: half the file handles"
            );
        }
        Self { listeners, max_sessions: wanted.min(half), closed_until: None, told: false }
    }

    /// Whether one more session may be served.
    pub(crate) fn has_room(&self, sessions: usize) -> bool {
        sessions < self.max_sessions
    }

    /// How many connections may linger that are not served.
    pub(crate) fn may_linger(&self, connections: usize) -> bool {
        connections < self.max_sessions + self.max_sessions / 2
    }

    /// The next connection that waits at the door, if one does and there is a handle for it.
    pub(crate) fn next(&mut self, cx: &mut Context<'_>, now: Instant) -> Option<Stream> {
        if self.closed_until.is_some_and(|until| now < until) {
            return None;
        }
        self.closed_until = None;
        // Whoever was asked first is asked last the next time, so that no listener keeps the others waiting.
        self.listeners.rotate_left(1);
        for listener in &self.listeners {
            loop {
                match listener.poll_accept(cx) {
                    Poll::Ready(Ok(Some(stream))) => {
                        self.told = false;
                        return Some(stream);
                    }
                    // The connection that was to be accepted is gone.
                    Poll::Ready(Ok(None)) => {}
                    Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    // No handle is free, most likely. Trying again at once would only burn a core.
                    Poll::Ready(Err(error)) => {
                        if !std::mem::replace(&mut self.told, true) {
                            tracing::warn!(%error, "cannot accept connections for now; held locks are not touched");
                        }
                        self.closed_until = Some(Instant(now.0 + RETRY_MS));
                        return None;
                    }
                    Poll::Pending => break,
                }
            }
        }
        None
    }

    /// When to try again, if the door is closed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.closed_until
    }
}
