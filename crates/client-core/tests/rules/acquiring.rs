//! Rules 7 to 11: the deadline, the broken session, the gate, giving up, strays.

use lockstead_client_core::{AcquireError, Counts, Fault, IndeterminateCause, Lost, UnsentCause};
use lockstead_proto::{Answer, BusyReason, ErrorCode, Timeout};

use crate::world::{Req, SECOND, World, acquired, ms};

const NO_ANSWER: Result<u64, AcquireError> = Err(AcquireError::Indeterminate(IndeterminateCause::NoAnswer));
const BROKE: Result<u64, AcquireError> = Err(AcquireError::Indeterminate(IndeterminateCause::SessionBroke));
const TOO_LATE: Result<u64, AcquireError> = Err(AcquireError::Indeterminate(IndeterminateCause::TooLate));

fn one_session() -> Counts {
    Counts { sessions: 1, ..Counts::default() }
}

#[test]
fn rule07_at_the_deadline_a_definite_answer_that_was_received_counts() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND, SECOND);
    world.send(session, Answer::Timeout(Timeout { owner }));
    world.pass(SECOND * 3);
    assert_eq!(world.outcome(owner), Err(AcquireError::Timeout));
    assert_eq!(world.closed(session), None);
    world.assert_counts(one_session());
}

#[test]
fn rule07_at_the_deadline_a_grant_that_was_received_is_given_back() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND, SECOND * 30);
    world.take_request(session);
    world.send(session, acquired(owner, 9, 30, 0));
    world.pass(SECOND * 3);
    assert_eq!(world.outcome(owner), TOO_LATE);
    assert_eq!(world.closed(session), None);
    assert_eq!(world.take_request(session), Req::Release { token: 9 });
    world.released(session, 9);
    world.assert_counts(one_session());
}

#[test]
fn rule07_without_an_answer_the_session_is_reset_and_the_others_are_sorted() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 60);
    let due = world.acquire(SECOND, SECOND);
    let sent = world.acquire(SECOND * 60, SECOND);
    world.pass(ms(2_500));
    world.wire(session).room = 0;
    let unsent = world.core.acquire(world.now, "k", SECOND * 60, SECOND).unwrap();
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.wire(session).room = 11;
    world.run();
    world.pass(ms(499));
    assert_eq!(world.closed(session), None);
    world.pass(ms(1));
    assert_eq!(world.closed(session), Some(true));
    assert_eq!(world.outcome(due), NO_ANSWER);
    assert_eq!(world.outcome(sent), BROKE);
    assert_eq!(world.take(unsent), None);
    world.pass(ms(51));
    let session = world.session();
    world.welcome(session);
    let requests = world.take_requests(session);
    assert_eq!(requests[0], Req::Release { token: 5 });
    assert!(matches!(requests[1..], [Req::Acquire { owner, .. }] if owner == unsent), "{requests:?}");
    world.released(session, 5);
    assert!(world.ready.contains(&release));
}

#[test]
fn rule08_a_broken_session_ends_what_is_possibly_sent_at_once() {
    let (mut world, session) = World::welcomed();
    let answered = world.acquire(SECOND * 9, SECOND);
    let open = world.acquire(SECOND * 9, SECOND);
    world.busy(session, answered, BusyReason::KeysFull);
    world.cut(session);
    assert_eq!(world.outcome(answered), Err(AcquireError::Busy(BusyReason::KeysFull)));
    assert_eq!(world.outcome(open), BROKE);
    world.assert_counts(Counts::default());
}

#[test]
fn rule09_a_grant_in_time_becomes_a_ticket_when_it_is_taken() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND, SECOND * 30);
    world.grant(session, owner, 9, 30);
    world.pass(ms(2_999));
    assert_eq!(world.outcome(owner), Ok(owner));
    assert_eq!(world.core.ticket(world.now, owner).unwrap().lost, None);
    let facts = world.core.ticket_facts(owner).unwrap();
    assert_eq!((&*facts.key, facts.token, facts.lease_s), ("k", 9, 30));
}

#[test]
fn rule09_a_grant_not_taken_by_the_deadline_is_given_back_whether_or_not_the_caller_looks() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND, SECOND * 30);
    world.take_request(session);
    world.grant(session, owner, 9, 30);
    world.pass(SECOND * 3);
    assert_eq!(world.take_request(session), Req::Release { token: 9 });
    world.released(session, 9);
    world.pass(SECOND * 100);
    assert_eq!(world.outcome(owner), TOO_LATE);
    assert_eq!(world.closed(session), None);
    world.assert_counts(one_session());
}

#[test]
fn rule09_the_gate_closes_at_the_deadline_even_if_no_timer_fired_yet() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND, SECOND * 30);
    world.take_request(session);
    world.grant(session, owner, 9, 30);
    world.now = world.now + SECOND * 3;
    assert_eq!(world.outcome(owner), TOO_LATE);
    assert_eq!(world.take_request(session), Req::Release { token: 9 });
}

#[test]
fn rule09_the_gate_closes_when_the_lease_does_not_surely_run_any_more() {
    let (mut world, session) = World::welcomed();
    let sent = world.now;
    let owner = world.acquire(SECOND * 60, SECOND * 2);
    world.take_request(session);
    world.grant(session, owner, 9, 2);
    world.now = sent + SECOND * 2 - ms(2 + 100);
    assert_eq!(world.outcome(owner), TOO_LATE);
    assert_eq!(world.take_request(session), Req::Release { token: 9 });
}

#[test]
fn p02_an_answer_later_than_its_lease_gives_no_ticket() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 10, SECOND * 2);
    world.take_request(session);
    world.pass(SECOND * 2);
    world.grant(session, owner, 9, 2);
    assert_eq!(world.outcome(owner), TOO_LATE);
    assert_eq!(world.take_request(session), Req::Release { token: 9 });
}

#[test]
fn rule09_definite_answers_stay_definite_however_late_they_are_picked_up() {
    let (mut world, session) = World::welcomed();
    let first = world.acquire(SECOND, SECOND);
    let second = world.acquire(SECOND, SECOND);
    let third = world.acquire(SECOND, SECOND);
    world.timeout(session, first);
    world.busy(session, second, BusyReason::Draining);
    world.error(session, ErrorCode::Forbidden, third);
    world.pass(SECOND * 100);
    assert_eq!(world.outcome(first), Err(AcquireError::Timeout));
    assert_eq!(world.outcome(second), Err(AcquireError::Busy(BusyReason::Draining)));
    assert_eq!(
        world.outcome(third),
        Err(AcquireError::Rejected { code: ErrorCode::Forbidden, message: "no".into() })
    );
    assert_eq!(world.closed(session), None);
}

#[test]
fn rule10_giving_up_unsent_withdraws_the_call() {
    let mut world = World::new();
    let owner = world.acquire(SECOND * 9, SECOND);
    let session = world.session();
    world.core.cancel(world.now, owner);
    world.welcome(session);
    assert_eq!(world.take_requests(session), []);
    world.assert_counts(one_session());
    assert_eq!(world.core.next_wakeup(), None);
}

#[test]
fn rule10_giving_up_after_sending_cancels_and_gives_a_grant_back() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND * 30);
    world.take_request(session);
    world.core.cancel(world.now, owner);
    world.core.cancel(world.now, owner);
    world.run();
    assert_eq!(world.take_request(session), Req::Cancel { owner });
    world.grant(session, owner, 9, 30);
    assert_eq!(world.take_request(session), Req::Release { token: 9 });
    world.released(session, 9);
    world.assert_counts(one_session());
    assert!(world.ready.is_empty(), "nobody waits");
}

#[test]
fn rule10_a_cancelled_attempt_that_times_out_is_gone() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND * 30);
    world.core.cancel(world.now, owner);
    world.run();
    world.timeout(session, owner);
    world.assert_counts(one_session());
    assert!(world.faults.is_empty());
}

#[test]
fn rule10_the_deadline_applies_to_a_cancelled_attempt() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND, SECOND * 30);
    world.core.cancel(world.now, owner);
    world.run();
    world.pass(ms(2_999));
    assert_eq!(world.closed(session), None);
    world.pass(ms(1));
    assert_eq!(world.closed(session), Some(true));
    world.assert_counts(Counts::default());
}

#[test]
fn rule10_giving_up_at_the_gate_gives_the_grant_back() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND * 30);
    world.take_request(session);
    world.grant(session, owner, 9, 30);
    world.core.cancel(world.now, owner);
    world.run();
    assert_eq!(world.take_request(session), Req::Release { token: 9 });
    assert_eq!(world.take(owner), None);
}

#[test]
fn rule11_answers_nobody_asked_for_are_counted_and_ignored() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND * 30);
    world.take_request(session);
    world.grant(session, owner ^ 1, 9, 30);
    world.timeout(session, owner);
    world.timeout(session, owner);
    world.grant(session, owner, 10, 30);
    world.released(session, 3);
    world.pong(session, 4);
    let stray = |id| Fault::Stray { session, id };
    assert_eq!(world.faults, [stray(owner ^ 1), stray(owner), stray(owner), stray(3), stray(4)]);
    assert_eq!(world.outcome(owner), Err(AcquireError::Timeout));
    assert_eq!(world.take_requests(session), [], "nothing is released for a stray");
    assert_eq!(world.closed(session), None);
}

#[test]
fn rule11_an_answer_on_another_session_is_a_stray() {
    let (mut world, first) = World::welcomed();
    let owner = world.acquire(SECOND * 60, SECOND * 30);
    let ping = world.core.ping(world.now);
    world.run();
    world.pass(SECOND);
    let second = world.session();
    assert_ne!(first, second);
    world.welcome(second);
    world.grant(second, owner, 9, 30);
    assert_eq!(world.faults, [Fault::Stray { session: second, id: owner }]);
    assert_eq!(world.take(owner), None);
    world.grant(first, owner, 9, 30);
    assert_eq!(world.outcome(owner), Ok(owner));
    world.pong(second, ping);
}

#[test]
fn rule11_what_cannot_be_trusted_breaks_the_session() {
    for bytes in [&b"Zzz"[..], b"T\0\0\0\0\0\0\0\x01!", b"X\x05\0\0\0\0\0\0\0\0no\n"] {
        let (mut world, session) = World::welcomed();
        let owner = world.acquire(SECOND * 9, SECOND);
        world.send_bytes(session, bytes);
        assert_eq!(world.closed(session), Some(true), "{bytes:?}");
        assert_eq!(world.outcome(owner), BROKE);
    }
}

#[test]
fn rule11_a_closing_error_answers_the_call_that_it_names() {
    let (mut world, session) = World::welcomed();
    let named = world.acquire(SECOND * 9, SECOND);
    let other = world.acquire(SECOND * 9, SECOND);
    world.error(session, ErrorCode::OverLimits, named);
    assert!(matches!(world.outcome(named), Err(AcquireError::Rejected { code: ErrorCode::OverLimits, .. })));
    assert_eq!(world.outcome(other), BROKE);
    assert_eq!(world.closed(session), Some(true));
}

#[test]
fn rule11_answers_may_be_cut_anywhere() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND * 30);
    let mut bytes = Vec::new();
    acquired(owner, 0x0a0a, 10, 10).encode(&mut bytes);
    for byte in bytes {
        world.send_bytes(session, &[byte]);
    }
    assert_eq!(world.outcome(owner), Ok(owner));
    assert_eq!(world.core.ticket_facts(owner).unwrap().token, 0x0a0a);
}

#[test]
fn p20_new_calls_get_only_their_own_answers_after_a_reconnect() {
    let (mut world, first) = World::welcomed();
    let old: Vec<u64> = (0..5).map(|_| world.acquire(SECOND * 9, SECOND * 9)).collect();
    world.cut(first);
    for &owner in &old {
        assert_eq!(world.outcome(owner), BROKE);
    }
    let new: Vec<u64> = (0..5).map(|_| world.acquire(SECOND * 9, SECOND * 9)).collect();
    world.pass(ms(51));
    let second = world.session();
    world.welcome(second);
    for &owner in &old {
        world.grant(second, owner, 3, 9);
    }
    assert_eq!(world.faults.len(), 5);
    for (token, &owner) in (10..).zip(&new) {
        world.grant(second, owner, token, 9);
        assert_eq!(world.outcome(owner), Ok(owner));
        assert_eq!(world.core.ticket_facts(owner).unwrap().token, token);
    }
}

#[test]
fn a_shutdown_ends_every_call_and_gives_everything_back() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 30);
    let sent = world.acquire(SECOND * 9, SECOND * 30);
    let granted = world.acquire(SECOND * 9, SECOND * 30);
    world.grant(session, granted, 6, 30);
    world.take_requests(session);
    world.wire(session).room = 0;
    let unsent = world.core.acquire(world.now, "k", SECOND, SECOND).unwrap();
    world.core.shutdown(world.now);
    world.wire(session).room = 1_000;
    world.run();
    assert_eq!(world.outcome(unsent), Err(AcquireError::Unsent(UnsentCause::ShutDown)));
    let shut_down = Err(AcquireError::Indeterminate(IndeterminateCause::ShutDown));
    assert_eq!(world.outcome(granted), shut_down);
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, Some(Lost::ShutDown));
    assert_eq!(
        world.take_requests(session),
        [Req::Cancel { owner: sent }, Req::Release { token: 6 }, Req::Release { token: 5 }]
    );
    world.grant(session, sent, 7, 30);
    assert_eq!(world.outcome(sent), shut_down);
    assert_eq!(world.take_request(session), Req::Release { token: 7 });
    for token in [6, 5] {
        world.released(session, token);
    }
    assert!(!world.stopped);
    world.released(session, 7);
    assert!(world.stopped && world.closed(session) == Some(false));
    world.core.drop_ticket(world.now, ticket);
    world.assert_counts(Counts::default());
}

#[test]
fn a_shutdown_without_answers_is_bounded() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 30);
    let sent = world.acquire(SECOND * 9, SECOND * 30);
    world.core.shutdown(world.now);
    world.run();
    world.pass(ms(1_999));
    assert!(!world.stopped);
    world.pass(ms(1));
    assert!(world.stopped);
    assert_eq!(world.closed(session), Some(true));
    assert_eq!(world.outcome(sent), Err(AcquireError::Indeterminate(IndeterminateCause::ShutDown)));
    world.core.drop_ticket(world.now, ticket);
    world.assert_counts(Counts::default());
    assert_eq!(world.core.next_wakeup(), None);
}
