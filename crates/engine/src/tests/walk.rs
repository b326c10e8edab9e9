//! Walks through the held keys in pieces, while keys come and go.

use super::{Random, acquire, engine, run};
use crate::invariants::check;
use crate::{Answer, Command, Effect, Engine, Instant, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::string::String;
use std::vec::Vec;

const KEYS: u64 = 700;

/// An engine and, by token, the key and the end of every lease that it has.
struct Walked {
    engine: Engine,
    session: SessionId,
    leases: BTreeMap<u64, (String, Instant)>,
    random: Random,
}

impl Walked {
    /// Some hundred keys are held; if the engine is recovering, no others will be, but free keys are waited for.
    fn new(seed: u64, recovering: bool) -> Self {
        let mut engine = engine(None);
        let session = engine.open_session();
        let mut walked = Self { engine, session, leases: BTreeMap::new(), random: Random(seed) };
        for nth in 0..KEYS / 2 {
            walked.acquire(nth);
        }
        walked.engine.recovery_ends = recovering.then_some(Instant(1 << 40));
        walked
    }

    fn acquire(&mut self, nth: u64) {
        let effects = acquire(&mut self.engine, self.session, &format!("key {nth}"), 255, nth);
        self.learn(&effects);
    }

    fn learn(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect.answer {
                Answer::Acquired { token, lease_s, key, .. } => {
                    let ends = self.engine.now.end_after(lease_s);
                    let key = self.engine.key(key).unwrap().into();
                    assert_eq!(self.leases.insert(token, (key, ends)), None);
                }
                Answer::Released { token } => _ = self.leases.remove(&token).unwrap(),
                Answer::Extended { token, lease_s } => {
                    let ends = self.engine.now.end_after(lease_s);
                    let lease = self.leases.get_mut(&token).unwrap();
                    lease.1 = lease.1.max(ends);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// A key is asked for, which may have waiters then, or a lease ends, or it moves its end. What is released with
    /// waiters keeps its place for the next lease.
    fn come_or_go(&mut self) {
        let nth = self.random.below(KEYS);
        let lease = self.leases.iter().nth(nth as usize % self.leases.len().max(1));
        let (session, kind) = (self.session, self.random.below(5));
        let (token, key) = match lease {
            Some((token, lease)) if kind > 1 => (*token, lease.0.clone()),
            _ => return self.acquire(nth),
        };
        let command = match kind {
            2 => Command::Extend { lease_s: 1 + (nth % 20) as u8, token, key: &key },
            _ => Command::Release { token, key: &key },
        };
        let effects = run(&mut self.engine, session, command);
        self.learn(&effects);
    }
}

#[test]
fn a_walk_in_pieces_finds_every_lease_that_lives_throughout() {
    let (mut came, mut went, mut lived, mut chunks) = (0, 0, 0, BTreeSet::new());
    for seed in 0..40 {
        let mut walked = Walked::new(seed, seed % 4 == 3);
        let mut throughout: BTreeSet<u64> = walked.leases.keys().copied().collect();
        let before = walked.leases.clone();
        let mut found: Vec<u64> = Vec::new();
        let mut from = 0;
        while let Some(held) = walked.engine.held_from(from) {
            assert!(held.place >= from);
            let (key, ends) = &walked.leases[&held.token];
            assert_eq!((held.key, held.ends), (key.as_str(), *ends));
            found.push(held.token);
            chunks.insert(held.place / 64);
            from = held.place + 1;
            // The next piece begins after some time, or at once.
            if walked.random.below(8) == 0 {
                for _ in 0..walked.random.below(30) {
                    walked.come_or_go();
                    throughout.retain(|token| walked.leases.contains_key(token));
                }
                check(&walked.engine).unwrap();
            }
        }
        let once: BTreeSet<u64> = found.iter().copied().collect();
        assert_eq!(once.len(), found.len(), "no lease is found twice");
        assert!(once.is_superset(&throughout), "{:?} were passed over", throughout.difference(&once));
        came += once.iter().filter(|token| !before.contains_key(token)).count();
        went += before.len() - throughout.len();
        lived += throughout.len();
    }
    assert!(
        came > 100 && went > 1000 && lived > 1000 && chunks.len() > 5,
        "{came} {went} {lived} {chunks:?}"
    );
}

#[test]
fn a_walk_has_an_end_wherever_it_begins() {
    let mut engine = engine(None);
    assert_eq!([0, 1, 63, 64, u32::MAX].map(|from| engine.held_from(from)), [None; 5]);
    let session = engine.open_session();
    for nth in 0..128 {
        acquire(&mut engine, session, &format!("key {nth}"), 0, nth);
    }
    let place = |engine: &Engine, from| engine.held_from(from).map(|held| held.place);
    assert_eq!([0, 63, 64, 127].map(|from| place(&engine, from)), [0, 63, 64, 127].map(Some));
    assert_eq!([128, 129, u32::MAX].map(|from| place(&engine, from)), [None; 3]);
    // A free key that is waited for has a place, but is not held.
    for token in 1..=128 {
        if token != 64 {
            run(&mut engine, session, Command::Release { token, key: &format!("key {}", token - 1) });
        }
    }
    engine.recovery_ends = Some(Instant(1000));
    acquire(&mut engine, session, "parked", 9, 1);
    assert_eq!(engine.counts().keys, 2);
    assert_eq!([0, 1, 63, 64].map(|from| place(&engine, from)), [Some(63), Some(63), Some(63), None]);
}
