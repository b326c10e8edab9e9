//! The properties that show in the table itself.

use super::{Check, holds};
use crate::duration_lists::{DurationLists, Timed};
use crate::engine::Engine;
use crate::slab::Slab;
use alloc::collections::BTreeSet;
use alloc::format;

/// All the properties of this module.
///
/// # Errors
/// What the first property that does not hold found.
pub fn check(engine: &Engine) -> Check {
    keys_have_one_active_token(engine)?;
    counts_agree_with_contents(engine)?;
    free_keys_without_waiters_take_no_memory(engine)?;
    waiters_of_free_keys_wait_for_recovery(engine)?;
    nobody_waits_while_nothing_will_be_granted(engine)?;
    timers_are_in_order(engine)
}

/// A key is in the table once, and no two keys have one token.
///
/// # Errors
/// The key or token that is there twice.
pub fn keys_have_one_active_token(engine: &Engine) -> Check {
    let keys = &engine.keys;
    let mut texts = BTreeSet::new();
    let mut tokens = BTreeSet::new();
    for slot in keys.slab.slots() {
        let token = keys.slab[slot].token;
        holds(texts.insert(keys.text(slot)), || format!("key {slot} is in the table twice"))?;
        holds(token == 0 || tokens.insert(token), || format!("two keys have token {token}"))?;
    }
    Ok(())
}

/// Every count is the number of what it counts, every key and waiter is in the lists and indexes that it belongs to.
///
/// # Errors
/// The count that is wrong.
pub fn counts_agree_with_contents(engine: &Engine) -> Check {
    let (keys, waiters, counts) = (&engine.keys, &engine.waiters, engine.counts());
    let mut queued = 0;
    let mut held = 0;
    for slot in keys.slab.slots() {
        let key = &keys.slab[slot];
        queued += key.waiters;
        held += u32::from(key.is_held());
        let in_queue = key.queue.iter(&waiters.slab).count();
        agree("waiters of a key", key.waiters, in_queue)?;
    }
    for slot in engine.sessions.slots() {
        let session = &engine.sessions[slot];
        let in_queue = session.queue.iter(&waiters.slab).count();
        agree("waiters of a session", session.waiters, in_queue)?;
    }
    let of_sessions = engine.sessions.slots().map(|slot| engine.sessions[slot].waiters).sum::<u32>();
    agree("keys held", counts.held, held as usize)?;
    agree("leases in the timers", held, keys.leases.lists(&keys.slab).flatten().count())?;
    agree("keys parked", counts.keys - held, keys.parked.iter(&keys.slab).count())?;
    agree("keys in the index", counts.keys, keys.index.iter(&keys.slab).count())?;
    agree("waiters of all keys", counts.waiters, queued as usize)?;
    agree("waiters of all sessions", counts.waiters, of_sessions as usize)?;
    agree("waits in the timers", counts.waiters, waiters.timers.lists(&waiters.slab).flatten().count())?;
    agree("waiters in the index", counts.waiters, waiters.index.iter(&waiters.slab).count())
}

fn agree(what: &str, count: u32, contents: usize) -> Check {
    holds(count as usize == contents, || format!("{what}: {count} counted, {contents} found"))
}

/// A free key without waiters takes neither a record nor room for its text.
///
/// # Errors
/// The key that should be gone.
pub fn free_keys_without_waiters_take_no_memory(engine: &Engine) -> Check {
    let keys = &engine.keys;
    for slot in keys.slab.slots() {
        let key = &keys.slab[slot];
        holds(key.is_held() || key.has_waiters(), || format!("free key {slot} takes room"))?;
    }
    agree("texts stored", keys.slab.len(), keys.texts.len() as usize)
}

/// Only while the engine is recovering, somebody waits for a key that is free.
///
/// # Errors
/// The key that should have been granted.
pub fn waiters_of_free_keys_wait_for_recovery(engine: &Engine) -> Check {
    let keys = &engine.keys.slab;
    let parked = keys.slots().find(|&slot| !keys[slot].is_held() && keys[slot].has_waiters());
    holds(parked.is_none() || engine.recovery_ends.is_some(), || format!("{parked:?} is free with waiters"))
}

/// While the engine is draining or the storage fails, nobody waits.
///
/// # Errors
/// How many do.
pub fn nobody_waits_while_nothing_will_be_granted(engine: &Engine) -> Check {
    let waiters = engine.counts().waiters;
    let granting = !engine.draining && !engine.storage_failing;
    holds(granting || waiters == 0, || format!("{waiters} wait, but nothing will be granted"))
}

/// Every list of timers is in the order of the ends, so that none is overlooked and none comes early.
///
/// # Errors
/// The kind of timers that is out of order.
pub fn timers_are_in_order(engine: &Engine) -> Check {
    holds(in_order(&engine.keys.leases, &engine.keys.slab), || "leases out of order".into())?;
    holds(in_order(&engine.waiters.timers, &engine.waiters.slab), || "waits out of order".into())
}

fn in_order<T: Timed, const LINK: usize>(timers: &DurationLists<LINK>, slab: &Slab<T>) -> bool {
    timers.lists(slab).all(|list| list.map(|slot| slab[slot].ends()).is_sorted())
}
