//! The other requests of a program: releases and extends of tokens of its own, queries, pings; which answer is for which.

use lockstead_client_core::{
    CallError, Counts, ExtendError, Extended, Fault, KeyInfo, Lost, OpResult, ReleaseOutcome,
    TRANSPORT_DEADLINE, UnsentCause, UsageError,
};
use lockstead_proto::{Answer, ErrorCode, KeyError, KeyState, State};

use crate::world::{Req, SECOND, World, ms};

const ONE_SESSION: Counts = Counts { calls: 0, tickets: 0, requests: 0, results: 0, sessions: 1 };

fn free(id: u64) -> Answer<'static> {
    Answer::State(State { id, state: KeyState::Free, remaining_ms: 0, waiters: 0 })
}

const FREE: KeyInfo = KeyInfo { state: KeyState::Free, remaining: ms(0), waiters: 0 };

fn rejected(code: ErrorCode) -> CallError {
    CallError::Rejected { code, message: "no".into() }
}

#[test]
fn what_cannot_be_asked_is_said_at_once() {
    let mut world = World::new();
    let now = world.now;
    for token in [0, 1 << 63, 1 << 63 | 5] {
        assert_eq!(world.core.release(now, "k", token), Err(UsageError::TokenOutOfRange));
        assert_eq!(world.core.extend(now, "k", token, SECOND), Err(UsageError::TokenOutOfRange));
    }
    assert_eq!(world.core.extend(now, "k", 1, ms(0)), Err(UsageError::LeaseOutOfRange));
    assert_eq!(world.core.extend(now, "", 1, SECOND), Err(UsageError::Key(KeyError::Empty)));
    assert_eq!(world.core.release(now, "", 1), Err(UsageError::Key(KeyError::Empty)));
    assert_eq!(world.core.query(now, "a\nb"), Err(UsageError::Key(KeyError::Newline)));
    world.assert_counts(Counts::default());
    assert!(!world.core.has_output());
}

#[test]
fn each_request_has_its_own_result() {
    let (mut world, session) = World::welcomed();
    let release = world.core.release(world.now, "k", 3).unwrap();
    let extend = world.core.extend(world.now, "k", 4, ms(1_500)).unwrap();
    let query = world.core.query(world.now, "k").unwrap();
    let ping = world.core.ping(world.now);
    assert!([release, extend, query, ping].iter().all(|id| id >> 63 == 1));
    world.assert_counts(Counts { requests: 4, ..ONE_SESSION });
    let sent = world.now;
    world.run();
    assert_eq!(
        world.take_requests(session),
        [
            Req::Release { token: 3 },
            Req::Extend { lease_s: 2, token: 4 },
            Req::Query { id: query },
            Req::Ping { id: ping }
        ]
    );
    world.pass(ms(30));
    world.pong(session, ping);
    world.extended(session, 4, 2);
    let state = State { id: query, state: KeyState::Held, remaining_ms: 70, waiters: 2 };
    world.answer(session, Answer::State(state));
    world.released(session, 3);
    world.assert_counts(Counts { results: 4, ..ONE_SESSION });
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Released));
    let valid_until = sent + ms(2_000 - 2 - 100);
    assert_eq!(world.result(extend), OpResult::Extend(Ok(Extended { lease: SECOND * 2, valid_until })));
    let info = KeyInfo { state: KeyState::Held, remaining: ms(70), waiters: 2 };
    assert_eq!(world.result(query), OpResult::Query(Ok(info)));
    assert_eq!(world.result(ping), OpResult::Ping(Ok(ms(30))));
    world.assert_counts(ONE_SESSION);
    assert_eq!(world.core.take_result(ping), None, "once");
}

#[test]
fn a_token_that_is_not_held_is_said_so() {
    let (mut world, session) = World::welcomed();
    let release = world.core.release(world.now, "k", 3).unwrap();
    let extend = world.core.extend(world.now, "k", 3, SECOND).unwrap();
    world.run();
    world.not_held(session, 3);
    world.not_held(session, 3);
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::NotHeld));
    assert_eq!(world.result(extend), OpResult::Extend(Err(ExtendError::Lost(Lost::NotHeld))));
}

#[test]
fn an_error_answers_the_request_that_it_names_and_no_other() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND);
    let first = world.core.query(world.now, "k").unwrap();
    let second = world.core.query(world.now, "k").unwrap();
    let ping = world.core.ping(world.now);
    let extend = world.core.extend(world.now, "k", 3, SECOND).unwrap();
    let release = world.core.release(world.now, "k", 3).unwrap();
    world.run();
    world.error(session, ErrorCode::BadKey, first);
    assert_eq!(world.result(first), OpResult::Query(Err(rejected(ErrorCode::BadKey))));
    world.error(session, ErrorCode::NotDurable, 3);
    let failed = ExtendError::Rejected { code: ErrorCode::NotDurable, message: "no".into() };
    assert_eq!(world.result(extend), OpResult::Extend(Err(failed)), "the oldest of its token");
    world.error(session, ErrorCode::Forbidden, ping);
    assert_eq!(world.result(ping), OpResult::Ping(Err(rejected(ErrorCode::Forbidden))));
    world.answer(session, free(second));
    assert_eq!(world.result(second), OpResult::Query(Ok(FREE)));
    world.released(session, 3);
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Released));
    assert!(world.faults.is_empty());
    world.error(session, ErrorCode::BadKey, owner);
    assert!(world.outcome(owner).is_err());
    assert_eq!(world.closed(session), None);
}

#[test]
fn rule11_an_answer_of_another_kind_is_a_stray() {
    let (mut world, session) = World::welcomed();
    let query = world.core.query(world.now, "k").unwrap();
    let ping = world.core.ping(world.now);
    let extend = world.core.extend(world.now, "k", 3, SECOND).unwrap();
    let release = world.core.release(world.now, "k", 4).unwrap();
    world.run();
    world.pong(session, query);
    world.answer(session, free(ping));
    world.released(session, 3);
    world.extended(session, 4, 1);
    world.error(session, ErrorCode::Forbidden, 5);
    world.error(session, ErrorCode::Forbidden, ping + 9);
    let strays: Vec<Fault> =
        [query, ping, 3, 4, 5, ping + 9].into_iter().map(|id| Fault::Stray { session, id }).collect();
    assert_eq!(world.faults, strays);
    world.assert_counts(Counts { requests: 4, ..ONE_SESSION });
    world.pong(session, ping);
    world.answer(session, free(query));
    world.extended(session, 3, 1);
    world.released(session, 4);
    assert_eq!(world.faults.len(), 6);
    assert_eq!(world.result(ping), OpResult::Ping(Ok(ms(0))));
    assert_eq!(world.result(query), OpResult::Query(Ok(FREE)));
    assert!(matches!(world.result(extend), OpResult::Extend(Ok(_))));
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Released));
}

#[test]
fn rule11_an_answer_that_repeats_is_a_stray() {
    let (mut world, session) = World::welcomed();
    let query = world.core.query(world.now, "k").unwrap();
    let ping = world.core.ping(world.now);
    let release = world.core.release(world.now, "k", 4).unwrap();
    world.run();
    for _ in 0..2 {
        world.pong(session, ping);
        world.error(session, ErrorCode::BadKey, query);
        world.released(session, 4);
    }
    let stray = |id| Fault::Stray { session, id };
    assert_eq!(world.faults, [stray(ping), stray(query), stray(4)]);
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Released));
}

#[test]
fn rule12_an_answered_lease_that_is_shorter_counts_for_an_extend() {
    let (mut world, session) = World::welcomed();
    let sent = world.now;
    let extend = world.core.extend(world.now, "k", 4, SECOND * 60).unwrap();
    world.run();
    world.extended(session, 4, 10);
    let valid_until = sent + ms(10_000 - 10 - 500);
    assert_eq!(world.result(extend), OpResult::Extend(Ok(Extended { lease: SECOND * 10, valid_until })));
}

#[test]
fn requests_with_a_token_of_the_programs_own_are_bounded() {
    let (mut world, session) = World::welcomed();
    let release = world.core.release(world.now, "k", 4).unwrap();
    let extend = world.core.extend(world.now, "k", 4, SECOND).unwrap();
    let query = world.core.query(world.now, "k").unwrap();
    world.run();
    world.pass(TRANSPORT_DEADLINE - ms(1));
    assert_eq!(world.core.take_result(release), None);
    world.pass(ms(1));
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Unknown));
    assert_eq!(world.result(extend), OpResult::Extend(Err(ExtendError::Unknown)));
    assert_eq!(world.result(query), OpResult::Query(Err(CallError::Unknown)));
    // What was never sent is told apart.
    world.cut(session);
    let ping = world.core.ping(world.now);
    let release = world.core.release(world.now, "k", 4).unwrap();
    let extend = world.core.extend(world.now, "k", 4, SECOND).unwrap();
    world.pass(TRANSPORT_DEADLINE);
    let last = "a0: no answer to the attempt to connect";
    let cause = || UnsentCause::BudgetEnded { last: Some(last.into()) };
    assert_eq!(world.result(ping), OpResult::Ping(Err(CallError::Unsent(cause()))));
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Unsent(cause())));
    assert_eq!(world.result(extend), OpResult::Extend(Err(ExtendError::Unsent(cause()))));
}

#[test]
fn a_query_that_is_given_up_is_forgotten() {
    let (mut world, session) = World::welcomed();
    let query = world.core.query(world.now, "k").unwrap();
    let ping = world.core.ping(world.now);
    let release = world.core.release(world.now, "k", 3).unwrap();
    let extend = world.core.extend(world.now, "k", 4, SECOND).unwrap();
    for id in [query, ping, release, extend] {
        world.core.forget(world.now, id);
    }
    world.run();
    let requests = world.take_requests(session);
    assert_eq!(requests, [Req::Release { token: 3 }, Req::Extend { lease_s: 1, token: 4 }], "these go on");
    world.released(session, 3);
    world.extended(session, 4, 1);
    world.assert_counts(ONE_SESSION);
    assert!(world.ready.is_empty(), "nobody waits");
}

#[test]
fn a_result_that_is_given_up_is_forgotten() {
    let (mut world, session) = World::welcomed();
    let query = world.core.query(world.now, "k").unwrap();
    world.run();
    world.answer(session, free(query));
    world.core.forget(world.now, query);
    assert_eq!(world.core.take_result(query), None);
    world.assert_counts(ONE_SESSION);
}

#[test]
fn a_query_given_up_after_it_was_sent_may_still_be_answered() {
    let (mut world, session) = World::welcomed();
    let query = world.core.query(world.now, "k").unwrap();
    world.run();
    world.core.forget(world.now, query);
    world.answer(session, free(query));
    assert!(world.faults.is_empty(), "it was asked");
    world.assert_counts(ONE_SESSION);
}

#[test]
fn rule18_a_full_queue_is_unsent_at_once() {
    let mut world = World::with(|config| config.max_open = 2);
    for _ in 0..2 {
        world.core.ping(world.now);
    }
    let query = world.core.query(world.now, "k").unwrap();
    world.run();
    assert_eq!(world.result(query), OpResult::Query(Err(CallError::Unsent(UnsentCause::QueueFull))));
    world.assert_counts(Counts { requests: 2, ..ONE_SESSION });
}

#[test]
fn rule18_extends_of_a_ticket_are_bounded_too() {
    let mut world = World::with(|config| config.max_open = 2);
    let owner = world.acquire(SECOND, SECOND * 30);
    let session = world.session();
    world.welcome(session);
    world.grant(session, owner, 5, 30);
    let ticket = world.outcome(owner).unwrap();
    world.take_requests(session);
    for _ in 0..2 {
        world.core.extend_ticket(world.now, ticket, SECOND).unwrap();
    }
    let full = ExtendError::Unsent(UnsentCause::QueueFull);
    assert_eq!(world.core.extend_ticket(world.now, ticket, SECOND), Err(full));
    world.core.drop_ticket(world.now, ticket);
    world.run();
    assert_eq!(world.take_request(session), Req::Release { token: 5 }, "a release is never refused");
}
