//! Faults planted between the core and the world: the model finds each of them, or it would find nothing.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lockstead_proto::{Request, decode_request};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::{history, play};

/// What a broken client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// It sends every acquire twice.
    SendsTwice,
    /// It sends acquires with a wait that is a second too long.
    WaitsLonger,
    /// It sends something before its hello.
    SpeaksFirst,
    /// It never sends a release.
    ForgetsReleases,
    /// It releases another token than the one it was given.
    ReleasesAnother,
    /// It hands out tickets by a clock that stands still.
    TakesLate,
    /// Its tickets are valid for a little too long.
    ValidForLonger,
    /// It has no timers.
    NeverTicks,
}

impl Planted {
    /// Changes what the client offers to a connection that has taken `before` bytes.
    pub fn spoil(self, offered: &mut Vec<u8>, before: usize) {
        if self == Self::SpeaksFirst && before == 0 && !offered.is_empty() {
            offered.splice(0..0, *b"P\0\0\0\0\0\0\0\x01\n");
        }
        let mut at = 0;
        while let Ok(Some((request, used))) = decode_request(&offered[at..]) {
            let (acquire, release) =
                (matches!(request, Request::Acquire(_)), matches!(request, Request::Release(_)));
            let frame = offered[at..at + used].to_vec();
            at += used;
            match self {
                Self::SendsTwice if acquire => {
                    offered.splice(at..at, frame);
                    at += used;
                }
                Self::WaitsLonger if acquire => offered[at - used + 1] = frame[1].saturating_add(1),
                Self::ForgetsReleases if release => {
                    offered.drain(at - used..at);
                    at -= used;
                }
                Self::ReleasesAnother if release => offered[at - used + 8] ^= 1,
                _ => {}
            }
        }
    }
}

/// Some history shows the fault; without the fault the same histories are as they must be.
fn finds(planted: Planted) {
    let mut runner = TestRunner::deterministic();
    let found = (0..400).any(|_| {
        let (setup, steps) = history(60..160).new_tree(&mut runner).unwrap().current();
        let broken = catch_unwind(AssertUnwindSafe(|| play(setup, &steps, Some(planted))));
        if broken.is_err() {
            play(setup, &steps, None);
        }
        broken.is_err()
    });
    assert!(found, "{planted:?} was not found");
}

#[test]
fn a_client_that_sends_an_acquire_twice_is_found() {
    finds(Planted::SendsTwice);
}

#[test]
fn a_client_that_waits_for_longer_than_it_may_is_found() {
    finds(Planted::WaitsLonger);
}

#[test]
fn a_client_that_speaks_before_its_hello_is_found() {
    finds(Planted::SpeaksFirst);
}

#[test]
fn a_client_that_forgets_its_releases_is_found() {
    finds(Planted::ForgetsReleases);
}

#[test]
fn a_client_that_releases_another_token_is_found() {
    finds(Planted::ReleasesAnother);
}

#[test]
fn a_client_that_hands_out_tickets_too_late_is_found() {
    finds(Planted::TakesLate);
}

#[test]
fn a_client_whose_tickets_are_valid_for_too_long_is_found() {
    finds(Planted::ValidForLonger);
}

#[test]
fn a_client_without_timers_is_found() {
    finds(Planted::NeverTicks);
}

#[test]
fn the_histories_reach_every_outcome_of_a_call() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        let (setup, steps) = history(60..160).new_tree(&mut runner).unwrap().current();
        seen.extend(play(setup, &steps, None).reference.seen);
    }
    let outcomes = [
        "budget_ended",
        "busy",
        "no_answer",
        "other_server",
        "refused",
        "rejected",
        "server_changed",
        "session_broke",
        "shut_down",
        "ticket",
        "timeout",
        "too_late",
    ];
    assert_eq!(seen, outcomes.into());
}
