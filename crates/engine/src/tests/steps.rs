//! Big tables: what an operation costs is counted in records looked at, whatever the clock says.

use super::{acquire, advance, run};
use crate::{Answer, Command, Effect, Engine, Instant, Limits, SessionId, UnsentGrant};
use std::format;
use std::vec::Vec;

fn engine() -> Engine {
    let mut engine = Engine::new(Limits::default(), [7, 8], Instant(0), None);
    engine.supply_tokens(1, 1 << 40);
    engine
}

fn steps(engine: &Engine) -> u64 {
    engine.keys.slab.steps() + engine.waiters.slab.steps() + engine.sessions.steps()
}

/// The steps of each repetition: none takes more than `most`, all of them on average no more than `average`.
fn count(
    engine: &mut Engine,
    repetitions: u64,
    [average, most]: [u64; 2],
    mut operation: impl FnMut(&mut Engine, u64),
) -> Vec<u64> {
    let mut counted = Vec::new();
    let mut sum = 0;
    for nth in 0..repetitions {
        let before = steps(engine);
        operation(engine, nth);
        let steps = steps(engine) - before;
        assert!(steps <= most, "{steps} steps");
        counted.push(steps);
        sum += steps;
        // A table that is degenerate is found before it takes for ever.
        assert!(sum <= average * (nth + 1000), "{} steps on average", sum / (nth + 1));
    }
    assert!(sum <= average * repetitions, "{} steps on average", sum / repetitions);
    counted
}

fn sum(steps: &[u64]) -> u64 {
    steps.iter().sum()
}

fn token(effects: &[Effect]) -> u64 {
    match effects.last().unwrap().answer {
        Answer::Acquired { token, .. } => token,
        other => panic!("{other:?}"),
    }
}

fn release(engine: &mut Engine, session: SessionId, key: &str, token: u64) -> Vec<Effect> {
    run(engine, session, Command::Release { token, key })
}

#[test]
fn p12_a_hand_over_costs_the_same_whatever_the_queue() {
    let mut engine = engine();
    let session = engine.open_session();
    let mut held = token(&acquire(&mut engine, session, "k", 0, 0));
    count(&mut engine, 5000, [40, 100], |engine, owner| {
        acquire(engine, session, "k", 255, owner);
    });
    let released = count(&mut engine, 5000, [40, 100], |engine, _| {
        held = token(&release(engine, session, "k", held));
    });
    // The first hundred with 5,000 in the queue, the last hundred with hardly any.
    let (full, empty) = (sum(&released[..100]), sum(&released[4900..]));
    assert!(full < 2 * empty && empty < 2 * full, "{full} steps, then {empty}");
}

#[test]
fn a_hundred_thousand_keys_and_twenty_thousand_waiters_stay_linear() {
    let mut engine = engine();
    let holder = engine.open_session();
    count(&mut engine, 100_000, [30, 120], |engine, nth| {
        acquire(engine, holder, &format!("key {nth}"), 0, nth);
    });
    let session = engine.open_session();
    count(&mut engine, 20_000, [40, 120], |engine, owner| {
        acquire(engine, session, "key 0", 1 + (owner % 255) as u8, owner);
    });

    count(&mut engine, 30_000, [20, 20], |engine, nth| {
        assert!(!release(engine, holder, &format!("key {}", nth + 1), nth + 2).is_empty());
    });
    // The waits that end within 5 s, and then the leases that were armed at one instant.
    let mut due = [5001, 9001].into_iter();
    count(&mut engine, 2, [20 * 45_000, 25 * 75_000], |engine, _| {
        assert!(!advance(engine, Instant(due.next().unwrap())).is_empty());
    });
    let waiters = u64::from(engine.counts().waiters);
    assert!(waiters > 19_000);
    count(&mut engine, 1, [25 * waiters, 25 * waiters], |engine, _| {
        engine.close_session(engine.now, session, [], &mut Vec::new());
    });
    assert_eq!(engine.counts().waiters, 0);
}

#[test]
fn grants_that_were_never_sent_are_freed_one_by_one() {
    let mut engine = engine();
    let session = engine.open_session();
    let grants: Vec<UnsentGrant> = (0..50_000)
        .map(|nth| match acquire(&mut engine, session, &format!("key {nth}"), 0, nth)[0].answer {
            Answer::Acquired { token, key, .. } => UnsentGrant { key, token },
            other => panic!("{other:?}"),
        })
        .collect();
    count(&mut engine, 1, [20 * 50_000, 20 * 50_000], |engine, _| {
        engine.close_session(engine.now, session, grants.iter().copied(), &mut Vec::new());
    });
    assert_eq!(engine.counts().keys, 0);
}

/// A hostile session queues as many attempts as it may under one name, another key and others in between.
#[test]
fn a_cancel_finds_its_attempt_among_many_of_the_same_name() {
    let mut engine = engine();
    let [holder, hostile] = [engine.open_session(), engine.open_session()];
    for key in ["k", "l"] {
        acquire(&mut engine, holder, key, 0, 1);
    }
    count(&mut engine, 32_768, [45, 150_000], |engine, nth| {
        let key = if nth % 3 == 0 { "l" } else { "k" };
        assert!(acquire(engine, hostile, key, 255, 7).is_empty());
    });
    // Now and then all of them are moved to another bucket at once.
    count(&mut engine, 32_768, [30, 60_000], |engine, nth| {
        let key = if nth % 3 == 0 { "l" } else { "k" };
        let effects = run(engine, hostile, Command::Cancel { owner: 7, key });
        assert_eq!(effects[0].answer, Answer::Timeout { owner: 7 });
    });
    assert_eq!(engine.counts().waiters, 0);
}

/// What a checkpoint pays for: each lease once, and the room that was given back a chunk at a time.
#[test]
fn a_walk_takes_a_step_for_each_lease_and_each_empty_chunk() {
    const KEYS: u32 = 100_000;
    let mut engine = engine();
    let holder = engine.open_session();
    for nth in 0..KEYS {
        acquire(&mut engine, holder, &format!("key {nth}"), 0, nth.into());
    }
    count(&mut engine, KEYS.into(), [6, 7], |engine, nth| {
        assert_eq!(engine.held_from(nth as u32).unwrap().token, nth + 1);
    });
    for nth in 0..KEYS - 1 {
        release(&mut engine, holder, &format!("key {nth}"), u64::from(nth) + 1);
    }
    let most = u64::from(KEYS / 64) + 7;
    count(&mut engine, 1, [most, most], |engine, _| {
        assert_eq!(engine.held_from(0).unwrap().place, KEYS - 1);
    });
    count(&mut engine, 1, [2, 2], |engine, _| assert_eq!(engine.held_from(KEYS), None));
}
