//! Rules 3 and 6: what is offered to a transport, and what it took of it.

use lockstead_client_core::{AcquireError, IndeterminateCause, Transmit};
use lockstead_proto::{Answer, Request, Timeout, decode_request};

use crate::world::{Req, SECOND, World, acquired, ms};

#[test]
fn an_offer_says_whether_the_transport_took_all_of_it() {
    let (mut world, session) = World::welcomed();
    let now = world.now;
    assert_eq!(world.core.transmit(now, session, |_| panic!("there is nothing to offer")), Transmit::Idle);
    world.core.acquire(now, "k", SECOND, SECOND).unwrap();
    assert_eq!(world.core.transmit(now, session, |_| 0), Transmit::Blocked);
    assert_eq!(world.core.transmit(now, session, |bytes| bytes.len() - 1), Transmit::Blocked);
    assert_eq!(world.core.transmit(now, session, |bytes| bytes.len()), Transmit::Taken);
    assert_eq!(world.core.transmit(now, session, |_| panic!("there is nothing to offer")), Transmit::Idle);
    world.cut(session);
    assert_eq!(world.core.transmit(now, session, |_| panic!("it is closed")), Transmit::Idle);
}

#[test]
fn nothing_is_offered_to_a_connection_that_is_not_open() {
    let mut world = World::new();
    world.acquire(SECOND, SECOND);
    let session = world.session();
    assert_eq!(world.core.transmit(world.now, session, |_| panic!("it is not open")), Transmit::Idle);
}

/// Everything that a transport with all the room in the world is offered, offer by offer.
fn offers(world: &mut World) -> Vec<Vec<u8>> {
    let session = world.session();
    let mut offers = Vec::new();
    while world.core.transmit(world.now, session, |bytes| {
        offers.push(bytes.to_vec());
        assert!(offers.len() < 1_000, "they never end");
        bytes.len()
    }) == Transmit::Taken
    {}
    offers
}

/// Offers are about 32 KiB long, and together they are whole frames.
fn check_offers(offers: &[Vec<u8>], frames: usize, frame: usize) {
    let (last, full) = offers.split_last().unwrap();
    assert!(full.len() > 2 && last.len() < 32_768 + frame);
    for offer in full {
        assert!((32_768..32_768 + frame).contains(&offer.len()), "{}", offer.len());
    }
    let bytes = offers.concat();
    let mut at = 0;
    let mut seen = 0;
    while let Some((_, used)) = decode_request(&bytes[at..]).unwrap() {
        at += used;
        seen += 1;
    }
    assert_eq!((at, seen), (bytes.len(), frames), "every frame once");
}

#[test]
fn offers_are_bounded() {
    let (mut world, _) = World::welcomed();
    let now = world.now;
    let owners: Vec<u64> =
        (0..10_000).map(|_| world.core.acquire(now, "k", SECOND * 9, SECOND).unwrap()).collect();
    check_offers(&offers(&mut world), 10_000, 13);
    for owner in owners {
        world.core.cancel(now, owner);
    }
    check_offers(&offers(&mut world), 10_000, 11);
    for token in 1..=10_000 {
        world.core.release(now, "k", token).unwrap();
    }
    check_offers(&offers(&mut world), 10_000, 11);
}

#[test]
fn what_is_sent_goes_out_in_an_order_that_helps() {
    let (mut world, session) = World::welcomed();
    let sent = world.acquire(SECOND * 9, SECOND);
    world.take_requests(session);
    world.wire(session).room = 0;
    let unsent = world.core.acquire(world.now, "k", SECOND * 9, SECOND).unwrap();
    world.core.release(world.now, "k", 3).unwrap();
    world.core.cancel(world.now, sent);
    world.wire(session).room = 1_000;
    world.run();
    assert_eq!(
        world.take_requests(session),
        [
            Req::Cancel { owner: sent },
            Req::Release { token: 3 },
            Req::Acquire { wait_s: 9, lease_s: 1, owner: unsent }
        ],
        "what makes room at the server comes first"
    );
}

#[test]
fn rule06_every_kind_of_frame_may_be_cut_at_every_byte() {
    let mut whole = 0;
    for cut in 0.. {
        let mut world = World::new();
        world.acquire(SECOND * 9, SECOND);
        let session = world.session();
        world.wire(session).room = cut;
        world.core.connected(world.now, session);
        world.run();
        world.wire(session).room = usize::MAX;
        world.run();
        let Req::Hello { id, text } = world.take_request(session) else { panic!("hello is first") };
        assert_eq!(text, "name=test");
        let welcome = lockstead_proto::Welcome { version: 1, id, text: "" };
        world.wire(session).room = cut.saturating_sub(20);
        world.answer(session, Answer::Welcome(welcome));
        let owners: Vec<u64> =
            (0..2).map(|_| world.core.acquire(world.now, "k", SECOND * 9, SECOND).unwrap()).collect();
        world.core.release(world.now, "k", 3).unwrap();
        world.core.extend(world.now, "k", 4, SECOND).unwrap();
        world.core.query(world.now, "k").unwrap();
        world.core.ping(world.now);
        world.run();
        world.core.cancel(world.now, owners[1]);
        world.run();
        world.wire(session).room = usize::MAX;
        world.run();
        let requests = world.take_requests(session);
        let cancelled = usize::from(requests.contains(&Req::Cancel { owner: owners[1] }));
        let acquires = requests.iter().filter(|r| matches!(r, Req::Acquire { .. })).count();
        assert_eq!(acquires, 2 + cancelled, "{cut}: a call given up is sent and cancelled, or neither");
        assert_eq!(requests.len(), 4 + acquires + cancelled, "{cut}: {requests:?}");
        whole += cancelled;
        if whole == 3 {
            return;
        }
    }
}

#[test]
fn rule06_the_wait_of_what_was_taken_back_is_computed_anew_for_each_offer() {
    let (mut world, session) = World::welcomed();
    world.core.acquire(world.now, "k", SECOND * 3, SECOND).unwrap();
    for expected in [3, 2, 1] {
        let mut offered = None;
        world.core.transmit(world.now, session, |bytes| {
            if let Ok(Some((Request::Acquire(acquire), _))) = decode_request(bytes) {
                offered = Some(acquire.wait_s);
            }
            0
        });
        assert_eq!(offered, Some(expected));
        world.now = world.now + SECOND;
    }
    assert_eq!(world.core.transmit(world.now, session, |_| panic!("its budget is over")), Transmit::Idle);
}

#[test]
fn rule10_an_attempt_that_was_answered_is_not_cancelled_any_more() {
    let (mut world, session) = World::welcomed();
    let answered = world.acquire(SECOND * 9, SECOND);
    let open = world.acquire(SECOND * 9, SECOND);
    world.take_requests(session);
    world.wire(session).room = 0;
    world.core.cancel(world.now, answered);
    world.core.cancel(world.now, open);
    world.run();
    world.timeout(session, answered);
    world.wire(session).room = 1_000;
    world.run();
    assert_eq!(world.take_requests(session), [Req::Cancel { owner: open }], "once, and only the open one");
}

#[test]
fn a_shutdown_does_not_cancel_what_was_answered_meanwhile() {
    let (mut world, session) = World::welcomed();
    let owner = world.acquire(SECOND * 9, SECOND);
    world.take_requests(session);
    world.core.release(world.now, "k", 3).unwrap();
    world.run();
    world.take_requests(session);
    world.wire(session).room = 0;
    world.core.shutdown(world.now);
    world.send(session, Answer::Timeout(Timeout { owner }));
    world.send(session, acquired(owner, 9, 1, 0));
    world.core.tick(world.now);
    world.read(session);
    world.wire(session).room = 1_000;
    world.run();
    assert_eq!(world.take_requests(session), []);
    assert_eq!(world.outcome(owner), Err(AcquireError::Timeout));
}

#[test]
fn rule07_a_partly_sent_call_is_possibly_sent() {
    let (mut world, session) = World::welcomed();
    world.wire(session).room = 1;
    let owner = world.acquire(SECOND, SECOND);
    let unsent = world.acquire(SECOND * 60, SECOND);
    world.pass(ms(900));
    world.wire(session).room = 1;
    world.run();
    world.pass(ms(900));
    world.wire(session).room = 1;
    world.run();
    world.pass(ms(900));
    world.wire(session).room = 1;
    world.run();
    world.pass(ms(299));
    assert_eq!(world.closed(session), None);
    world.pass(ms(1));
    assert_eq!(world.closed(session), Some(true));
    assert_eq!(world.outcome(owner), Err(AcquireError::Indeterminate(IndeterminateCause::NoAnswer)));
    assert_eq!(world.take(unsent), None, "it moves");
}

#[test]
fn a_transport_cannot_take_more_than_it_was_offered() {
    let (mut world, session) = World::welcomed();
    world.core.acquire(world.now, "k", SECOND * 9, SECOND).unwrap();
    assert_eq!(world.core.transmit(world.now, session, |_| usize::MAX), Transmit::Taken);
    assert_eq!(world.core.next_wakeup(), Some(world.now + SECOND * 5), "it is not blocked");
}
