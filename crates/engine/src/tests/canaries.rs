//! Each property of the table, shown a table in which it does not hold.

use super::{acquire, engine};
use crate::invariants::{
    check, counts_agree_with_contents, free_keys_without_waiters_take_no_memory, keys_have_one_active_token,
    nobody_waits_while_nothing_will_be_granted, timers_are_in_order, waiters_of_free_keys_wait_for_recovery,
};
use crate::{Engine, Instant, SessionId};
use std::string::String;
use std::vec::Vec;

/// Keys 0 and 1 are held, key 0 has two waiters; with a recovery, key 2 is free and has a waiter.
fn scene(recovery_ends: Option<Instant>) -> Engine {
    let mut engine = engine(None);
    let [a, b] = [engine.open_session(), engine.open_session()];
    acquire(&mut engine, a, "k", 0, 1);
    acquire(&mut engine, a, "l", 0, 2);
    acquire(&mut engine, a, "k", 9, 3);
    acquire(&mut engine, b, "k", 9, 4);
    engine.recovery_ends = recovery_ends;
    if recovery_ends.is_some() {
        acquire(&mut engine, b, "m", 9, 5);
    }
    check(&engine).unwrap();
    engine
}

/// Makes a count wrong.
type Disturb = fn(&mut Engine);

fn found(check: Result<(), String>) -> String {
    check.unwrap_err()
}

#[test]
fn two_keys_with_one_token_are_found() {
    let mut engine = scene(None);
    engine.keys.slab[1].token = 1;
    assert_eq!(found(keys_have_one_active_token(&engine)), "two keys have token 1");
    assert!(check(&engine).is_err());
    // Two keys without a token are no such thing.
    let mut engine = scene(Some(Instant(1)));
    acquire(&mut engine, SessionId(0), "n", 9, 1);
    keys_have_one_active_token(&engine).unwrap();
}

#[test]
fn a_key_that_is_there_twice_is_found() {
    let mut engine = scene(None);
    let l = engine.keys.named("l");
    engine.keys.insert(l);
    assert_eq!(found(keys_have_one_active_token(&engine)), "key 2 is in the table twice");
    assert!(check(&engine).is_err());
}

#[test]
fn every_wrong_count_is_found() {
    let disturbances: [(&str, Disturb); 11] = [
        ("waiters of a key", |engine| engine.keys.slab[0].waiters += 1),
        ("waiters of a session", |engine| engine.sessions[1].waiters -= 1),
        ("keys held", |engine| engine.keys.held -= 1),
        ("leases in the timers", |engine| {
            engine.keys.void(1);
            engine.keys.slab[1].token = 9;
            engine.keys.held += 1;
        }),
        ("keys parked", |engine| engine.keys.unpark(2)),
        ("keys in the index", |engine| {
            let hash = engine.keys.slab[1].hash;
            engine.keys.index.remove(&mut engine.keys.slab, 1, hash);
        }),
        ("waiters of all keys", |engine| {
            let waiter = engine.waiters.slab[0];
            engine.waiters.slab.insert(waiter);
        }),
        ("waiters of all sessions", |engine| {
            let session = &mut engine.sessions[1];
            let waiter = session.queue.first().unwrap();
            session.waiters -= 1;
            session.queue.remove(&mut engine.waiters.slab, waiter);
        }),
        ("waits in the timers", |engine| {
            let list = crate::duration_lists::DurationList::of(9);
            engine.waiters.timers.disarm(&mut engine.waiters.slab, 0, list);
        }),
        ("waiters in the index", |engine| {
            let hash = engine.waiters.slab[0].hash(engine.waiters.hash);
            engine.waiters.index.remove(&mut engine.waiters.slab, 0, hash);
        }),
        ("waiters of a key", |engine| {
            let key = &mut engine.keys.slab[0];
            key.queue.remove(&mut engine.waiters.slab, 1);
        }),
    ];
    for (name, disturb) in disturbances {
        let mut engine = scene(Some(Instant(1)));
        disturb(&mut engine);
        let found = found(counts_agree_with_contents(&engine));
        assert!(found.starts_with(name), "{name}: {found}");
        assert!(check(&engine).is_err());
    }
}

#[test]
fn room_that_a_free_key_takes_is_found() {
    let mut engine = scene(None);
    let n = engine.keys.named("n");
    engine.keys.insert(n);
    assert_eq!(found(free_keys_without_waiters_take_no_memory(&engine)), "free key 2 takes room");
    let mut engine = scene(None);
    engine.keys.texts.insert("n");
    assert!(counts_agree_with_contents(&engine).is_ok());
    assert_eq!(found(check(&engine)), "texts stored: 2 counted, 3 found");
}

#[test]
fn a_waiter_that_was_not_woken_is_found() {
    let mut engine = scene(None);
    engine.keys.void(0);
    engine.keys.park(0);
    counts_agree_with_contents(&engine).unwrap();
    assert_eq!(found(waiters_of_free_keys_wait_for_recovery(&engine)), "Some(0) is free with waiters");
    assert!(check(&engine).is_err());
    engine.recovery_ends = Some(Instant(1));
    check(&engine).unwrap();
}

#[test]
fn a_waiter_that_was_not_sent_away_is_found() {
    let disturbances: [Disturb; 2] =
        [|engine| engine.draining = true, |engine| engine.storage_failing = true];
    for disturb in disturbances {
        let mut engine = scene(None);
        disturb(&mut engine);
        let expected = "2 wait, but nothing will be granted";
        assert_eq!(found(nobody_waits_while_nothing_will_be_granted(&engine)), expected);
        assert_eq!(found(check(&engine)), expected);
        engine.close_session(Instant(0), SessionId(1), [], &mut Vec::new());
        assert!(check(&engine).is_err());
        engine.close_session(Instant(0), SessionId(0), [], &mut Vec::new());
        check(&engine).unwrap();
    }
}

#[test]
fn timers_out_of_order_are_found() {
    let mut engine = scene(None);
    engine.keys.slab[1].ends = Instant(9000);
    assert_eq!(found(timers_are_in_order(&engine)), "leases out of order");
    assert!(check(&engine).is_err());
    let mut engine = scene(None);
    engine.waiters.slab[0].times[5] += 1;
    assert_eq!(found(timers_are_in_order(&engine)), "waits out of order");
    assert!(check(&engine).is_err());
}
