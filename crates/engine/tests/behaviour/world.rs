//! An engine with its clock and its watchers: every step is checked against the invariants, and its decisions against
//! what it holds.

use crate::told::{Leases, Told};
use lockstead_engine::invariants::{self, History};
use lockstead_engine::{Answer, Command, Effect, Engine, Instant, Limits, Progress, SessionId, UnsentGrant};

/// Any seed will do.
pub const SEED: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

/// More than is ever due in these tests; an engine that gets nowhere fails instead of going on for ever.
pub const ALL: usize = 50_000;

pub struct World {
    pub engine: Engine,
    pub history: History,
    /// What the last step did, decisions and answers.
    pub told: Told,
    /// What its decisions so far alone would restore.
    leases: Leases,
    now: Instant,
}

impl World {
    /// An engine at the instant 0 that recovers until `recovery_ends_ms`, with the restored keys, tokens and ends.
    pub fn restored(limits: Limits, recovery_ends_ms: Option<u64>, leases: &[(&str, u64, u64)]) -> Self {
        let now = Instant(0);
        let engine = Engine::new(limits, SEED, now, recovery_ends_ms.map(Instant));
        let history = History::new();
        let mut world = Self { engine, history, told: Told::default(), leases: Leases::default(), now };
        for &(key, token, ends_ms) in leases {
            world.engine.restore(key, token, Instant(ends_ms));
            world.history.restored(key, token, Instant(ends_ms)).unwrap();
            world.leases.restored(key, token, Instant(ends_ms));
        }
        let first = world.engine.last_token() + 1;
        world.engine.supply_tokens(first, 1 << 40);
        world
    }

    pub fn with(limits: Limits) -> Self {
        Self::restored(limits, None, &[])
    }

    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn open(&mut self) -> SessionId {
        self.engine.open_session()
    }

    pub fn now_ms(&self) -> u64 {
        self.now.0
    }

    /// Goes on to an instant and does all that is due.
    pub fn at(&mut self, now_ms: u64) -> Vec<Effect> {
        let (effects, progress) = self.slice(now_ms, ALL);
        assert_eq!(progress, Progress::Done);
        effects
    }

    /// Goes on to an instant and does some of what is due.
    pub fn slice(&mut self, now_ms: u64, budget: usize) -> (Vec<Effect>, Progress) {
        let now = Instant(now_ms);
        self.now = now;
        let (effects, progress) = self.step(|engine, told| engine.advance(now, budget, told));
        let engine = &self.engine;
        self.history.advanced(now, progress, &effects, |key| engine.key(key)).unwrap();
        (effects, progress)
    }

    pub fn run(&mut self, session: SessionId, command: Command<'_>) -> Vec<Effect> {
        let now = self.now;
        let (effects, ()) = self.step(|engine, told| engine.run(now, session, command, told));
        let engine = &self.engine;
        self.history.ran(now, session, command, &effects, |key| engine.key(key)).unwrap();
        effects
    }

    pub fn close(&mut self, session: SessionId, unsent: &[UnsentGrant]) -> Vec<Effect> {
        let (now, grants) = (self.now, unsent.iter().copied());
        let (effects, ()) = self.step(|engine, told| engine.close_session(now, session, grants, told));
        let engine = &self.engine;
        self.history.closed(now, session, unsent, &effects, |key| engine.key(key)).unwrap();
        effects
    }

    pub fn drain(&mut self) -> Vec<Effect> {
        let (effects, ()) = self.step(Engine::drain);
        self.history.drained(self.now, &effects).unwrap();
        effects
    }

    /// The storage fails; these grants are lost.
    pub fn storage_fails(&mut self, lost: &[UnsentGrant]) -> Vec<Effect> {
        let grants = lost.iter().copied();
        let (effects, ()) = self.step(|engine, told| engine.storage_fails(grants, told));
        self.history.storage_failed(self.now, lost, &effects).unwrap();
        effects
    }

    pub fn storage_works(&mut self) {
        self.step(|engine, _| engine.storage_works());
        self.history.storage_worked();
    }

    /// One step of the engine; the answers of what it did.
    fn step<T>(&mut self, step: impl FnOnce(&mut Engine, &mut Told) -> T) -> (Vec<Effect>, T) {
        self.told = Told::default();
        let result = step(&mut self.engine, &mut self.told);
        self.leases.follow(&self.told).unwrap();
        self.leases.are_held_by(&self.engine).unwrap();
        invariants::check(&self.engine).unwrap();
        (self.told.answers(), result)
    }

    pub fn acquire(
        &mut self,
        session: SessionId,
        key: &str,
        wait_s: u8,
        lease_s: u8,
        owner: u64,
    ) -> Vec<Effect> {
        self.run(session, Command::Acquire { wait_s, lease_s, owner, key })
    }

    /// Acquires a free key.
    pub fn take(&mut self, session: SessionId, key: &str, lease_s: u8) -> UnsentGrant {
        only_grant(&self.acquire(session, key, 0, lease_s, 0))
    }

    pub fn release(&mut self, session: SessionId, key: &str, token: u64) -> Vec<Effect> {
        self.run(session, Command::Release { token, key })
    }

    pub fn extend(&mut self, session: SessionId, key: &str, lease_s: u8, token: u64) -> Vec<Effect> {
        self.run(session, Command::Extend { lease_s, token, key })
    }

    pub fn cancel(&mut self, session: SessionId, key: &str, owner: u64) -> Vec<Effect> {
        self.run(session, Command::Cancel { owner, key })
    }

    pub fn query(&mut self, session: SessionId, key: &str) -> Answer {
        let effects = self.run(session, Command::Query { id: 0, key });
        assert_eq!(effects.len(), 1);
        assert_eq!(effects[0].session, session);
        effects[0].answer
    }

    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.engine.next_deadline().map(|at| at.0)
    }
}

/// The grant, if an effect is one.
pub fn grant(effect: &Effect) -> Option<UnsentGrant> {
    match effect.answer {
        Answer::Acquired { token, key, .. } => Some(UnsentGrant { key, token }),
        _ => None,
    }
}

/// The grant that is the only effect.
pub fn only_grant(effects: &[Effect]) -> UnsentGrant {
    assert_eq!(effects.len(), 1, "{effects:?}");
    grant(&effects[0]).unwrap_or_else(|| panic!("{effects:?} is no grant"))
}
