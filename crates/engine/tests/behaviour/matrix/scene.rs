//! A key in some state under some condition, and what can be seen of it.

use super::cells::{Condition, KeyState};
use crate::world::{World, only_grant};
use lockstead_engine::{Answer, Counts, Effect, Limits, SessionId, UnsentGrant};
use lockstead_proto::KeyState as State;

pub const KEY: &str = "key";
pub const OTHER_KEY: &str = "other key";
/// When the scene is set, the lease of a held key ends, and the recovery does.
pub const START_MS: u64 = 10_000;
pub const LEASE_END_MS: u64 = 60_001;
pub const RECOVERY_END_MS: u64 = 200_000;
/// The waits of the two waiters, in seconds: both end before the lease.
pub const WAITS_S: [u8; 2] = [20, 30];

/// The key in its state, under the condition, at [`START_MS`]. Another key is held all the time.
pub struct Scene {
    pub world: World,
    pub condition: Condition,
    /// Who asks, and whom the key was granted to where sessions can be.
    pub asker: SessionId,
    /// The grant of the key, or the one that was. A restored one has no place that the test knows.
    pub token: u64,
    pub grant: Option<UnsentGrant>,
    pub other_token: u64,
    /// Two waiters for the key, where there can be any, of sessions of their own.
    pub waiters: Vec<SessionId>,
}

impl Scene {
    pub fn new(key: KeyState, condition: Condition) -> Self {
        let mut scene = Self::without_waiters(Limits::default(), key, condition);
        if key == KeyState::Held || condition == Condition::Recovering {
            for (wait_s, owner) in WAITS_S.into_iter().zip(50..) {
                let session = scene.world.open();
                assert_eq!(scene.world.acquire(session, KEY, wait_s, 30, owner), []);
                scene.waiters.push(session);
            }
        }
        let told = scene.start().len();
        if condition.sends_away() {
            assert_eq!(told, scene.waiters.len());
            scene.waiters.clear();
        }
        scene
    }

    /// Lets the condition start, if it is one that starts while the server runs.
    pub fn start(&mut self) -> Vec<Effect> {
        match self.condition {
            Condition::None | Condition::Recovering => Vec::new(),
            Condition::Draining => self.world.drain(),
            Condition::StorageFailing => self.world.storage_fails(&[]),
        }
    }

    /// The scene before anybody waits, and before the condition starts.
    pub fn without_waiters(limits: Limits, key: KeyState, condition: Condition) -> Self {
        let held = key == KeyState::Held;
        if condition == Condition::Recovering {
            let ends = if held { LEASE_END_MS } else { 5000 };
            let leases = [(KEY, 77, ends), (OTHER_KEY, 78, 255_000)];
            let mut world = World::restored(limits, Some(RECOVERY_END_MS), &leases);
            let asker = world.open();
            assert_eq!(world.at(START_MS), []);
            return Self {
                world,
                condition,
                asker,
                token: 77,
                grant: None,
                other_token: 78,
                waiters: Vec::new(),
            };
        }
        let mut world = World::with(limits);
        let asker = world.open();
        let grant = world.take(asker, KEY, 60);
        if !held {
            assert_eq!(world.release(asker, KEY, grant.token).len(), 1);
        }
        let other_token = world.take(asker, OTHER_KEY, 255).token;
        assert_eq!(world.at(START_MS), []);
        let token = grant.token;
        Self { world, condition, asker, token, grant: Some(grant), other_token, waiters: Vec::new() }
    }

    /// State, remaining time and number of waiters, and what the table holds.
    pub fn state(&mut self) -> (Answer, Counts, Option<u64>) {
        let state = self.world.query(self.asker, KEY);
        (state, self.world.engine.counts(), self.world.next_deadline_ms())
    }

    pub fn key_state(&mut self) -> (State, u32, u32) {
        match self.world.query(self.asker, KEY) {
            Answer::State { state, remaining_ms, waiters, .. } => (state, remaining_ms, waiters),
            other => panic!("{other:?}"),
        }
    }

    pub fn answer(&self, effects: &[Effect]) -> Answer {
        assert_eq!(effects.len(), 1, "{effects:?}");
        assert_eq!(effects[0].session, self.asker);
        effects[0].answer
    }

    /// What became of a key whose token was just voided.
    pub fn freed(&mut self, effects: &[Effect]) -> String {
        let waiting = self.waiters.len() as u32;
        let token = self.token;
        assert_eq!(self.world.release(self.asker, KEY, token)[0].answer, Answer::NotHeld { token });
        if effects.is_empty() {
            let free = if self.condition == Condition::Recovering { State::Recovering } else { State::Free };
            let (state, _, waiters) = self.key_state();
            assert_eq!((state, waiters), (free, waiting));
            return "grants nobody".into();
        }
        assert_eq!(effects.len(), 1);
        assert_eq!(effects[0].session, self.waiters[0]);
        assert!(only_grant(effects).token > token);
        let (state, remaining_ms, waiters) = self.key_state();
        assert_eq!((state, remaining_ms, waiters), (State::Held, 30_001, waiting - 1));
        "first waiter: `A`".into()
    }
}
