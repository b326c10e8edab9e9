//! Rule 14: keep-alive, and loss.

use std::time::Duration;

use lockstead_client_core::{Counts, ExtendError, Lost, Margin, OpResult, ReleaseOutcome, SessionId};
use lockstead_proto::ErrorCode;

use crate::world::{Req, SECOND, World, ms};

fn released(outcome: ReleaseOutcome) -> OpResult {
    OpResult::Release(outcome)
}

/// The leases that are asked for while `span` passes; each extend is answered at once with `answer` of it.
fn extends(world: &mut World, session: SessionId, span: Duration, answer: fn(u8) -> u8) -> Vec<u8> {
    let end = world.now + span;
    let mut leases = Vec::new();
    while world.now < end {
        world.pass_until(world.core.next_wakeup().unwrap_or(end).min(end));
        for request in world.take_requests(session) {
            if let Req::Extend { lease_s, token } = request {
                leases.push(lease_s);
                assert!(leases.len() < 1_000, "they never end");
                world.extended(session, token, answer(lease_s));
            }
        }
    }
    leases
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
    world.pass(SECOND);
    assert_eq!(world.core.next_wakeup(), None, "nothing is due any more");
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
    let start = world.now;
    world.core.keep_alive(world.now, ticket, Some(SECOND * 20));
    let leases = extends(&mut world, session, SECOND * 21, |lease_s| lease_s);
    assert_eq!(leases, [9, 9, 9, 8, 5, 3], "none ends more than a second after the cap");
    let lost = world.core.ticket(world.now, ticket).unwrap();
    assert_eq!(lost.lost, Some(Lost::Expired));
    assert!((start + SECOND * 20..start + SECOND * 21).contains(&lost.valid_until));
}

#[test]
fn rule14_a_cap_may_be_far_away() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 60);
    world.core.keep_alive(world.now, ticket, Some(SECOND * 1_000));
    let leases = extends(&mut world, session, SECOND * 900, |lease_s| lease_s);
    assert_eq!(leases, [60; 45], "each third of the lease");
    assert_eq!(world.lost_reason(ticket), None);
}

#[test]
fn rule14_a_cap_within_the_present_lease_needs_no_extend() {
    for (more, extended) in [(ms(0), 0), (Duration::from_nanos(1), 1)] {
        let (mut world, session) = World::welcomed();
        let ticket = world.ticket(session, 9);
        let max = world.valid_until(ticket).since(world.now) + more;
        world.core.keep_alive(world.now, ticket, Some(max));
        let leases = extends(&mut world, session, SECOND * 8, |lease_s| lease_s);
        assert_eq!(leases.len(), extended);
    }
}

#[test]
fn rule14_the_first_third_counts_from_the_grant() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 20, SECOND * 30);
    let sent = world.now;
    world.pass(ms(4_000));
    world.take_requests(session);
    world.grant_after(session, owner, 5, 30, 3_500);
    let ticket = world.outcome(owner).unwrap();
    world.core.keep_alive(world.now, ticket, None);
    assert_eq!(world.core.next_wakeup(), Some(sent + ms(3_500 + 10_000)));
}

#[test]
fn rule14_keep_alive_after_a_short_extend_comes_in_time() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 30);
    world.pass(SECOND * 25);
    world.core.extend_ticket(world.now, ticket, SECOND * 5).unwrap();
    world.run();
    world.take_requests(session);
    world.extended(session, 5, 5);
    world.core.keep_alive(world.now, ticket, None);
    assert_eq!(extends(&mut world, session, SECOND * 15, |lease_s| lease_s), [30, 30]);
    assert_eq!(world.lost_reason(ticket), None);
}

#[test]
fn rule14_keep_alive_works_with_a_great_margin() {
    let mut world = World::with(|config| config.margin = Margin { percent: 80, least: ms(20) });
    let owner = world.acquire(SECOND, SECOND * 30);
    let session = world.session();
    world.welcome(session);
    world.take_requests(session);
    world.grant(session, owner, 5, 30);
    let ticket = world.outcome(owner).unwrap();
    world.core.keep_alive(world.now, ticket, None);
    assert_eq!(
        world.core.next_wakeup(),
        Some(world.now + ms(30_000 - 30 - 24_000) / 2),
        "half of what is left"
    );
    extends(&mut world, session, SECOND * 100, |lease_s| lease_s);
    assert_eq!(world.lost_reason(ticket), None);
}

#[test]
fn rule14_keep_alive_follows_a_server_that_now_grants_less() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 30);
    world.core.keep_alive(world.now, ticket, None);
    extends(&mut world, session, SECOND * 100, |_| 3);
    assert_eq!(world.lost_reason(ticket), None);
}

#[test]
fn rule14_setting_it_again_replaces_what_was_set() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 9);
    world.core.keep_alive(world.now, ticket, None);
    world.pass(SECOND * 3);
    assert_eq!(world.take_request(session), Req::Extend { lease_s: 9, token: 5 });
    world.core.keep_alive(world.now, ticket, Some(SECOND * 20));
    world.pass(ms(900));
    assert_eq!(world.take_requests(session), [], "one is under way");
    world.extended(session, 5, 9);
    let leases = extends(&mut world, session, SECOND * 25, |lease_s| lease_s);
    assert!(leases.len() < 10, "{leases:?}");
    assert_eq!(world.lost_reason(ticket), Some(Lost::Expired));
}

#[test]
fn rule14_without_answers_it_tries_each_sixth_until_the_loss() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 12);
    world.core.keep_alive(world.now, ticket, None);
    let mut extends = 0;
    for _ in 0..12 {
        world.pass(SECOND);
        for request in world.take_requests(session) {
            if matches!(request, Req::Extend { .. }) {
                extends += 1;
                world.error(session, ErrorCode::NotDurable, 5);
            }
        }
    }
    assert_eq!(extends, 4, "after 4, 6, 8 and 10 seconds");
    assert_eq!(world.lost, [ticket]);
}

#[test]
fn rule14_an_extend_that_was_overtaken_does_not_end_keep_alive() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 3);
    world.core.extend_ticket(world.now, ticket, SECOND * 30).unwrap();
    world.run();
    world.core.keep_alive(world.now, ticket, None);
    world.pass(SECOND);
    world.take_requests(session);
    world.extended(session, 5, 30);
    // The first extend of keep-alive is not answered by the end that was known when it was sent.
    world.pass(ms(1_900));
    assert_eq!(world.lost_reason(ticket), None);
    world.pass(ms(500));
    let second = world.session();
    world.welcome(second);
    assert!(matches!(world.take_request(second), Req::Extend { token: 5, .. }));
}

#[test]
fn rule14_a_lost_or_unknown_ticket_is_not_kept_alive() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 2);
    world.now = world.now + SECOND * 2;
    world.core.keep_alive(world.now, ticket, None);
    world.core.keep_alive(world.now, ticket + 1, None);
    world.run();
    assert_eq!(world.take_requests(session), [Req::Release { token: 5 }]);
    world.released(session, 5);
    world.pass(SECOND);
    assert_eq!(world.core.next_wakeup(), None);
}

#[test]
fn rule14_a_loss_is_told_once_and_keeps_its_reason() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 2);
    world.core.extend_ticket(world.now, ticket, SECOND * 2).unwrap();
    world.run();
    world.take_requests(session);
    world.pass(ms(1_900));
    assert_eq!(world.lost, [ticket]);
    world.not_held(session, 5);
    assert_eq!(world.lost, [ticket]);
    assert_eq!(world.lost_reason(ticket), Some(Lost::Expired));
    world.core.drop_ticket(world.now, ticket);
    world.run();
    assert_eq!(world.lost, [ticket]);
    let session = world.session();
    world.welcome(session);
    assert_eq!(world.take_requests(session), [Req::Release { token: 5 }], "one release");
}

#[test]
fn rule14_every_open_extend_ends_with_the_loss() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 30);
    let extends: Vec<u64> =
        (0..3).map(|_| world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap()).collect();
    world.run();
    world.extended(session, 5, 60);
    assert!(matches!(world.result(extends[0]), OpResult::Extend(Ok(_))));
    world.not_held(session, 5);
    for &extend in &extends[1..] {
        assert_eq!(world.result(extend), OpResult::Extend(Err(ExtendError::Lost(Lost::NotHeld))));
    }
}

#[test]
fn rule14_after_a_suspend_beyond_the_end_nothing_is_extended() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 9);
    world.core.keep_alive(world.now, ticket, None);
    world.sleep(SECOND * 20);
    assert_eq!(world.lost, [ticket]);
    assert_eq!(world.take_requests(session), [Req::Release { token: 5 }]);
}
