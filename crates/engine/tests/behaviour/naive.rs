//! The same rules in the plainest way: vectors, searched from end to end at every step.

use crate::say;
use lockstead_engine::{Command, Counts, Limits, Progress};

#[derive(Debug, Clone)]
pub struct Lease {
    pub token: u64,
    pub ends: u64,
    armed: u64,
}

#[derive(Debug, Clone)]
struct Waiter {
    session: u32,
    owner: u64,
    asked: u64,
    ends: u64,
    lease_s: u8,
    armed: u64,
}

#[derive(Debug, Clone)]
pub struct Key {
    pub name: String,
    pub lease: Option<Lease>,
    queue: Vec<Waiter>,
    /// When it fell free, or got its first waiter, while recovering.
    parked: u64,
}

/// What ends next: of one instant, leases, then the recovery, then waits, each in the order armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Lease { armed: u64, key: usize },
    Recovery,
    Wait { armed: u64, key: usize, place: usize },
}

#[derive(Debug)]
pub struct Naive {
    limits: Limits,
    now: u64,
    pub keys: Vec<Key>,
    recovery_ends: Option<u64>,
    draining: bool,
    pub storage_failing: bool,
    next_token: u64,
    /// Counts everything that is armed or parked.
    clock: u64,
    said: Vec<String>,
}

impl Naive {
    pub fn new(limits: Limits, recovery_ends: Option<u64>, restored: &[(&str, u64, u64)]) -> Self {
        let last = restored.iter().map(|lease| lease.1).max().unwrap_or(0);
        let mut naive = Self {
            limits,
            now: 0,
            keys: Vec::new(),
            recovery_ends,
            draining: false,
            storage_failing: false,
            next_token: last + 1,
            clock: 0,
            said: Vec::new(),
        };
        for &(key, token, ends) in restored {
            let armed = naive.tick();
            let key = naive.place(key);
            naive.keys[key].lease = Some(Lease { token, ends, armed });
        }
        naive
    }

    /// What was said since the last call, decisions and answers.
    pub fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    pub fn counts(&self) -> Counts {
        Counts {
            held: self.keys.iter().filter(|key| key.lease.is_some()).count() as u32,
            keys: self.keys.len() as u32,
            waiters: self.waiters(|_| true),
        }
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.next_due().map(|(at, _)| at)
    }

    pub fn advance(&mut self, now: u64, budget: usize) -> Progress {
        self.now = now;
        for _ in 0..budget {
            match self.next_due() {
                Some((at, due)) if at <= now => self.end(due),
                _ => return Progress::Done,
            }
        }
        match self.next_due() {
            Some((at, _)) if at <= now => Progress::More,
            _ => Progress::Done,
        }
    }

    pub fn run(&mut self, session: u32, command: Command<'_>) {
        match command {
            Command::Acquire { wait_s, lease_s, owner, key } => {
                self.acquire(session, wait_s, lease_s, owner, key);
            }
            Command::Release { token, key } => match self.held(key, token) {
                Some(key) => {
                    self.say(session, format!("R token={token}"));
                    self.free(key);
                }
                None => self.say(session, format!("N token={token}")),
            },
            Command::Extend { lease_s, token, key } => match self.held(key, token) {
                Some(_) if self.storage_failing => self.say(session, format!("X token={token} code=10")),
                Some(key) => {
                    let lease_s = lease_s.min(self.limits.max_lease_s);
                    let ends = self.now + 1000 * u64::from(lease_s) + 1;
                    let armed = self.tick();
                    let lease = self.keys[key].lease.as_mut().unwrap();
                    if ends > lease.ends {
                        *lease = Lease { token, ends, armed };
                        self.said.push(say::extended(&self.keys[key].name, token, ends));
                    }
                    self.say(session, format!("E token={token} lease={lease_s}"));
                }
                None => self.say(session, format!("N token={token}")),
            },
            Command::Cancel { owner, key } => {
                let Some(key) = self.find(key) else { return };
                let mine = |waiter: &Waiter| (waiter.session, waiter.owner) == (session, owner);
                if let Some(place) = self.keys[key].queue.iter().position(mine) {
                    self.keys[key].queue.remove(place);
                    self.say(session, format!("T owner={owner}"));
                }
                self.forget_free_keys();
            }
            Command::Query { id, key } => {
                let found = self.find(key).map(|key| &self.keys[key]);
                let waiters = found.map_or(0, |key| key.queue.len());
                let lease = found.and_then(|key| key.lease.clone());
                let (state, remaining) = match (lease, self.recovery_ends) {
                    (Some(lease), _) => (1, lease.ends - self.now),
                    (None, Some(ends)) => (2, ends - self.now),
                    (None, None) => (0, 0),
                };
                self.say(session, format!("Q id={id} state={state} remaining={remaining} waiters={waiters}"));
            }
        }
    }

    pub fn close(&mut self, session: u32, unsent: &[u64]) {
        for key in &mut self.keys {
            key.queue.retain(|waiter| waiter.session != session);
        }
        self.forget_free_keys();
        self.take_back(unsent);
    }

    fn take_back(&mut self, tokens: &[u64]) {
        for token in tokens {
            let held = |key: &Key| key.lease.as_ref().is_some_and(|lease| lease.token == *token);
            if let Some(key) = self.keys.iter().position(held) {
                self.free(key);
            }
        }
    }

    pub fn drain(&mut self) {
        self.draining = true;
        self.send_away(5);
    }

    pub fn storage_fails(&mut self, lost: &[u64]) {
        self.storage_failing = true;
        self.send_away(6);
        self.take_back(lost);
    }

    pub fn storage_works(&mut self) {
        self.storage_failing = false;
    }

    fn send_away(&mut self, reason: u8) {
        let mut waiters: Vec<Waiter> = self.keys.iter_mut().flat_map(|key| key.queue.drain(..)).collect();
        waiters.sort_by_key(|waiter| (waiter.ends, waiter.armed));
        for waiter in waiters {
            self.say(waiter.session, format!("B owner={} reason={reason}", waiter.owner));
        }
        self.forget_free_keys();
    }

    fn acquire(&mut self, session: u32, wait_s: u8, lease_s: u8, owner: u64, name: &str) {
        let found = self.find(name);
        let waits = found.is_some() || self.recovery_ends.is_some();
        let in_queue = found.map_or(0, |key| self.keys[key].queue.len() as u32);
        let of_session = self.waiters(|waiter| waiter.session == session);
        if self.draining {
            return self.say(session, format!("B owner={owner} reason=5"));
        }
        if self.storage_failing {
            return self.say(session, format!("B owner={owner} reason=6"));
        }
        if waits && wait_s == 0 {
            return self.say(session, format!("T owner={owner}"));
        }
        if waits && of_session >= self.limits.max_waiters_per_session {
            return self.say(session, format!("B owner={owner} reason=4"));
        }
        if waits && in_queue >= self.limits.max_waiters_per_key {
            return self.say(session, format!("B owner={owner} reason=1"));
        }
        if waits && self.waiters(|_| true) >= self.limits.max_waiters {
            return self.say(session, format!("B owner={owner} reason=2"));
        }
        if found.is_none() && self.keys.len() as u32 >= self.limits.max_keys {
            return self.say(session, format!("B owner={owner} reason=3"));
        }
        let key = self.place(name);
        let (asked, ends) = (self.now, self.now + 1000 * u64::from(wait_s) + 1);
        let waiter = Waiter { session, owner, asked, ends, lease_s, armed: self.tick() };
        self.keys[key].queue.push(waiter);
        if !waits {
            self.grant_first(key);
        }
    }

    fn free(&mut self, key: usize) {
        let lease = self.keys[key].lease.take().unwrap();
        self.said.push(say::freed(&self.keys[key].name, lease.token));
        self.keys[key].parked = self.tick();
        if self.recovery_ends.is_none() {
            self.grant_first(key);
        }
        self.forget_free_keys();
    }

    fn grant_first(&mut self, key: usize) {
        if self.keys[key].queue.is_empty() {
            return;
        }
        let waiter = self.keys[key].queue.remove(0);
        let lease_s = waiter.lease_s.min(self.limits.max_lease_s);
        let (token, owner) = (self.next_token, waiter.owner);
        let ends = self.now + 1000 * u64::from(lease_s) + 1;
        let armed = self.tick();
        self.next_token += 1;
        self.keys[key].lease = Some(Lease { token, ends, armed });
        self.said.push(say::granted(&self.keys[key].name, token, ends));
        let waited = (self.now - waiter.asked).saturating_sub(1);
        self.say(waiter.session, format!("A owner={owner} token={token} lease={lease_s} waited={waited}"));
    }

    fn next_due(&self) -> Option<(u64, Due)> {
        let mut dues: Vec<(u64, Due)> =
            self.recovery_ends.map(|at| (at, Due::Recovery)).into_iter().collect();
        for (at, key) in self.keys.iter().enumerate() {
            dues.extend(
                key.lease.as_ref().map(|lease| (lease.ends, Due::Lease { armed: lease.armed, key: at })),
            );
            for (place, waiter) in key.queue.iter().enumerate() {
                dues.push((waiter.ends, Due::Wait { armed: waiter.armed, key: at, place }));
            }
        }
        dues.into_iter().min()
    }

    fn end(&mut self, due: Due) {
        match due {
            Due::Lease { key, .. } => self.free(key),
            Due::Wait { key, place, .. } => {
                let waiter = self.keys[key].queue.remove(place);
                self.say(waiter.session, format!("T owner={}", waiter.owner));
                self.forget_free_keys();
            }
            Due::Recovery => {
                let parked = (0..self.keys.len()).filter(|&key| self.keys[key].lease.is_none());
                match parked.min_by_key(|&key| self.keys[key].parked) {
                    Some(key) => self.grant_first(key),
                    None => self.recovery_ends = None,
                }
            }
        }
    }

    fn forget_free_keys(&mut self) {
        self.keys.retain(|key| key.lease.is_some() || !key.queue.is_empty());
    }

    fn place(&mut self, name: &str) -> usize {
        let parked = self.tick();
        self.find(name).unwrap_or_else(|| {
            self.keys.push(Key { name: name.into(), lease: None, queue: Vec::new(), parked });
            self.keys.len() - 1
        })
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.keys.iter().position(|key| key.name == name)
    }

    fn held(&self, name: &str, token: u64) -> Option<usize> {
        let key = self.find(name)?;
        (self.keys[key].lease.as_ref()?.token == token).then_some(key)
    }

    fn waiters(&self, of: impl Fn(&Waiter) -> bool) -> u32 {
        self.keys.iter().flat_map(|key| &key.queue).filter(|waiter| of(waiter)).count() as u32
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn say(&mut self, session: u32, answer: String) {
        self.said.push(format!("s{session} {answer}"));
    }
}
