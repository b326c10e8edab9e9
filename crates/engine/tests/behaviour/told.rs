//! All that an engine says, in its order, and what its decisions alone would restore.

use lockstead_engine::{Answer, Effect, Effects, Engine, Held, Instant, SessionId};
use std::collections::BTreeMap;

/// An answer or a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Answer(Effect),
    Granted { key: String, token: u64, ends: Instant },
    Extended { key: String, token: u64, ends: Instant },
    Freed { key: String, token: u64 },
}

/// What was said, one after the other.
#[derive(Debug, Default)]
pub struct Told(pub Vec<Said>);

impl Effects for Told {
    fn answer(&mut self, session: SessionId, answer: Answer) {
        self.0.push(Said::Answer(Effect { session, answer }));
    }

    fn granted(&mut self, key: &str, token: u64, ends: Instant) {
        self.0.push(Said::Granted { key: key.into(), token, ends });
    }

    fn extended(&mut self, key: &str, token: u64, ends: Instant) {
        self.0.push(Said::Extended { key: key.into(), token, ends });
    }

    fn freed(&mut self, key: &str, token: u64) {
        self.0.push(Said::Freed { key: key.into(), token });
    }
}

impl Told {
    /// The answers alone.
    pub fn answers(&self) -> Vec<Effect> {
        let answer = |said: &Said| match said {
            Said::Answer(effect) => Some(*effect),
            _ => None,
        };
        self.0.iter().filter_map(answer).collect()
    }
}

/// Token and end of each key that is held, as the decisions so far tell: what a journal would restore.
#[derive(Debug, Default)]
pub struct Leases(BTreeMap<String, (u64, Instant)>);

impl Leases {
    pub fn restored(&mut self, key: &str, token: u64, ends: Instant) {
        self.0.insert(key.into(), (token, ends));
    }

    /// Takes the decisions. Each fits the ones before: a free key is granted, an end is moved to a later one, and the
    /// very token that is freed was active. An answer that a journal holds back comes behind its decision.
    pub fn follow(&mut self, told: &Told) -> Result<(), String> {
        for said in &told.0 {
            let fits = match said {
                Said::Granted { key, token, ends } => self.0.insert(key.clone(), (*token, *ends)).is_none(),
                Said::Extended { key, token, ends } => {
                    let before = self.0.insert(key.clone(), (*token, *ends));
                    before.is_some_and(|before| before.0 == *token && before.1 < *ends)
                }
                Said::Freed { key, token } => self.0.remove(key).is_some_and(|before| before.0 == *token),
                Said::Answer(Effect { answer: Answer::Acquired { token, .. }, .. }) => {
                    self.0.values().any(|lease| lease.0 == *token)
                }
                Said::Answer(_) => true,
            };
            if !fits {
                return Err(format!("{said:?} does not fit what was decided before"));
            }
        }
        Ok(())
    }

    /// Compares with what a walk through all places of the engine finds.
    pub fn are_held_by(&self, engine: &Engine) -> Result<(), String> {
        let mut place = 0;
        let mut found = 0;
        while let Some(held) = engine.held_from(place) {
            let Held { key, token, ends, .. } = held;
            if self.0.get(key) != Some(&(token, ends)) {
                return Err(format!("{held:?} is held, decided was {:?}", self.0.get(key)));
            }
            found += 1;
            place = held.place + 1;
        }
        let decided = self.0.len();
        if found == decided { Ok(()) } else { Err(format!("{found} keys are held, decided were {decided}")) }
    }
}

/// Each kind of fault that the decisions can have is found.
mod canaries {
    use super::{Leases, Said, Told};
    use crate::world::World;
    use lockstead_engine::Instant;

    fn granted(token: u64, ends: u64) -> Said {
        Said::Granted { key: "k".into(), token, ends: Instant(ends) }
    }

    fn extended(token: u64, ends: u64) -> Said {
        Said::Extended { key: "k".into(), token, ends: Instant(ends) }
    }

    fn freed(token: u64) -> Said {
        Said::Freed { key: "k".into(), token }
    }

    #[test]
    fn a_decision_that_does_not_fit_is_found() {
        let fits = |said: Vec<Said>| Leases::default().follow(&Told(said)).is_ok();
        assert!(fits(vec![granted(1, 10), extended(1, 11), freed(1), granted(2, 10)]));
        assert!(!fits(vec![granted(1, 10), granted(2, 10)]));
        assert!(!fits(vec![granted(1, 10), extended(2, 11)]));
        assert!(!fits(vec![granted(1, 10), extended(1, 10)]));
        assert!(!fits(vec![extended(1, 10)]));
        assert!(!fits(vec![granted(1, 10), freed(2)]));
        assert!(!fits(vec![freed(1)]));
    }

    #[test]
    fn an_answer_that_comes_before_its_decision_is_found() {
        let mut world = World::new();
        let session = world.open();
        world.take(session, "k", 1);
        assert!(Leases::default().follow(&world.told).is_ok());
        world.told.0.reverse();
        assert!(Leases::default().follow(&world.told).is_err());
    }

    #[test]
    fn a_decision_that_is_missing_is_found() {
        let mut world = World::new();
        let session = world.open();
        world.take(session, "k", 1);
        let holds = |said: Vec<Said>| {
            let mut leases = Leases::default();
            leases.follow(&Told(said)).unwrap();
            leases.are_held_by(&world.engine).is_ok()
        };
        assert!(holds(vec![granted(1, 1001)]));
        assert!(!holds(vec![]));
        assert!(!holds(vec![granted(2, 1001)]));
        assert!(!holds(vec![granted(1, 1002)]));
        let other = Said::Granted { key: "l".into(), token: 2, ends: Instant(9) };
        assert!(!holds(vec![granted(1, 1001), other]));
    }
}
