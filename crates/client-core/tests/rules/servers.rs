//! Rule 16: the hello, and which server answers.

use lockstead_client_core::{
    AcquireError, CallError, Counts, ExtendError, Fault, IndeterminateCause, Lost, OpResult, ReleaseOutcome,
    SessionId, UnsentCause,
};
use lockstead_proto::{Answer, ErrorCode, Welcome};

use crate::world::{OTHER_SERVER, Req, SECOND, SERVER, World, addresses, ms};

const REFUSING: [ErrorCode; 3] =
    [ErrorCode::NotAuthenticated, ErrorCode::Forbidden, ErrorCode::UnsupportedVersion];

fn refused(code: ErrorCode) -> AcquireError {
    AcquireError::Unsent(UnsentCause::Refused { code, message: "no".into() })
}

fn release(world: &mut World, token: u64) -> u64 {
    world.core.release(world.now, "k", token).unwrap()
}

/// The session breaks, and at the same address another server answers.
fn taken_over(world: &mut World, session: SessionId) -> SessionId {
    world.cut(session);
    world.core.ping(world.now);
    world.pass(ms(51));
    let next = world.session();
    world.welcome_as(next, OTHER_SERVER);
    next
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
fn rule16_refused_at_hello_ends_the_unsent_at_once() {
    for code in REFUSING {
        let mut world = World::new();
        let owner = world.acquire(SECOND * 9, SECOND);
        let ping = world.core.ping(world.now);
        let session = world.session();
        let hello = world.connect(session);
        world.error(session, code, hello);
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
fn rule16_a_server_that_welcomes_and_ends_every_session_is_tried_ever_less_often() {
    let mut world = World::new();
    release(&mut world, 5);
    let mut tries = 0;
    for _ in 0..400 {
        if let Some(&session) = world.open_sessions().first() {
            tries += 1;
            world.welcome(session);
            world.cut(session);
        }
        world.pass(ms(10));
    }
    assert!((4..=20).contains(&tries), "{tries} tries in 4 s");
}

#[test]
fn rule16_another_server_at_another_address_is_refused() {
    let mut world = World::with(|config| config.addresses = addresses(2));
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
    world.take_requests(first);
    let free = world.core.release(world.now, "k", 3).unwrap();
    world.cut(first);
    world.core.drop_ticket(world.now, dropped);
    world.run();
    world.pass(ms(51));
    let second = world.session();
    world.welcome_as(second, OTHER_SERVER);
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, Some(Lost::ServerChanged));
    assert!(world.lost.contains(&ticket));
    assert_eq!(world.core.next_wakeup(), None, "nothing is due for it any more");
    assert_eq!(
        world.outcome(owner),
        Err(AcquireError::Indeterminate(IndeterminateCause::ServerChanged)),
        "a grant of the old server becomes no ticket"
    );
    assert_eq!(world.take_requests(second), [], "nothing of the old server's");
    let never_sent = OpResult::Release(ReleaseOutcome::Unsent(UnsentCause::OtherServer));
    assert_eq!(world.result(free), never_sent);
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Unsent(UnsentCause::OtherServer)));
    world.assert_counts(Counts { sessions: 1, ..Counts::default() });
}

#[test]
fn rule13_a_request_that_names_a_token_never_goes_to_another_server() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 60);
    let sent = release(&mut world, 3);
    let owner = world.acquire(SECOND * 60, SECOND * 60);
    world.core.cancel(world.now, owner);
    world.run();
    world.grant(first, owner, 8, 60);
    world.take_requests(first);
    world.wire(first).room = 0;
    let unsent = world.core.extend(world.now, "k", 4, SECOND).unwrap();
    let of_ticket = world.core.extend_ticket(world.now, ticket, SECOND * 60).unwrap();
    let second = taken_over(&mut world, first);
    assert!(matches!(world.take_requests(second)[..], [Req::Ping { .. }]), "what names no token goes on");
    assert_eq!(world.result(sent), OpResult::Release(ReleaseOutcome::Unknown));
    let other = OpResult::Extend(Err(ExtendError::Unsent(UnsentCause::OtherServer)));
    assert_eq!(world.result(unsent), other);
    assert_eq!(world.result(of_ticket), OpResult::Extend(Err(ExtendError::Lost(Lost::ServerChanged))));
    world.core.drop_ticket(world.now, ticket);
    world.pass(SECOND * 100);
    for session in world.wires.keys().copied().collect::<Vec<_>>() {
        assert!(!world.take_requests(session).iter().any(|r| matches!(r, Req::Release { .. })));
    }
}

#[test]
fn rule16_a_takeover_closes_what_is_left_of_the_old_server() {
    let (mut world, first) = World::welcomed();
    let owner = world.acquire(SECOND * 60, SECOND * 60);
    world.core.ping(world.now);
    world.run();
    world.pass(SECOND);
    let second = world.session();
    world.welcome_as(second, OTHER_SERVER);
    assert_eq!(world.closed(first), Some(true), "its waiters go, and no late answer comes");
    assert_eq!(world.closed(second), None);
    assert_eq!(world.outcome(owner), Err(AcquireError::Indeterminate(IndeterminateCause::SessionBroke)));
}

#[test]
fn rule16_a_ticket_that_was_lost_before_stays_lost_for_that_reason() {
    let (mut world, first) = World::welcomed();
    let ticket = world.ticket(first, 2);
    world.cut(first);
    world.pass(ms(1_900));
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, Some(Lost::Expired));
    let second = world.session();
    world.welcome_as(second, OTHER_SERVER);
    assert_eq!(world.core.ticket(world.now, ticket).unwrap().lost, Some(Lost::Expired));
    assert_eq!(world.lost, [ticket]);
    assert_eq!(world.take_requests(second), [], "the release of the old token goes nowhere");
    let result = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    let unsent = OpResult::Release(ReleaseOutcome::Unsent(UnsentCause::OtherServer));
    assert_eq!(world.result(result), unsent);
}

#[test]
fn rule16_a_server_of_another_id_is_refused_while_a_session_is_sound_too() {
    let mut world = World::with(|config| config.addresses = addresses(2));
    let owner = world.acquire(SECOND * 60, SECOND);
    let first = world.session();
    world.pass(SECOND);
    let second = world.session();
    world.welcome(first);
    assert!(matches!(world.take_request(first), Req::Acquire { .. }));
    world.wire(first).room = 0;
    let waiting = world.acquire(SECOND * 60, SECOND);
    world.welcome_as(second, OTHER_SERVER);
    assert_eq!(world.closed(second), Some(false));
    assert_eq!(world.closed(first), None);
    assert_eq!((world.take(owner), world.take(waiting)), (None, None), "they have their session");
}

#[test]
fn rule16_a_refused_client_keeps_what_may_still_be_released() {
    for code in REFUSING {
        let (mut world, first) = World::welcomed();
        let sent = release(&mut world, 3);
        let ticket = world.ticket_with_token(first, 30, 6);
        let unwanted = world.acquire(SECOND * 9, SECOND * 30);
        world.core.cancel(world.now, unwanted);
        world.run();
        world.wire(first).room = 0;
        world.grant(first, unwanted, 8, 30);
        world.cut(first);
        let unsent = release(&mut world, 4);
        let query = world.core.query(world.now, "k").unwrap();
        let extend = world.core.extend_ticket(world.now, ticket, SECOND * 30).unwrap();
        let forgotten = release(&mut world, 7);
        world.core.forget(world.now, forgotten);
        world.pass(ms(51));
        let second = world.session();
        let hello = world.connect(second);
        world.error(second, code, hello);
        let cause = || UnsentCause::Refused { code, message: "no".into() };
        assert_eq!(world.result(unsent), OpResult::Release(ReleaseOutcome::Unsent(cause())));
        assert_eq!(world.result(query), OpResult::Query(Err(CallError::Unsent(cause()))));
        world.pass(ms(101));
        let third = world.session();
        world.welcome(third);
        assert_eq!(
            world.take_requests(third),
            [
                Req::Release { token: 3 },
                Req::Release { token: 8 },
                Req::Extend { lease_s: 30, token: 6 },
                Req::Release { token: 7 }
            ]
        );
        assert!(![sent, extend, forgotten].iter().any(|id| world.ready.contains(id)));
    }
}

#[test]
fn rule16_a_refusal_needs_not_name_the_hello() {
    for code in REFUSING {
        let mut world = World::new();
        let owner = world.acquire(SECOND * 9, SECOND);
        let session = world.session();
        world.connect(session);
        world.error(session, code, 0);
        assert_eq!(world.outcome(owner), Err(refused(code)));
        assert_eq!(world.closed(session), Some(false));
    }
}

#[test]
fn rule16_any_other_error_to_the_hello_is_tried_again() {
    for code in [ErrorCode::OverLimits, ErrorCode::Malformed, ErrorCode::BadKey, ErrorCode::Other(200)] {
        for named in [true, false] {
            let mut world = World::new();
            let owner = world.acquire(SECOND * 9, SECOND);
            let session = world.session();
            let hello = world.connect(session);
            world.error(session, code, if named { hello } else { 0 });
            assert_eq!(world.closed(session), Some(true), "{code:?}");
            assert_eq!(world.take(owner), None, "certainly unsent");
            assert!(world.faults.is_empty());
            world.pass(ms(51));
            assert_ne!(world.session(), session);
        }
    }
}

#[test]
fn rule11_an_error_about_something_else_is_no_answer_to_the_hello() {
    for code in REFUSING {
        let mut world = World::new();
        let owner = world.acquire(SECOND * 9, SECOND);
        let session = world.session();
        let hello = world.connect(session);
        world.error(session, code, hello ^ 1);
        assert_eq!(world.faults, [Fault::Stray { session, id: hello ^ 1 }]);
        assert_eq!(world.take(owner), None, "it is not refused");
        assert_eq!(world.closed(session), code.closes().then_some(true));
    }
}

#[test]
fn rule11_an_error_after_the_welcome_is_no_answer_to_the_hello() {
    let (mut world, session) = World::welcomed();
    let hello = world.hello(session);
    world.error(session, ErrorCode::Forbidden, hello);
    assert_eq!(world.faults, [Fault::Stray { session, id: hello }]);
    assert_eq!(world.closed(session), None);
    let owner = world.acquire(SECOND * 9, SECOND);
    world.wire(session).room = 0;
    let unsent = world.acquire(SECOND * 9, SECOND);
    world.error(session, ErrorCode::Forbidden, 0);
    assert_eq!(world.closed(session), Some(true));
    assert_eq!(world.outcome(owner), Err(AcquireError::Indeterminate(IndeterminateCause::SessionBroke)));
    assert_eq!(world.take(unsent), None, "it is not refused");
}

#[test]
fn rule16_a_welcome_must_answer_the_hello_and_comes_once() {
    let mut world = World::new();
    let owner = world.acquire(SECOND * 9, SECOND);
    let session = world.session();
    let id = world.connect(session);
    let welcome = |id| Answer::Welcome(Welcome { version: 1, id, text: SERVER });
    world.answer(session, welcome(id ^ 1));
    assert_eq!(world.take_requests(session), [], "that was not ours");
    world.answer(session, welcome(id));
    assert!(matches!(world.take_request(session), Req::Acquire { owner: o, .. } if o == owner));
    world.answer(session, welcome(id));
    assert_eq!(world.faults, [Fault::Stray { session, id: id ^ 1 }, Fault::Stray { session, id }]);
    assert_eq!(world.closed(session), None);
    assert_eq!(world.take(owner), None);
}

#[test]
fn rule16_a_welcome_in_another_version_is_none() {
    let mut world = World::new();
    let owner = world.acquire(SECOND * 9, SECOND);
    let session = world.session();
    let id = world.connect(session);
    world.answer(session, Answer::Welcome(Welcome { version: 2, id, text: OTHER_SERVER }));
    assert_eq!(world.closed(session), Some(false));
    assert_eq!(world.take(owner), None, "certainly unsent");
    world.pass(ms(51));
    let next = world.session();
    world.welcome(next);
    assert!(matches!(world.take_request(next), Req::Acquire { .. }), "what it said of itself does not count");
}

#[test]
fn rule16_a_server_without_an_id_is_its_address() {
    let mut world = World::with(|config| config.addresses = addresses(2));
    let owner = world.acquire(SECOND * 9, SECOND * 30);
    let first = world.session();
    world.welcome_as(first, "server=other/1");
    world.grant(first, owner, 5, 30);
    let ticket = world.outcome(owner).unwrap();
    let release = world.core.release_ticket(world.now, ticket).unwrap();
    world.run();
    world.cut(first);
    world.pass(ms(51));
    let second = world.session();
    world.cut(second);
    world.pass(ms(51));
    let third = world.session();
    assert_eq!((world.wires[&second].address, world.wires[&third].address), (0, 1));
    world.welcome_as(third, "server=other/1");
    assert_eq!(world.closed(third), Some(false), "another address is another server");
    world.pass(ms(101));
    let fourth = world.session();
    assert_eq!(world.wires[&fourth].address, 0);
    world.welcome_as(fourth, "server=other/1");
    assert_eq!(world.take_request(fourth), Req::Release { token: 5 });
    world.released(fourth, 5);
    assert_eq!(world.result(release), OpResult::Release(ReleaseOutcome::Released));
}

#[test]
fn p29_a_lost_answer_leaves_nothing_that_a_new_call_could_be_confused_with() {
    let (mut world, first) = World::welcomed();
    let orphan = world.acquire(SECOND * 9, SECOND * 5);
    world.take_request(first);
    // The server grants it, and the connection breaks before the answer arrives.
    world.cut(first);
    assert_eq!(world.outcome(orphan), Err(AcquireError::Indeterminate(IndeterminateCause::SessionBroke)));
    let owner = world.acquire(SECOND * 9, SECOND * 5);
    world.pass(ms(51));
    let second = world.session();
    world.welcome(second);
    assert!(matches!(world.take_request(second), Req::Acquire { owner: o, .. } if o == owner));
    world.grant(second, orphan, 8, 5);
    assert_eq!(world.take(owner), None);
    world.pass(SECOND * 5);
    world.grant_after(second, owner, 9, 5, 4_900);
    assert_eq!(world.outcome(owner), Ok(owner));
    assert_eq!(world.core.ticket_facts(owner).unwrap().token, 9);
    world.assert_counts(Counts { tickets: 1, sessions: 1, ..Counts::default() });
}
