//! The end of the client.

use lockstead_client_core::{
    AcquireError, CallError, Counts, ExtendError, FLUSH, IndeterminateCause, Lost, OpResult, ReleaseOutcome,
    UnsentCause,
};

use crate::world::{Req, SECOND, World, ms};

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

#[test]
fn an_idle_client_stops_at_once() {
    let mut world = World::new();
    assert!(!world.core.is_stopped());
    world.core.shutdown(world.now);
    world.run();
    assert!(world.stopped && world.core.is_stopped());
    let (mut world, session) = World::welcomed();
    world.core.shutdown(world.now);
    world.run();
    assert!(world.stopped);
    assert_eq!(world.closed(session), Some(false));
    assert_eq!(world.core.next_wakeup(), None);
}

#[test]
fn nothing_new_is_taken_after_a_shutdown() {
    let (mut world, session) = World::welcomed();
    let ticket = world.ticket(session, 30);
    let ended = world.acquire(SECOND, SECOND);
    world.timeout(session, ended);
    world.take_requests(session);
    for _ in 0..2 {
        world.core.shutdown(world.now);
        let cause = || UnsentCause::ShutDown;
        assert_eq!(world.core.acquire(world.now, "k", SECOND, SECOND), Err(AcquireError::Unsent(cause())));
        let release = world.core.release(world.now, "k", 3).unwrap();
        let extend = world.core.extend(world.now, "k", 3, SECOND).unwrap();
        let query = world.core.query(world.now, "k").unwrap();
        let ping = world.core.ping(world.now);
        assert_eq!(
            world.core.extend_ticket(world.now, ticket, SECOND),
            Err(ExtendError::Lost(Lost::ShutDown))
        );
        world.run();
        assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Unsent(cause())));
        assert_eq!(world.result(extend), OpResult::Extend(Err(ExtendError::Unsent(cause()))));
        assert_eq!(world.result(query), OpResult::Query(Err(CallError::Unsent(cause()))));
        assert_eq!(world.result(ping), OpResult::Ping(Err(CallError::Unsent(cause()))));
        // Now the same when it has stopped.
        assert!(world.take_requests(session).len() < 2);
        world.released(session, 5);
        assert!(world.stopped);
    }
    assert_eq!(world.outcome(ended), Err(AcquireError::Timeout), "what was known before stays");
}

#[test]
fn a_second_shutdown_moves_nothing() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND * 30);
    world.take_requests(session);
    world.core.shutdown(world.now);
    world.run();
    assert_eq!(world.core.next_wakeup(), Some(world.now + FLUSH));
    world.pass(SECOND);
    world.core.shutdown(world.now);
    world.core.cancel(world.now, owner);
    world.run();
    assert_eq!(world.take_requests(session), [Req::Cancel { owner }], "once");
    world.pass(ms(999));
    assert!(!world.stopped);
    world.pass(ms(1));
    assert!(world.stopped);
    assert_eq!(world.take(owner), None, "it was given up");
    world.assert_counts(Counts::default());
}

#[test]
fn a_call_that_was_given_up_before_is_not_cancelled_again() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND * 30);
    world.take_requests(session);
    world.core.cancel(world.now, owner);
    world.core.shutdown(world.now);
    world.run();
    assert_eq!(world.take_requests(session), [Req::Cancel { owner }]);
    assert!(!world.stopped, "its answer is waited for");
    world.timeout(session, owner);
    assert!(world.stopped);
    assert!(world.ready.is_empty());
    world.assert_counts(Counts::default());
}

#[test]
fn a_shutdown_connects_to_give_back_what_is_held() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 30);
    world.cut(first);
    world.core.shutdown(world.now);
    world.pass(ms(51));
    let second = world.session();
    world.welcome(second);
    assert_eq!(world.take_request(second), Req::Release { token: 5 });
    assert!(!world.stopped);
    world.released(second, 5);
    assert!(world.stopped);
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Released));
    world.assert_counts(Counts::default());
}

#[test]
fn a_shutdown_tells_sent_requests_from_unsent_ones() {
    let (mut world, session) = World::welcomed();
    let sent = world.core.query(world.now, "k").unwrap();
    world.run();
    world.wire(session).room = 0;
    let unsent = world.core.query(world.now, "k").unwrap();
    world.core.shutdown(world.now);
    world.run();
    world.pass(FLUSH - ms(1));
    assert!(!world.stopped);
    world.pass(ms(1));
    assert!(world.stopped);
    assert_eq!(world.result(sent), OpResult::Query(Err(CallError::Unknown)));
    assert_eq!(world.result(unsent), OpResult::Query(Err(CallError::Unsent(UnsentCause::ShutDown))));
}

#[test]
fn definite_answers_that_still_come_stay_definite() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND * 30);
    let other = world.acquire(SECOND * 9, SECOND * 30);
    world.core.shutdown(world.now);
    world.run();
    world.timeout(session, owner);
    assert_eq!(world.outcome(owner), Err(AcquireError::Timeout));
    assert!(!world.stopped);
    world.cut(session);
    assert!(world.stopped);
    let shut_down = IndeterminateCause::ShutDown;
    assert_eq!(world.outcome(other), Err(AcquireError::Indeterminate(shut_down)));
}

#[test]
fn a_call_that_ends_at_its_deadline_ends_the_shutdown() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND, SECOND);
    world.pass(SECOND * 2);
    world.core.shutdown(world.now);
    world.pass(ms(999));
    assert!(!world.stopped);
    world.pass(ms(1));
    assert!(world.stopped);
    assert_eq!(world.closed(session), Some(true));
    assert_eq!(world.outcome(owner), Err(AcquireError::Indeterminate(IndeterminateCause::ShutDown)));
}
