//! What has changed between two sets of counts, and what of it fails the gate.

use super::record::Counts;
use std::fmt;

/// A count may be above its record by so many of a hundred parts; it is told when it is below by more.
const TOLERANCE_PERCENT: u64 = 5;

/// Something that is not as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A case takes more than it may.
    Rise {
        /// The case.
        name: String,
        /// Its record, in instructions.
        from: u64,
        /// What it takes now.
        to: u64,
    },
    /// A case takes so much less that the record is worth moving.
    Fall {
        /// The case.
        name: String,
        /// Its record, in instructions.
        from: u64,
        /// What it takes now.
        to: u64,
    },
    /// A recorded case is not there any more.
    Missing(String),
    /// A case has no record.
    Unknown(String),
}

impl Difference {
    /// Whether it fails the gate. A fall does not, but a later rise up to the old record would go unseen.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Fall { .. })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |from: u64, to: u64| 100.0 * (to as f64 / from as f64 - 1.0);
        match self {
            Self::Rise { name, from, to } => {
                write!(f, "RISE {name}: {from} -> {to} instructions, {:+.1} %", percent(*from, *to))
            }
            Self::Fall { name, from, to } => {
                let by = percent(*from, *to);
                write!(f, "fall {name}: {from} -> {to} instructions, {by:+.1} %; record it, so that it stays")
            }
            Self::Missing(name) => write!(f, "MISSING {name}: recorded, but there is no such case any more"),
            Self::Unknown(name) => {
                write!(f, "UNKNOWN {name}: there is such a case, but it was never recorded")
            }
        }
    }
}

/// Everything that is not as recorded, by name.
pub fn compare(recorded: &Counts, counted: &Counts) -> Vec<Difference> {
    let missing = recorded.keys().filter(|name| !counted.contains_key(*name)).cloned();
    let mut differences: Vec<Difference> = missing.map(Difference::Missing).collect();
    for (name, &to) in counted {
        let name = name.clone();
        match recorded.get(&name) {
            None => differences.push(Difference::Unknown(name)),
            Some(&from) if is_rise(from, to) => differences.push(Difference::Rise { name, from, to }),
            Some(&from) if is_fall(from, to) => differences.push(Difference::Fall { name, from, to }),
            Some(_) => {}
        }
    }
    differences
}

/// Whether that is more than the tolerance.
pub fn is_rise(from: u64, to: u64) -> bool {
    to * 100 > from * (100 + TOLERANCE_PERCENT)
}

fn is_fall(from: u64, to: u64) -> bool {
    to * 100 < from * (100 - TOLERANCE_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> Counts {
        counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    }

    #[test]
    fn what_stays_within_the_tolerance_is_no_difference() {
        let recorded = counts(&[("a", 1_000), ("b", 1_000), ("c", 1_000)]);
        assert_eq!(compare(&recorded, &counts(&[("a", 1_050), ("b", 950), ("c", 1_000)])), []);
    }

    #[test]
    fn canary_a_rise_of_six_percent_is_found_and_fails() {
        let found = compare(&counts(&[("a", 1_000), ("b", 1_000)]), &counts(&[("a", 1_060), ("b", 1_000)]));
        assert_eq!(found, [Difference::Rise { name: "a".to_owned(), from: 1_000, to: 1_060 }]);
        assert!(found[0].is_failure());
        assert_eq!(found[0].to_string(), "RISE a: 1000 -> 1060 instructions, +6.0 %");
    }

    #[test]
    fn canary_the_first_instruction_beyond_the_tolerance_is_found() {
        assert_eq!(compare(&counts(&[("a", 1_000)]), &counts(&[("a", 1_051)])).len(), 1);
    }

    #[test]
    fn a_fall_is_told_and_does_not_fail() {
        let found = compare(&counts(&[("a", 1_000)]), &counts(&[("a", 949)]));
        assert_eq!(found, [Difference::Fall { name: "a".to_owned(), from: 1_000, to: 949 }]);
        assert!(!found[0].is_failure());
    }

    #[test]
    fn canary_a_missing_and_an_unknown_case_are_found_and_fail() {
        let found = compare(&counts(&[("a", 1), ("b", 1)]), &counts(&[("b", 1), ("c", 1)]));
        assert_eq!(found, [Difference::Missing("a".to_owned()), Difference::Unknown("c".to_owned())]);
        assert!(found.iter().all(Difference::is_failure));
    }
}
