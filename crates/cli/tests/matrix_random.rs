//! Random requests of several sessions against a naive model of docs/protocol.md's matrix: every answer, to
//! whom it goes and in which order, step by step. Nothing ends by time here; other tests see to that.

use lockstead_testkit::rng::Rng;
use lockstead_testkit::{Answer, Event, Raw, Server, frame};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);
const SESSIONS: usize = 4;
const KEYS: [&str; 5] = ["a", "b", "c", "d", "a/b"];
const LIMITS: [&str; 6] =
    ["--max-waiters", "9", "--max-waiters-per-key", "5", "--max-waiters-per-session", "4"];
const MAX_WAITERS: usize = 9;
const MAX_WAITERS_PER_KEY: usize = 5;
const MAX_WAITERS_PER_SESSION: usize = 4;
/// A key of its own that is always held, so that a draining server does not stop.
const ANCHOR: &str = "anchor";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Normal,
    Recovering,
    Draining,
}

/// What the model says of one answer: everything but the token of a new grant, which the server chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Grant { owner: u64, lease_s: u8, key: &'static str },
    Exactly(Said),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    TimedOut(u64),
    Busy(u64, u8),
    Released(u64),
    Extended(u64, u8),
    NotHeld(u64),
    State(u8, u32),
}

#[derive(Clone, Copy)]
struct Waiter {
    session: usize,
    owner: u64,
    lease_s: u8,
}

#[derive(Default)]
struct Key {
    token: Option<u64>,
    queue: VecDeque<Waiter>,
}

struct Model {
    condition: Condition,
    keys: BTreeMap<&'static str, Key>,
    /// How many of these keys the server has room for.
    room: usize,
    /// The greatest token so far.
    last_token: u64,
    /// How often each kind of answer was judged, so that a walk that misses one is found.
    seen: BTreeMap<String, u64>,
    /// What each session is still to be told, in order.
    expected: Vec<VecDeque<Expected>>,
}

impl Model {
    fn say(&mut self, session: usize, said: Said) {
        self.expected[session].push_back(Expected::Exactly(said));
    }

    fn acquire(&mut self, session: usize, wait_s: u8, lease_s: u8, owner: u64, name: &'static str) {
        if self.condition == Condition::Draining {
            return self.say(session, Said::Busy(owner, 5));
        }
        let recovering = self.condition == Condition::Recovering;
        let known = self.keys.get(name).is_some_and(|key| key.token.is_some() || !key.queue.is_empty());
        if wait_s == 0 && (recovering || known) {
            return self.say(session, Said::TimedOut(owner));
        }
        let taken = self.keys.values().filter(|key| key.token.is_some() || !key.queue.is_empty()).count();
        if !known && taken >= self.room {
            return self.say(session, Said::Busy(owner, 3));
        }
        if !known && !recovering {
            self.keys.entry(name).or_default().token = Some(0);
            return self.expected[session].push_back(Expected::Grant { owner, lease_s, key: name });
        }
        let all = || self.keys.values().flat_map(|key| &key.queue);
        let of_session = all().filter(|waiter| waiter.session == session).count();
        let of_key = self.keys.get(name).map_or(0, |key| key.queue.len());
        let reason = if of_session >= MAX_WAITERS_PER_SESSION {
            4
        } else if of_key >= MAX_WAITERS_PER_KEY {
            1
        } else if all().count() >= MAX_WAITERS {
            2
        } else {
            let waiter = Waiter { session, owner, lease_s };
            return self.keys.entry(name).or_default().queue.push_back(waiter);
        };
        self.say(session, Said::Busy(owner, reason));
    }

    fn release(&mut self, session: usize, token: u64, name: &'static str) {
        let Some(key) = self.keys.get_mut(name).filter(|key| key.token == Some(token)) else {
            return self.say(session, Said::NotHeld(token));
        };
        key.token = None;
        let next = key.queue.pop_front();
        if next.is_some() {
            key.token = Some(0);
        }
        self.say(session, Said::Released(token));
        if let Some(Waiter { session, owner, lease_s }) = next {
            self.expected[session].push_back(Expected::Grant { owner, lease_s, key: name });
        }
    }

    fn extend(&mut self, session: usize, lease_s: u8, token: u64, name: &'static str) {
        let held = self.keys.get(name).is_some_and(|key| key.token == Some(token));
        self.say(session, if held { Said::Extended(token, lease_s) } else { Said::NotHeld(token) });
    }

    fn cancel(&mut self, session: usize, owner: u64, name: &'static str) {
        let Some(key) = self.keys.get_mut(name) else { return };
        let attempt = key.queue.iter().position(|waiter| waiter.session == session && waiter.owner == owner);
        if let Some(attempt) = attempt {
            key.queue.remove(attempt);
            self.say(session, Said::TimedOut(owner));
        }
    }

    fn query(&mut self, session: usize, name: &'static str) {
        let key = self.keys.get(name);
        let held = key.is_some_and(|key| key.token.is_some());
        let state = match (held, self.condition) {
            (true, _) => 1,
            (false, Condition::Recovering) => 2,
            (false, _) => 0,
        };
        let waiters = key.map_or(0, |key| key.queue.len()) as u32;
        self.say(session, Said::State(state, waiters));
    }

    fn close(&mut self, session: usize) {
        for key in self.keys.values_mut() {
            key.queue.retain(|waiter| waiter.session != session);
        }
    }

    fn drain(&mut self) {
        self.condition = Condition::Draining;
        let waiters: Vec<Waiter> = self.keys.values_mut().flat_map(|key| key.queue.drain(..)).collect();
        for Waiter { session, owner, .. } in waiters {
            self.say(session, Said::Busy(owner, 5));
        }
    }

    /// Compares one answer with what is due on that session.
    fn judge(&mut self, session: usize, answer: &Answer) {
        let due = self.expected[session].pop_front();
        let detail = match answer {
            Answer::Busy { reason, .. } => reason.to_string(),
            Answer::State { state, .. } => state.to_string(),
            _ => String::new(),
        };
        *self.seen.entry(format!("{}{detail}", answer.to_bytes()[0] as char)).or_default() += 1;
        let said = match *answer {
            Answer::Acquired { owner, token, lease_s, .. } => {
                let Some(Expected::Grant { key, .. }) = due else { panic!("{due:?} is due, not {answer:?}") };
                assert_eq!(due, Some(Expected::Grant { owner, lease_s, key }));
                assert!(token > self.last_token, "token {token} after {}", self.last_token);
                self.last_token = token;
                self.keys.get_mut(key).expect("it is granted").token = Some(token);
                return;
            }
            Answer::TimedOut { owner } => Said::TimedOut(owner),
            Answer::Busy { owner, reason } => Said::Busy(owner, reason),
            Answer::Released { token } => Said::Released(token),
            Answer::Extended { token, lease_s } => Said::Extended(token, lease_s),
            Answer::NotHeld { token } => Said::NotHeld(token),
            Answer::State { state, waiters, .. } => Said::State(state, waiters),
            ref other => panic!("{other:?}"),
        };
        assert_eq!(due, Some(Expected::Exactly(said)));
    }

    /// An active token now and then, else one that is none.
    fn some_token(&self, rng: &mut Rng) -> u64 {
        let active: Vec<u64> = self.keys.values().filter_map(|key| key.token).collect();
        match rng.below(5) {
            0 => self.last_token.wrapping_sub(rng.below(3)),
            1 => rng.below(3),
            _ if active.is_empty() => self.last_token,
            _ => active[rng.below(active.len() as u64) as usize],
        }
    }
}

/// Each of these kinds of answers has come.
fn all_seen(model: &Model, kinds: &[&str]) {
    println!("{:?}", model.seen);
    let missing: Vec<_> = kinds.iter().filter(|kind| !model.seen.contains_key(**kind)).collect();
    assert!(missing.is_empty(), "the walk has never seen {missing:?}");
}

/// Reads what has come on one session: everything before the pong of this ping was due.
fn settle(session: &mut Raw, number: usize, model: &mut Model) {
    const BARRIER: u64 = 1 << 60;
    session.send(&frame::ping(BARRIER));
    loop {
        match session.event(10 * SECOND) {
            Event::Answer(arrival) if arrival.answer == (Answer::Pong { id: BARRIER }) => break,
            Event::Answer(arrival) => model.judge(number, &arrival.answer),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(model.expected[number], [], "session {number} was not told");
}

/// One random request of one session, or its end. Returns which session acted.
fn step(server: &Server, sessions: &mut [Raw], model: &mut Model, rng: &mut Rng) -> usize {
    let number = rng.below(SESSIONS as u64) as usize;
    let session = &mut sessions[number];
    let name = KEYS[rng.below(KEYS.len() as u64) as usize];
    let owner = rng.below(4);
    let lease_s = 200 + rng.below(50) as u8;
    match rng.below(20) {
        0..8 => {
            let wait_s = [0, 240, 250][rng.below(3) as usize];
            session.send(&frame::acquire(wait_s, lease_s, owner, name));
            model.acquire(number, wait_s, lease_s, owner, name);
        }
        8..13 => {
            let token = model.some_token(rng);
            // The exact token of the right key more often than chance has it.
            let holder = model.keys.iter().find(|(_, key)| key.token == Some(token)).map(|(name, _)| *name);
            let name = if rng.below(4) > 0 { holder.unwrap_or(name) } else { name };
            session.send(&frame::release(token, name));
            model.release(number, token, name);
        }
        13..15 => {
            let token = model.some_token(rng);
            session.send(&frame::extend(lease_s, token, name));
            model.extend(number, lease_s, token, name);
        }
        15..17 => {
            session.send(&frame::cancel(owner, name));
            model.cancel(number, owner, name);
        }
        17..19 => {
            session.send(&frame::query(number as u64, name));
            model.query(number, name);
        }
        _ if rng.below(4) == 0 => {
            session.end_output();
            let (answers, cut) = session.read_to_end(10 * SECOND, "the end of a session");
            assert_eq!((answers.as_slice(), cut.as_slice()), (&[][..], &[][..]), "nothing was due");
            model.close(number);
            *session = server.connect();
        }
        _ => {}
    }
    number
}

fn run(condition: Condition, room: usize, args: &[&str], steps: usize) -> (Server, Vec<Raw>, Model, Rng) {
    let seed = std::env::var("CHECK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(6);
    println!("CHECK_SEED={seed}");
    let mut rng = Rng::new(seed);
    let server = Server::start(PROGRAM, &[&LIMITS[..], args].concat());
    let mut sessions: Vec<Raw> = (0..SESSIONS).map(|_| server.connect()).collect();
    let mut model = Model {
        condition,
        keys: BTreeMap::new(),
        room,
        last_token: 0,
        seen: BTreeMap::new(),
        expected: vec![VecDeque::new(); SESSIONS],
    };
    if condition != Condition::Recovering {
        model.last_token = sessions[0].hold(255, 1 << 40, ANCHOR).token;
    }
    walk(&server, &mut sessions, &mut model, &mut rng, steps);
    (server, sessions, model, rng)
}

fn walk(server: &Server, sessions: &mut [Raw], model: &mut Model, rng: &mut Rng, steps: usize) {
    for _ in 0..steps {
        let acted = step(server, sessions, model, rng);
        // When this pong is here the request has been processed, and only then do the others look.
        settle(&mut sessions[acted], acted, model);
        for (number, session) in sessions.iter_mut().enumerate() {
            if !model.expected[number].is_empty() {
                settle(session, number, model);
            }
        }
    }
    for (number, session) in sessions.iter_mut().enumerate() {
        settle(session, number, model);
    }
}

#[test]
fn random_requests_get_what_the_matrix_says_also_while_draining() {
    // The fourth place is the anchor's.
    let (server, mut sessions, mut model, mut rng) =
        run(Condition::Normal, 3, &["--drain-grace", "60s", "--max-keys", "4"], 20_000);
    all_seen(&model, &["A", "T", "B1", "B2", "B3", "B4", "R", "E", "N", "Q0", "Q1"]);
    server.terminate();
    let mut newcomer = server.connect();
    while newcomer.ask(&frame::acquire(0, 1, 1, ANCHOR)) != (Answer::Busy { owner: 1, reason: 5 }) {}
    model.drain();
    model.seen.clear();
    // Each waiter is told; in which order is not said.
    for (number, session) in sessions.iter_mut().enumerate() {
        let due = std::mem::take(&mut model.expected[number]);
        let mut told: Vec<Answer> = due.iter().map(|_| session.next("a waiter's B 5").answer).collect();
        let mut expected: Vec<Answer> = due
            .iter()
            .map(|due| match due {
                Expected::Exactly(Said::Busy(owner, reason)) => {
                    Answer::Busy { owner: *owner, reason: *reason }
                }
                other => panic!("{other:?}"),
            })
            .collect();
        told.sort_by_key(Answer::to_bytes);
        expected.sort_by_key(Answer::to_bytes);
        assert_eq!(told, expected);
        session.ping();
    }
    walk(&server, &mut sessions, &mut model, &mut rng, 2_000);
    all_seen(&model, &["B5", "N", "Q0"]);
}

#[test]
fn random_requests_get_what_the_matrix_says_while_recovering() {
    // Room for all keys: when both the keys and the waiters are full, the matrix does not say which of the
    // two is told.
    let (_server, _, model, _) = run(Condition::Recovering, KEYS.len(), &["--recovery-pause", "10m"], 5_000);
    all_seen(&model, &["T", "B1", "B2", "B4", "N", "Q2"]);
    assert!(!model.seen.contains_key("A"), "nothing is granted while recovering");
}

/// The canary: a model that believes in room for one key more than there is.
#[test]
#[should_panic(expected = "left == right")]
fn a_canary_in_the_model_is_found() {
    run(Condition::Normal, 4, &["--max-keys", "4"], 2_000);
}
