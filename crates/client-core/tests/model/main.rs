//! The core under random interleavings of everything that can happen to it, against a small honest server and a network
//! that delays, cuts and accepts bytes as it likes. The rules of docs/client-contract.md are the assertions; see
//! `world.rs` for each of them. `PROPTEST_CASES` sets how many histories are tried.

// These are tests: what must not happen may panic.
#![allow(clippy::unwrap_used)]

mod server;
mod steps;
mod world;

use proptest::prelude::*;

use steps::{Step, step};
use world::World;

fn play(steps: &[Step], whole_writes: bool) {
    let mut world = World::new(whole_writes);
    for step in steps {
        world.step(step);
    }
    world.finish();
}

proptest! {
    #[test]
    fn the_rules_hold_in_every_history(steps in prop::collection::vec(step(), 1..160)) {
        play(&steps, false);
    }

    #[test]
    fn the_rules_hold_where_a_layer_takes_everything_at_once(steps in prop::collection::vec(step(), 1..80)) {
        play(&steps, true);
    }
}
