//! Tests of the parts, and of what can be seen only from inside.

mod canaries;
mod histories;
mod index;
mod steps;
mod storage;
mod timers;
mod walk;

use crate::{Command, Effect, Engine, Instant, Limits, Progress, SessionId};
use std::vec::Vec;

/// Numbers that look random, the same in every run (Steele and Vigna's SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn engine(recovery_ends: Option<Instant>) -> Engine {
    let mut engine = Engine::new(Limits::default(), [7, 8], Instant(0), recovery_ends);
    engine.supply_tokens(1, 1 << 40);
    engine
}

fn run(engine: &mut Engine, session: SessionId, command: Command<'_>) -> Vec<Effect> {
    let mut effects = Vec::new();
    engine.run(engine.now, session, command, &mut effects);
    effects
}

fn acquire(engine: &mut Engine, session: SessionId, key: &str, wait_s: u8, owner: u64) -> Vec<Effect> {
    run(engine, session, Command::Acquire { wait_s, lease_s: 9, owner, key })
}

fn advance(engine: &mut Engine, now: Instant) -> Vec<Effect> {
    let mut effects = Vec::new();
    assert_eq!(engine.advance(now, 200_000, &mut effects), Progress::Done);
    effects
}
