//! Small repeatable random numbers (splitmix64), so that a failing round can be run again.

/// A generator that gives the same numbers for the same seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; `bound` must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_they_differ() {
        let (mut left, mut right) = (Rng::new(7), Rng::new(7));
        let drawn: Vec<u64> = (0..100).map(|_| left.draw()).collect();
        assert!(drawn.iter().all(|&number| number == right.draw()));
        let mut distinct = drawn.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), drawn.len());
        assert!((0..1000).all(|_| left.below(3) < 3));
    }
}
