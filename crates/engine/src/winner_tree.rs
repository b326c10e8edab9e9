//! The least of 256 numbers, kept up to date in eight steps for each change.

use alloc::boxed::Box;

const LEAVES: usize = 256;
const INNER: usize = LEAVES - 1;

/// A number that is greater than all that are set: the leaf has none.
const NONE: u64 = u64::MAX;

/// A tree of which every node holds the lesser of its two children's numbers.
#[derive(Debug)]
pub(crate) struct WinnerTree {
    /// The root is node 0, the children of `n` are `2n + 1` and `2n + 2`, the last 256 are the leaves.
    nodes: Box<[u64; INNER + LEAVES]>,
}

impl WinnerTree {
    pub(crate) fn new() -> Self {
        Self { nodes: Box::new([NONE; INNER + LEAVES]) }
    }

    /// Sets the number of a leaf, or takes it away.
    pub(crate) fn set(&mut self, leaf: u8, number: Option<u64>) {
        let mut at = INNER + usize::from(leaf);
        self.nodes[at] = number.unwrap_or(NONE);
        while at > 0 {
            at = (at - 1) / 2;
            self.nodes[at] = self.nodes[2 * at + 1].min(self.nodes[2 * at + 2]);
        }
    }

    /// The least number and its leaf, the highest leaf if several have it.
    pub(crate) fn least(&self) -> Option<(u64, u8)> {
        let least = self.nodes[0];
        if least == NONE {
            return None;
        }
        let mut at = 0;
        while at < INNER {
            let right = 2 * at + 2;
            at = if self.nodes[right] == least { right } else { right - 1 };
        }
        Some((least, (at - INNER) as u8))
    }
}
