//! The core under random interleavings of everything that can happen to it, against small servers that may lie, refuse,
//! fail and change places, a network that delays, cuts and accepts bytes as it likes, and clocks that differ and jump.
//! The rules of docs/client-contract.md are the assertions; see `reference.rs`. `PROPTEST_CASES` sets how many histories
//! are tried.

// These are tests: what must not happen may panic.
#![allow(clippy::unwrap_used)]

mod canary;
mod program;
mod reference;
mod server;
mod steps;
mod whims;
mod wire;
mod world;

use std::ops::Range;

use proptest::prelude::*;

use canary::Planted;
use server::Pace;
use steps::{Step, step};
use world::{Setup, World};

fn play(setup: Setup, steps: &[Step], planted: Option<Planted>) -> World {
    let mut world = World::new(setup, planted);
    for step in steps {
        world.step(step);
    }
    world.finish();
    world
}

fn history(length: Range<usize>) -> impl Strategy<Value = (Setup, Vec<Step>)> {
    let pace = prop::sample::select(vec![Pace::Slow, Pace::Even, Pace::Fast]);
    let max_open = prop_oneof![3 => Just(1_000_usize), 1 => Just(3)];
    let setup = (any::<bool>(), pace, any::<[u64; 2]>(), max_open);
    let setup =
        setup.prop_map(|(whole_writes, pace, seeds, max_open)| Setup { whole_writes, pace, seeds, max_open });
    (setup, prop::collection::vec(step(), length))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_hold_in_every_history((setup, steps) in history(1..160)) {
        play(setup, &steps, None);
    }
}
