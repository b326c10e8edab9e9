//! Rules 1 to 6: the one deadline; unsent or possibly sent.

use lockstead_client_core::{
    AcquireError, ExtendError, IndeterminateCause, Margin, SessionId, UnsentCause, UsageError,
};
use lockstead_proto::{Answer, ErrorCode, KeyError, Welcome};
use std::time::Duration;

use crate::world::{Req, SECOND, World, addresses, ms};

fn indeterminate(cause: IndeterminateCause) -> Result<u64, AcquireError> {
    Err(AcquireError::Indeterminate(cause))
}

/// The end of a call for which the budget ended; `last` says where a server was looked for last.
fn budget_ended(last: &str) -> Result<u64, AcquireError> {
    Err(AcquireError::Unsent(UnsentCause::BudgetEnded { last: Some(last.into()) }))
}

#[test]
fn rule01_usage_errors_are_said_at_once() {
    let mut world = World::new();
    let mut acquire = |key: &str, wait, lease| match world.core.acquire(world.now, key, wait, lease) {
        Err(AcquireError::Usage(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(acquire("k", SECOND * 256, SECOND), UsageError::WaitTooLong);
    assert_eq!(acquire("k", SECOND, Duration::ZERO), UsageError::LeaseOutOfRange);
    assert_eq!(acquire("k", SECOND, SECOND * 256), UsageError::LeaseOutOfRange);
    assert_eq!(acquire("", SECOND, SECOND), UsageError::Key(KeyError::Empty));
    assert_eq!(acquire("a\nb", SECOND, SECOND), UsageError::Key(KeyError::Newline));
    world.assert_counts(Default::default());
    assert_eq!(world.core.next_wakeup(), None);
}

#[test]
fn rule01_the_deadline_is_wait_plus_allowance_and_nothing_moves_it() {
    let (mut world, session) = World::welcomed();
    let start = world.now;
    let owner = world.acquire(ms(1_500), SECOND);
    world.pass_until(start + ms(3_999));
    assert_eq!(world.take(owner), None);
    world.pass_until(start + ms(4_000));
    assert_eq!(world.outcome(owner), indeterminate(IndeterminateCause::NoAnswer));
    assert_eq!(world.closed(session), Some(true));
}

#[test]
fn rule01_a_wait_of_zero_has_the_transport_deadline() {
    let (mut world, session) = World::welcomed();
    let start = world.now;
    let owner = world.acquire(Duration::ZERO, SECOND);
    assert_eq!(world.take_request(session), Req::Acquire { wait_s: 0, lease_s: 1, owner });
    world.pass_until(start + ms(4_999));
    assert_eq!(world.take(owner), None);
    world.pass_until(start + ms(5_000));
    assert_eq!(world.outcome(owner), indeterminate(IndeterminateCause::NoAnswer));
}

#[test]
fn rule02_owner_and_instants_stay_over_retries() {
    let mut world = World::new();
    let start = world.now;
    let owner = world.acquire(SECOND * 10, SECOND * 2);
    for _ in 0..3 {
        let session = world.session();
        world.cut(session);
        world.pass(SECOND);
    }
    let session = world.session();
    world.welcome(session);
    let left = 10 - world.now.since(start).as_secs();
    assert_eq!(world.take_request(session), Req::Acquire { wait_s: left as u8, lease_s: 2, owner });
    world.pass_until(start + SECOND * 12);
    assert_eq!(world.outcome(owner), indeterminate(IndeterminateCause::NoAnswer));
}

#[test]
fn rule03_the_wire_wait_is_computed_when_the_frame_is_handed_over() {
    let mut world = World::new();
    let owner = world.acquire(SECOND * 60, SECOND);
    world.pass(ms(900));
    let session = world.session();
    let id = world.connect(session);
    world.pass(ms(99));
    world.wire(session).room = 0;
    world.answer(
        session,
        lockstead_proto::Answer::Welcome(lockstead_proto::Welcome { version: 1, id, text: "" }),
    );
    world.pass(ms(900));
    assert_eq!(world.take_requests(session), []);
    world.wire(session).room = 1_000;
    world.run();
    assert_eq!(world.take_request(session), Req::Acquire { wait_s: 59, lease_s: 1, owner });
}

#[test]
fn rule04_at_the_budget_end_an_unsent_call_ends_as_unsent() {
    for (wait, end) in [(SECOND * 2, SECOND * 2), (ms(1), SECOND), (Duration::ZERO, SECOND * 5)] {
        let mut world = World::new();
        let start = world.now;
        let owner = world.acquire(wait, SECOND);
        world.pass_until(start + end - Duration::from_nanos(1));
        assert_eq!(world.take(owner), None);
        world.pass_until(start + end);
        assert_eq!(world.outcome(owner), budget_ended("a0: no answer to the attempt to connect"));
        let session = world.session();
        world.welcome(session);
        assert_eq!(world.take_requests(session), []);
        world.cut(session);
        world.pass(SECOND * 60);
        assert_eq!(world.open_sessions(), [], "there is nothing to open a session for");
        assert_eq!(world.core.next_wakeup(), None);
    }
}

#[test]
fn rule04_a_frame_is_not_handed_over_at_the_budget_end_even_if_no_timer_fired_yet() {
    let (mut world, session) = World::welcomed();
    let owner = world.core.acquire(world.now, "k", SECOND, SECOND).unwrap();
    world.now = world.now + SECOND;
    world.run();
    assert_eq!(world.take_requests(session), []);
    world.core.tick(world.now);
    world.run();
    assert_eq!(world.outcome(owner), budget_ended("a0: connected, but it does not respond"));
}

/// What a call says that ends for want of a server, after `meanwhile`.
fn tried_last(wait: Duration, meanwhile: impl FnOnce(&mut World)) -> String {
    let mut world = World::with(|config| config.addresses = addresses(2));
    let owner = world.acquire(wait, SECOND);
    meanwhile(&mut world);
    world.pass(wait);
    match world.outcome(owner) {
        Err(AcquireError::Unsent(UnsentCause::BudgetEnded { last: Some(last) })) => last.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The second of two addresses, which is tried after the first was given up.
fn second(world: &mut World) -> SessionId {
    let first = world.session();
    world.cut(first);
    world.pass(ms(51));
    world.session()
}

#[test]
fn rule04_a_call_that_ends_unsent_says_what_came_of_the_latest_try() {
    let silent = tried_last(SECOND * 3, |_| {});
    assert_eq!(silent, "a0: no answer to the attempt to connect");
    let cut = tried_last(SECOND * 3, |world| world.cut(world.session()));
    assert_eq!(cut, "a0: cut by the test", "and not that the next try is under way");
    let cut_twice = tried_last(SECOND * 3, |world| {
        let second = second(world);
        world.cut(second);
    });
    assert_eq!(cut_twice, "a1: cut by the test");
    let garbage = tried_last(SECOND * 3, |world| {
        let second = second(world);
        world.connect(second);
        world.send_bytes(second, b"-ERR unknown command\r\n");
    });
    assert_eq!(garbage, "a1: what answers there is no Lockstead server");
    let version = tried_last(SECOND * 3, |world| {
        let second = second(world);
        let id = world.connect(second);
        world.answer(second, Answer::Welcome(Welcome { version: 2, id, text: "" }));
    });
    assert_eq!(version, "a1: its server speaks version 2 of the protocol");
    let error = tried_last(SECOND * 3, |world| {
        let second = second(world);
        let id = world.connect(second);
        world.error(second, ErrorCode::OverLimits, id);
    });
    assert_eq!(error, "a1: no", "the server's own sentence");
}

#[test]
fn rule04_a_session_that_falls_silent_is_named_by_how_far_it_came() {
    let connected = "a0: connected, but nothing welcomed the client";
    let connect = |world: &mut World| {
        world.connect(world.session());
    };
    assert_eq!(tried_last(SECOND, connect), connected, "while it is the latest one");
    // The next ones come after a second each, and each is given up after six.
    assert_eq!(tried_last(SECOND * 3, connect), "a0: no answer to the attempt to connect", "the third");
    assert_eq!(tried_last(SECOND * 7, connect), connected, "the first was given up");
    assert_eq!(tried_last(SECOND * 8, connect), "a1: no answer to the attempt to connect", "the second was");
}

#[test]
fn rule04_a_welcome_makes_earlier_failures_forgotten() {
    let mut world = World::new();
    let owner = world.acquire(SECOND, SECOND);
    world.cut(world.session());
    world.pass(ms(51));
    let session = world.session();
    world.welcome(session);
    world.timeout(session, owner);
    assert_eq!(world.outcome(owner), Err(AcquireError::Timeout));
    // The session takes nothing any more, and the next one is not answered.
    world.wire(session).room = 0;
    let owner = world.acquire(SECOND * 2, SECOND);
    world.pass(SECOND * 2);
    assert_eq!(world.outcome(owner), budget_ended("a0: no answer to the attempt to connect"));
}

#[test]
fn rule04_a_session_that_ends_beside_a_sound_one_is_no_trouble() {
    let mut world = World::new();
    let owner = world.acquire(SECOND * 9, SECOND);
    let first = world.session();
    world.connect(first);
    world.pass(SECOND);
    let second = world.session();
    world.welcome(second);
    world.timeout(second, owner);
    assert_eq!(world.outcome(owner), Err(AcquireError::Timeout));
    world.cut(first);
    world.wire(second).room = 0;
    let owner = world.acquire(SECOND, SECOND);
    world.pass(SECOND);
    assert_eq!(world.outcome(owner), budget_ended("a0: connected, but it does not respond"));
}

#[test]
fn rule12_a_lease_within_the_margin_is_a_usage_error_at_once() {
    let margin = Margin { percent: 5, least: SECOND };
    let mut world = World::with(|config| config.margin = margin);
    let within = UsageError::LeaseWithinMargin { lease: SECOND, taken_off: ms(1_001) };
    let acquire = world.core.acquire(world.now, "k", SECOND, SECOND);
    assert_eq!(acquire, Err(AcquireError::Usage(within)));
    assert_eq!(world.core.extend(world.now, "k", 5, SECOND), Err(within));
    world.assert_counts(Default::default());
    let owner = world.acquire(SECOND, SECOND * 2);
    let session = world.session();
    world.welcome(session);
    world.grant(session, owner, 5, 2);
    let ticket = world.outcome(owner).unwrap();
    world.take_requests(session);
    assert_eq!(world.core.extend_ticket(world.now, ticket, SECOND), Err(ExtendError::Usage(within)));
    world.run();
    assert_eq!(world.take_requests(session), [], "nothing was sent");
}

#[test]
fn rule05_while_unsent_another_address_is_tried() {
    let mut world = World::with(|config| config.addresses = addresses(2));
    let owner = world.acquire(SECOND * 5, SECOND);
    let first = world.session();
    world.cut(first);
    assert_eq!(world.wires.len(), 1, "not at once: with backoff");
    world.pass(ms(51));
    let second = world.session();
    assert_eq!((world.wires[&first].address, world.wires[&second].address), (0, 1));
    world.welcome(second);
    assert_eq!(world.take_request(second), Req::Acquire { wait_s: 5, lease_s: 1, owner });
}

#[test]
fn rule05_a_sent_acquire_is_never_sent_again() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 5, SECOND);
    world.take_request(session);
    world.cut(session);
    assert_eq!(world.outcome(owner), indeterminate(IndeterminateCause::SessionBroke));
    let other = world.acquire(SECOND * 5, SECOND);
    world.pass(ms(51));
    let session = world.session();
    world.welcome(session);
    assert!(matches!(world.take_request(session), Req::Acquire { owner, .. } if owner == other));
}

/// The frame of an acquire of the key `k`.
const FRAME: usize = 13;

#[test]
fn rule06_possibly_sent_is_exact_to_the_byte() {
    for accepted in 0..=3 * FRAME {
        let (mut world, session) = World::welcomed();
        world.wire(session).room = accepted;
        let owners: Vec<u64> =
            (0..3).map(|_| world.core.acquire(world.now, "k", SECOND * 9, SECOND).unwrap()).collect();
        world.run();
        world.cut(session);
        for (at, owner) in owners.into_iter().enumerate() {
            if at * FRAME < accepted {
                assert_eq!(
                    world.outcome(owner),
                    indeterminate(IndeterminateCause::SessionBroke),
                    "{accepted}"
                );
            } else {
                assert_eq!(world.take(owner), None, "{accepted}: byte {at}");
            }
        }
    }
}

#[test]
fn rule06_frames_behind_a_short_write_are_stamped_anew() {
    let (mut world, session) = World::welcomed();
    world.wire(session).room = FRAME + 1;
    let owners: Vec<u64> =
        (0..3).map(|_| world.core.acquire(world.now, "k", SECOND * 9, SECOND * 20).unwrap()).collect();
    world.run();
    world.pass(ms(800));
    world.wire(session).room = 2 * FRAME;
    world.run();
    world.pass(ms(700));
    let late = world.now;
    world.wire(session).room = 1_000;
    world.run();
    let waits: Vec<(u8, u64)> = world
        .take_requests(session)
        .into_iter()
        .map(|request| match request {
            Req::Acquire { wait_s, owner, .. } => (wait_s, owner),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(waits, [(9, owners[0]), (9, owners[1]), (9, owners[2])]);
    // The last one began to leave with the second write, the rest of it came with the third: sent counts from there.
    world.grant(session, owners[2], 7, 20);
    let ticket = world.outcome(owners[2]).unwrap();
    let until = world.core.ticket(world.now, ticket).unwrap().valid_until;
    assert_eq!(until, late - ms(700) + SECOND * 20 - ms(20) - SECOND);
}

#[test]
fn rule06_a_layer_that_takes_everything_makes_everything_possibly_sent() {
    let (mut world, session) = World::welcomed();
    let owners: Vec<u64> =
        (0..3).map(|_| world.core.acquire(world.now, "k", SECOND * 9, SECOND).unwrap()).collect();
    world.core.transmit(world.now, session, |bytes| bytes.len());
    world.cut(session);
    for owner in owners {
        assert_eq!(world.outcome(owner), indeterminate(IndeterminateCause::SessionBroke));
    }
}

#[test]
fn rule01_the_answer_allowance_can_be_raised() {
    let mut world = World::with(|config| config.answer_allowance = SECOND * 10);
    let owner = world.acquire(SECOND, SECOND);
    let session = world.session();
    world.welcome(session);
    world.pass(ms(10_999));
    assert_eq!(world.take(owner), None);
    world.timeout(session, owner);
    assert_eq!(world.outcome(owner), Err(AcquireError::Timeout));
}

#[test]
fn rule04_a_call_that_ended_asks_for_no_session_even_if_nobody_takes_its_outcome() {
    let mut world = World::new();
    world.acquire(SECOND, SECOND);
    world.pass(SECOND);
    for session in world.open_sessions() {
        world.cut(session);
    }
    world.pass(SECOND * 60);
    assert_eq!(world.open_sessions(), []);
    assert_eq!(world.core.next_wakeup(), None);
}
