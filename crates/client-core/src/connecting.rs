//! Sessions: opening, welcome, server ids, suspicion, the end (docs/client-contract.md, rules 8, 16 and 17).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use lockstead_proto::{ErrorCode, VERSION, Welcome, WelcomeText};

use crate::call::CallState;
use crate::core::{Core, Output};
use crate::op::Op;
use crate::outcome::{AcquireError, CallError, IndeterminateCause, Lost, UnsentCause};
use crate::servers::Shown;
use crate::session::{Session, SessionId, Stage};
use crate::time::Instant;

/// A client has no more connections than this, the suspect ones and those being opened included.
const MAX_SESSIONS: usize = 4;

impl Core {
    /// The connection is open.
    pub fn connected(&mut self, now: Instant, id: SessionId) {
        if let Some(session) = self.session(id) {
            session.stage = Stage::Greeting;
            session.since = now;
        }
    }

    /// The connection could not be opened, or its end or an error was read from it or met in writing. Everything that
    /// was received before has been handed in. `why` is for people: what the system said.
    pub fn closed(&mut self, now: Instant, id: SessionId, why: &str) {
        self.remove_session(now, id, why);
        self.settle(now);
    }

    /// Closes a session that cannot be used any more, for the reason that `why` gives to people.
    pub(crate) fn break_session(&mut self, now: Instant, id: SessionId, reset: bool, why: &str) {
        if self.remove_session(now, id, why) {
            self.outputs.push_back(Output::Close { session: id, reset });
        }
    }

    /// What is possibly sent and unanswered is Indeterminate; other requests are sent again.
    fn remove_session(&mut self, now: Instant, id: SessionId, why: &str) -> bool {
        let Some(at) = self.sessions.iter().position(|session| session.id == id) else {
            return false;
        };
        let session = self.sessions.remove(at);
        self.end_sent_calls(id);
        if session.suspect.is_none() {
            send_again(&session, &self.ops, &mut self.pending);
        }
        if session.answered {
            self.backoff.reset();
        }
        if !self.has_sound_session() {
            self.retry_at = now + self.backoff.fail(self.addresses.len());
            self.trouble = Some(self.at_address(session.address, why));
        }
        true
    }

    fn at_address(&self, address: usize, what: &str) -> Arc<str> {
        Arc::from(format!("{}: {what}", self.addresses[address]))
    }

    /// The time for sending something is over: where was a server looked for last, and what came of it?
    pub(crate) fn budget_ended(&self) -> UnsentCause {
        let silent = |session: &Session| self.at_address(session.address, session.silence());
        UnsentCause::BudgetEnded { last: self.trouble.clone().or_else(|| self.sessions.last().map(silent)) }
    }

    pub(crate) fn has_sound_session(&self) -> bool {
        self.sessions.iter().any(Session::sound)
    }

    /// When another connection is to be opened; `None`: none is needed, or there are enough.
    pub(crate) fn connect_due(&self) -> Option<Instant> {
        let waiting = !self.unsent.is_empty() || !self.pending.is_empty();
        if !waiting || self.has_sound_session() || self.sessions.len() >= MAX_SESSIONS {
            return None;
        }
        let promises = self.sessions.iter().filter_map(Session::promise_ends);
        promises.chain([self.retry_at]).max()
    }

    pub(crate) fn connect_if_needed(&mut self, now: Instant) {
        if self.connect_due().is_some_and(|at| at <= now) {
            let session = SessionId(self.sessions_opened);
            self.sessions_opened += 1;
            let address = self.next_address;
            self.leave_address(address);
            self.sessions.push(Session::new(session, address, self.ids.draw(), now));
            self.outputs.push_back(Output::Connect { session, address });
        }
    }

    /// The next connection goes to another address, if there is one.
    fn leave_address(&mut self, address: usize) {
        self.next_address = (address + 1) % self.addresses.len();
    }

    /// `H`: the session may be used if it leads to the right server. The welcome must be in the one version there is.
    pub(crate) fn welcome(&mut self, now: Instant, id: SessionId, frame: Welcome<'_>) {
        let Some(session) = self.session(id) else { return };
        if session.stage != Stage::Greeting || session.hello != frame.id {
            self.stray(id, frame.id);
            return;
        }
        let address = session.address;
        if frame.version != VERSION {
            let why = format!("its server speaks version {} of the protocol", frame.version);
            self.break_session(now, id, false, &why);
            return;
        }
        let others_sound = self.has_sound_session();
        let shown = self.servers.welcome(address, WelcomeText::parse(frame.text).id);
        if shown == Shown::Other {
            let cause = UnsentCause::OtherServer;
            self.break_session(now, id, false, &cause.to_string());
            self.end_unsent(now, &cause);
            return;
        }
        self.next_address = address;
        self.retry_at = now;
        self.trouble = None;
        if let Some(session) = self.session(id) {
            session.stage = Stage::Ready;
        }
        if shown == Shown::TakenOver {
            self.take_over(now, id);
        } else if others_sound {
            self.break_session(now, id, false, "another session is in use");
        }
    }

    /// Another server is the client's from now on: nothing of the old one is left.
    fn take_over(&mut self, now: Instant, kept: SessionId) {
        let sessions: Vec<SessionId> = self.sessions.iter().map(|session| session.id).collect();
        for id in sessions.into_iter().filter(|&id| id != kept) {
            self.break_session(now, id, true, "another server answers at the address now");
        }
        let granted = self.calls.iter().filter(|(_, call)| matches!(call.state, CallState::Granted(_)));
        let granted: Vec<u64> = granted.map(|(&owner, _)| owner).collect();
        for owner in granted {
            self.end_indeterminate(owner, IndeterminateCause::ServerChanged);
        }
        let tickets: Vec<u64> = self.tickets.keys().copied().collect();
        for ticket in tickets {
            self.lose(now, ticket, Lost::ServerChanged);
        }
        let old: Vec<u64> =
            self.ops.iter().filter(|(_, op)| op.kind.names_token()).map(|(&id, _)| id).collect();
        for id in old {
            self.finish_unanswered(now, id, UnsentCause::OtherServer);
        }
    }

    /// `X` to the hello: trying again cannot help.
    pub(crate) fn refuse_client(&mut self, now: Instant, id: SessionId, code: ErrorCode, text: &str) {
        let cause = UnsentCause::Refused { code, message: String::from(text) };
        self.break_session(now, id, false, &cause.to_string());
        self.end_unsent(now, &cause);
    }

    /// What waits for a session, and was never sent, ends at once. Releases of tickets go on: another address, or the
    /// same one later, may take them before the lease ends.
    fn end_unsent(&mut self, now: Instant, cause: &UnsentCause) {
        if self.has_sound_session() {
            return;
        }
        self.end_unsent_calls(cause);
        let ends = |op: &Op| op.watched && op.kind.ticket().is_none() && op.sends == 0;
        let ids: Vec<u64> = self.ops.iter().filter(|(_, op)| ends(op)).map(|(&id, _)| id).collect();
        for id in ids {
            self.finish(now, id, |op| op.kind.failed(CallError::Unsent(cause.clone())));
        }
    }

    pub(crate) fn end_unsent_calls(&mut self, cause: &UnsentCause) {
        for owner in core::mem::take(&mut self.unsent) {
            self.end_call(owner, AcquireError::Unsent(cause.clone()));
        }
    }

    /// Looks after the sessions at which something is due.
    pub(crate) fn tend_sessions(&mut self, now: Instant) {
        let ids: Vec<SessionId> = self.sessions.iter().map(|session| session.id).collect();
        for id in ids {
            let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) else {
                continue;
            };
            if session.hopeless(now) {
                self.look(id);
            } else if session.sound() && session.unanswered(now) {
                session.suspect = Some(now);
                send_again(session, &self.ops, &mut self.pending);
                let address = session.address;
                self.leave_address(address);
                self.close_if_spent(id);
            } else if session.silent(now) {
                session.want_ping(now, || self.ids.draw());
            }
        }
    }

    /// A suspect session is closed when nothing is open on it.
    pub(crate) fn close_if_spent(&mut self, id: SessionId) {
        let spent = |session: &Session| session.id == id && session.suspect.is_some() && !session.in_use();
        if self.sessions.iter().any(spent) {
            self.sessions.retain(|session| session.id != id);
            self.outputs.push_back(Output::Close { session: id, reset: false });
        }
    }
}

/// What is unanswered on a session that is closed, or becomes suspect, is to be sent again; acquires never are.
fn send_again(session: &Session, ops: &BTreeMap<u64, Op>, pending: &mut BTreeSet<u64>) {
    let confirms = session.confirms.iter().map(|confirm| confirm.op);
    let asks = session.asks.iter().map(|ask| ask.id);
    pending.extend(confirms.chain(asks).filter(|id| ops.contains_key(id)));
}
