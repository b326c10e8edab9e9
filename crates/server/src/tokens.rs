//! Where tokens come from: blocks of numbers that only rise, over restarts too.

use lockstead_engine::Engine;
use lockstead_journal::Journal;

use crate::clock;

/// How many tokens a block has at least, without a journal. After each block the tokens catch up with the wall clock.
const BLOCK: u64 = 1 << 16;

/// Makes sure that the engine can give `n` more tokens. `false`: the journal has to reserve more first, and wakes the
/// server when it has; until then nothing may be run that could grant.
pub(crate) fn ensure(engine: &mut Engine, journal: Option<&mut Journal>, n: usize) -> bool {
    let n = n as u64;
    if engine.tokens_left() >= n || engine.is_storage_failing() {
        return true;
    }
    match journal {
        Some(journal) => {
            // A block has more tokens than anything asks for at once.
            let block = journal.take_tokens(clock::wall_us());
            if let Some(block) = block {
                engine.supply_tokens(block.first, block.count);
            }
            block.is_some()
        }
        None => {
            let first = next_block(engine.last_token(), clock::wall_us());
            engine.supply_tokens(first, BLOCK.max(n));
            true
        }
    }
}

/// Without a journal a block starts at the greater of the token after the last one and the wall clock's microseconds
/// since 1970, so a server that was started anew goes on above its last run, as long as no run gave more than one
/// token a microsecond and the clock was not set back.
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
