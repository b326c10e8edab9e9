//! Shutdown: nothing new is taken, what is held is given back, for a bounded time.

use alloc::vec::Vec;
use core::time::Duration;

use crate::call::{CallState, GivenUp};
use crate::core::{Core, Output};
use crate::outcome::{Lost, UnsentCause};
use crate::time::Instant;

/// How long a shutdown waits for answers to its releases and cancels.
pub const FLUSH: Duration = Duration::from_secs(2);

/// Whether the client works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// It only gives back, until this instant at the latest.
    Stopping(Instant),
    Stopped,
}

impl Core {
    /// Takes no more calls, ends the unsent ones, cancels the sent ones, and releases every ticket that is in use.
    /// [`Output::Stopped`] comes when all that is answered, at the latest after [`FLUSH`].
    pub fn shutdown(&mut self, now: Instant) {
        if self.phase != Phase::Running {
            return;
        }
        self.phase = Phase::Stopping(now + FLUSH);
        self.end_unsent_calls(&UnsentCause::ShutDown);
        let owners: Vec<u64> = self.calls.keys().copied().collect();
        for owner in owners {
            self.stop_call(owner);
        }
        let tickets: Vec<u64> = self.tickets.keys().copied().collect();
        for ticket in tickets {
            self.lose(now, ticket, Lost::ShutDown);
        }
        self.settle(now);
    }

    /// Whether [`Output::Stopped`] has been given.
    pub fn is_stopped(&self) -> bool {
        self.phase == Phase::Stopped
    }

    fn stop_call(&mut self, owner: u64) {
        let Some(call) = self.calls.get_mut(&owner).filter(|call| call.given_up == GivenUp::No) else {
            return;
        };
        call.given_up = GivenUp::ShutDown;
        match call.state {
            CallState::Granted(grant) => self.refuse_grant(owner, grant),
            CallState::Sent(session, _) => {
                if let Some(session) = self.session(session) {
                    session.cancels.push_back(owner);
                }
            }
            CallState::Queued | CallState::Ended(_) => {}
        }
    }

    pub(crate) fn check_running(&self) -> Result<(), UnsentCause> {
        if self.phase == Phase::Running { Ok(()) } else { Err(UnsentCause::ShutDown) }
    }

    pub(crate) fn stop_due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Stopping(until) => Some(until),
            Phase::Running | Phase::Stopped => None,
        }
    }

    pub(crate) fn stop_if_done(&mut self, now: Instant) {
        let Some(until) = self.stop_due() else { return };
        let open = self.sessions.iter().any(|session| session.open > 0);
        if now < until && (open || !self.ops.is_empty()) {
            return;
        }
        self.phase = Phase::Stopped;
        for session in core::mem::take(&mut self.sessions) {
            self.end_sent_calls(session.id);
            self.outputs.push_back(Output::Close { session: session.id, reset: session.open > 0 });
        }
        let ops: Vec<u64> = self.ops.keys().copied().collect();
        for op in ops {
            self.finish_unanswered(now, op, UnsentCause::ShutDown);
        }
        self.outputs.push_back(Output::Stopped);
    }
}
