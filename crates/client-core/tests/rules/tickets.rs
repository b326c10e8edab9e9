//! Rules 12 to 15: validity, release and extend, keep-alive, drop.

use std::time::Duration;

use lockstead_client_core::{
    Counts, ExtendError, Extended, Fault, Lost, OpResult, ReleaseOutcome, UnsentCause, UsageError,
};
use lockstead_proto::{ErrorCode, NotHeld};

use crate::world::{Req, SECOND, World, ms};

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
    assert_eq!(not_held(2, SECOND * 29), released(ReleaseOutcome::Unknown));
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
    assert_eq!(world.result(release), released(ReleaseOutcome::Unsent(UnsentCause::BudgetEnded)));
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
    assert_eq!(world.result(release), released(ReleaseOutcome::Unsent(UnsentCause::BudgetEnded)));
}

#[test]
fn rule13_requests_with_a_token_of_the_programs_own_are_bounded() {
    let (mut world, _) = World::welcomed();
    assert_eq!(world.core.release(world.now, "k", 0), Err(UsageError::TokenOutOfRange));
    assert_eq!(world.core.extend(world.now, "k", 1 << 63, SECOND), Err(UsageError::TokenOutOfRange));
    assert_eq!(world.core.extend(world.now, "k", 1, ms(0)), Err(UsageError::LeaseOutOfRange));
    let release = world.core.release(world.now, "k", 4).unwrap();
    let extend = world.core.extend(world.now, "k", 4, SECOND).unwrap();
    world.run();
    world.pass(ms(4_999));
    assert_eq!(world.core.take_result(release), None);
    world.pass(ms(1));
    assert_eq!(world.result(release), released(ReleaseOutcome::Unknown));
    assert_eq!(world.result(extend), OpResult::Extend(Err(ExtendError::Unknown)));
}

#[test]
fn rule14_keep_alive_extends_at_a_third_of_the_lease() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 9);
    let mut sent = world.now;
    world.core.keep_alive(world.now, ticket, None);
    for _ in 0..20 {
        world.pass_until(sent + ms(2_999));
        assert_eq!(world.take_requests(session), []);
        world.pass(ms(1));
        sent = world.now;
        assert_eq!(world.take_request(session), Req::Extend { lease_s: 9, token: 5 });
        world.pass(ms(100));
        world.extended(session, 5, 9);
        let until = world.core.ticket(world.now, ticket).unwrap().valid_until;
        assert_eq!(until, sent + ms(9_000 - 9 - 450));
    }
    assert!(world.lost.is_empty());
}

#[test]
fn p27_keep_alive_goes_on_after_a_lost_answer_and_a_reconnect() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 9);
    world.core.keep_alive(world.now, ticket, None);
    world.pass(SECOND * 3);
    assert!(matches!(world.take_request(first), Req::Extend { .. }));
    // The answer is lost: after a second the session is suspect, and the extend goes out again on another.
    world.pass(SECOND);
    let second = world.session();
    assert_ne!(first, second);
    world.welcome(second);
    let sent = world.now;
    assert!(matches!(world.take_request(second), Req::Extend { .. }));
    world.extended(second, 5, 9);
    let until = world.core.ticket(world.now, ticket).unwrap().valid_until;
    assert_eq!(until, sent + ms(9_000 - 9 - 450));
    world.pass(SECOND * 3);
    assert!(matches!(world.take_request(second), Req::Extend { .. }));
    assert!(world.lost.is_empty());
}

#[test]
fn rule14_each_answer_counts_by_its_own_sending() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 9);
    world.core.keep_alive(world.now, ticket, None);
    world.pass(SECOND * 3);
    let sent = world.now;
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    world.extended(first, 5, 9);
    let until = world.core.ticket(world.now, ticket).unwrap().valid_until;
    assert_eq!(until, sent + ms(9_000 - 9 - 450), "by the first one's, which it answers");
}

#[test]
fn rule14_an_extend_that_was_not_durable_is_tried_again_after_a_sixth() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 12);
    world.core.keep_alive(world.now, ticket, None);
    world.pass(SECOND * 4);
    world.take_request(session);
    world.error(session, ErrorCode::NotDurable, 5);
    world.pass(ms(1_999));
    assert_eq!(world.take_requests(session), []);
    world.pass(ms(1));
    assert!(matches!(world.take_request(session), Req::Extend { .. }));
    assert!(world.lost.is_empty());
}

#[test]
fn rule14_loss_is_final() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 10);
    let extend = world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
    world.run();
    world.take_requests(session);
    let until = world.core.ticket(world.now, ticket).unwrap().valid_until;
    world.now = until;
    world.extended(session, 5, 60);
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, Some(Lost::Expired));
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().valid_until, until);
    assert_eq!(world.result(extend), OpResult::Extend(Err(ExtendError::Lost(Lost::Expired))));
    assert_eq!(world.take_request(session), Req::Release { token: 5 });
    assert_eq!(world.core.extend_ticket(world.now, ticket, SECOND), Err(ExtendError::Lost(Lost::Expired)));
    world.core.keep_alive(world.now, ticket, None);
    // The program's own release joins the one under way, which the late confirmation has given more time.
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.released(session, 5);
    assert_eq!(world.result(release), released(ReleaseOutcome::Released));
    world.pass(SECOND * 200);
    assert_eq!(world.take_requests(session), []);
}

#[test]
fn rule14_not_held_is_a_loss_and_the_token_is_released() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 10);
    world.core.keep_alive(world.now, ticket, None);
    world.pass(ms(3_334));
    world.take_requests(session);
    world.not_held(session, 5);
    assert_eq!(world.lost, [ticket]);
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, Some(Lost::NotHeld));
    assert_eq!(world.take_request(session), Req::Release { token: 5 });
    world.not_held(session, 5);
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    assert_eq!(world.result(release), released(ReleaseOutcome::NotHeld));
}

#[test]
fn p28_nothing_is_sent_for_a_token_after_its_release() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 9);
    world.core.keep_alive(world.now, ticket, None);
    world.pass(SECOND * 3);
    assert!(matches!(world.take_request(session), Req::Extend { .. }));
    world.core.drop_ticket(world.now, ticket);
    world.run();
    assert_eq!(world.take_request(session), Req::Release { token: 5 });
    world.extended(session, 5, 9);
    world.released(session, 5);
    world.pass(SECOND * 30);
    assert_eq!(world.take_requests(session), []);
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
    assert!(world.faults.is_empty());
}

#[test]
fn p28_the_total_cap_is_obeyed() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 9);
    world.core.keep_alive(world.now, ticket, Some(ms(7_500)));
    let mut leases = Vec::new();
    for _ in 0..20 {
        world.pass(SECOND);
        for request in world.take_requests(session) {
            match request {
                Req::Extend { lease_s, .. } => leases.push(lease_s),
                Req::Release { .. } => continue,
                other => panic!("{other:?}"),
            }
            world.extended(session, 5, leases[leases.len() - 1]);
        }
    }
    assert_eq!(leases, [5, 2], "each ends with the cap");
    assert_eq!(world.lost, [ticket]);
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
