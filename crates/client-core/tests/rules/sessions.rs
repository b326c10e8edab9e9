//! Rules 16 to 18: reconnecting, server ids, suspicion, bounds.

use lockstead_client_core::{
    AcquireError, CallError, Counts, IndeterminateCause, KeyInfo, Lost, OpResult, ReleaseOutcome, UnsentCause,
};
use lockstead_proto::{Answer, ErrorAnswer, ErrorCode, KeyState, State};

use crate::world::{OTHER_SERVER, Req, SECOND, World, ms};

fn refused(code: ErrorCode) -> AcquireError {
    AcquireError::Unsent(UnsentCause::Refused { code, message: "no".into() })
}

#[test]
fn rule16_hello_comes_first_and_nothing_else_before_the_welcome() {
    let mut world = World::new();
    let owner = world.acquire(SECOND * 9, SECOND);
    world.core.ping(world.now);
    let session = world.session();
    let hello = world.connect(session);
    world.core.tick(world.now);
    world.run();
    assert_eq!(world.take_requests(session), []);
    assert_eq!(hello >> 63, 1);
    world.cut(session);
    assert_eq!(world.take(owner), None, "certainly unsent");
}

#[test]
fn rule16_one_session_is_used_at_a_time() {
    let (mut world, session) = World::welcomed();
    for _ in 0..20 {
        world.acquire(SECOND * 9, SECOND);
    }
    assert_eq!(world.open_sessions(), [session]);
}

#[test]
fn rule16_without_work_nothing_is_opened() {
    let mut world = World::new();
    world.pass(SECOND * 60);
    assert!(world.wires.is_empty());
    let (mut world, session) = World::welcomed();
    world.cut(session);
    world.pass(SECOND * 60);
    assert_eq!(world.open_sessions(), []);
    assert_eq!(world.core.next_wakeup(), None);
}

#[test]
fn rule16_reconnects_back_off_and_stay_capped() {
    let mut world = World::new();
    world.acquire(SECOND * 250, SECOND);
    let mut tries = 0;
    let start = world.now;
    while world.now.since(start) < SECOND * 200 {
        if let Some(&session) = world.open_sessions().first() {
            world.cut(session);
            tries += 1;
        }
        world.pass(ms(10));
    }
    assert!((200..800).contains(&tries), "{tries}: half a second on average");
}

#[test]
fn rule16_at_most_four_sessions_and_a_new_one_each_second() {
    let mut world = World::new();
    world.acquire(SECOND * 60, SECOND);
    for open in [1, 2, 3, 4, 4, 4] {
        assert_eq!(world.open_sessions().len(), open);
        world.pass(SECOND);
    }
    world.pass(ms(51));
    assert_eq!(world.wires.len(), 5, "the first one was given up after six seconds");
}

#[test]
fn rule16_the_first_to_be_welcomed_is_used_and_the_others_are_closed() {
    let mut world = World::new();
    let owner = world.acquire(SECOND * 60, SECOND);
    let first = world.session();
    world.connect(first);
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    assert!(matches!(world.take_request(second), Req::Acquire { owner: o, .. } if o == owner));
    world.cut(second);
    let (mut world, _) = World::welcomed();
    world.core.ping(world.now);
    world.run();
    world.pass(SECOND);
    let replacement = world.session();
    world.pass(SECOND);
    let spare = world.session();
    world.welcome(replacement);
    world.welcome(spare);
    assert_eq!(world.closed(replacement), None);
    assert_eq!(world.closed(spare), Some(false));
}

#[test]
fn rule16_refused_at_hello_ends_the_unsent_at_once() {
    for code in [ErrorCode::NotAuthenticated, ErrorCode::Forbidden, ErrorCode::UnsupportedVersion] {
        let mut world = World::new();
        let owner = world.acquire(SECOND * 9, SECOND);
        let ping = world.core.ping(world.now);
        let session = world.session();
        let hello = world.connect(session);
        let text = "no";
        world.answer(session, Answer::Error(ErrorAnswer { code, id: hello, text }));
        assert_eq!(world.outcome(owner), Err(refused(code)));
        let AcquireError::Unsent(cause) = refused(code) else { unreachable!() };
        assert_eq!(world.result(ping), OpResult::Ping(Err(CallError::Unsent(cause))));
        assert_eq!(world.closed(session), Some(false));
        world.pass(SECOND * 20);
        world.assert_counts(Counts::default());
    }
}

#[test]
fn rule16_a_full_server_is_tried_again() {
    let mut world = World::new();
    let owner = world.acquire(SECOND * 9, SECOND);
    let session = world.session();
    world.connect(session);
    world.error(session, ErrorCode::OverLimits, 0);
    assert_eq!(world.take(owner), None);
    world.pass(ms(51));
    assert_ne!(world.session(), session);
}

#[test]
fn rule16_another_server_at_another_address_is_refused() {
    let mut world = World::with(|config| config.addresses = 2);
    let owner = world.acquire(SECOND * 9, SECOND * 30);
    let first = world.session();
    world.welcome(first);
    world.grant(first, owner, 5, 30);
    let ticket = world.outcome(owner).unwrap();
    world.cut(first);
    let owner = world.acquire(SECOND * 9, SECOND);
    world.pass(ms(51));
    let second = world.session();
    assert_eq!(world.wires[&second].address, 0);
    world.cut(second);
    world.pass(ms(51));
    let third = world.session();
    assert_eq!(world.wires[&third].address, 1);
    world.welcome_as(third, OTHER_SERVER);
    assert_eq!(world.outcome(owner), Err(AcquireError::Unsent(UnsentCause::OtherServer)));
    assert_eq!(world.closed(third), Some(false));
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, None);
}

#[test]
fn rule16_another_server_at_the_same_address_takes_over_and_old_tickets_are_lost() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 60);
    let dropped = world.ticket(first, 60);
    let owner = world.acquire(SECOND * 60, SECOND * 60);
    world.grant(first, owner, 8, 60);
    let free = world.core.release(world.now, "k", 3).unwrap();
    world.cut(first);
    world.core.drop_ticket(world.now, dropped);
    world.run();
    world.pass(ms(51));
    let second = world.session();
    world.welcome_as(second, OTHER_SERVER);
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, Some(Lost::ServerChanged));
    assert!(world.lost.contains(&ticket));
    assert_eq!(
        world.outcome(owner),
        Err(AcquireError::Indeterminate(IndeterminateCause::TooLate)),
        "a grant of the old server becomes no ticket"
    );
    assert_eq!(world.take_requests(second), [Req::Release { token: 3 }], "nothing of the old server's");
    world.not_held(second, 3);
    assert!(matches!(world.result(free), OpResult::Release(_)));
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Unsent(UnsentCause::OtherServer)));
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
}

#[test]
fn rule17_a_request_unanswered_for_a_second_makes_the_session_suspect() {
    let (mut world, first) = World::welcomed();
    let owner = world.acquire(SECOND * 60, SECOND * 60);
    let release = world.core.release(world.now, "k", 3).unwrap();
    world.run();
    world.pass(ms(999));
    assert_eq!(world.open_sessions(), [first]);
    world.pass(ms(1));
    let second = world.session();
    assert_eq!(world.open_sessions(), [first, second]);
    world.welcome(second);
    assert_eq!(world.take_request(second), Req::Release { token: 3 });
    world.take_requests(first);
    let new = world.acquire(SECOND * 60, SECOND * 60);
    assert!(matches!(world.take_request(second), Req::Acquire { owner, .. } if owner == new));
    assert_eq!(world.take_requests(first), [], "a suspect session only receives");
    world.released(second, 3);
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Released));
    world.not_held(first, 3);
    assert!(world.faults.is_empty());
    assert_eq!(world.closed(first), None, "an acquire is open on it");
    world.grant(first, owner, 9, 60);
    assert_eq!(world.outcome(owner), Ok(owner));
    assert_eq!(world.closed(first), Some(false), "nothing is open on it any more");
}

#[test]
fn rule17_a_suspect_session_that_stays_silent_breaks() {
    let (mut world, first) = World::welcomed();
    let owner = world.acquire(SECOND * 60, SECOND * 60);
    world.core.ping(world.now);
    world.run();
    world.pass(SECOND);
    world.pass(ms(4_999));
    assert_eq!(world.closed(first), None);
    world.pass(ms(1));
    assert_eq!(world.closed(first), Some(true));
    assert_eq!(world.outcome(owner), Err(AcquireError::Indeterminate(IndeterminateCause::SessionBroke)));
}

#[test]
fn rule17_an_extend_has_a_sixth_of_its_lease_at_least_100_ms() {
    for (lease_s, patience_ms) in [(60, 1_000), (6, 1_000), (3, 500), (1, 166)] {
        let (mut world, first) = World::welcomed();
        world.core.extend(world.now, "k", 3, SECOND * lease_s).unwrap();
        world.run();
        world.pass(ms(patience_ms));
        assert_eq!(world.wires.len(), if lease_s == 1 { 1 } else { 2 }, "{lease_s}");
        world.pass(ms(1));
        assert_eq!(world.wires.len(), 2, "{lease_s}");
        assert_eq!(world.closed(first), None);
    }
}

#[test]
fn rule17_silence_with_open_acquires_is_pinged() {
    let (mut world, first) = World::welcomed();
    world.pass(SECOND * 20);
    let owner = world.acquire(SECOND * 100, SECOND * 60);
    world.take_request(first);
    world.pass(ms(4_999));
    assert_eq!(world.take_requests(first), []);
    world.pass(ms(1));
    let Req::Ping { id } = world.take_request(first) else { panic!("no ping") };
    world.pong(first, id);
    world.pass(ms(4_999));
    assert_eq!(world.take_requests(first), []);
    world.pass(ms(1));
    assert!(matches!(world.take_request(first), Req::Ping { .. }));
    // A half-open connection is found after 5 + 1 + 5 s, not after the whole wait.
    world.pass(SECOND * 6);
    assert_eq!(world.closed(first), Some(true));
    assert_eq!(world.outcome(owner), Err(AcquireError::Indeterminate(IndeterminateCause::SessionBroke)));
}

#[test]
fn rule17_after_30_s_idle_a_session_must_show_that_it_lives() {
    let (mut world, first) = World::welcomed();
    world.pass(ms(29_999));
    let owner = world.acquire(SECOND * 100, SECOND * 60);
    assert!(matches!(world.take_request(first), Req::Acquire { .. }));
    world.timeout(first, owner);
    world.pass(SECOND * 30);
    let owner = world.acquire(SECOND * 100, SECOND * 60);
    let Req::Ping { id } = world.take_request(first) else { panic!("no ping") };
    world.pong(first, id);
    assert!(matches!(world.take_request(first), Req::Acquire { owner: o, .. } if o == owner));
    world.timeout(first, owner);
    world.pass(SECOND * 30);
    let owner = world.acquire(SECOND * 100, SECOND * 60);
    assert!(matches!(world.take_request(first), Req::Ping { .. }));
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    assert!(matches!(world.take_request(second), Req::Acquire { owner: o, .. } if o == owner));
    assert_eq!(world.closed(first), Some(false), "nothing was open on it");
}

#[test]
fn rule17_a_session_that_takes_no_bytes_is_suspect() {
    let (mut world, first) = World::welcomed();
    world.wire(first).room = 0;
    let owner = world.acquire(SECOND * 100, SECOND * 60);
    world.pass(SECOND);
    let second = world.session();
    assert_ne!(first, second);
    world.welcome(second);
    assert!(matches!(world.take_request(second), Req::Acquire { owner: o, .. } if o == owner));
}

#[test]
fn rule17_queries_and_pings_go_to_the_new_session() {
    let (mut world, first) = World::welcomed();
    let query = world.core.query(world.now, "k").unwrap();
    let ping = world.core.ping(world.now);
    world.run();
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    let sent = world.now;
    assert_eq!(world.take_requests(second), [Req::Query { id: query }, Req::Ping { id: ping }]);
    world.pass(ms(30));
    world.pong(second, ping);
    assert_eq!(world.result(ping), OpResult::Ping(Ok(world.now.since(sent))));
    let state = State { id: query, state: KeyState::Held, remaining_ms: 70, waiters: 2 };
    world.answer(second, Answer::State(state));
    assert_eq!(
        world.result(query),
        OpResult::Query(Ok(KeyInfo { state: KeyState::Held, remaining: ms(70), waiters: 2 }))
    );
    assert_eq!(world.closed(first), Some(false));
}

#[test]
fn a_query_that_is_given_up_is_forgotten() {
    let (mut world, session) = World::welcomed();
    let query = world.core.query(world.now, "k").unwrap();
    let release = world.core.release(world.now, "k", 3).unwrap();
    world.core.forget(world.now, query);
    world.core.forget(world.now, release);
    world.run();
    assert_eq!(world.take_requests(session), [Req::Release { token: 3 }], "a release goes on");
    world.released(session, 3);
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
}

#[test]
fn rule18_a_full_queue_is_unsent_at_once() {
    let mut world = World::with(|config| config.max_open = 2);
    let full = AcquireError::Unsent(UnsentCause::QueueFull);
    for _ in 0..2 {
        world.acquire(SECOND * 9, SECOND);
        world.core.ping(world.now);
    }
    assert_eq!(world.core.acquire(world.now, "k", SECOND, SECOND), Err(full));
    let ping = world.core.ping(world.now);
    world.run();
    assert_eq!(world.result(ping), OpResult::Ping(Err(CallError::Unsent(UnsentCause::QueueFull))));
}

#[test]
fn p32_no_server_is_a_definite_outcome_and_then_it_works_with_the_same_client() {
    let mut world = World::new();
    let start = world.now;
    let owner = world.acquire(SECOND * 2, SECOND * 5);
    while world.take(owner).is_none() {
        assert!(world.now.since(start) <= SECOND * 2);
        if let Some(&session) = world.open_sessions().first() {
            world.cut(session);
        }
        world.pass(ms(5));
    }
    assert_eq!(world.now.since(start), SECOND * 2);
    let owner = world.acquire(SECOND * 2, SECOND * 5);
    world.pass(SECOND);
    let session = world.session();
    world.welcome(session);
    world.grant(session, owner, 5, 5);
    assert_eq!(world.outcome(owner), Ok(owner));
}
