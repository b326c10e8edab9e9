//! Where tokens come from: blocks of numbers that only rise, over restarts too as long as the wall clock does.

use lockstead_engine::Engine;

use crate::clock;

/// How many tokens a block has at least. After each block the tokens catch up with the wall clock.
const BLOCK: u64 = 1 << 16;

/// Makes sure that the engine can give `n` more tokens. A new block starts at the greater of the token after the last
/// one and the wall clock's microseconds since 1970, so a server that was started anew goes on above its last run, as
/// long as no run gave more than one token a microsecond and the clock was not set back.
pub(crate) fn ensure(engine: &mut Engine, n: usize) {
    let n = n as u64;
    if engine.tokens_left() < n {
        let first = next_block(engine.last_token(), clock::wall_us());
        engine.supply_tokens(first, BLOCK.max(n));
    }
}

fn next_block(last_token: u64, wall_us: u64) -> u64 {
    wall_us.max(last_token + 1)
}

#[cfg(test)]
mod tests {
    use super::next_block;

    #[test]
    fn p10_tokens_follow_the_wall_clock_up_and_never_down() {
        assert_eq!(next_block(0, 1_764_512_345_678_901), 1_764_512_345_678_901);
        assert_eq!(next_block(1_764_512_345_678_901, 86_400_000_000), 1_764_512_345_678_902);
        assert_eq!(next_block(5, 5), 6);
        assert_eq!(next_block(0, 0), 1);
    }
}
