//! Rules 12, 13 and 15: validity, release and extend, drop.

use std::time::Duration;

use lockstead_client_core::{
    Counts, ExtendError, Extended, Fault, Lost, OpResult, ReleaseOutcome, UnsentCause, UsageError,
};
use lockstead_proto::{ErrorCode, NotHeld};

use crate::world::{Req, SECOND, World, ms};

/// Of a client whose session was cut; nobody answers the next ones, and the first of these was given up.
fn no_answer() -> UnsentCause {
    UnsentCause::BudgetEnded { last: Some("a0: no answer to the attempt to connect".into()) }
}

fn released(outcome: ReleaseOutcome) -> OpResult {
    OpResult::Release(outcome)
}

#[test]
fn rule12_valid_until_counts_from_sent_and_the_smaller_lease() {
    let (mut world, session) = World::welcomed();
    let sent = world.now;
    let owner = world.acquire(SECOND * 20, SECOND * 30);
    world.pass(SECOND * 3);
    world.grant_after(session, owner, 5, 10, 2_500);
    let ticket = world.outcome(owner).unwrap();
    let view = world.core.ticket(world.now, ticket).unwrap();
    assert_eq!(view.valid_until, sent + ms(2_500 + 10_000 - 12) - Duration::from_micros(500) - ms(500));
    let facts = world.core.ticket_facts(ticket).unwrap();
    assert_eq!((facts.lease_s, facts.waited), (10, ms(2_500)));
}

#[test]
fn rule12_a_longer_answered_lease_counts_as_the_one_asked_for() {
    let (mut world, session) = World::welcomed();
    let sent = world.now;
    let owner = world.acquire(SECOND * 20, SECOND * 10);
    world.grant(session, owner, 5, 200);
    let ticket = world.outcome(owner).unwrap();
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().valid_until, sent + ms(10_000 - 10 - 500));
}

#[test]
fn rule12_a_wait_that_cannot_be_is_logged_and_counts_as_none() {
    let (mut world, session) = World::welcomed();
    let sent = world.now;
    let owner = world.acquire(SECOND * 20, SECOND * 10);
    world.pass(SECOND);
    world.grant_after(session, owner, 5, 10, 1_002);
    assert_eq!(world.faults, [Fault::Waited { session, id: owner }]);
    let ticket = world.outcome(owner).unwrap();
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().valid_until, sent + ms(10_000 - 10 - 500));
    assert_eq!(world.core.ticket_facts(ticket).unwrap().waited, ms(0));
}

#[test]
fn rule12_after_valid_until_the_ticket_is_lost_by_itself() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 10);
    let until = world.core.ticket(world.now, ticket).unwrap().valid_until;
    world.pass_until(until - Duration::from_nanos(1));
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, None);
    world.pass_until(until);
    assert_eq!(world.lost, [ticket]);
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, Some(Lost::Expired));
    assert_eq!(world.take_request(session), Req::Release { token: 5 });
}

#[test]
fn rule12_every_use_reads_the_clock() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 10);
    world.now = world.core.ticket(world.now, ticket).unwrap().valid_until;
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, Some(Lost::Expired));
    world.run();
    assert_eq!(world.lost, [ticket]);
    assert_eq!(world.take_request(session), Req::Release { token: 5 });
}

#[test]
fn rule12_an_answer_belongs_to_the_oldest_request_of_its_token() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 30);
    let first_sent = world.now;
    let first = world.core.extend_ticket(world.now, ticket, SECOND * 40).unwrap();
    world.run();
    world.pass(ms(400));
    let second = world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
    world.run();
    world.extended(session, 5, 60);
    let until = first_sent + ms(40_000 - 40 - 2_000);
    assert_eq!(
        world.result(first),
        OpResult::Extend(Ok(Extended { lease: SECOND * 60, valid_until: until }))
    );
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().valid_until, until);
    world.extended(session, 5, 60);
    let until = first_sent + ms(400 + 60_000 - 60 - 3_000);
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().valid_until, until);
    assert!(matches!(world.result(second), OpResult::Extend(Ok(_))));
}

#[test]
fn rule12_an_extend_never_shortens() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 30);
    let before = world.core.ticket(world.now, ticket).unwrap().valid_until;
    world.core.extend_ticket(world.now, ticket, SECOND).unwrap();
    world.run();
    world.extended(session, 5, 1);
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().valid_until, before);
}

#[test]
fn rule13_a_release_is_sent_again_until_it_is_answered() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 30);
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    assert_eq!(world.take_request(first), Req::Release { token: 5 });
    world.cut(first);
    world.pass(ms(51));
    let second = world.session();
    world.welcome(second);
    assert_eq!(world.take_request(second), Req::Release { token: 5 });
    world.released(second, 5);
    assert_eq!(world.result(release), released(ReleaseOutcome::Released));
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
}

#[test]
fn rule13_not_held_means_what_the_earlier_sends_allow() {
    let not_held = |sends: usize, after: Duration| {
        let (mut world, mut session) = World::welcomed();
        let ticket = world.ticket(session, 30);
        let release = world.core.release_ticket(world.now, ticket).unwrap();
        world.run();
        for _ in 1..sends {
            world.cut(session);
            world.pass(ms(51));
            session = world.session();
            world.welcome(session);
        }
        world.now = world.now + after;
        world.core.received(world.now, session, &{
            let mut bytes = Vec::new();
            NotHeld { token: 5 }.encode(&mut bytes);
            bytes
        });
        world.run();
        world.result(release)
    };
    assert_eq!(not_held(1, ms(0)), released(ReleaseOutcome::NotHeld));
    assert_eq!(not_held(1, SECOND * 29), released(ReleaseOutcome::NotHeld));
    assert_eq!(not_held(2, ms(0)), released(ReleaseOutcome::Released));
    // `valid_until` is 28,470 ms after the sending, and the second release goes out 51 ms after it.
    assert_eq!(not_held(2, ms(28_418)), released(ReleaseOutcome::Released));
    assert_eq!(not_held(2, ms(28_419)), released(ReleaseOutcome::Unknown));
}

#[test]
fn p30_a_release_without_an_answer_ends_with_the_lease() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 10);
    let received = world.now;
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    let end = received + ms(10_000 + 10 + 1);
    world.pass_until(end - Duration::from_nanos(1));
    assert_eq!(world.core.take_result(release), None);
    world.pass_until(end);
    assert_eq!(world.result(release), released(ReleaseOutcome::Unknown));
    world.pass(SECOND * 30);
    world.assert_counts(Counts::default());
}

#[test]
fn rule13_a_release_never_sent_is_unsent() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 10);
    world.cut(session);
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    world.pass(SECOND * 11);
    assert_eq!(world.result(release), released(ReleaseOutcome::Unsent(no_answer())));
}

#[test]
fn rule13_a_rejected_release_is_not_retried() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 10);
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    world.error(session, ErrorCode::Forbidden, 5);
    assert!(matches!(
        world.result(release),
        OpResult::Release(ReleaseOutcome::Rejected { code: ErrorCode::Forbidden, .. })
    ));
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
}

#[test]
fn rule13_a_confirmed_extend_lengthens_the_time_for_the_release() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 10);
    let extend = world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
    world.run();
    world.extended(first, 5, 60);
    assert!(matches!(world.result(extend), OpResult::Extend(Ok(_))));
    world.cut(first);
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    world.pass(SECOND * 59);
    assert_eq!(world.core.take_result(release), None);
    world.pass(SECOND * 2);
    assert_eq!(world.result(release), released(ReleaseOutcome::Unsent(no_answer())));
}

#[test]
fn rule15_a_dropped_ticket_is_released_in_the_background() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 9);
    world.core.drop_ticket(world.now, ticket);
    world.run();
    assert_eq!(world.lost, [ticket], "whoever waits for the loss is told");
    assert_eq!(world.take_request(session), Req::Release { token: 5 });
    world.released(session, 5);
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
    world.pass(SECOND);
    assert_eq!(world.core.next_wakeup(), None, "no timer is left");
}

#[test]
fn a_left_ticket_is_not_released() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 9);
    world.core.leave_ticket(world.now, ticket);
    world.run();
    world.pass(SECOND * 20);
    assert_eq!(world.take_requests(session), []);
    assert_eq!(world.lost, [ticket]);
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
}

#[test]
fn rule13_a_ticket_that_the_shutdown_took_is_surely_released_within_its_time() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 30);
    world.core.shutdown(world.now);
    world.run();
    assert_eq!(world.take_request(first), Req::Release { token: 5 });
    let second = world.reconnect(first);
    assert_eq!(world.take_request(second), Req::Release { token: 5 });
    world.not_held(second, 5);
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    assert_eq!(world.result(release), released(ReleaseOutcome::Released), "by the first one");
}

#[test]
fn rule13_after_a_loss_nobody_can_say_which_release_it_was() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 30);
    world.core.extend_ticket(world.now, ticket, SECOND).unwrap();
    world.run();
    world.not_held(first, 5);
    let second = world.reconnect(first);
    world.not_held(second, 5);
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    assert_eq!(world.result(release), released(ReleaseOutcome::Unknown));
}

#[test]
fn rule13_a_late_confirmation_gives_the_release_more_time() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 10);
    world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
    world.run();
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    world.extended(first, 5, 60);
    let end = world.now + ms(60_000 + 60 + 1);
    world.cut(first);
    world.pass_until(end - ms(1));
    assert_eq!(world.core.take_result(release), None);
    world.pass_until(end);
    assert_eq!(world.result(release), released(ReleaseOutcome::Unknown));
}

#[test]
fn rule13_a_release_that_was_asked_for_is_answered_whatever_follows() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 30);
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    assert_eq!(world.core.release_ticket(world.now, ticket), Some(release), "it is under way");
    world.core.drop_ticket(world.now, ticket);
    world.run();
    assert_eq!(world.take_requests(session), [Req::Release { token: 5 }]);
    world.released(session, 5);
    assert_eq!(world.result(release), released(ReleaseOutcome::Released));
    assert_eq!(world.core.release_ticket(world.now, ticket), None, "there is no such ticket any more");
}

#[test]
fn rule13_the_release_of_a_lost_ticket_is_kept_for_the_program() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 2);
    world.pass(SECOND * 2);
    world.take_requests(session);
    world.error(session, ErrorCode::Forbidden, 5);
    assert_eq!(world.ready.len(), 1, "nobody waits for it yet");
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    let rejected = ReleaseOutcome::Rejected { code: ErrorCode::Forbidden, message: "no".into() };
    assert_eq!(world.result(release), released(rejected));
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
}

#[test]
fn rule15_dropping_a_lost_ticket_sends_nothing_more() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 2);
    world.pass(SECOND * 2);
    assert_eq!(world.take_requests(session), [Req::Release { token: 5 }]);
    world.released(session, 5);
    world.core.drop_ticket(world.now, ticket);
    world.run();
    assert_eq!(world.take_requests(session), []);
    assert_eq!(world.core.ticket(world.now, ticket), None);
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
}

#[test]
fn rule12_releasing_at_the_end_of_the_lease_reads_the_clock() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 2);
    world.now = world.valid_until(ticket);
    world.core.release_ticket(world.now, ticket).unwrap();
    assert_eq!(world.lost_reason(ticket), Some(Lost::Expired));
    world.run();
    assert_eq!(world.take_requests(session), [Req::Release { token: 5 }]);
}

#[test]
fn an_extend_of_a_ticket_ends_by_its_present_end() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 10);
    let first = world.core.extend_ticket(world.now, ticket, SECOND * 10).unwrap();
    world.run();
    let until = world.valid_until(ticket);
    world.pass(ms(500));
    let second = world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
    world.run();
    world.extended(session, 5, 10);
    world.extended(session, 5, 60);
    assert!(matches!(world.result(first), OpResult::Extend(Ok(_))));
    assert!(matches!(world.result(second), OpResult::Extend(Ok(_))));
    let third = world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
    let later = world.valid_until(ticket);
    assert!(later > until);
    world.cut(session);
    world.pass_until(later - Duration::from_nanos(1));
    assert_eq!(world.core.take_result(third), None);
    world.pass_until(later);
    assert_eq!(world.result(third), OpResult::Extend(Err(ExtendError::Lost(Lost::Expired))));
}

#[test]
fn an_unknown_ticket_is_nothing() {
    let (mut world, session) = World::welcomed();
    let now = world.now;
    assert_eq!(world.core.ticket(now, 9), None);
    assert_eq!(world.core.ticket_facts(9), None);
    assert_eq!(world.core.extend_ticket(now, 9, SECOND), Err(ExtendError::Lost(Lost::Ended)));
    assert_eq!(world.core.extend_ticket(now, 9, ms(0)), Err(UsageError::LeaseOutOfRange.into()));
    assert_eq!(world.core.release_ticket(now, 9), None);
    world.core.drop_ticket(now, 9);
    world.core.leave_ticket(now, 9);
    assert!(!world.core.has_output());
    world.run();
    assert_eq!(world.take_requests(session), []);
}

#[test]
fn a_left_ticket_ends_its_extends() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 9);
    let sent = world.core.extend_ticket(world.now, ticket, SECOND * 9).unwrap();
    world.run();
    assert!(matches!(world.take_request(session), Req::Extend { .. }));
    world.wire(session).room = 0;
    let unsent = world.core.extend_ticket(world.now, ticket, SECOND * 9).unwrap();
    world.core.leave_ticket(world.now, ticket);
    world.wire(session).room = 1_000;
    world.run();
    for extend in [sent, unsent] {
        assert_eq!(world.result(extend), OpResult::Extend(Err(ExtendError::Lost(Lost::Ended))));
    }
    world.extended(session, 5, 9);
    assert!(world.faults.is_empty());
    assert_eq!(world.take_requests(session), [], "nothing is extended or released");
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
    world.pass(SECOND);
    assert_eq!(world.core.next_wakeup(), None);
}

#[test]
fn rule14_a_confirmation_after_the_end_of_the_release_is_released_too() {
    for (extended, in_use) in [(true, true), (true, false), (false, true)] {
        let (mut world, first) = World::welcomed();
        let ticket = world.ticket(first, 2);
        world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
        world.run();
        world.take_requests(first);
        if !in_use {
            world.core.drop_ticket(world.now, ticket);
            world.run();
        }
        // Nothing can be sent until the lease has surely ended, by what was heard of it.
        world.wire(first).room = 0;
        world.pass(SECOND * 3);
        assert_eq!(world.core.counts().requests, 0);
        if extended {
            world.extended(first, 5, 60);
        } else {
            world.not_held(first, 5);
        }
        let second = world.session();
        if extended {
            world.assert_counts(Counts { tickets: usize::from(in_use), requests: 1, ..world.core.counts() });
            world.welcome(second);
            assert_eq!(world.take_requests(second), [Req::Release { token: 5 }]);
            world.released(second, 5);
        }
        assert_eq!(world.core.counts().requests, 0);
        assert!(world.faults.is_empty());
    }
}

#[test]
fn a_left_lock_is_not_released_by_a_late_confirmation() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 2);
    world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
    world.run();
    world.core.leave_ticket(world.now, ticket);
    world.take_requests(first);
    world.pass(SECOND * 3);
    world.extended(first, 5, 60);
    assert_eq!(world.core.counts().requests, 0);
}
