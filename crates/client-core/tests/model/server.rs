//! A small honest server: one queue for each key, time handed in, answers appended to each session's output.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lockstead_client_core::{Instant, SessionId};
use lockstead_proto::{
    Acquire, Acquired, Answer, BusyReason, Extended, KeyState, NotHeld, Pong, Released, Request, State,
    Timeout, Welcome,
};

/// More waiters for one key are told busy.
const QUEUE: usize = 3;

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

#[derive(Debug, Default)]
pub struct Server {
    keys: BTreeMap<String, Key>,
    pub grants: BTreeMap<u64, Grant>,
    last_token: u64,
    /// What is to be sent, in order.
    pub output: Vec<(SessionId, Vec<u8>)>,
    /// The owners that were answered `T` or `B`.
    pub refused: BTreeMap<u64, &'static str>,
}

impl Server {
    pub fn request(&mut self, now: Instant, session: SessionId, request: Request<'_>) {
        self.advance(now);
        match request {
            Request::Acquire(acquire) => self.acquire(now, session, &acquire),
            Request::Release(release) => {
                let answer = match self.held(release.key, release.token) {
                    false => Answer::NotHeld(NotHeld { token: release.token }),
                    true => {
                        self.free(now, release.token, true);
                        Answer::Released(Released { token: release.token })
                    }
                };
                self.answer(session, answer);
            }
            Request::Extend(extend) => {
                let (token, lease_s) = (extend.token, extend.lease_s);
                if self.held(extend.key, token) {
                    let grant = self.grants.get_mut(&token).unwrap();
                    grant.ends = grant.ends.max(lease_end(now, lease_s));
                    self.answer(session, Answer::Extended(Extended { token, lease_s }));
                } else {
                    self.answer(session, Answer::NotHeld(NotHeld { token }));
                }
            }
            Request::Cancel(cancel) => {
                let Some(key) = self.keys.get_mut(cancel.key) else {
                    return;
                };
                let place = key.queue.iter().position(|w| w.session == session && w.owner == cancel.owner);
                if let Some(at) = place {
                    key.queue.remove(at);
                    self.refuse(session, cancel.owner, "timeout");
                }
            }
            Request::Query(query) => {
                let state = State { id: query.id, state: KeyState::Free, remaining_ms: 0, waiters: 0 };
                self.answer(session, Answer::State(state));
            }
            Request::Ping(ping) => self.answer(session, Answer::Pong(Pong { id: ping.id })),
            Request::Hello(hello) => {
                let (version, id) = (hello.version, hello.id);
                self.answer(session, Answer::Welcome(Welcome { version, id, text: "id=a" }));
            }
        }
    }

    fn acquire(&mut self, now: Instant, session: SessionId, acquire: &Acquire<'_>) {
        let waiter = Waiter {
            session,
            owner: acquire.owner,
            lease_s: acquire.lease_s,
            read: now,
            ends: now + Duration::from_secs(acquire.wait_s.into()) + Duration::from_millis(1),
        };
        let key = self.keys.entry(acquire.key.to_owned()).or_default();
        if key.holder.is_none() {
            self.grant(now, acquire.key, &waiter);
        } else if acquire.wait_s == 0 {
            self.refuse(session, acquire.owner, "timeout");
        } else if key.queue.len() >= QUEUE {
            self.refuse(session, acquire.owner, "busy");
        } else {
            key.queue.push_back(waiter);
        }
    }

    fn grant(&mut self, now: Instant, key: &str, waiter: &Waiter) {
        self.last_token += 1;
        let token = self.last_token;
        self.keys.get_mut(key).unwrap().holder = Some(token);
        let grant = Grant {
            owner: waiter.owner,
            key: key.to_owned(),
            ends: lease_end(now, waiter.lease_s),
            released: false,
        };
        self.grants.insert(token, grant);
        let waited = now.since(waiter.read).saturating_sub(Duration::from_millis(1));
        let acquired = Acquired {
            owner: waiter.owner,
            token,
            lease_s: waiter.lease_s,
            waited_ms: waited.as_millis() as u32,
        };
        self.answer(waiter.session, Answer::Acquired(acquired));
    }

    fn refuse(&mut self, session: SessionId, owner: u64, how: &'static str) {
        assert!(self.refused.insert(owner, how).is_none());
        let answer = match how {
            "timeout" => Answer::Timeout(Timeout { owner }),
            _ => Answer::Busy(lockstead_proto::Busy { owner, reason: BusyReason::KeyQueueFull }),
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
            let leases = self
                .keys
                .values()
                .filter_map(|key| key.holder)
                .map(|token| (self.grants[&token].ends, Some(token)));
            let waits = self.keys.values().flat_map(|key| &key.queue).map(|waiter| (waiter.ends, None));
            let Some((at, token)) = leases.chain(waits).min_by_key(|&(at, token)| (at, token.is_none()))
            else {
                return;
            };
            if at > now {
                return;
            }
            match token {
                Some(token) => self.free(at, token, false),
                None => self.end_wait(at),
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
        let key =
            self.keys.values_mut().find(|key| key.queue.iter().any(|waiter| waiter.ends == now)).unwrap();
        let at = key.queue.iter().position(|waiter| waiter.ends == now).unwrap();
        let waiter = key.queue.remove(at).unwrap();
        self.refuse(waiter.session, waiter.owner, "timeout");
    }

    /// The session is closed: its waiters leave.
    pub fn close(&mut self, now: Instant, session: SessionId) {
        self.advance(now);
        for key in self.keys.values_mut() {
            key.queue.retain(|waiter| waiter.session != session);
        }
    }
}

fn lease_end(now: Instant, lease_s: u8) -> Instant {
    now + Duration::from_secs(lease_s.into()) + Duration::from_millis(1)
}
