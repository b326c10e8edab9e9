//! Releases, extends, queries and pings: from the request to its result (docs/client-contract.md, rule 13).

use alloc::sync::Arc;
use core::time::Duration;

use lockstead_proto::{CLIENT_ID_BIT, check_key};

use crate::core::{Core, Output};
use crate::deadline::TRANSPORT_DEADLINE;
use crate::lease::{surely_ended, valid_until};
use crate::op::{Op, OpKind, OpResult};
use crate::outcome::{CallError, ExtendError, Extended, Lost, ReleaseOutcome, UnsentCause, UsageError};
use crate::session::Confirm;
use crate::ticket::Releasing;
use crate::time::{Instant, seconds};
use crate::timers::Timer;

impl Core {
    /// Releases a token that did not come from a ticket of this client. Like the three below it gives an id;
    /// [`Output::Ready`] says when [`take_result`](Self::take_result) has the result, at the latest after
    /// [`TRANSPORT_DEADLINE`].
    pub fn release(&mut self, now: Instant, key: &str, token: u64) -> Result<u64, UsageError> {
        check_token(token)?;
        let kind = OpKind::Release { ticket: None, valid_until: None };
        self.ask(now, kind, key, token)
    }

    /// Extends a token that did not come from a ticket of this client.
    pub fn extend(
        &mut self,
        now: Instant,
        key: &str,
        token: u64,
        lease: Duration,
    ) -> Result<u64, UsageError> {
        check_token(token)?;
        let lease_s = self.lease_seconds(lease)?;
        let kind = OpKind::Extend { ticket: None, lease_s };
        self.ask(now, kind, key, token)
    }

    /// Asks for the state of a key.
    pub fn query(&mut self, now: Instant, key: &str) -> Result<u64, UsageError> {
        self.ask(now, OpKind::Query, key, 0)
    }

    /// Measures the way to the server and back.
    pub fn ping(&mut self, now: Instant) -> u64 {
        self.ask_checked(now, OpKind::Ping, Arc::from(""), 0)
    }

    /// The result of a request other than an acquire, if it has one; the request is over then.
    pub fn take_result(&mut self, id: u64) -> Option<OpResult> {
        self.results.remove(&id)
    }

    /// The caller gives up: nobody will take the result. A release or an extend goes on.
    pub fn forget(&mut self, now: Instant, id: u64) {
        self.results.remove(&id);
        if let Some(op) = self.ops.get_mut(&id) {
            op.watched = false;
            if matches!(op.kind, OpKind::Query | OpKind::Ping) {
                self.finish(now, id, |op| op.kind.failed(CallError::Unknown));
            }
        }
    }

    fn ask(&mut self, now: Instant, kind: OpKind, key: &str, token: u64) -> Result<u64, UsageError> {
        check_key(key).map_err(UsageError::Key)?;
        Ok(self.ask_checked(now, kind, Arc::from(key), token))
    }

    fn ask_checked(&mut self, now: Instant, kind: OpKind, key: Arc<str>, token: u64) -> u64 {
        let refusal = match self.check_running() {
            Ok(()) if self.ops.len() >= self.max_open => Some(UnsentCause::QueueFull),
            Ok(()) => None,
            Err(cause) => Some(cause),
        };
        if let Some(cause) = refusal {
            return self.give_result(kind.failed(CallError::Unsent(cause)));
        }
        let id = self.start(kind, key, token, now + TRANSPORT_DEADLINE, true);
        self.settle(now);
        id
    }

    /// A result that is there at once.
    pub(crate) fn give_result(&mut self, result: OpResult) -> u64 {
        let id = self.ids.draw();
        self.results.insert(id, result);
        self.outputs.push_back(Output::Ready(id));
        id
    }

    /// Puts a request into the queue.
    pub(crate) fn start(
        &mut self,
        kind: OpKind,
        key: Arc<str>,
        token: u64,
        deadline: Instant,
        watched: bool,
    ) -> u64 {
        let id = self.ids.draw();
        let mut op = Op { kind, key, token, sends: 0, watched, timer: None };
        self.timers.arm(Timer::Op(id), &mut op.timer, Some(deadline));
        self.ops.insert(id, op);
        self.pending.insert(id);
        id
    }

    /// Releases in the background the exact token of a grant that becomes no ticket.
    pub(crate) fn give_back(&mut self, key: Arc<str>, token: u64, surely_ended: Instant) {
        let kind = OpKind::Release { ticket: None, valid_until: None };
        self.start(kind, key, token, surely_ended, false);
    }

    /// `R` to a release.
    pub(crate) fn released(&mut self, now: Instant, op: u64) {
        self.finish(now, op, |_| OpResult::Release(ReleaseOutcome::Released));
    }

    /// `E` to an extend. It counts for its ticket even if the request is over by now: each sending may be answered.
    pub(crate) fn extended(&mut self, now: Instant, confirm: &Confirm, answered_s: u8) {
        let lease_s = confirm.extend_s.map_or(answered_s, |asked_s| asked_s.min(answered_s));
        let until = valid_until(confirm.sent, Duration::ZERO, lease_s, self.margin);
        if let Some(ticket) = confirm.ticket {
            self.ticket_confirmed(now, ticket, confirm.sent, until, answered_s);
        }
        if let Some(key) = confirm.outlives.clone() {
            self.give_back(key, confirm.token, surely_ended(now, answered_s));
        }
        let extended = Extended { lease: seconds(answered_s), valid_until: until };
        self.finish(now, confirm.op, |_| OpResult::Extend(Ok(extended)));
    }

    /// `N` to a release or an extend. To an extend it is the loss of the ticket, even if the request is over by now.
    pub(crate) fn not_held(&mut self, now: Instant, confirm: &Confirm) {
        if confirm.extend_s.is_none() {
            self.finish(now, confirm.op, |op| OpResult::Release(op.release_not_held(now)));
            return;
        }
        self.finish(now, confirm.op, |_| OpResult::Extend(Err(ExtendError::Lost(Lost::NotHeld))));
        if let Some(ticket) = confirm.ticket {
            self.lose(now, ticket, Lost::NotHeld);
        }
    }

    /// The deadline of a request has come. With a release the lease has surely ended, by what was heard of it: an extend
    /// that is confirmed later proves the contrary.
    pub(crate) fn op_due(&mut self, now: Instant, id: u64) {
        if let Some(Op { kind: OpKind::Release { ticket: Some(ticket), .. }, key, .. }) = self.ops.get(&id) {
            let confirms = self.sessions.iter_mut().flat_map(|session| &mut session.confirms);
            for confirm in confirms.filter(|confirm| confirm.ticket == Some(*ticket)) {
                confirm.outlives = Some(key.clone());
            }
        }
        self.finish_unanswered(now, id, self.budget_ended());
    }

    /// A request is over.
    pub(crate) fn finish(&mut self, now: Instant, id: u64, result: impl FnOnce(&Op) -> OpResult) {
        let Some(mut op) = self.ops.remove(&id) else {
            return;
        };
        self.pending.remove(&id);
        self.timers.arm(Timer::Op(id), &mut op.timer, None);
        let result = result(&op);
        if let Some(ticket) = op.kind.ticket() {
            self.ticket_request_over(now, ticket, id, &result);
        }
        if op.watched {
            self.results.insert(id, result);
            self.outputs.push_back(Output::Ready(id));
        }
    }

    /// The releases under way of tickets that the server has confirmed once more live until that lease has ended.
    pub(crate) fn release_until(&mut self, release: &Releasing, surely_ended: Instant) {
        if let Releasing::Running(id) = release
            && let Some(op) = self.ops.get_mut(id)
        {
            self.timers.arm(Timer::Op(*id), &mut op.timer, Some(surely_ended));
        }
    }
}

impl Op {
    /// What is known about a request that will not be answered.
    pub(crate) fn unanswered(&self, cause: UnsentCause) -> CallError {
        if self.sends == 0 { CallError::Unsent(cause) } else { CallError::Unknown }
    }

    /// What `N` to a release means: after an earlier send may have arrived, that send may have done it, and surely did
    /// if the lease cannot have ended yet.
    fn release_not_held(&self, now: Instant) -> ReleaseOutcome {
        match self.kind {
            _ if self.sends == 1 => ReleaseOutcome::NotHeld,
            OpKind::Release { valid_until: Some(until), .. } if now < until => ReleaseOutcome::Released,
            _ => ReleaseOutcome::Unknown,
        }
    }
}

fn check_token(token: u64) -> Result<(), UsageError> {
    if token == 0 || token & CLIENT_ID_BIT != 0 {
        return Err(UsageError::TokenOutOfRange);
    }
    Ok(())
}
