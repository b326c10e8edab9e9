//! Rules 7 to 11: the deadline, the broken session, the gate, giving up, strays.

use std::time::Duration;

use lockstead_client_core::{AcquireError, Counts, Fault, IndeterminateCause};
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
fn rule09_a_grant_that_comes_as_the_gate_closes_is_given_back_in_the_same_step() {
    let (mut world, session) = World::welcomed();
    let sent = world.now;
    let owner = world.acquire(SECOND * 60, SECOND * 2);
    world.take_request(session);
    world.now = sent + SECOND * 2 - ms(2 + 100);
    world.grant(session, owner, 9, 2);
    assert_eq!(world.take_request(session), Req::Release { token: 9 }, "no timer has to fire first");
    assert_eq!(world.outcome(owner), TOO_LATE);
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
fn rule07_at_the_very_deadline_a_grant_is_too_late_and_a_timeout_counts() {
    for wait in [Duration::ZERO, SECOND * 3] {
        let (mut world, session) = World::welcomed();
        let granted = world.acquire(wait, SECOND * 30);
        let refused = world.acquire(wait, SECOND * 30);
        world.take_requests(session);
        world.now = world.now + SECOND * 5;
        world.grant(session, granted, 9, 30);
        world.timeout(session, refused);
        assert_eq!(world.take_request(session), Req::Release { token: 9 }, "at once");
        assert_eq!(world.outcome(granted), TOO_LATE);
        assert_eq!(world.outcome(refused), Err(AcquireError::Timeout));
        assert_eq!(world.closed(session), None);
    }
}

#[test]
fn rule07_calls_with_the_same_deadline_are_looked_at_together() {
    let (mut world, session) = World::welcomed();
    let owners: Vec<u64> = (0..3).map(|_| world.acquire(SECOND, SECOND * 30)).collect();
    world.send(session, Answer::Timeout(Timeout { owner: owners[1] }));
    world.pass(SECOND * 3);
    assert_eq!(world.outcome(owners[0]), NO_ANSWER);
    assert_eq!(world.outcome(owners[1]), Err(AcquireError::Timeout));
    assert_eq!(world.outcome(owners[2]), NO_ANSWER);
    assert_eq!(world.closed(session), Some(true));
    world.assert_counts(Counts::default());
}

#[test]
fn rule07_only_the_session_of_the_call_is_reset() {
    let (mut world, first) = World::welcomed();
    let late = world.acquire(SECOND, SECOND * 30);
    world.core.ping(world.now);
    world.run();
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    let other = world.acquire(SECOND * 60, SECOND * 30);
    world.pass(SECOND * 2);
    assert_eq!(world.outcome(late), NO_ANSWER);
    assert_eq!((world.closed(first), world.closed(second)), (Some(true), None));
    assert_eq!(world.take(other), None);
}

#[test]
fn rule08_only_the_calls_of_the_broken_session_end() {
    let (mut world, first) = World::welcomed();
    let old = world.acquire(SECOND * 60, SECOND * 30);
    world.core.ping(world.now);
    world.run();
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    let new = world.acquire(SECOND * 60, SECOND * 30);
    world.cut(second);
    assert_eq!(world.outcome(new), BROKE);
    assert_eq!(world.take(old), None);
    world.grant(first, old, 9, 30);
    assert_eq!(world.outcome(old), Ok(old));
}

#[test]
fn rule09_the_exact_token_is_released_until_the_lease_that_was_answered_has_ended() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND, SECOND * 10);
    world.take_request(session);
    world.core.cancel(world.now, owner);
    world.grant(session, owner, 9, 200);
    world.cut(session);
    let one = Counts { requests: 1, ..Counts::default() };
    let end = world.now + ms(200_000 + 200 + 1);
    while world.now < end - ms(100) {
        world.pass(ms(100));
        for session in world.open_sessions() {
            world.cut(session);
        }
        world.assert_counts(one);
    }
    world.pass_until(end);
    assert_eq!(world.core.counts().requests, 0);
}

#[test]
fn rule10_what_is_unknown_cannot_be_given_up_or_taken() {
    let (mut world, session) = World::welcomed();
    world.core.cancel(world.now, 77);
    assert_eq!(world.take(77), None);
    world.run();
    assert_eq!(world.take_requests(session), []);
}

#[test]
fn rule10_a_call_that_is_over_can_be_given_up() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND);
    world.timeout(session, owner);
    world.core.cancel(world.now, owner);
    assert_eq!(world.take(owner), None);
    world.assert_counts(one_session());
}

#[test]
fn rule10_a_cancelled_attempt_is_looked_at_once_more_too() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND, SECOND * 30);
    world.core.cancel(world.now, owner);
    world.run();
    world.take_requests(session);
    world.send(session, acquired(owner, 9, 30, 0));
    world.pass(SECOND * 3);
    assert_eq!(world.closed(session), None);
    assert_eq!(world.take_request(session), Req::Release { token: 9 });
    world.released(session, 9);
    world.assert_counts(one_session());
}

#[test]
fn p18_a_release_is_not_held_up_by_a_wait_on_the_same_session() {
    let (mut world, session) = World::welcomed();
    let holder = world.ticket(session, 60);
    let waiter = world.acquire(SECOND * 10, SECOND * 5);
    let release = world.core.release_ticket(world.now, holder).unwrap();
    world.run();
    let waits = matches!(world.take_requests(session)[..], [Req::Acquire { owner, .. }, Req::Release { token: 5 }] if owner == waiter);
    assert!(waits, "both are on their way");
    world.released(session, 5);
    world.grant(session, waiter, 6, 5);
    assert!(world.ready.contains(&release));
    assert_eq!(world.outcome(waiter), Ok(waiter));
}

#[test]
fn p19_after_an_error_the_other_answers_are_not_shifted() {
    let (mut world, session) = World::welcomed();
    let owners: Vec<u64> = (0..3).map(|_| world.acquire(SECOND * 9, SECOND * 30)).collect();
    world.grant(session, owners[0], 7, 30);
    world.error(session, ErrorCode::BadKey, owners[1]);
    world.grant(session, owners[2], 8, 30);
    for (owner, token) in [(owners[0], 7), (owners[2], 8)] {
        let ticket = world.outcome(owner).unwrap();
        assert_eq!(world.core.ticket_facts(ticket).unwrap().token, token);
    }
    assert!(matches!(world.outcome(owners[1]), Err(AcquireError::Rejected { .. })));
}

#[test]
fn p31_a_late_grant_gets_exactly_one_release_of_its_exact_token() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND, SECOND * 30);
    world.take_request(session);
    world.grant(session, owner, 9, 30);
    world.pass(SECOND * 3);
    assert_eq!(world.take_request(session), Req::Release { token: 9 });
    assert_eq!(world.outcome(owner), TOO_LATE);
    world.core.cancel(world.now, owner);
    world.released(session, 9);
    world.pass(SECOND * 60);
    assert_eq!(world.take_requests(session), []);
    assert!(world.faults.is_empty());
}
