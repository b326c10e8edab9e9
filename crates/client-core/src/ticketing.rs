//! Tickets: validity, loss, keep-alive, release (docs/client-contract.md, rules 12 to 15).

use alloc::sync::Arc;
use core::time::Duration;

use crate::core::{Core, Output};
use crate::lease::surely_ended;
use crate::op::{OpKind, OpResult};
use crate::outcome::{ExtendError, Lost, ReleaseOutcome, UnsentCause};
use crate::ticket::{KeepAlive, Releasing, TicketView};
use crate::time::Instant;
use crate::timers::Timer;

/// What never changes about a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketFacts {
    /// The key that is locked.
    pub key: Arc<str>,
    /// The token: authority over the lock, and fencing token.
    pub token: u64,
    /// The lease in seconds: the smaller of the one asked for and the one granted.
    pub lease_s: u8,
    /// How long the request was queued, as the server says.
    pub waited: Duration,
}

impl Core {
    /// What never changes about a ticket in use.
    pub fn ticket_facts(&self, ticket: u64) -> Option<TicketFacts> {
        self.tickets.get(&ticket).map(|ticket| TicketFacts {
            key: ticket.key.clone(),
            token: ticket.token,
            lease_s: ticket.lease_s,
            waited: ticket.waited,
        })
    }

    /// What is known about a ticket in use at `now`. A ticket whose time is over is lost from here on, whether or not
    /// its timer has fired.
    pub fn ticket(&mut self, now: Instant, ticket: u64) -> Option<TicketView> {
        self.expire(now, ticket);
        self.tickets
            .get(&ticket)
            .map(|ticket| TicketView { valid_until: ticket.valid_until, lost: ticket.lost })
    }

    /// Extends the ticket by itself from now on, at each third of its lease; with `max`, to no later than that from
    /// now, rounded up to a second. Replaces what was set before.
    pub fn keep_alive(&mut self, now: Instant, id: u64, max: Option<Duration>) {
        self.expire(now, id);
        let Some(ticket) = self.tickets.get_mut(&id).filter(|ticket| ticket.lost.is_none()) else {
            return;
        };
        ticket.keep_alive = Some(KeepAlive {
            next: ticket.renew_at(),
            until: max.map(|max| now + max),
            extend: ticket.keep_alive.and_then(|keep_alive| keep_alive.extend),
        });
        self.arm_ticket(id);
    }

    /// Extends a ticket once. The result comes before its present `valid_until`.
    pub fn extend_ticket(&mut self, now: Instant, id: u64, lease: Duration) -> Result<u64, ExtendError> {
        let lease_s = self.lease_seconds(lease)?;
        self.expire(now, id);
        if let Some(lost) = self.tickets.get(&id).and_then(|ticket| ticket.lost) {
            return Err(ExtendError::Lost(lost));
        }
        if self.ops.len() >= self.max_open {
            return Err(ExtendError::Unsent(UnsentCause::QueueFull));
        }
        let op = self.start_extend(id, lease_s, true);
        self.settle(now);
        op.ok_or(ExtendError::Lost(Lost::Ended))
    }

    /// Ends a ticket by releasing it; gives the id of the result. Bounded by the end of its lease.
    pub fn release_ticket(&mut self, now: Instant, id: u64) -> Option<u64> {
        self.expire(now, id);
        let result = self.end_use(now, id, true);
        self.settle(now);
        result
    }

    /// Ends a ticket by releasing it in the background.
    pub fn drop_ticket(&mut self, now: Instant, id: u64) {
        self.end_use(now, id, false);
        self.settle(now);
    }

    /// Ends a ticket without releasing it: the lock is held until its lease ends.
    pub fn leave_ticket(&mut self, now: Instant, id: u64) {
        self.end_extends(now, id, Lost::Ended);
        if let Some(mut ticket) = self.tickets.remove(&id) {
            self.timers.arm(Timer::Ticket(id), &mut ticket.timer, None);
            self.outputs.push_back(Output::Lost(id));
        }
    }

    /// The program gives its ticket back.
    fn end_use(&mut self, now: Instant, id: u64, watched: bool) -> Option<u64> {
        self.end_extends(now, id, Lost::Ended);
        let ticket = self.tickets.get_mut(&id)?;
        let sure_until = Some(ticket.valid_until);
        ticket.in_use = false;
        if ticket.lost.is_none() {
            ticket.lost = Some(Lost::Ended);
            self.outputs.push_back(Output::Lost(id));
        }
        self.timers.arm(Timer::Ticket(id), &mut ticket.timer, None);
        match ticket.release.clone() {
            Releasing::No => self.start_release(id, sure_until, watched),
            Releasing::Running(running) => {
                if let Some(op) = self.ops.get_mut(&running) {
                    op.watched |= watched;
                }
                Some(running)
            }
            Releasing::Done(outcome) => {
                self.tickets.remove(&id);
                watched.then(|| self.give_result(OpResult::Release(outcome)))
            }
        }
    }

    /// Before `sure_until` a server that does not know the token has freed it for this release.
    fn start_release(&mut self, id: u64, sure_until: Option<Instant>, watched: bool) -> Option<u64> {
        let ticket = self.tickets.get(&id)?;
        let kind = OpKind::Release { ticket: Some(id), valid_until: sure_until };
        let (key, token, deadline) = (ticket.key.clone(), ticket.token, ticket.surely_ended);
        let op = self.start(kind, key, token, deadline, watched);
        self.tickets.get_mut(&id)?.release = Releasing::Running(op);
        Some(op)
    }

    fn start_extend(&mut self, id: u64, lease_s: u8, watched: bool) -> Option<u64> {
        let ticket = self.tickets.get(&id)?;
        let kind = OpKind::Extend { ticket: Some(id), lease_s };
        let (key, token, deadline) = (ticket.key.clone(), ticket.token, ticket.valid_until);
        let op = self.start(kind, key, token, deadline, watched);
        self.tickets.get_mut(&id)?.extends.push(op);
        Some(op)
    }

    /// Something is due: the end of the ticket, or an extend of keep-alive.
    pub(crate) fn ticket_due(&mut self, now: Instant, id: u64) {
        self.expire(now, id);
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        if let Some(KeepAlive { next, until, extend: None }) = ticket.keep_alive
            && next <= now
        {
            let lease_s = ticket.keep_alive_lease_s(now, until);
            let extend = lease_s.and_then(|lease_s| self.start_extend(id, lease_s, false));
            if let Some(ticket) = self.tickets.get_mut(&id) {
                ticket.keep_alive = extend.map(|op| KeepAlive { next, until, extend: Some(op) });
            }
        }
        self.arm_ticket(id);
    }

    /// `E`: the server confirmed the lease of a ticket once more.
    pub(crate) fn ticket_confirmed(
        &mut self,
        now: Instant,
        id: u64,
        sent: Instant,
        until: Instant,
        answered_s: u8,
    ) {
        self.expire(now, id);
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        ticket.surely_ended = ticket.surely_ended.max(surely_ended(now, answered_s));
        let (release, ended) = (ticket.release.clone(), ticket.surely_ended);
        if ticket.lost.is_none() {
            ticket.valid_until = ticket.valid_until.max(until);
            ticket.confirmed = ticket.confirmed.max(sent);
        }
        self.release_until(&release, ended);
    }

    /// A release or extend of a ticket is over.
    pub(crate) fn ticket_request_over(&mut self, now: Instant, id: u64, op: u64, result: &OpResult) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        match result {
            OpResult::Release(outcome) if ticket.in_use => ticket.release = Releasing::Done(outcome.clone()),
            OpResult::Release(_) => {
                self.tickets.remove(&id);
                return;
            }
            OpResult::Extend(result) => {
                ticket.extends.retain(|&other| other != op);
                let (renewed, retry) = (ticket.renew_at(), now + ticket.retry());
                if let Some(keep_alive) = &mut ticket.keep_alive
                    && keep_alive.extend == Some(op)
                {
                    keep_alive.extend = None;
                    keep_alive.next = if result.is_ok() { renewed } else { retry };
                }
            }
            OpResult::Query(_) | OpResult::Ping(_) => {}
        }
        self.arm_ticket(id);
    }

    fn arm_ticket(&mut self, id: u64) {
        if let Some(ticket) = self.tickets.get_mut(&id) {
            let due = ticket.due();
            self.timers.arm(Timer::Ticket(id), &mut ticket.timer, due);
        }
    }

    fn expire(&mut self, now: Instant, id: u64) {
        if self.tickets.get(&id).is_some_and(|ticket| now >= ticket.valid_until) {
            self.lose(now, id, Lost::Expired);
        }
    }

    /// The ticket is lost for good; its exact token is released.
    pub(crate) fn lose(&mut self, now: Instant, id: u64, why: Lost) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        if ticket.lost.is_some() {
            return;
        }
        ticket.lost = Some(why);
        ticket.keep_alive = None;
        let sure_until = (why != Lost::NotHeld).then_some(ticket.valid_until);
        self.end_extends(now, id, why);
        self.arm_ticket(id);
        self.outputs.push_back(Output::Lost(id));
        if why != Lost::ServerChanged {
            self.start_release(id, sure_until, false);
        } else if let Some(ticket) = self.tickets.get_mut(&id) {
            // There is nobody left to release it to.
            ticket.release = Releasing::Done(ReleaseOutcome::Unsent(UnsentCause::OtherServer));
        }
    }

    pub(crate) fn finish_unanswered(&mut self, now: Instant, id: u64, cause: UnsentCause) {
        self.finish(now, id, |op| op.kind.failed(op.unanswered(cause)));
    }

    /// No extend of this ticket matters any more.
    fn end_extends(&mut self, now: Instant, id: u64, why: Lost) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        for op in core::mem::take(&mut ticket.extends) {
            self.finish(now, op, |_| OpResult::Extend(Err(ExtendError::Lost(why))));
        }
    }
}
