//! A small server: one queue for each key, time handed in, answers appended to each session's output. It keeps the
//! protocol, except for the whims that a history asks for, and its clock may run at another rate than the client's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lockstead_client_core::{Instant, SessionId};
use lockstead_proto::{
    Acquire, Acquired, Answer, Busy, BusyReason, Cancel, ErrorAnswer, ErrorCode, Extend, Extended, Hello,
    KeyState, NotHeld, Pong, Query, Release, Released, Request, State, Timeout, Welcome,
};

use crate::steps::Greeting;

/// More waiters for one key are told busy.
const QUEUE: usize = 3;

/// Tokens of different servers differ, so that one that reaches the wrong server is seen.
const TOKENS: u64 = 1_000_000;

/// How fast the server's clock runs, by the client's: at the bounds that the contract assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Slow,
    Even,
    Fast,
}

impl Pace {
    /// How long `span` of the server's time is by the client's clock.
    fn lasts(self, span: Duration) -> Duration {
        let per_mille = [999, 1_000, 1_001][self as usize];
        Duration::from_nanos((span.as_nanos() * 1_000 / per_mille) as u64)
    }

    /// How much time passes for the server in `span` of the client's.
    fn passes(self, span: Duration) -> Duration {
        let per_mille = [999, 1_000, 1_001][self as usize];
        Duration::from_nanos((span.as_nanos() * per_mille / 1_000) as u64)
    }
}

#[derive(Debug, Default)]
struct Key {
    holder: Option<u64>,
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    session: SessionId,
    owner: u64,
    lease_s: u8,
    read: Instant,
    ends: Instant,
}

/// What became of a grant.
#[derive(Debug)]
pub struct Grant {
    pub owner: u64,
    pub key: String,
    /// When the server's lease ends, or ended.
    pub ends: Instant,
    /// Freed by a release.
    pub released: bool,
}

/// How an attempt ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Timeout,
    Busy(BusyReason),
    Rejected,
}

#[derive(Debug)]
pub struct Server {
    /// The text of its welcome.
    pub names_itself: &'static str,
    pace: Pace,
    pub greeting: Greeting,
    pub failing: bool,
    pub lie: bool,
    pub reject: bool,
    keys: BTreeMap<String, Key>,
    pub grants: BTreeMap<u64, Grant>,
    last_token: u64,
    /// What is to be sent, in order.
    pub output: Vec<(SessionId, Vec<u8>)>,
    /// The owners that were answered without a grant.
    refused: BTreeSet<u64>,
}

impl Server {
    pub fn new(number: u64, names_itself: &'static str, pace: Pace) -> Self {
        Self {
            names_itself,
            pace,
            greeting: Greeting::Welcome,
            failing: false,
            lie: false,
            reject: false,
            keys: BTreeMap::new(),
            grants: BTreeMap::new(),
            last_token: number * TOKENS,
            output: Vec::new(),
            refused: BTreeSet::new(),
        }
    }

    pub fn request(&mut self, now: Instant, session: SessionId, request: Request<'_>) {
        self.advance(now);
        match request {
            Request::Acquire(acquire) => self.acquire(now, session, &acquire),
            Request::Release(release) => self.release(now, session, &release),
            Request::Extend(extend) => self.extend(now, session, &extend),
            Request::Cancel(cancel) => self.cancel(session, &cancel),
            Request::Query(query) => self.query(session, &query),
            Request::Ping(ping) => self.answer(session, Answer::Pong(Pong { id: ping.id })),
            Request::Hello(hello) => self.greet(session, &hello),
        }
    }

    fn acquire(&mut self, now: Instant, session: SessionId, acquire: &Acquire<'_>) {
        let wait = Duration::from_secs(acquire.wait_s.into()) + Duration::from_millis(1);
        let waiter = Waiter {
            session,
            owner: acquire.owner,
            lease_s: acquire.lease_s,
            read: now,
            ends: now + self.pace.lasts(wait),
        };
        let key = self.keys.entry(acquire.key.to_owned()).or_default();
        if std::mem::take(&mut self.reject) {
            self.refuse(session, acquire.owner, Refusal::Rejected);
        } else if self.failing {
            self.refuse(session, acquire.owner, Refusal::Busy(BusyReason::NotDurable));
        } else if key.holder.is_none() {
            self.grant(now, acquire.key, &waiter);
        } else if acquire.wait_s == 0 {
            self.refuse(session, acquire.owner, Refusal::Timeout);
        } else if key.queue.len() >= QUEUE {
            self.refuse(session, acquire.owner, Refusal::Busy(BusyReason::KeyQueueFull));
        } else {
            key.queue.push_back(waiter);
        }
    }

    fn grant(&mut self, now: Instant, key: &str, waiter: &Waiter) {
        self.last_token += 1;
        let token = self.last_token;
        self.keys.get_mut(key).unwrap().holder = Some(token);
        let ends = self.lease_end(now, waiter.lease_s);
        let grant = Grant { owner: waiter.owner, key: key.to_owned(), ends, released: false };
        self.grants.insert(token, grant);
        let waited = self.pace.passes(now.since(waiter.read)).saturating_sub(Duration::from_millis(1));
        let waited_ms = if std::mem::take(&mut self.lie) { u32::MAX / 4 } else { waited.as_millis() as u32 };
        let acquired = Acquired { owner: waiter.owner, token, lease_s: waiter.lease_s, waited_ms };
        self.answer(waiter.session, Answer::Acquired(acquired));
    }

    fn lease_end(&self, now: Instant, lease_s: u8) -> Instant {
        now + self.pace.lasts(Duration::from_secs(lease_s.into()) + Duration::from_millis(1))
    }

    fn release(&mut self, now: Instant, session: SessionId, release: &Release<'_>) {
        let token = release.token;
        if self.held(release.key, token) {
            self.free(now, token, true);
            self.answer(session, Answer::Released(Released { token }));
        } else {
            self.answer(session, Answer::NotHeld(NotHeld { token }));
        }
    }

    fn extend(&mut self, now: Instant, session: SessionId, extend: &Extend<'_>) {
        let (token, lease_s) = (extend.token, extend.lease_s);
        if !self.held(extend.key, token) {
            self.answer(session, Answer::NotHeld(NotHeld { token }));
        } else if self.failing {
            let code = ErrorCode::NotDurable;
            self.answer(session, Answer::Error(ErrorAnswer { code, id: token, text: "" }));
        } else {
            let ends = self.lease_end(now, lease_s);
            let grant = self.grants.get_mut(&token).unwrap();
            grant.ends = grant.ends.max(ends);
            self.answer(session, Answer::Extended(Extended { token, lease_s }));
        }
    }

    fn cancel(&mut self, session: SessionId, cancel: &Cancel<'_>) {
        let Some(key) = self.keys.get_mut(cancel.key) else {
            return;
        };
        let place = key.queue.iter().position(|w| w.session == session && w.owner == cancel.owner);
        if let Some(at) = place {
            key.queue.remove(at);
            self.refuse(session, cancel.owner, Refusal::Timeout);
        }
    }

    fn query(&mut self, session: SessionId, query: &Query<'_>) {
        let state = State { id: query.id, state: KeyState::Free, remaining_ms: 0, waiters: 0 };
        self.answer(session, Answer::State(state));
    }

    fn greet(&mut self, session: SessionId, hello: &Hello<'_>) {
        let (id, text) = (hello.id, self.names_itself);
        match self.greeting {
            Greeting::Welcome => self.answer(session, Answer::Welcome(Welcome { version: 1, id, text })),
            Greeting::OldVersion => self.answer(session, Answer::Welcome(Welcome { version: 0, id, text })),
            Greeting::Refuse(code) => self.answer(session, Answer::Error(ErrorAnswer { code, id, text: "" })),
            Greeting::Silence => {}
        }
    }

    fn refuse(&mut self, session: SessionId, owner: u64, how: Refusal) {
        assert!(self.refused.insert(owner), "an attempt is answered once");
        let answer = match how {
            Refusal::Timeout => Answer::Timeout(Timeout { owner }),
            Refusal::Busy(reason) => Answer::Busy(Busy { owner, reason }),
            Refusal::Rejected => {
                Answer::Error(ErrorAnswer { code: ErrorCode::Forbidden, id: owner, text: "" })
            }
        };
        self.answer(session, answer);
    }

    fn answer(&mut self, session: SessionId, answer: Answer<'_>) {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        self.output.push((session, bytes));
    }

    fn held(&self, key: &str, token: u64) -> bool {
        self.keys.get(key).is_some_and(|key| key.holder == Some(token))
    }

    /// Lets everything happen that is due, in time order.
    pub fn advance(&mut self, now: Instant) {
        loop {
            let held = self.keys.values().filter_map(|key| key.holder);
            let leases = held.map(|token| (self.grants[&token].ends, Some(token)));
            let waits = self.keys.values().flat_map(|key| &key.queue).map(|waiter| (waiter.ends, None));
            let due = leases.chain(waits).min_by_key(|&(at, token)| (at, token.is_none()));
            match due {
                Some((at, Some(token))) if at <= now => self.free(at, token, false),
                Some((at, None)) if at <= now => self.end_wait(at),
                _ => return,
            }
        }
    }

    fn free(&mut self, now: Instant, token: u64, released: bool) {
        let grant = self.grants.get_mut(&token).unwrap();
        grant.released = released;
        grant.ends = grant.ends.min(now);
        let name = grant.key.clone();
        let key = self.keys.get_mut(&name).unwrap();
        key.holder = None;
        if let Some(waiter) = key.queue.pop_front() {
            self.grant(now, &name, &waiter);
        }
    }

    fn end_wait(&mut self, now: Instant) {
        let mut keys = self.keys.values_mut();
        let key = keys.find(|key| key.queue.iter().any(|waiter| waiter.ends == now)).unwrap();
        let at = key.queue.iter().position(|waiter| waiter.ends == now).unwrap();
        let waiter = key.queue.remove(at).unwrap();
        self.refuse(waiter.session, waiter.owner, Refusal::Timeout);
    }

    /// Grants fail from now on, and every waiter is told so; or it is over.
    pub fn fail(&mut self, failing: bool) {
        self.failing = failing;
        if failing {
            let queues = self.keys.values_mut().map(|key| std::mem::take(&mut key.queue));
            for waiter in queues.flatten().collect::<Vec<_>>() {
                self.refuse(waiter.session, waiter.owner, Refusal::Busy(BusyReason::NotDurable));
            }
        }
    }

    /// The session is closed: its waiters leave.
    pub fn close(&mut self, now: Instant, session: SessionId) {
        self.advance(now);
        for key in self.keys.values_mut() {
            key.queue.retain(|waiter| waiter.session != session);
        }
    }
}
