//! Rules 16 and 18: opening connections, trying again, bounds.

use lockstead_client_core::{
    AcquireError, Config, Counts, FLUSH, Margin, Output, TRANSPORT_DEADLINE, UnsentCause,
};
use lockstead_proto::{Answer, Welcome};

use crate::world::{CUT, Req, SECOND, World, addresses, ms};

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
fn rule18_a_full_queue_is_unsent_at_once() {
    let mut world = World::with(|config| config.max_open = 2);
    let full = AcquireError::Unsent(UnsentCause::QueueFull);
    let first = world.acquire(SECOND * 9, SECOND);
    world.acquire(SECOND * 9, SECOND);
    world.core.ping(world.now);
    assert_eq!(world.core.acquire(world.now, "k", SECOND, SECOND), Err(full));
    world.assert_counts(Counts { calls: 2, requests: 1, sessions: 1, ..Counts::default() });
    world.core.cancel(world.now, first);
    assert!(world.core.acquire(world.now, "k", SECOND, SECOND).is_ok(), "there is room again");
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

#[test]
fn the_documented_constants() {
    assert_eq!(Config::ANSWER_ALLOWANCE, ms(2_000));
    assert_eq!(Config::MAX_OPEN, 65_536);
    assert_eq!(TRANSPORT_DEADLINE, ms(5_000));
    assert_eq!(FLUSH, ms(2_000));
    assert_eq!(Margin::DEFAULT, Margin { percent: 5, least: ms(20) });
}

#[test]
fn owners_and_ids_have_the_top_bit_and_count_up() {
    let mut world = World::with(|config| config.seeds[0] = u64::MAX - 1);
    let owner = world.acquire(SECOND * 9, SECOND);
    let session = world.session();
    assert_eq!((owner, world.connect(session)), (u64::MAX - 1, u64::MAX));
    assert_eq!(world.acquire(SECOND * 9, SECOND), 1 << 63, "never 0");
    assert_eq!(world.acquire(SECOND * 9, SECOND), 1 << 63 | 1);
}

#[test]
fn rule16_addresses_take_turns_and_the_welcomed_one_comes_first() {
    let mut world = World::with(|config| config.addresses = addresses(3));
    world.acquire(SECOND * 60, SECOND);
    for address in [0, 1, 2, 0, 1] {
        let session = world.session();
        assert_eq!(world.wires[&session].address, address);
        if world.wires.len() == 5 {
            world.welcome(session);
        }
        world.cut(session);
        world.core.ping(world.now);
        world.pass(ms(900));
    }
    assert_eq!(world.wires[&world.session()].address, 1, "it was welcomed there");
}

#[test]
fn rule16_a_suspect_session_is_replaced_at_the_next_address_without_delay() {
    let mut world = World::with(|config| config.addresses = addresses(2));
    let owner = world.acquire(SECOND * 60, SECOND);
    let first = world.session();
    world.welcome(first);
    world.core.ping(world.now);
    world.run();
    world.pass(SECOND);
    let second = world.session();
    assert_eq!((world.wires.len(), world.wires[&second].address), (2, 1));
    assert_eq!(world.take(owner), None);
}

#[test]
fn rule16_a_welcome_ends_the_pause_after_failures() {
    // Failures in a row make the pause long; then one is welcomed and turns suspect before that pause is over.
    let mut found = 0;
    for seed in 0..20 {
        let mut world = World::with(|config| config.seeds[1] = seed);
        let owner = world.acquire(SECOND * 200, SECOND * 60);
        for _ in 0..8 {
            let failing = world.session();
            world.cut(failing);
            world.pass(SECOND);
        }
        world.pass(SECOND);
        let [first, .., last] = world.open_sessions()[..] else { panic!("two are being opened") };
        world.connect(last);
        let hello = world.hello(last);
        world.cut(first);
        let text = crate::world::SERVER;
        world.answer(last, Answer::Welcome(Welcome { version: 1, id: hello, text }));
        world.take_requests(last);
        world.core.extend(world.now, "k", 3, SECOND).unwrap();
        world.run();
        world.pass(ms(167));
        found += usize::from(world.session() != last);
        assert_eq!(world.take(owner), None);
    }
    assert_eq!(found, 20, "each was replaced when it became suspect");
}

#[test]
fn rule16_what_is_being_opened_is_not_waited_for_alone() {
    let mut world = World::new();
    world.acquire(SECOND * 60, SECOND);
    let first = world.session();
    world.pass(ms(600));
    world.connect(first);
    world.pass(ms(999));
    assert_eq!(world.wires.len(), 1, "a second for its welcome");
    world.pass(ms(1));
    assert_eq!(world.wires.len(), 2);
    world.pass(ms(4_999));
    assert_eq!(world.closed(first), None);
    world.pass(ms(1));
    assert_eq!(world.closed(first), Some(true), "five more, then it is given up");
}

#[test]
fn rule16_a_welcome_that_was_received_counts_at_the_last_look() {
    let mut world = World::new();
    let owner = world.acquire(SECOND * 60, SECOND);
    let first = world.session();
    let id = world.connect(first);
    world.pass(ms(5_999));
    let text = crate::world::SERVER;
    world.send(first, Answer::Welcome(Welcome { version: 1, id, text }));
    world.pass(ms(1));
    assert_eq!(world.closed(first), None);
    assert!(matches!(world.take_request(first), Req::Acquire { owner: o, .. } if o == owner));
}

#[test]
fn rule16_there_is_no_look_at_what_is_not_late() {
    let (mut world, first) = World::welcomed();
    world.acquire(SECOND * 200, SECOND);
    world.pass(SECOND * 4);
    world.core.looked(world.now, first);
    world.run();
    assert_eq!(world.closed(first), None);
}

#[test]
fn what_a_closed_connection_still_says_is_ignored() {
    let (mut world, session) = World::welcomed();
    world.cut(session);
    let before = world.core.counts();
    world.core.closed(world.now, session, CUT);
    world.core.connected(world.now, session);
    world.core.looked(world.now, session);
    world.core.received(world.now, session, b"nonsense");
    assert!(!world.core.has_output());
    world.assert_counts(before);
}

#[test]
fn rule16_after_an_answer_the_next_failure_is_a_first_one() {
    for seed in 0..20 {
        let mut world = World::with(|config| config.seeds[1] = seed);
        let owner = world.acquire(SECOND * 200, SECOND);
        for _ in 0..8 {
            let failing = world.session();
            world.cut(failing);
            world.pass(SECOND);
        }
        let session = world.session();
        world.welcome(session);
        world.timeout(session, owner);
        world.cut(session);
        world.core.ping(world.now);
        world.pass(ms(51));
        assert_ne!(world.session(), session);
    }
}

#[test]
fn what_is_to_be_done_is_announced() {
    let mut world = World::new();
    assert!(!world.core.has_output());
    world.core.acquire(world.now, "k", SECOND, SECOND).unwrap();
    assert!(world.core.has_output());
    assert!(matches!(world.core.poll_output(), Some(Output::Connect { address: 0, .. })));
    assert!(!world.core.has_output());
    assert_eq!(world.core.poll_output(), None);
}

#[test]
fn rule16_a_connection_is_opened_at_once_for_whatever_is_to_be_sent() {
    type Deed = fn(&mut World, u64, u64);
    let deeds: [Deed; 8] = [
        |world, _, _| assert!(world.core.acquire(world.now, "k", SECOND, SECOND).is_ok()),
        |world, _, _| assert!(world.core.release(world.now, "k", 3).is_ok()),
        |world, ticket, _| assert!(world.core.extend_ticket(world.now, ticket, SECOND).is_ok()),
        |world, ticket, _| assert!(world.core.release_ticket(world.now, ticket).is_some()),
        |world, ticket, _| world.core.drop_ticket(world.now, ticket),
        |world, _, granted| world.core.cancel(world.now, granted),
        |world, _, granted| {
            world.now = world.now + SECOND * 9;
            assert!(world.core.take(world.now, granted).is_some_and(|outcome| outcome.is_err()));
        },
        |world, _, _| world.core.shutdown(world.now),
    ];
    for (at, deed) in deeds.into_iter().enumerate() {
        let (mut world, session) = World::welcomed();
        let ticket = world.ticket(session, 200);
        let granted = world.acquire(SECOND, SECOND * 200);
        world.grant(session, granted, 8, 200);
        world.cut(session);
        world.pass(ms(51));
        assert_eq!(world.open_sessions(), [], "there is nothing to do");
        deed(&mut world, ticket, granted);
        world.run();
        assert_eq!(world.open_sessions().len(), 1, "{at}");
    }
}
