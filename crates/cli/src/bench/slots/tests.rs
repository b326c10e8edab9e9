//! What the slots make of answers that no good server gives.

use super::*;
use crate::args::BenchArgs;
use crate::bench::plan::Plan;
use clap::Parser as _;
use lockstead_proto::{Busy, BusyReason, Extended, NotHeld, Released, Request, Timeout, decode_request};

#[derive(clap::Parser)]
struct Typed {
    #[command(flatten)]
    args: BenchArgs,
}

/// The slots of one connection, and what they have sent.
struct World {
    slots: Slots,
    out: Vec<u8>,
}

impl World {
    fn new(options: &[&str]) -> Self {
        let args = Typed::try_parse_from([&["bench"], options].concat()).unwrap().args;
        let run = Run::new(&args, Plan::new(&args, 1).unwrap()).unwrap();
        run.tally.set_open(true);
        Self { slots: Slots::new(Rc::new(run), 0), out: Vec::new() }
    }

    /// The next requests: an op and a key each.
    fn asked(&mut self) -> Vec<(char, String)> {
        self.slots.ask(&mut self.out);
        self.sent()
    }

    fn sent(&mut self) -> Vec<(char, String)> {
        let (mut at, mut requests) = (0, Vec::new());
        while let Ok(Some((request, len))) = decode_request(&self.out[at..]) {
            at += len;
            requests.push(match request {
                Request::Acquire(frame) => ('A', frame.key.to_owned()),
                Request::Release(frame) => ('R', frame.key.to_owned()),
                Request::Extend(frame) => ('E', frame.key.to_owned()),
                Request::Cancel(frame) => ('C', frame.key.to_owned()),
                other => panic!("{other:?}"),
            });
        }
        self.out.clear();
        requests
    }

    fn ops(&mut self) -> String {
        self.asked().into_iter().map(|(op, _)| op).collect()
    }

    fn grant(&mut self, slot: u64, token: u64) {
        let frame = Acquired { owner: CLIENT_ID_BIT | slot, token, lease_s: 30, waited_ms: 0 };
        self.answer(&Answer::Acquired(frame));
    }

    fn answer(&mut self, answer: &Answer<'_>) {
        self.slots.answer(answer, Instant::now());
    }

    fn faults(&self) -> Vec<(String, u64)> {
        self.slots.run.tally.faults().into_iter().map(|(kind, count, _)| (kind, count)).collect()
    }
}

fn one(kind: &str) -> Vec<(String, u64)> {
    vec![(kind.to_owned(), 1)]
}

#[test]
fn pairs_go_round_their_keys() {
    let mut world = World::new(&["pairs", "--connections", "1", "--pipeline", "2", "--keys", "5"]);
    let mut acquired = Vec::new();
    for token in 1..=4 {
        acquired.extend(world.asked().into_iter().map(|(op, key)| {
            assert_eq!(op, 'A');
            key
        }));
        let tokens = [token, token + 100];
        for (slot, token) in (0..).zip(tokens) {
            world.grant(slot, token);
        }
        assert_eq!(world.ops(), "RR");
        for token in tokens {
            world.answer(&Answer::Released(Released { token }));
        }
    }
    // Keys 0, 2 and 4 belong to the first slot, 1 and 3 to the second.
    let numbers: Vec<&str> = acquired.iter().map(|key| &key[17..24]).collect();
    let expected = [0, 1, 2, 3, 4, 1, 0, 3].map(|number| format!("{number:07x}"));
    assert_eq!(numbers, expected);
    assert_eq!(world.faults(), []);
}

#[test]
fn a_lock_that_is_lost_while_its_lease_lasts_is_a_fault() {
    let mut world = World::new(&["pairs", "--connections", "1"]);
    assert_eq!(world.ops(), "A");
    world.grant(0, 7);
    assert_eq!(world.ops(), "R");
    world.answer(&Answer::NotHeld(NotHeld { token: 7 }));
    assert_eq!(world.faults(), one("not_held"));
    assert_eq!(world.ops(), "A", "it goes on");
}

#[test]
fn a_key_of_its_own_that_is_not_free_is_a_fault() {
    let mut world = World::new(&["pairs", "--connections", "1"]);
    assert_eq!(world.ops(), "A");
    world.answer(&Answer::Timeout(Timeout { owner: CLIENT_ID_BIT }));
    assert_eq!(world.faults(), one("not_free"));
    assert_eq!(world.ops(), "A");
}

#[test]
fn two_holders_at_a_time_are_a_fault() {
    let mut world = World::new(&["handoff", "--connections", "1", "--pipeline", "2"]);
    assert_eq!(world.ops(), "AA");
    world.grant(0, 7);
    world.grant(1, 8);
    assert_eq!(world.faults(), one("two_holders"));
}

#[test]
fn a_wait_that_ends_early_is_a_fault_unless_it_is_cancelled() {
    let options = ["wait", "--connections", "1", "--pipeline", "20"];
    let mut world = World::new(&options);
    assert_eq!(world.ops(), "A".repeat(20));
    world.answer(&Answer::Timeout(Timeout { owner: CLIENT_ID_BIT | 3 }));
    assert_eq!(world.faults(), one("early_timeout"));

    let mut world = World::new(&options);
    assert_eq!(world.ops(), "A".repeat(20));
    world.grant(3, 7);
    world.slots.stop(&mut world.out);
    let cancels: String = world.sent().into_iter().map(|(op, _)| op).collect();
    assert_eq!(cancels, "C".repeat(19), "one holds");
    for slot in (0..20).filter(|slot| *slot != 3) {
        world.answer(&Answer::Timeout(Timeout { owner: CLIENT_ID_BIT | slot }));
    }
    assert_eq!((world.faults(), world.slots.in_flight()), (vec![], 0));
    assert_eq!(world.ops(), "", "nobody asks for more");
    assert_eq!(world.slots.left(), 1);
}

#[test]
fn an_answer_that_nobody_asked_for_is_a_fault() {
    let unasked = [
        Answer::Released(Released { token: 7 }),
        Answer::NotHeld(NotHeld { token: 7 }),
        Answer::Extended(Extended { token: 7, lease_s: 30 }),
        Answer::Timeout(Timeout { owner: CLIENT_ID_BIT | 1 }),
        Answer::Timeout(Timeout { owner: 0 }),
        Answer::Acquired(Acquired { owner: CLIENT_ID_BIT | 1, token: 7, lease_s: 30, waited_ms: 0 }),
    ];
    for answer in unasked {
        let mut world = World::new(&["keep-alive", "--connections", "1", "--keys", "1"]);
        assert_eq!(world.ops(), "A");
        world.answer(&answer);
        assert_eq!(world.faults(), one("unexpected"), "{answer:?}");
        assert_eq!((world.ops().as_str(), world.slots.in_flight()), ("", 1), "{answer:?}");
    }
}

#[test]
fn releases_are_answered_in_their_order() {
    let mut world = World::new(&["pairs", "--connections", "1", "--pipeline", "2"]);
    assert_eq!(world.ops(), "AA");
    world.grant(0, 7);
    world.grant(1, 8);
    assert_eq!(world.ops(), "RR");
    world.answer(&Answer::Released(Released { token: 8 }));
    assert_eq!(world.faults(), one("unexpected"));
}

#[test]
fn what_is_busy_is_asked_again() {
    let mut world = World::new(&["pairs", "--connections", "1"]);
    assert_eq!(world.ops(), "A");
    world.answer(&Answer::Busy(Busy { owner: CLIENT_ID_BIT, reason: BusyReason::KeysFull }));
    assert_eq!(world.faults(), one("busy_3"));
    assert_eq!(world.ops(), "A");
}
