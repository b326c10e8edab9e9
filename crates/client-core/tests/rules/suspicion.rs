//! Rule 17: sessions that do not answer in time.

use lockstead_client_core::{
    AcquireError, ExtendError, IndeterminateCause, KeyInfo, Lost, OpResult, ReleaseOutcome,
};
use lockstead_proto::{Answer, ErrorCode, KeyState, State};

use crate::world::{Req, SECOND, World, acquired, ms};

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
fn rule17_each_request_has_its_patience() {
    type Ask = fn(&mut World) -> u64;
    let release: Ask = |world| world.core.release(world.now, "k", 3).unwrap();
    let extend: Ask = |world| world.core.extend(world.now, "k", 3, SECOND * 3).unwrap();
    let ping: Ask = |world| world.core.ping(world.now);
    for (ask, patience) in [(release, ms(1_000)), (extend, ms(500)), (ping, ms(1_000))] {
        let (mut world, session) = World::welcomed();
        ask(&mut world);
        world.run();
        assert_eq!(world.core.next_wakeup(), Some(world.now + patience));
        // The one that was answered says nothing about those that were sent later.
        world.pass(ms(400));
        ask(&mut world);
        world.run();
        match world.take_requests(session)[0] {
            Req::Ping { id } => world.pong(session, id),
            Req::Extend { token, .. } => world.extended(session, token, 3),
            Req::Release { token } => world.released(session, token),
            ref other => panic!("{other:?}"),
        }
        world.pass(patience - ms(1));
        assert_eq!(world.wires.len(), 1);
        world.pass(ms(1));
        assert_eq!(world.wires.len(), 2);
    }
}

#[test]
fn rule17_a_query_alone_makes_no_session_suspect() {
    let (mut world, _) = World::welcomed();
    world.core.query(world.now, "k").unwrap();
    world.run();
    world.pass(ms(4_999));
    assert_eq!(world.wires.len(), 1);
}

#[test]
fn rule17_what_is_taken_late_is_blocked_from_the_last_byte_on() {
    let (mut world, first) = World::welcomed();
    world.wire(first).room = 0;
    for _ in 0..2 {
        world.acquire(SECOND * 100, SECOND * 60);
    }
    assert_eq!(world.core.next_wakeup(), Some(world.now + SECOND));
    world.pass(ms(900));
    world.run();
    world.wire(first).room = 3;
    world.run();
    world.pass(ms(999));
    world.run();
    assert_eq!(world.wires.len(), 1, "it moved");
    world.pass(ms(1));
    assert_eq!(world.wires.len(), 2);
}

#[test]
fn rule17_offering_again_and_again_is_no_progress() {
    let (mut world, first) = World::welcomed();
    world.wire(first).room = 0;
    world.acquire(SECOND * 100, SECOND * 60);
    for _ in 0..10 {
        world.pass(ms(100));
        world.run();
    }
    assert_eq!(world.wires.len(), 2);
}

#[test]
fn rule17_a_session_with_nothing_left_to_offer_is_not_blocked() {
    let (mut world, first) = World::welcomed();
    world.wire(first).room = 0;
    let owner = world.acquire(SECOND * 100, SECOND * 60);
    world.core.cancel(world.now, owner);
    world.run();
    world.pass(SECOND * 2);
    world.wire(first).room = 1_000;
    let owner = world.acquire(SECOND * 100, SECOND * 60);
    assert_eq!(world.wires.len(), 1);
    assert!(matches!(world.take_request(first), Req::Acquire { owner: o, .. } if o == owner));
}

#[test]
fn rule17_five_seconds_count_from_the_last_byte_or_the_first_acquire() {
    let (mut world, session) = World::welcomed();
    world.pass(SECOND * 4);
    let first = world.acquire(SECOND * 100, SECOND * 60);
    world.pass(SECOND * 2);
    let second = world.acquire(SECOND * 100, SECOND * 60);
    world.take_requests(session);
    world.pass(ms(2_999));
    assert_eq!(world.take_requests(session), []);
    world.pass(ms(1));
    let Req::Ping { id } = world.take_request(session) else { panic!("no ping") };
    world.timeout(session, first);
    world.pass(ms(500));
    world.pong(session, id);
    world.pass(ms(4_999));
    assert_eq!(world.take_requests(session), []);
    world.pass(ms(1));
    assert!(matches!(world.take_request(session), Req::Ping { .. }));
    assert_eq!(world.take(second), None);
}

#[test]
fn rule17_without_open_acquires_silence_is_no_reason_to_ping() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 100, SECOND * 60);
    world.take_requests(session);
    world.timeout(session, owner);
    world.pass(SECOND * 20);
    assert_eq!(world.take_requests(session), []);
    assert_eq!(world.core.next_wakeup(), None);
}

#[test]
fn rule17_a_ping_of_the_programs_own_will_do() {
    let (mut world, session) = World::welcomed();
    world.acquire(SECOND * 100, SECOND * 60);
    world.take_requests(session);
    world.pass(ms(4_500));
    let ping = world.core.ping(world.now);
    world.run();
    assert_eq!(world.take_request(session), Req::Ping { id: ping });
    world.pass(ms(999));
    assert_eq!(world.take_requests(session), []);
}

#[test]
fn rule17_what_is_no_acquire_needs_no_proof_first() {
    let (mut world, session) = World::welcomed();
    world.pass(SECOND * 40);
    world.core.release(world.now, "k", 3).unwrap();
    world.run();
    assert_eq!(world.take_requests(session), [Req::Release { token: 3 }]);
}

#[test]
fn rule17_thirty_seconds_count_from_the_last_byte() {
    for (idle_ms, proof) in [(29_999, false), (30_000, true)] {
        let (mut world, session) = World::welcomed();
        world.pass(ms(idle_ms));
        world.acquire(SECOND * 100, SECOND * 60);
        world.acquire(SECOND * 100, SECOND * 60);
        let requests = world.take_requests(session);
        assert_eq!(requests.iter().filter(|r| matches!(r, Req::Ping { .. })).count(), usize::from(proof));
        assert_eq!(requests.iter().any(|r| matches!(r, Req::Acquire { .. })), !proof);
    }
}

#[test]
fn rule17_a_suspect_session_is_closed_at_once_when_nothing_is_open_on_it() {
    let (mut world, first) = World::welcomed();
    world.core.ping(world.now);
    world.run();
    world.pass(SECOND);
    assert_eq!(world.closed(first), Some(false));
}

#[test]
fn rule17_a_release_alone_keeps_a_suspect_session_open_for_its_answer() {
    let (mut world, first) = World::welcomed();
    let release = world.core.release(world.now, "k", 3).unwrap();
    world.run();
    world.pass(SECOND);
    assert_eq!(world.closed(first), None);
    world.released(first, 3);
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Released));
    assert_eq!(world.closed(first), Some(false));
    let second = world.session();
    world.welcome(second);
    assert_eq!(world.take_requests(second), [], "it is answered");
}

#[test]
fn rule17_a_byte_gives_a_suspect_session_five_more_seconds() {
    let (mut world, first) = World::welcomed();
    let owner = world.acquire(SECOND * 60, SECOND * 60);
    world.core.ping(world.now);
    world.run();
    world.pass(SECOND * 3);
    world.send_bytes(first, b"T");
    world.pass(ms(4_999));
    assert_eq!(world.closed(first), None);
    world.send(first, Answer::State(State { id: 0, state: KeyState::Free, remaining_ms: 0, waiters: 0 }));
    world.pass(ms(1));
    assert_eq!(world.closed(first), Some(true), "what it sent at last is nonsense");
    assert_eq!(world.outcome(owner), Err(AcquireError::Indeterminate(IndeterminateCause::SessionBroke)));
}

#[test]
fn rule17_what_was_received_counts_before_a_silent_session_is_closed() {
    let (mut world, first) = World::welcomed();
    let answered = world.acquire(SECOND * 60, SECOND * 60);
    let open = world.acquire(SECOND * 60, SECOND * 60);
    world.core.ping(world.now);
    world.run();
    world.pass(ms(5_999));
    world.send(first, acquired(answered, 9, 60, 0));
    world.pass(ms(1));
    assert_eq!(world.closed(first), None, "a sign of life");
    assert_eq!(world.outcome(answered), Ok(answered));
    world.pass(SECOND * 5);
    assert_eq!(world.closed(first), Some(true));
    assert_eq!(world.outcome(open), Err(AcquireError::Indeterminate(IndeterminateCause::SessionBroke)));
}

#[test]
fn rule17_what_moved_is_not_sent_once_more_when_the_suspect_session_is_closed() {
    let (mut world, first) = World::welcomed();
    let release = world.core.release(world.now, "k", 3).unwrap();
    let query = world.core.query(world.now, "k").unwrap();
    world.run();
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    assert_eq!(world.take_requests(second), [Req::Release { token: 3 }, Req::Query { id: query }]);
    world.cut(first);
    assert_eq!(world.take_requests(second), []);
    world.not_held(second, 3);
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Unknown), "by the first, or not");
    assert!(world.faults.is_empty());
}

#[test]
fn rule17_each_answer_to_a_moved_request_is_matched_and_the_first_counts() {
    let (mut world, first) = World::welcomed();
    world.acquire(SECOND * 60, SECOND * 60);
    let release = world.core.release(world.now, "k", 3).unwrap();
    world.run();
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    world.not_held(second, 3);
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Unknown));
    world.released(first, 3);
    assert!(world.faults.is_empty(), "it was sent there too");
    world.released(first, 3);
    assert_eq!(world.faults.len(), 1);
}

#[test]
fn rule12_an_answer_to_an_earlier_sending_counts_even_if_the_request_is_over() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 12);
    let sent = world.now;
    let extend = world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
    world.run();
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    world.error(second, ErrorCode::NotDurable, 5);
    assert!(matches!(world.result(extend), OpResult::Extend(Err(ExtendError::Rejected { .. }))));
    world.extended(first, 5, 60);
    assert_eq!(world.valid_until(ticket), sent + ms(60_000 - 60 - 3_000));
    assert!(world.faults.is_empty());
}

#[test]
fn rule14_not_held_is_a_loss_even_if_the_request_is_over() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 12);
    world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
    world.run();
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    world.error(second, ErrorCode::NotDurable, 5);
    world.not_held(first, 5);
    assert_eq!(world.lost_reason(ticket), Some(Lost::NotHeld));
}

#[test]
fn p26_a_server_that_vanishes_is_a_loss_before_the_lease_ends_without_any_traffic() {
    let (mut world, session) = World::welcomed();
    let sent = world.now;
    let ticket = world.ticket(session, 3);
    world.core.keep_alive(world.now, ticket, None);
    world.wire(session).room = 0;
    world.pass_until(sent + SECOND * 3 - ms(3 + 150) - ms(1));
    assert_eq!(world.lost, []);
    world.pass(ms(1));
    assert_eq!(world.lost, [ticket]);
}

#[test]
fn after_a_suspend_everything_that_is_due_happens_at_once() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 60);
    world.core.keep_alive(world.now, ticket, None);
    let sent = world.acquire(SECOND * 60, SECOND * 60);
    let granted = world.acquire(SECOND * 60, SECOND * 60);
    world.grant(first, granted, 8, 60);
    let release = world.core.release(world.now, "k", 3).unwrap();
    world.run();
    world.wire(first).room = 0;
    let unsent = world.acquire(SECOND * 60, SECOND * 60);
    world.sleep(SECOND * 3_600);
    assert_eq!(world.lost, [ticket]);
    let indeterminate = |cause| Err(AcquireError::Indeterminate(cause));
    assert_eq!(world.outcome(sent), indeterminate(IndeterminateCause::NoAnswer));
    assert_eq!(world.outcome(granted), indeterminate(IndeterminateCause::TooLate));
    assert!(matches!(world.outcome(unsent), Err(AcquireError::Unsent(_))));
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Unknown));
    assert_eq!(world.closed(first), Some(true));
}

#[test]
fn rule17_the_least_patience_counts() {
    let (mut world, _) = World::welcomed();
    world.core.release(world.now, "k", 3).unwrap();
    world.core.extend(world.now, "k", 4, SECOND * 3).unwrap();
    world.core.ping(world.now);
    world.run();
    world.pass(ms(499));
    assert_eq!(world.wires.len(), 1);
    world.pass(ms(1));
    assert_eq!(world.wires.len(), 2);
}
