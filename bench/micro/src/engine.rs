//! What a request does to the lock table, and what time does to it.

use lockstead_engine::{Answer, Command, Effect, Engine, Instant, Limits, Progress, SessionId};

use crate::{Case, OPERATIONS, Work, keys};

const LEASE_S: u8 = 30;
const WAIT_S: u8 = 10;

pub(crate) fn cases() -> Vec<Case> {
    let pairs = |name, others| Case::new(name, move || Pairs(Table::new(64, others)));
    vec![
        pairs("engine/pair/few", 0),
        pairs("engine/pair/100k", 100_000),
        Case { is_counted: false, ..pairs("engine/pair/1M", 1_000_000) },
        Case::new("engine/hand-over", || HandOvers(Table::new_held(1))),
        Case::new("engine/extend", || Extends(Table::new_held(64))),
        Case::new("engine/query", || Queries(Table::new_held(64))),
        Case::new("engine/lease-end", || LeaseEnds(Table::new(OPERATIONS, 0))),
        Case::new("engine/wait-end", || WaitEnds(Table::new_held(1))),
    ]
}

/// An engine, and a caller who takes each answer at once.
struct Table {
    engine: Engine,
    session: SessionId,
    now: Instant,
    keys: Vec<String>,
    answers: Vec<Effect>,
}

impl Table {
    /// With free keys to work with, and others that are held and left alone.
    fn new(free: usize, others: usize) -> Self {
        let mut engine = Engine::new(Limits::default(), [1, 2], Instant(0), None);
        engine.supply_tokens(1, 1 << 62);
        let session = engine.open_session();
        let mut table = Self { engine, session, now: Instant(0), keys: keys(free + others), answers: vec![] };
        for i in free..free + others {
            table.acquire(i, u8::MAX, 0);
        }
        table.keys.truncate(free);
        table
    }

    /// With keys to work with that are held, the first with token 1.
    fn new_held(held: usize) -> Self {
        let mut table = Self::new(held, 0);
        for i in 0..held {
            table.acquire(i, LEASE_S, 0);
        }
        table
    }

    fn run(&mut self, command: impl FnOnce(&str) -> Command<'_>, key: usize) -> Option<Answer> {
        let key = &self.keys[key % self.keys.len()];
        self.answers.clear();
        self.engine.run(self.now, self.session, command(key), &mut self.answers);
        self.answers.last().map(|effect| effect.answer)
    }

    fn acquire(&mut self, key: usize, lease_s: u8, wait_s: u8) -> Option<Answer> {
        self.run(|key| Command::Acquire { wait_s, lease_s, owner: 7, key }, key)
    }

    /// Lets everything end that is due after so many seconds.
    fn pass(&mut self, seconds: u8) {
        self.now = self.now.end_after(seconds);
        self.answers.clear();
        let progress = self.engine.advance(self.now, OPERATIONS, &mut self.answers);
        assert_eq!(progress, Progress::Done, "no more is due than the work made");
    }
}

/// Calls `one` with each number of an operation, and counts how often it says yes.
fn each(mut one: impl FnMut(usize) -> bool) -> usize {
    (0..OPERATIONS).filter(|&i| one(i)).count()
}

/// An acquire of a free key and its release.
struct Pairs(Table);

impl Work for Pairs {
    fn run(&mut self) -> usize {
        let table = &mut self.0;
        each(|i| {
            let Some(Answer::Acquired { token, .. }) = table.acquire(i, LEASE_S, 0) else { return false };
            let answer = table.run(|key| Command::Release { token, key }, i);
            answer == Some(Answer::Released { token })
        })
    }
}

/// An acquire that waits, and the release that grants it the key.
struct HandOvers(Table);

impl Work for HandOvers {
    fn run(&mut self) -> usize {
        let table = &mut self.0;
        each(|i| {
            let token = table.engine.last_token();
            let queued = table.acquire(i, LEASE_S, WAIT_S).is_none();
            table.run(|key| Command::Release { token, key }, i);
            queued && table.answers.iter().any(|effect| matches!(effect.answer, Answer::Acquired { .. }))
        })
    }
}

/// An extend that moves the end of the lease.
struct Extends(Table);

impl Work for Extends {
    fn run(&mut self) -> usize {
        let table = &mut self.0;
        let held = table.keys.len();
        each(|i| {
            table.now.0 += 1;
            let token = (i % held + 1) as u64;
            let answer = table.run(|key| Command::Extend { lease_s: LEASE_S, token, key }, i);
            matches!(answer, Some(Answer::Extended { .. }))
        })
    }
}

/// A query of a held key.
struct Queries(Table);

impl Work for Queries {
    fn run(&mut self) -> usize {
        let table = &mut self.0;
        each(|i| {
            let answer = table.run(|key| Command::Query { id: 7, key }, i);
            matches!(answer, Some(Answer::State { remaining_ms: 1.., .. }))
        })
    }
}

/// A lease that ends by time.
struct LeaseEnds(Table);

impl Work for LeaseEnds {
    fn prepare(&mut self) {
        each(|i| self.0.acquire(i, LEASE_S, 0).is_some());
    }

    fn run(&mut self) -> usize {
        let held = self.0.engine.counts().held;
        self.0.pass(LEASE_S);
        (held - self.0.engine.counts().held) as usize
    }
}

/// A wait that ends by time.
struct WaitEnds(Table);

impl Work for WaitEnds {
    fn prepare(&mut self) {
        self.0.run(|key| Command::Extend { lease_s: u8::MAX, token: 1, key }, 0);
        each(|i| self.0.acquire(i, LEASE_S, WAIT_S).is_none());
    }

    fn run(&mut self) -> usize {
        self.0.pass(WAIT_S);
        self.0.answers.iter().filter(|effect| matches!(effect.answer, Answer::Timeout { .. })).count()
    }
}
