//! Acquires: the call, the gate, giving up, the deadline (docs/client-contract.md, rules 1 to 10).

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use lockstead_proto::{Acquired, BusyReason, ErrorCode, check_key};

use crate::call::{Call, CallState, GivenUp, Grant};
use crate::core::{Core, Output};
use crate::deadline::Budget;
use crate::fault::Fault;
use crate::lease::{believable_wait, surely_ended, valid_until};
use crate::outcome::{AcquireError, IndeterminateCause, UnsentCause, UsageError};
use crate::session::SessionId;
use crate::ticket::{Releasing, Ticket};
use crate::time::Instant;
use crate::timers::Timer;

impl Core {
    /// Asks for the lock on `key`. Gives the owner that names the call; [`Output::Ready`] says when
    /// [`take`](Self::take) has its outcome.
    pub fn acquire(
        &mut self,
        now: Instant,
        key: &str,
        wait: Duration,
        lease: Duration,
    ) -> Result<u64, AcquireError> {
        check_key(key).map_err(UsageError::Key)?;
        let budget = Budget::new(now, wait, self.answer_allowance)?;
        let lease_s = self.lease_seconds(lease)?;
        self.check_running().map_err(AcquireError::Unsent)?;
        if self.calls.len() >= self.max_open {
            return Err(AcquireError::Unsent(UnsentCause::QueueFull));
        }
        let owner = self.ids.draw();
        let mut call = Call {
            key: Arc::from(key),
            lease_s,
            budget,
            state: CallState::Queued,
            given_up: GivenUp::No,
            timer: None,
        };
        self.timers.arm(Timer::Call(owner), &mut call.timer, Some(budget.end));
        self.calls.insert(owner, call);
        self.unsent.insert(owner);
        self.settle(now);
        Ok(owner)
    }

    /// The outcome of a call, if it has one; the call is over then. This is the gate: a grant becomes a ticket only
    /// here and now, with the deadline not passed and the lease surely running. The ticket is named by the call's owner.
    pub fn take(&mut self, now: Instant, owner: u64) -> Option<Result<u64, AcquireError>> {
        let call = self.calls.get(&owner)?;
        let outcome = match &call.state {
            CallState::Queued | CallState::Sent(..) => return None,
            CallState::Ended(error) => Err(error.clone()),
            &CallState::Granted(grant) if now < call.gate_closes(&grant) => {
                self.issue_ticket(owner, &grant);
                return Some(Ok(owner));
            }
            &CallState::Granted(grant) => {
                self.give_back(call.key.clone(), grant.token, grant.surely_ended);
                Err(AcquireError::Indeterminate(IndeterminateCause::TooLate))
            }
        };
        self.forget_call(owner);
        self.settle(now);
        Some(outcome)
    }

    /// The caller gives up: nobody will take the outcome.
    pub fn cancel(&mut self, now: Instant, owner: u64) {
        let Some(call) = self.calls.get_mut(&owner) else {
            return;
        };
        match call.state {
            CallState::Sent(session, _) => {
                let told = call.given_up != GivenUp::No;
                call.given_up = GivenUp::Cancelled;
                if !told && let Some(session) = self.session(session) {
                    session.cancels.push_back(owner);
                }
            }
            CallState::Granted(grant) => {
                call.given_up = GivenUp::Cancelled;
                self.refuse_grant(owner, grant);
            }
            CallState::Queued | CallState::Ended(_) => self.forget_call(owner),
        }
        self.settle(now);
    }

    /// `A`: the grant goes to the gate if it can still pass it.
    pub(crate) fn acquired(&mut self, now: Instant, session: SessionId, frame: Acquired) {
        let Some(sent) = self.answered(session, frame.owner) else {
            return;
        };
        let waited = believable_wait(frame.waited_ms, sent, now).unwrap_or_else(|| {
            self.outputs.push_back(Output::Fault(Fault::Waited { session, id: frame.owner }));
            Duration::ZERO
        });
        let Some(call) = self.calls.get_mut(&frame.owner) else {
            return;
        };
        let lease_s = call.lease_s.min(frame.lease_s);
        let grant = Grant {
            token: frame.token,
            lease_s,
            waited,
            granted: sent + waited,
            valid_until: valid_until(sent, waited, lease_s, self.margin),
            surely_ended: surely_ended(now, frame.lease_s),
        };
        let closes = call.gate_closes(&grant);
        if call.given_up == GivenUp::No && now < closes {
            call.state = CallState::Granted(grant);
            self.timers.arm(Timer::Call(frame.owner), &mut call.timer, Some(closes));
            self.outputs.push_back(Output::Ready(frame.owner));
        } else {
            self.refuse_grant(frame.owner, grant);
        }
    }

    /// `T`.
    pub(crate) fn timed_out(&mut self, session: SessionId, owner: u64) {
        if self.answered(session, owner).is_some() {
            self.end_call(owner, AcquireError::Timeout);
        }
    }

    /// `B`.
    pub(crate) fn busy(&mut self, session: SessionId, owner: u64, reason: BusyReason) {
        if self.answered(session, owner).is_some() {
            self.end_call(owner, AcquireError::Busy(reason));
        }
    }

    /// `X` about an acquire.
    pub(crate) fn acquire_rejected(&mut self, session: SessionId, owner: u64, code: ErrorCode, text: &str) {
        if self.answered(session, owner).is_some() {
            let message = String::from(text);
            self.end_call(owner, AcquireError::Rejected { code, message });
        }
    }

    /// The session has answered an acquire: when was it sent? An answer to anything that this session did not send, or
    /// has answered before, is a fault of the server.
    fn answered(&mut self, id: SessionId, owner: u64) -> Option<Instant> {
        match self.calls.get(&owner) {
            Some(&Call { state: CallState::Sent(session, sent), .. }) if session == id => {
                if let Some(session) = self.session(id) {
                    session.open -= 1;
                    session.answered = true;
                }
                Some(sent)
            }
            _ => {
                self.stray(id, owner);
                None
            }
        }
    }

    /// The timer of a call: the budget end, the deadline or the end of the gate.
    pub(crate) fn call_due(&mut self, now: Instant, owner: u64) {
        let Some(call) = self.calls.get_mut(&owner) else {
            return;
        };
        match call.state {
            CallState::Queued => self.end_call(owner, AcquireError::Unsent(self.budget_ended())),
            CallState::Granted(grant) => self.refuse_grant(owner, grant),
            CallState::Sent(..) if now < call.budget.deadline => {
                let deadline = call.budget.deadline;
                self.timers.arm(Timer::Call(owner), &mut call.timer, Some(deadline));
            }
            CallState::Sent(session, _) => self.look_once_more(session, owner),
            CallState::Ended(_) => {}
        }
    }

    fn look_once_more(&mut self, id: SessionId, owner: u64) {
        if let Some(session) = self.session(id) {
            session.overdue.push(owner);
        }
        self.look(id);
    }

    /// Before something is decided for want of an answer, everything that was received is handed in.
    pub(crate) fn look(&mut self, id: SessionId) {
        if let Some(session) = self.session(id)
            && !core::mem::replace(&mut session.looking, true)
        {
            self.outputs.push_back(Output::Look { session: id });
        }
    }

    /// Everything that the session had received has been handed in: a call whose answer was not there ends now, and
    /// the session with it; so does a session that is still given up.
    pub fn looked(&mut self, now: Instant, id: SessionId) {
        let Some(session) = self.session(id) else { return };
        session.looking = false;
        let why = session.silence();
        let mut lost = session.hopeless(now);
        for owner in core::mem::take(&mut session.overdue) {
            if self.calls.get(&owner).is_some_and(Call::is_sent) {
                self.end_indeterminate(owner, IndeterminateCause::NoAnswer);
                lost = true;
            }
        }
        if lost {
            self.break_session(now, id, true, why);
        }
        self.settle(now);
    }

    /// The acquires that are possibly sent and unanswered on a session that is closed.
    pub(crate) fn end_sent_calls(&mut self, id: SessionId) {
        let sent = |call: &Call| matches!(call.state, CallState::Sent(session, _) if session == id);
        let owners: alloc::vec::Vec<u64> =
            self.calls.iter().filter(|(_, call)| sent(call)).map(|(&owner, _)| owner).collect();
        for owner in owners {
            self.end_indeterminate(owner, IndeterminateCause::SessionBroke);
        }
    }

    pub(crate) fn end_indeterminate(&mut self, owner: u64, cause: IndeterminateCause) {
        let shut_down = self.calls.get(&owner).is_some_and(|call| call.given_up == GivenUp::ShutDown);
        let cause = if shut_down { IndeterminateCause::ShutDown } else { cause };
        self.end_call(owner, AcquireError::Indeterminate(cause));
    }

    /// The grant did not pass the gate: its exact token is released, and the call ends as Indeterminate.
    pub(crate) fn refuse_grant(&mut self, owner: u64, grant: Grant) {
        if let Some(call) = self.calls.get(&owner) {
            let key = call.key.clone();
            self.give_back(key, grant.token, grant.surely_ended);
        }
        self.end_indeterminate(owner, IndeterminateCause::TooLate);
    }

    /// The call has its outcome.
    pub(crate) fn end_call(&mut self, owner: u64, error: AcquireError) {
        self.unsent.remove(&owner);
        let Some(call) = self.calls.get_mut(&owner) else {
            return;
        };
        if call.given_up == GivenUp::Cancelled {
            self.forget_call(owner);
            return;
        }
        call.state = CallState::Ended(error);
        self.timers.arm(Timer::Call(owner), &mut call.timer, None);
        self.outputs.push_back(Output::Ready(owner));
    }

    fn forget_call(&mut self, owner: u64) {
        self.unsent.remove(&owner);
        if let Some(mut call) = self.calls.remove(&owner) {
            self.timers.arm(Timer::Call(owner), &mut call.timer, None);
        }
    }

    fn issue_ticket(&mut self, owner: u64, grant: &Grant) {
        let Some(mut call) = self.calls.remove(&owner) else {
            return;
        };
        self.timers.arm(Timer::Call(owner), &mut call.timer, None);
        let mut ticket = Ticket {
            key: call.key,
            token: grant.token,
            lease_s: grant.lease_s,
            waited: grant.waited,
            valid_until: grant.valid_until,
            surely_ended: grant.surely_ended,
            lost: None,
            keep_alive: None,
            confirmed: grant.granted,
            extends: alloc::vec::Vec::new(),
            release: Releasing::No,
            in_use: true,
            timer: None,
        };
        self.timers.arm(Timer::Ticket(owner), &mut ticket.timer, Some(grant.valid_until));
        self.tickets.insert(owner, ticket);
    }
}
