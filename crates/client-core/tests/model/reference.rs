//! What must be true, in the words of docs/client-contract.md: a small account of every call, token and server, fed with
//! what goes over the wires and with what the client tells the program.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockstead_client_core::{AcquireError, FLUSH, IndeterminateCause, Instant, SessionId, UnsentCause};
use lockstead_proto::{Answer, CLIENT_ID_BIT, ErrorAnswer, ErrorCode, Request, WelcomeText};

use crate::server::{Refusal, Server};
use crate::wire::Wire;

/// When everything works again, the client has a session by then.
const CONNECTING: Duration = Duration::from_secs(8);

/// Who a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    Named(String),
    Address(usize),
}

/// What the reference knows of a call.
#[derive(Debug)]
pub struct Call {
    pub wait_ms: u16,
    pub start: Instant,
    pub budget_end: Instant,
    pub deadline: Instant,
    pub lease_s: u8,
    /// The session on which a byte of it may have left.
    pub sent: Option<SessionId>,
    /// Its session has answered.
    pub answered: bool,
    /// That it was refused, and how.
    pub heard: Option<Refusal>,
    /// The token of its grant.
    pub token: Option<u64>,
    /// The program was told that it has ended.
    pub ready: bool,
    /// The program has its outcome, or has given it up.
    pub over: bool,
}

/// What became of a token whose grant the client has read.
#[derive(Debug)]
pub struct Token {
    pub owner: u64,
    /// The server that gave it.
    pub id: Id,
    /// When its lease has surely ended, by what the client has read.
    pub surely_ended: Instant,
    /// The program has, or had, its ticket.
    pub delivered: bool,
    /// The program has left it.
    pub left: bool,
    /// A release of it may have left.
    pub released: bool,
    /// Another server has taken over since.
    pub void: bool,
}

/// What a session must be after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Open,
    /// Open if the client has no other.
    Welcomed,
    Closed,
}

#[derive(Debug, Default)]
pub struct Reference {
    pub calls: BTreeMap<u64, Call>,
    pub tokens: BTreeMap<u64, Token>,
    /// The client's server, and the one that each address has shown.
    pub current: Option<Id>,
    shown: [Option<Id>; 2],
    /// When the last refusal, other server and takeover were read.
    refused: Option<Instant>,
    other: Option<Instant>,
    taken_over: Option<Instant>,
    pub shut_down: Option<Instant>,
    /// How calls have ended, in a word each.
    pub seen: BTreeSet<&'static str>,
    pub stopped: bool,
    /// Answers that nobody asked for, and waits that cannot be.
    pub expected_faults: usize,
    pub faults: usize,
}

impl Reference {
    pub fn call(&mut self, now: Instant, owner: u64, wait_ms: u16, lease_s: u8) {
        let wait_s = u64::from(wait_ms).div_ceil(1_000);
        let (budget, allowed) = if wait_ms == 0 { (5, 5) } else { (wait_s, wait_s + 2) };
        let call = Call {
            wait_ms,
            start: now,
            budget_end: now + Duration::from_secs(budget),
            deadline: now + Duration::from_secs(allowed),
            lease_s,
            sent: None,
            answered: false,
            heard: None,
            token: None,
            ready: false,
            over: false,
        };
        assert!(self.shut_down.is_none(), "nothing is taken after a shutdown");
        assert!(owner & CLIENT_ID_BIT != 0);
        assert!(self.calls.insert(owner, call).is_none(), "a fresh owner for each call");
    }

    /// The first byte of a request may have left.
    pub fn sent(&mut self, now: Instant, session: SessionId, wire: &Wire, request: Request<'_>, first: bool) {
        let hello = matches!(request, Request::Hello(_));
        assert_eq!(hello, first, "hello is the first frame and only that");
        assert!(hello || wire.id.is_some(), "nothing before the welcome");
        assert!(hello || wire.id == self.current, "nothing to a server that is not the client's");
        match request {
            Request::Acquire(acquire) => {
                let call = self.calls.get_mut(&acquire.owner).unwrap();
                assert_eq!(call.sent, None, "never two sends of one owner");
                assert!(!call.over, "a call that is over is not sent");
                assert!(now < call.budget_end, "nothing is sent after the budget end");
                call.sent = Some(session);
                let left = call.budget_end.since(now).as_nanos().div_ceil(1_000_000_000);
                let wait_s = if call.wait_ms == 0 { 0 } else { left };
                assert_eq!(u128::from(acquire.wait_s), wait_s, "the wait is what is left, rounded up");
                assert_eq!(acquire.lease_s, call.lease_s);
            }
            Request::Cancel(cancel) => {
                let call = &self.calls[&cancel.owner];
                assert_eq!(call.sent, Some(session), "an attempt is cancelled where it was sent");
                assert!(!call.answered, "and only while it is open");
            }
            Request::Release(release) => {
                let token = self.tokens.get_mut(&release.token).expect("only tokens that were read");
                assert_eq!(Some(&token.id), wire.id.as_ref(), "only to the server that gave it");
                assert!(!token.void, "and not after another has taken over");
                token.released = true;
            }
            Request::Extend(extend) => {
                let token = &self.tokens[&extend.token];
                assert_eq!(Some(&token.id), wire.id.as_ref(), "only to the server that gave it");
                assert!(!token.released, "nothing is extended after its release");
                assert!(token.delivered && !token.void);
            }
            Request::Query(_) | Request::Ping(_) | Request::Hello(_) => {}
        }
    }

    /// A whole answer reaches the client on an open session.
    pub fn read(
        &mut self,
        now: Instant,
        session: SessionId,
        wire: &mut Wire,
        server: &Server,
        answer: Answer<'_>,
    ) -> Then {
        match answer {
            Answer::Acquired(frame) => {
                if self.answers_call(session, frame.owner, None) {
                    self.expected_faults += usize::from(frame.waited_ms == u32::MAX / 4);
                    self.calls.get_mut(&frame.owner).unwrap().token = Some(frame.token);
                    assert_eq!(server.grants[&frame.token].owner, frame.owner);
                    let token = Token {
                        owner: frame.owner,
                        id: wire.id.clone().unwrap(),
                        surely_ended: surely_ended(now, frame.lease_s),
                        delivered: false,
                        left: false,
                        released: false,
                        void: false,
                    };
                    self.tokens.insert(frame.token, token);
                }
            }
            Answer::Timeout(frame) => {
                self.answers_call(session, frame.owner, Some(Refusal::Timeout));
            }
            Answer::Busy(frame) => {
                self.answers_call(session, frame.owner, Some(Refusal::Busy(frame.reason)));
            }
            Answer::Extended(frame) => {
                let token = self.tokens.get_mut(&frame.token).unwrap();
                token.surely_ended = token.surely_ended.max(surely_ended(now, frame.lease_s));
            }
            Answer::Welcome(frame) => return self.welcomed(now, wire, frame.version, frame.id, frame.text),
            Answer::Error(frame) => return self.error(now, session, wire, frame),
            Answer::Released(_) | Answer::NotHeld(_) | Answer::State(_) | Answer::Pong(_) => {}
        }
        Then::Open
    }

    /// Whether an answer is the one to an attempt of this session; if not it is a fault of the server.
    fn answers_call(&mut self, session: SessionId, owner: u64, heard: Option<Refusal>) -> bool {
        match self.calls.get_mut(&owner) {
            Some(call) if call.sent == Some(session) && !call.answered => {
                call.answered = true;
                call.heard = heard;
                true
            }
            _ => {
                self.expected_faults += 1;
                false
            }
        }
    }

    fn welcomed(&mut self, now: Instant, wire: &mut Wire, version: u8, id: u64, text: &str) -> Then {
        if wire.id.is_some() || wire.hello != Some(id) {
            self.expected_faults += 1;
            return Then::Open;
        }
        if version != 1 {
            return Then::Closed;
        }
        let named = WelcomeText::parse(text).id.map(|id| Id::Named(id.to_owned()));
        let id = Some(named.unwrap_or(Id::Address(wire.address)));
        if self.current.is_some() && self.current != id {
            if self.shown[wire.address] != self.current {
                self.other = Some(now);
                return Then::Closed;
            }
            self.taken_over = Some(now);
            self.tokens.values_mut().for_each(|token| token.void = true);
        }
        self.current.clone_from(&id);
        self.shown[wire.address].clone_from(&id);
        wire.id = id;
        Then::Welcomed
    }

    fn error(&mut self, now: Instant, session: SessionId, wire: &Wire, frame: ErrorAnswer<'_>) -> Then {
        let ErrorAnswer { code, id, .. } = frame;
        if wire.id.is_none() && (Some(id) == wire.hello || id == 0) {
            if matches!(
                code,
                ErrorCode::NotAuthenticated | ErrorCode::Forbidden | ErrorCode::UnsupportedVersion
            ) {
                self.refused = Some(now);
            }
            return Then::Closed;
        }
        if id & CLIENT_ID_BIT != 0 {
            self.answers_call(session, id, Some(Refusal::Rejected));
        }
        if id == 0 || code.closes() { Then::Closed } else { Then::Open }
    }

    /// The program takes the outcome of a call.
    pub fn outcome(
        &mut self,
        now: Instant,
        wires: &BTreeMap<SessionId, Wire>,
        owner: u64,
        error: &AcquireError,
    ) {
        let call = &self.calls[&owner];
        match error {
            AcquireError::Unsent(cause) => {
                self.seen.insert(cause.as_str());
                assert_eq!(call.sent, None, "unsent means that no byte has left");
                let since = match cause {
                    UnsentCause::BudgetEnded { .. } => Some(call.budget_end).filter(|&at| at <= now),
                    UnsentCause::ShutDown => self.shut_down,
                    UnsentCause::Refused { .. } => self.refused,
                    UnsentCause::OtherServer => self.other,
                    other => panic!("{other:?}"),
                };
                assert!(since.is_some_and(|at| at >= call.start), "{cause:?} has a reason");
            }
            AcquireError::Indeterminate(cause) => {
                self.seen.insert(cause.as_str());
                assert!(call.sent.is_some(), "indeterminate means sent");
                let closed = wires[&call.sent.unwrap()].closed;
                assert!(match cause {
                    IndeterminateCause::NoAnswer => now >= call.deadline && !call.answered && closed,
                    IndeterminateCause::SessionBroke => !call.answered && closed,
                    IndeterminateCause::TooLate => call.token.is_some(),
                    IndeterminateCause::ServerChanged => call.token.is_some() && self.taken_over.is_some(),
                    IndeterminateCause::ShutDown => self.shut_down.is_some(),
                    other => panic!("{other:?}"),
                });
            }
            definite => {
                let (said, word) = match definite {
                    AcquireError::Timeout => (Refusal::Timeout, "timeout"),
                    AcquireError::Busy(reason) => (Refusal::Busy(*reason), "busy"),
                    AcquireError::Rejected { .. } => (Refusal::Rejected, "rejected"),
                    other => panic!("{other:?}"),
                };
                self.seen.insert(word);
                assert_eq!(Some(said), call.heard, "definite means answered");
            }
        }
    }

    /// The program takes a ticket.
    pub fn delivered(&mut self, now: Instant, server: &Server, owner: u64, token: u64, valid_until: Instant) {
        let call = &self.calls[&owner];
        assert!(now < call.deadline, "no ticket after the deadline");
        assert!(self.shut_down.is_none(), "no ticket after a shutdown");
        assert_eq!(call.token, Some(token), "no cross-talk");
        assert!(now < valid_until, "no ticket past its validity");
        assert!(now < server.grants[&token].ends, "no ticket past its lease");
        let fate = self.tokens.get_mut(&token).unwrap();
        assert!(!fate.void, "no ticket of another server");
        assert!(!fate.delivered && !fate.released, "a token is delivered once, or given back");
        fate.delivered = true;
        self.seen.insert("ticket");
    }

    /// Every call ends at the latest at its deadline, and everything with a shutdown.
    pub fn check_deadlines(&self, now: Instant) {
        let stopped = self.shut_down.is_some_and(|at| now >= at + FLUSH);
        assert!(!stopped || self.stopped, "a shutdown is bounded");
        for (owner, call) in &self.calls {
            let late = now >= call.deadline || (call.sent.is_none() && now >= call.budget_end) || stopped;
            assert!(!late || call.ready || call.over, "{owner} is still open");
        }
    }

    /// Every grant is delivered, or released by its exact token; or it waits for that, while its lease may run.
    pub fn check_grants(&self, now: Instant, waiting: bool) {
        for (number, token) in &self.tokens {
            let call = &self.calls[&token.owner];
            let at_the_gate = !call.over && now < call.deadline;
            let cared_for = token.delivered || token.released || at_the_gate || waiting;
            let over = token.surely_ended <= now || token.void;
            assert!(cared_for || over || self.stopped, "the grant of token {number} is forgotten");
        }
    }

    /// Everything could be sent and answered since `rest`: whatever the program does not have any more is free, unless
    /// it was given up before for good reason.
    pub fn check_rest(&self, rest: Instant, until: Instant, servers: &[Server], in_use: &BTreeSet<u64>) {
        for (number, token) in &self.tokens {
            let grant = servers.iter().find_map(|server| server.grants.get(number)).unwrap();
            let kept = token.left || in_use.contains(&token.owner);
            let given_up = token.surely_ended <= rest + CONNECTING || token.void;
            let free = grant.released || grant.ends <= until;
            assert!(free || kept || given_up || self.stopped, "token {number} is not released");
        }
    }
}

/// When the lease of an answer has surely ended.
fn surely_ended(received: Instant, lease_s: u8) -> Instant {
    let lease = Duration::from_secs(lease_s.into());
    received + lease + lease / 1_000 + Duration::from_millis(1)
}
