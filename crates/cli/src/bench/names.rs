//! What the keys of a run are called.

use std::fmt::Write as _;

/// Digits of a key's number; enough for the most keys that a run may have.
const DIGITS: usize = 7;

/// The names of a run: `bench-`, ten random digits, `-`, the key's number in seven; all hexadecimal, with dots up to
/// the wanted size. (Its shortest size, 24, is said in `args/bench.rs`.)
#[derive(Clone, Debug)]
pub struct Names {
    prefix: String,
    size: usize,
}

impl Names {
    /// The names that belong to this random number, each of `size` bytes.
    pub fn new(random: u64, size: usize) -> Self {
        Self { prefix: format!("bench-{:010x}-", random & 0xff_ffff_ffff), size }
    }

    /// What all of them begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// How many bytes each has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The name of a key, in `into`.
    pub fn write(&self, number: u64, into: &mut String) {
        into.clear();
        into.push_str(&self.prefix);
        let _ = write!(into, "{number:0DIGITS$x}"); // a String takes everything
        into.extend(std::iter::repeat_n('.', self.size.saturating_sub(into.len())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_have_their_size() {
        for size in [24, 32, 1024] {
            let names = Names::new(u64::MAX, size);
            let (mut first, mut last) = (String::new(), String::from("left over"));
            names.write(0, &mut first);
            names.write(99_999_999, &mut last);
            assert_ne!(first, last);
            for name in [first, last] {
                assert_eq!(name.len(), size);
                assert!(name.starts_with(names.prefix()));
            }
        }
        assert_ne!(Names::new(1, 32).prefix(), Names::new(2, 32).prefix());
    }
}
