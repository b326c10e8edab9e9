//! The least of 256 numbers, kept up to date in at most eight steps for each change.

use alloc::boxed::Box;

const LEAVES: usize = 256;

/// A number that is greater than all that are set: the leaf has none.
const NONE: u64 = u64::MAX;

/// A tree of which every node holds the lesser of its two children's numbers.
#[derive(Debug)]
pub(crate) struct WinnerTree {
    /// The root is node 1, the children of `n` are `2n` and `2n + 1`, the last 256 are the leaves. Node 0 has no number.
    nodes: Box<[u64; 2 * LEAVES]>,
}

impl WinnerTree {
    pub(crate) fn new() -> Self {
        Self { nodes: Box::new([NONE; 2 * LEAVES]) }
    }

    /// Sets the number of a leaf, or takes it away.
    pub(crate) fn set(&mut self, leaf: u8, number: Option<u64>) {
        let mut at = LEAVES + usize::from(leaf);
        let mut least = number.unwrap_or(NONE);
        // Above a node that does not change nothing does.
        while at > 0 && self.nodes[at] != least {
            self.nodes[at] = least;
            least = least.min(self.nodes[at ^ 1]);
            at /= 2;
        }
    }

    /// The least number.
    pub(crate) fn least(&self) -> Option<u64> {
        Some(self.nodes[1]).filter(|&least| least != NONE)
    }

    /// The leaf with the least number, the highest if several have it.
    pub(crate) fn winner(&self) -> Option<u8> {
        let least = self.least()?;
        let mut at = 1;
        while at < LEAVES {
            let right = 2 * at + 1;
            at = if self.nodes[right] == least { right } else { right - 1 };
        }
        Some((at - LEAVES) as u8)
    }
}
