//! When to try the next connection: capped exponential backoff with full jitter (docs/client-contract.md, rule 16).

use core::time::Duration;

/// The bound of the first delay.
const FIRST: Duration = Duration::from_millis(50);

/// The bound of every later delay doubles up to this. Short enough that a call with the shortest wait, 1 s, gets a try.
const LONGEST: Duration = Duration::from_secs(1);

/// Counts failures in a row and draws delays.
#[derive(Debug)]
pub(crate) struct Backoff {
    failures: u32,
    random: u64,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { failures: 0, random: seed }
    }

    /// A session that has answered a request has ended: this failure is a first one. A welcome alone does not do it, for a
    /// server may end each of its sessions right after.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// One more failure: how long to wait before the next try. With several addresses the bound doubles once a round.
    pub(crate) fn fail(&mut self, addresses: usize) -> Duration {
        let round = (self.failures as usize / addresses).min(16);
        self.failures = self.failures.saturating_add(1);
        let bound = (FIRST * (1 << round)).min(LONGEST);
        bound.mul_f64(self.fraction())
    }

    /// Uniform in 0..1, by SplitMix64: jitter needs no better.
    fn fraction(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        f64::from(((z ^ (z >> 31)) >> 32) as u32) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn longest_of_many(failures: u32, addresses: usize) -> Duration {
        (0..2_000)
            .map(|seed| {
                let mut backoff = Backoff::new(seed);
                for _ in 0..failures {
                    backoff.fail(addresses);
                }
                backoff.fail(addresses)
            })
            .max()
            .unwrap()
    }

    #[test]
    fn rule16_the_bound_doubles_and_is_capped() {
        for (failures, bound_ms) in [(0, 50), (1, 100), (2, 200), (4, 800), (5, 1_000), (400, 1_000)] {
            let longest = longest_of_many(failures, 1).as_millis();
            assert!(longest <= bound_ms && longest * 100 >= bound_ms * 95, "{failures}: {longest} ms");
        }
        assert!(longest_of_many(2, 3) <= FIRST, "the first round over three addresses");
        assert!(longest_of_many(3, 3) > FIRST);
    }

    #[test]
    fn the_generator_is_split_mix_64() {
        let mut backoff = Backoff::new(0);
        for high_half in [0xe220_a839_u32, 0x6e78_9e6a, 0x06c4_5d18, 0xf88b_b8a8] {
            assert_eq!(backoff.fraction(), f64::from(high_half) / f64::from(u32::MAX));
        }
    }

    #[test]
    fn rule16_jitter_is_full() {
        let delays: Vec<u128> = (0..2_000).map(|seed| Backoff::new(seed).fail(1).as_micros()).collect();
        let mean = delays.iter().sum::<u128>() / 2_000;
        assert!((24_000..26_000).contains(&mean), "{mean}");
        assert!(delays.iter().any(|&d| d < 2_500) && delays.iter().any(|&d| d > 47_500));
        let mut backoff = Backoff::new(1);
        assert_ne!(backoff.fail(1_000), backoff.fail(1_000), "each delay is drawn anew");
    }

    #[test]
    fn rule16_a_welcome_starts_over() {
        for seed in 0..200 {
            let mut backoff = Backoff::new(seed);
            for _ in 0..10 {
                backoff.fail(1);
            }
            backoff.reset();
            assert!(backoff.fail(1) <= FIRST);
        }
    }
}
