//! Who may come in, and what happens when there is no room.

use std::io;
use std::task::{Context, Poll};

use lockstead_engine::Instant;
use rustix::process::{Resource, getrlimit};

use crate::listen::Listener;
use crate::stream::Stream;

/// When the system has no handle for a new connection, the next try is this much later.
const RETRY_MS: u64 = 100;
/// At most this many connections are accepted in a turn.
const PER_TURN: usize = 128;

/// The listeners, and how many sessions they may let in.
pub(crate) struct Door {
    listeners: Vec<Listener>,
    max_sessions: usize,
    closed_until: Option<Instant>,
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
        Self {
            listeners,
            max_sessions: wanted.min(half),
            closed_until: None,
        }
    }

    /// Whether one more session may be served.
    pub(crate) fn has_room(&self, sessions: usize) -> bool {
        sessions < self.max_sessions
    }

    /// How many connections may linger that are not served.
    pub(crate) fn may_linger(&self, connections: usize) -> bool {
        connections < self.max_sessions + self.max_sessions / 2
    }

    /// Accepts what waits at the door. `true`: there may be more.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Instant, accepted: &mut Vec<Stream>) -> bool {
        if self.closed_until.is_some_and(|until| now < until) {
            return false;
        }
        self.closed_until = None;
        for listener in &self.listeners {
            loop {
                if accepted.len() >= PER_TURN {
                    return true;
                }
                match listener.poll_accept(cx) {
                    Poll::Ready(Ok(stream)) => accepted.extend(stream),
                    Poll::Ready(Err(error)) if out_of_handles(&error) => {
                        tracing::warn!(%error, "no handle for a new connection; held locks are not touched");
                        self.closed_until = Some(Instant(now.0 + RETRY_MS));
                        return false;
                    }
                    // The connection that was to be accepted is gone.
                    Poll::Ready(Err(_)) => {}
                    Poll::Pending => break,
                }
            }
        }
        false
    }

    /// When to try again, if the door is closed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.closed_until
    }
}

fn out_of_handles(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
