//! Random commands, times, ends of sessions and failures of the storage against the naive engine; every decision and
//! every answer is compared, in their order.

use crate::naive::Naive;
use crate::say;
use crate::world::{ALL, World, grant};
use lockstead_engine::{Answer, Command, Effect, Limits, Progress, SessionId, UnsentGrant};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::{BTreeMap, BTreeSet};

const KEYS: [&str; 4] = ["a", "b", "longer than eight", "ünicode\r\0"];

/// A token to name in a request.
#[derive(Debug, Clone, Copy)]
enum Token {
    Active,
    ActiveOf(usize),
    Zero,
    Next,
    Any(Index),
}

/// How far time goes.
#[derive(Debug, Clone, Copy)]
enum Step {
    Ms(u64),
    /// To the next deadline, less one millisecond, exactly, or one more.
    ToDeadline(u64),
}

#[derive(Debug, Clone)]
enum Op {
    Nothing,
    Acquire {
        session: Index,
        key: usize,
        wait_s: u8,
        lease_s: u8,
        owner: u64,
    },
    Release {
        session: Index,
        key: usize,
        token: Token,
    },
    Extend {
        session: Index,
        key: usize,
        lease_s: u8,
        token: Token,
    },
    Cancel {
        session: Index,
        key: usize,
        owner: u64,
    },
    Query {
        session: Index,
        key: usize,
    },
    Time {
        step: Step,
    },
    /// What is due is done in slices, and a session closes between them.
    Slices {
        step: Step,
        budget: usize,
        session: Index,
    },
    Open,
    Close {
        session: Index,
        unsent: u8,
    },
    Drain,
    /// Each bit of `lost` says whether a grant, the last first, was not made durable.
    StorageFails {
        lost: u8,
    },
    StorageWorks,
}

#[derive(Debug, Clone)]
struct Start {
    limits: Limits,
    recovery_ends: Option<u64>,
    restored: Vec<(usize, u64, u64)>,
}

fn start() -> impl Strategy<Value = Start> {
    let limits = (1..6u32, 1..8u32, 1..6u32, 1..6u32, prop_oneof![1..4u8, Just(255)]).prop_map(
        |(max_keys, max_waiters, max_waiters_per_key, max_waiters_per_session, max_lease_s)| Limits {
            max_keys,
            max_waiters,
            max_waiters_per_key,
            max_waiters_per_session,
            max_lease_s,
        },
    );
    let recovery_ends = proptest::option::of(prop_oneof![0..8000u64, Just(3001), Just(2001)]);
    let ends = prop_oneof![0..6000u64, Just(2001), Just(3001)];
    let restored = proptest::collection::btree_map(0..KEYS.len(), (1..90u64, ends), 0..4);
    (limits, recovery_ends, restored).prop_map(|(limits, recovery_ends, restored)| {
        let mut restored: Vec<_> = restored
            .into_iter()
            .enumerate()
            .map(|(nth, (key, (token, ends)))| (key, 100 * nth as u64 + token, ends))
            .collect();
        restored.sort_by_key(|lease| lease.2);
        Start { limits, recovery_ends, restored }
    })
}

fn op() -> impl Strategy<Value = Op> {
    let session = any::<Index>;
    let key = || 0..KEYS.len();
    let owner = || 1..4u64;
    let seconds = || prop_oneof![8 => 1..4u8, 1 => Just(5), 1 => Just(255)];
    let wait_s = || prop_oneof![1 => Just(0u8), 5 => seconds()];
    let token = || {
        prop_oneof![
            12 => Just(Token::Active),
            1 => key().prop_map(Token::ActiveOf),
            1 => Just(Token::Zero),
            1 => Just(Token::Next),
            2 => any::<Index>().prop_map(Token::Any),
        ]
    };
    let step = || {
        prop_oneof![
            2 => (0..4u64).prop_map(Step::Ms),
            2 => (0..1500u64).prop_map(Step::Ms),
            1 => Just(Step::Ms(1000)),
            1 => (0..20_000u64).prop_map(Step::Ms),
            6 => (0..3u64).prop_map(Step::ToDeadline),
        ]
    };
    prop_oneof![
        1 => Just(Op::Nothing),
        400 => (session(), key(), wait_s(), seconds(), owner()).prop_map(
            |(session, key, wait_s, lease_s, owner)| Op::Acquire { session, key, wait_s, lease_s, owner }
        ),
        120 => (session(), key(), token()).prop_map(|(session, key, token)| Op::Release { session, key, token }),
        80 => (session(), key(), seconds(), token()).prop_map(
            |(session, key, lease_s, token)| Op::Extend { session, key, lease_s, token }
        ),
        60 => (session(), key(), owner()).prop_map(|(session, key, owner)| Op::Cancel { session, key, owner }),
        40 => (session(), key()).prop_map(|(session, key)| Op::Query { session, key }),
        200 => step().prop_map(|step| Op::Time { step }),
        40 => (step(), 0..3usize, session()).prop_map(
            |(step, budget, session)| Op::Slices { step, budget, session }
        ),
        40 => Just(Op::Open),
        30 => (session(), any::<u8>()).prop_map(|(session, unsent)| Op::Close { session, unsent }),
        1 => Just(Op::Drain),
        4 => any::<u8>().prop_map(|lost| Op::StorageFails { lost }),
        40 => Just(Op::StorageWorks),
    ]
}

/// The engine and the naive one, told the same.
struct Both {
    world: World,
    naive: Naive,
    sessions: Vec<SessionId>,
    /// Every grant so far, by token, with whom it went to.
    grants: BTreeMap<u64, (SessionId, UnsentGrant)>,
    /// The kinds of answers so far.
    seen: BTreeSet<String>,
}

impl Both {
    fn new(start: &Start) -> Self {
        let named = |&(key, token, ends)| (KEYS[key], token, ends);
        let restored: Vec<(&str, u64, u64)> = start.restored.iter().map(named).collect();
        let mut world = World::restored(start.limits, start.recovery_ends, &restored);
        let naive = Naive::new(start.limits, start.recovery_ends, &restored);
        let sessions = vec![world.open(), world.open()];
        let (grants, seen) = (BTreeMap::new(), BTreeSet::new());
        let mut both = Self { world, naive, sessions, grants, seen };
        assert_eq!(both.advance(0, ALL), Progress::Done);
        both
    }

    fn compare(&mut self, effects: &[Effect]) {
        assert_eq!(say::all(&self.world.told), self.naive.said());
        assert_eq!(self.world.engine.counts(), self.naive.counts());
        assert_eq!(self.world.next_deadline_ms(), self.naive.next_deadline());
        assert_eq!(self.world.engine.is_storage_failing(), self.naive.storage_failing);
        for effect in effects {
            self.seen.insert(kind(&effect.answer));
            self.grants.extend(grant(effect).map(|unsent| (unsent.token, (effect.session, unsent))));
        }
    }

    fn advance(&mut self, now: u64, budget: usize) -> Progress {
        let (effects, progress) = self.world.slice(now, budget);
        assert_eq!(progress, self.naive.advance(now, budget));
        self.compare(&effects);
        progress
    }

    fn run(&mut self, session: Index, command: Command<'_>) {
        let session = *session.get(&self.sessions);
        let effects = self.world.run(session, command);
        self.naive.run(session.0, command);
        self.compare(&effects);
    }

    fn open(&mut self) {
        if self.sessions.len() < 4 {
            self.sessions.push(self.world.open());
        }
    }

    /// Closes a session. Each bit of `unsent` says whether a grant to it, the last first, was never sent.
    fn close(&mut self, session: Index, unsent: u8) {
        let session = self.sessions.remove(session.index(self.sessions.len()));
        let unsent = some_of(self.grants.values().rev().filter(|grant| grant.0 == session), unsent);
        self.grants.retain(|_, grant| grant.0 != session);
        let effects = self.world.close(session, &unsent);
        self.naive.close(session.0, &tokens(&unsent));
        self.compare(&effects);
        if self.sessions.is_empty() {
            self.open();
        }
    }

    fn token(&self, key: usize, token: Token) -> u64 {
        let active = |name: &str| {
            let key = self.naive.keys.iter().find(|key| key.name == name);
            key.and_then(|key| key.lease.as_ref()).map_or(0, |lease| lease.token)
        };
        let last = self.world.engine.last_token();
        match token {
            Token::Active => active(KEYS[key]),
            Token::ActiveOf(key) => active(KEYS[key]),
            Token::Zero => 0,
            Token::Next => last + 1,
            Token::Any(index) => index.index(last as usize + 1) as u64,
        }
    }

    fn then(&self, step: Step) -> u64 {
        let now = self.world.now_ms();
        match step {
            Step::Ms(ms) => now + ms,
            Step::ToDeadline(ms) => {
                let deadline = self.world.next_deadline_ms().unwrap_or(now);
                now.max((deadline + ms).saturating_sub(1))
            }
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Nothing => {}
            Op::Acquire { session, key, wait_s, lease_s, owner } => {
                self.run(session, Command::Acquire { wait_s, lease_s, owner, key: KEYS[key] });
            }
            Op::Release { session, key, token } => {
                let token = self.token(key, token);
                self.run(session, Command::Release { token, key: KEYS[key] });
            }
            Op::Extend { session, key, lease_s, token } => {
                let token = self.token(key, token);
                self.run(session, Command::Extend { lease_s, token, key: KEYS[key] });
            }
            Op::Cancel { session, key, owner } => {
                self.run(session, Command::Cancel { owner, key: KEYS[key] });
            }
            Op::Query { session, key } => self.run(session, Command::Query { id: 7, key: KEYS[key] }),
            Op::Time { step } => assert_eq!(self.advance(self.then(step), ALL), Progress::Done),
            Op::Slices { step, budget, session } => {
                let now = self.then(step);
                if self.advance(now, budget) == Progress::More {
                    self.close(session, 0xff);
                }
                while self.advance(now, budget.max(1)) == Progress::More {}
            }
            Op::Open => self.open(),
            Op::Close { session, unsent } => self.close(session, unsent),
            Op::Drain => {
                let effects = self.world.drain();
                self.naive.drain();
                self.compare(&effects);
            }
            Op::StorageFails { lost } => {
                let lost = some_of(self.grants.values().rev(), lost);
                let effects = self.world.storage_fails(&lost);
                self.naive.storage_fails(&tokens(&lost));
                self.compare(&effects);
            }
            Op::StorageWorks => {
                self.world.storage_works();
                self.naive.storage_works();
                self.compare(&[]);
            }
        }
    }
}

/// Of the first eight grants those whose bit is set.
fn some_of<'a>(grants: impl Iterator<Item = &'a (SessionId, UnsentGrant)>, bits: u8) -> Vec<UnsentGrant> {
    let chosen = grants.take(8).enumerate().filter(|(nth, _)| bits >> nth & 1 == 1);
    chosen.map(|(_, grant)| grant.1).collect()
}

fn tokens(grants: &[UnsentGrant]) -> Vec<u64> {
    grants.iter().map(|grant| grant.token).collect()
}

/// The op of an answer, and what tells apart those of one op.
fn kind(answer: &Answer) -> String {
    match answer {
        Answer::Acquired { waited_ms: 0, .. } => "A at once".into(),
        Answer::Acquired { .. } => "A after waiting".into(),
        Answer::Timeout { .. } => "T".into(),
        Answer::Busy { reason, .. } => format!("B {}", reason.as_u8()),
        Answer::Released { .. } => "R".into(),
        Answer::Extended { .. } => "E".into(),
        Answer::NotHeld { .. } => "N".into(),
        Answer::NotDurable { .. } => "X 10".into(),
        Answer::State { state, waiters, .. } => format!("Q {} {}", state.as_u8(), waiters.min(&1)),
    }
}

/// A model test proves nothing about what it never does.
#[test]
fn the_random_operations_get_every_kind_of_answer() {
    let mut runner = TestRunner::deterministic();
    let strategy = (start(), proptest::collection::vec(op(), 400));
    let mut seen = BTreeSet::new();
    for _ in 0..30 {
        let (start, ops) = strategy.new_tree(&mut runner).unwrap().current();
        let mut both = Both::new(&start);
        ops.iter().for_each(|op| both.apply(op));
        seen.append(&mut both.seen);
    }
    let expected = [
        "A after waiting",
        "A at once",
        "B 1",
        "B 2",
        "B 3",
        "B 4",
        "B 5",
        "B 6",
        "E",
        "N",
        "Q 0 0",
        "Q 1 0",
        "Q 1 1",
        "Q 2 0",
        "Q 2 1",
        "R",
        "T",
        "X 10",
    ];
    assert!(seen.iter().eq(expected), "{seen:?}");
}

proptest! {
    // 256 cases, if PROPTEST_CASES does not say otherwise, of 400 operations and more: above 100,000.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_naive_one_does(
        start in start(),
        ops in proptest::collection::vec(op(), 400..440),
    ) {
        let mut both = Both::new(&start);
        for op in &ops {
            both.apply(op);
        }
    }
}
