//! Owners and ids.

use lockstead_proto::CLIENT_ID_BIT;

/// Draws the owners of acquires and the ids of everything else from one sequence, so that an error answer names one
/// request: random start, counting up, top bit set, never 0.
#[derive(Debug)]
pub(crate) struct IdSource {
    next: u64,
}

impl IdSource {
    pub(crate) fn new(random: u64) -> Self {
        Self { next: random | CLIENT_ID_BIT }
    }

    pub(crate) fn draw(&mut self) -> u64 {
        let id = self.next;
        self.next = id.wrapping_add(1) | CLIENT_ID_BIT;
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_up_with_the_top_bit_set() {
        let mut ids = IdSource::new(5);
        assert_eq!(ids.draw(), CLIENT_ID_BIT | 5);
        assert_eq!(ids.draw(), CLIENT_ID_BIT | 6);
        let mut last = IdSource::new(u64::MAX);
        assert_eq!(last.draw(), u64::MAX);
        assert_eq!(last.draw(), CLIENT_ID_BIT);
    }
}
