//! Each property of a history, shown a history in which it does not hold.

use crate::invariants::{Check, History};
use crate::{Answer, Command, Effect, Instant, KeyRef, Progress, SessionId, UnsentGrant};
use lockstead_proto::BusyReason;
use std::vec::Vec;

const A: SessionId = SessionId(0);
const B: SessionId = SessionId(1);

/// A history, told as if an engine had done it. Keys are "0" and "1".
struct Told(History);

fn key_of(key: KeyRef) -> Option<&'static str> {
    ["0", "1"].get(key.0 as usize).copied()
}

fn grant(session: SessionId, owner: u64, token: u64, key: u32) -> Effect {
    let answer = Answer::Acquired { owner, token, lease_s: 5, waited_ms: 0, key: KeyRef(key) };
    Effect { session, answer }
}

fn timeout(session: SessionId, owner: u64) -> Effect {
    Effect { session, answer: Answer::Timeout { owner } }
}

fn busy(session: SessionId, owner: u64) -> Effect {
    Effect { session, answer: Answer::Busy { owner, reason: BusyReason::WaitersFull } }
}

fn released(token: u64) -> Effect {
    Effect { session: A, answer: Answer::Released { token } }
}

fn extended(token: u64, lease_s: u8) -> Effect {
    Effect { session: A, answer: Answer::Extended { token, lease_s } }
}

fn not_durable(token: u64) -> Effect {
    Effect { session: A, answer: Answer::NotDurable { token } }
}

fn busy_storage(session: SessionId, owner: u64) -> Effect {
    Effect { session, answer: Answer::Busy { owner, reason: BusyReason::NotDurable } }
}

fn not_held(token: u64) -> Effect {
    Effect { session: A, answer: Answer::NotHeld { token } }
}

impl Told {
    fn new() -> Self {
        Self(History::new())
    }

    /// A has key "0" from 0 to 5001.
    fn held() -> Self {
        let mut told = Self::new();
        told.acquire(0, A, 0, 1, "0", &[grant(A, 1, 10, 0)]).unwrap();
        told
    }

    /// And B waits for it until 9001.
    fn waited() -> Self {
        let mut told = Self::held();
        told.acquire(0, B, 9, 2, "0", &[]).unwrap();
        told
    }

    /// A has key "0" and nobody waits, because the storage fails.
    fn failing() -> Self {
        let mut told = Self::held();
        told.fail(0, &[], &[]).unwrap();
        told
    }

    fn run(&mut self, now: u64, session: SessionId, command: Command<'_>, effects: &[Effect]) -> Check {
        self.0.ran(Instant(now), session, command, effects, key_of)
    }

    fn acquire(
        &mut self,
        now: u64,
        session: SessionId,
        wait_s: u8,
        owner: u64,
        key: &str,
        effects: &[Effect],
    ) -> Check {
        self.run(now, session, Command::Acquire { wait_s, lease_s: 5, owner, key }, effects)
    }

    fn release(&mut self, now: u64, token: u64, key: &str, effects: &[Effect]) -> Check {
        self.run(now, A, Command::Release { token, key }, effects)
    }

    fn extend(&mut self, now: u64, token: u64, effects: &[Effect]) -> Check {
        self.run(now, A, Command::Extend { lease_s: 5, token, key: "0" }, effects)
    }

    fn advance(&mut self, now: u64, effects: &[Effect]) -> Check {
        self.0.advanced(Instant(now), Progress::Done, effects, key_of)
    }

    fn close(&mut self, now: u64, session: SessionId, unsent: &[UnsentGrant], effects: &[Effect]) -> Check {
        self.0.closed(Instant(now), session, unsent, effects, key_of)
    }

    fn fail(&mut self, now: u64, lost: &[u64], effects: &[Effect]) -> Check {
        let lost: Vec<UnsentGrant> =
            lost.iter().map(|&token| UnsentGrant { key: KeyRef(0), token }).collect();
        self.0.storage_failed(Instant(now), &lost, effects)
    }
}

fn finds(check: Check, part: &str) {
    let found = check.unwrap_err();
    assert!(found.contains(part), "{found}");
}

#[test]
fn a_second_active_token_is_found() {
    finds(Told::waited().advance(5000, &[grant(B, 2, 11, 0)]), "token 11 was given while");
    Told::waited().advance(5001, &[grant(B, 2, 11, 0)]).unwrap();
    // What was released, or never sent, is not active; what was extended is.
    Told::waited().release(1, 10, "0", &[released(10), grant(B, 2, 11, 0)]).unwrap();
    let unsent = [UnsentGrant { key: KeyRef(0), token: 10 }];
    Told::waited().close(1, A, &unsent, &[grant(B, 2, 11, 0)]).unwrap();
    finds(Told::waited().close(1, A, &[], &[grant(B, 2, 11, 0)]), "token 11 was given while");
    let other = [UnsentGrant { key: KeyRef(0), token: 9 }];
    finds(Told::waited().close(1, A, &other, &[grant(B, 2, 11, 0)]), "token 11 was given while");
    let mut told = Told::waited();
    told.extend(1000, 10, &[extended(10, 5)]).unwrap();
    finds(told.advance(6000, &[grant(B, 2, 11, 0)]), "token 11 was given while");
    let mut told = Told::waited();
    told.extend(1000, 10, &[extended(10, 1)]).unwrap();
    told.advance(5001, &[grant(B, 2, 11, 0)]).unwrap();
    let mut told = Told::new();
    told.0.restored("0", 4, Instant(100)).unwrap();
    finds(told.acquire(99, A, 0, 1, "0", &[grant(A, 1, 5, 0)]), "token 5 was given while");
}

#[test]
fn another_key_is_not_touched() {
    let mut told = Told::held();
    told.acquire(0, A, 0, 2, "1", &[grant(A, 2, 11, 1)]).unwrap();
    told.release(1, 11, "1", &[released(11)]).unwrap();
    finds(told.acquire(1, B, 0, 3, "0", &[grant(B, 3, 12, 0)]), "token 12 was given while");
    let mut told = Told::held();
    told.acquire(0, A, 0, 2, "1", &[grant(A, 2, 11, 1)]).unwrap();
    told.extend(1, 10, &[extended(10, 50)]).unwrap();
    told.acquire(5001, B, 0, 3, "1", &[grant(B, 3, 12, 1)]).unwrap();
}

#[test]
fn a_key_restored_twice_is_found() {
    let mut told = Told::new();
    told.0.restored("0", 4, Instant(100)).unwrap();
    told.0.restored("1", 3, Instant(100)).unwrap();
    finds(told.0.restored("0", 5, Instant(100)), "restored twice");
}

#[test]
fn tokens_that_do_not_rise_are_found() {
    for token in [9, 10] {
        let told = Told::held().acquire(0, B, 0, 1, "1", &[grant(B, 1, token, 1)]);
        finds(told, "came after 10");
    }
    let mut told = Told::new();
    told.0.restored("0", 30, Instant(100)).unwrap();
    told.0.restored("1", 20, Instant(100)).unwrap();
    finds(told.acquire(100, B, 0, 1, "1", &[grant(B, 1, 30, 1)]), "came after 30");
}

#[test]
fn an_answer_too_many_is_found() {
    let part = "answers nothing that is unanswered";
    finds(Told::held().advance(5001, &[grant(B, 2, 11, 0)]), part);
    finds(Told::held().advance(5001, &[timeout(A, 1)]), part);
    finds(Told::held().advance(5001, &[busy(A, 1)]), part);
    // Of another session, owner or key.
    finds(Told::waited().advance(9001, &[timeout(A, 2)]), part);
    finds(Told::waited().advance(9001, &[timeout(B, 1)]), part);
    finds(Told::waited().advance(5001, &[grant(A, 2, 11, 0)]), part);
    finds(Told::waited().advance(5001, &[grant(B, 1, 11, 0)]), part);
    finds(Told::waited().advance(5001, &[grant(B, 2, 11, 1)]), part);
    // The session is gone.
    let mut told = Told::waited();
    told.close(1, B, &[], &[]).unwrap();
    finds(told.advance(5001, &[grant(B, 2, 11, 0)]), part);
    let mut told = Told::waited();
    told.close(1, A, &[], &[]).unwrap();
    told.advance(5001, &[grant(B, 2, 11, 0)]).unwrap();
}

#[test]
fn an_answer_that_is_missing_is_found() {
    finds(Told::held().acquire(0, B, 0, 2, "0", &[]), "has no answer");
    finds(Told::waited().advance(9001, &[]), "has no answer");
    Told::waited().advance(9000, &[]).unwrap();
    let more = Told::waited().0.advanced(Instant(9001), Progress::More, &[], key_of);
    more.unwrap();
    let cancel = Command::Cancel { owner: 2, key: "0" };
    finds(Told::waited().run(1, B, cancel, &[]), "has no answer");
    Told::waited().run(1, A, cancel, &[]).unwrap();
    Told::waited().run(1, B, Command::Cancel { owner: 2, key: "1" }, &[]).unwrap();
    Told::waited().run(1, B, Command::Cancel { owner: 1, key: "0" }, &[]).unwrap();
    finds(Told::waited().0.drained(Instant(1), &[]), "waits on while draining");
    Told::waited().0.drained(Instant(1), &[busy(B, 2)]).unwrap();
    Told::waited().run(1, B, Command::Query { id: 1, key: "0" }, &[]).unwrap();
}

#[test]
fn a_waiter_that_was_overtaken_is_found() {
    let mut told = Told::waited();
    told.acquire(1, A, 9, 3, "1", &[]).unwrap();
    told.acquire(1, A, 9, 3, "0", &[]).unwrap();
    finds(told.advance(5001, &[grant(A, 3, 11, 0)]), "was overtaken");
    let mut told = Told::waited();
    told.acquire(1, A, 9, 3, "1", &[]).unwrap();
    told.advance(2, &[grant(A, 3, 11, 1)]).unwrap();
}

#[test]
fn a_wait_that_ends_early_is_found() {
    finds(Told::waited().advance(9000, &[timeout(B, 2)]), "ended at");
    Told::waited().advance(9001, &[timeout(B, 2)]).unwrap();
    // A cancel is the only reason, for the oldest of that name.
    let cancel = Command::Cancel { owner: 2, key: "0" };
    let mut told = Told::waited();
    told.acquire(0, B, 20, 2, "0", &[]).unwrap();
    told.run(1, B, cancel, &[timeout(B, 2)]).unwrap();
    finds(told.advance(9001, &[timeout(B, 2)]), "ended at");
    // Of two with one owner the first to end is meant.
    let mut told = Told::held();
    told.acquire(0, B, 9, 2, "0", &[]).unwrap();
    told.acquire(0, B, 1, 2, "0", &[]).unwrap();
    told.advance(1001, &[timeout(B, 2)]).unwrap();
    finds(told.advance(9000, &[timeout(B, 2)]), "ended at");
}

#[test]
fn a_refusal_is_for_what_was_just_asked() {
    let mut told = Told::waited();
    told.acquire(1, B, 1, 2, "0", &[busy(B, 2)]).unwrap();
    finds(told.advance(1002, &[timeout(B, 2)]), "ended at");
}

#[test]
fn a_token_that_does_not_count_is_found() {
    let part = "the token being active is";
    finds(Told::held().release(1, 10, "0", &[not_held(10)]), part);
    finds(Told::held().release(1, 11, "0", &[released(11)]), part);
    finds(Told::held().release(1, 10, "1", &[released(10)]), part);
    finds(Told::held().release(5001, 10, "0", &[released(10)]), part);
    finds(Told::held().release(5000, 10, "0", &[]), part);
    finds(Told::held().extend(5000, 10, &[not_held(10)]), part);
    finds(Told::held().extend(5001, 10, &[extended(10, 5)]), part);
    Told::held().release(5001, 10, "0", &[not_held(10)]).unwrap();
    Told::held().release(5000, 10, "0", &[released(10)]).unwrap();
    let mut told = Told::held();
    told.release(1, 10, "0", &[released(10)]).unwrap();
    finds(told.release(1, 10, "0", &[released(10)]), part);
    let effects: Vec<Effect> = [not_held(10)].into();
    told.extend(1, 10, &effects).unwrap();
}

#[test]
fn what_failing_storage_allows_is_known() {
    let part = "but that the storage fails is true";
    finds(Told::waited().fail(1, &[], &[grant(B, 2, 11, 0)]), part);
    finds(Told::failing().acquire(1, B, 0, 2, "1", &[grant(B, 2, 11, 1)]), part);
    finds(Told::failing().extend(1, 10, &[extended(10, 5)]), part);
    Told::failing().acquire(1, B, 0, 2, "1", &[busy_storage(B, 2)]).unwrap();
    Told::failing().extend(1, 10, &[not_durable(10)]).unwrap();
    Told::failing().release(1, 10, "0", &[released(10)]).unwrap();
    // What it is no reason for while it works.
    let part = "but that the storage fails is false";
    let works_again = || {
        let mut told = Told::failing();
        told.0.storage_worked();
        told
    };
    for working in [Told::held, works_again] {
        finds(working().acquire(1, B, 0, 2, "1", &[busy_storage(B, 2)]), part);
        finds(working().extend(1, 10, &[not_durable(10)]), part);
        working().extend(1, 10, &[extended(10, 5)]).unwrap();
        working().acquire(1, B, 0, 2, "1", &[grant(B, 2, 11, 1)]).unwrap();
    }
}

#[test]
fn a_waiter_that_failing_storage_forgets_is_found() {
    finds(Told::waited().fail(1, &[], &[]), "waits on while storage fails");
    finds(Told::waited().fail(1, &[], &[busy_storage(A, 2)]), "answers nothing that is unanswered");
    Told::waited().fail(1, &[], &[busy_storage(B, 2)]).unwrap();
}

#[test]
fn an_end_that_was_not_made_durable_does_not_move() {
    let mut told = Told::failing();
    told.extend(1000, 10, &[not_durable(10)]).unwrap();
    told.release(5001, 10, "0", &[not_held(10)]).unwrap();
    // It is no answer to a release, and the token must be the active one.
    let part = "the token being active is";
    finds(Told::failing().release(1, 10, "0", &[not_durable(10)]), part);
    finds(Told::failing().extend(1, 11, &[not_durable(11)]), part);
    finds(Told::failing().extend(1, 10, &[released(10)]), part);
    finds(Told::held().release(1, 10, "0", &[extended(10, 5)]), part);
}

#[test]
fn a_lost_grant_that_is_not_taken_back_is_found() {
    let part = "the token being active is false";
    let mut told = Told::held();
    told.fail(1, &[10], &[]).unwrap();
    finds(told.release(1, 10, "0", &[released(10)]), part);
    // Another grant is not lost with it.
    let mut told = Told::held();
    told.fail(1, &[9], &[]).unwrap();
    finds(told.release(1, 10, "0", &[not_held(10)]), "the token being active is true");
}
