//! Memory after a peak goes back to the system.
//!
//! The engine frees what it no longer needs, but the allocator keeps freed memory for the next peak, which may never
//! come. So it is asked to give it back each time a quarter of what there was has gone, or so much that a walk through the
//! heap takes some milliseconds.

/// A fall by fewer entries than this is no peak worth a walk through the heap.
const LEAST_FALL: usize = 4_096;
/// After a fall by so many entries memory is given back, however many are left.
const MOST_FALL: usize = 262_144;

/// Watches how much the server holds.
#[derive(Default)]
pub(crate) struct Memory {
    peak: usize,
}

impl Memory {
    /// Takes note of how many keys, waiters and connections there are, and gives memory back after a peak.
    pub(crate) fn watch(&mut self, entries: usize) {
        self.peak = self.peak.max(entries);
        if is_worth_it(self.peak, entries) {
            give_back();
            self.peak = entries;
        }
    }
}

fn is_worth_it(peak: usize, entries: usize) -> bool {
    peak.saturating_sub(entries) > (peak / 4).clamp(LEAST_FALL, MOST_FALL)
}

#[cfg(target_env = "gnu")]
fn give_back() {
    // SAFETY: the call takes no pointer and may come at any time; it only returns unused pages.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators decide by themselves.
#[cfg(not(target_env = "gnu"))]
fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p13_memory_is_given_back_when_a_quarter_of_a_peak_has_gone() {
        assert!(!is_worth_it(1_000_000, 750_000));
        assert!(is_worth_it(1_000_000, 749_999));
        assert!(!is_worth_it(LEAST_FALL, 0), "too small a fall");
        assert!(is_worth_it(LEAST_FALL + 1, 0));
        assert!(!is_worth_it(10_000_000, 10_000_000 - MOST_FALL));
        assert!(is_worth_it(10_000_000, 10_000_000 - MOST_FALL - 1), "a walk would take long");
        let mut memory = Memory::default();
        memory.watch(20_000);
        memory.watch(16_000);
        assert_eq!(memory.peak, 20_000);
        memory.watch(14_999);
        assert_eq!(memory.peak, 14_999);
    }
}
