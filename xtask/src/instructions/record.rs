//! The recorded counts, as a text of the repository: a change that moves them shows it, with the reason.

use super::compare::is_rise;
use anyhow::{Context as _, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The instructions of one run of each case, by its name.
pub type Counts = BTreeMap<String, u64>;

const HEAD: &str = "\
# The instructions of 1,000 operations of each case of bench/micro, counted by valgrind.
# `cargo xtask instructions record \"<why>\"` moves them; bench/micro/README.md says when.
";

/// What was counted, with what, and why that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Why the counts moved the last time.
    pub why: String,
    /// The toolchain that they were counted with.
    pub made_with: String,
    /// They themselves.
    pub counts: Counts,
}

impl Record {
    /// Reads what [`Record::to_text`] wrote: the few forms of TOML that it needs.
    ///
    /// # Errors
    /// If a line is something else, a name comes twice, or something is not there or says nothing.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let (mut why, mut made_with) = (None, None);
        let mut counts = Counts::new();
        for (number, line) in text.lines().enumerate() {
            let place = || format!("line {}: `{line}`", number + 1);
            if line.is_empty() || line.starts_with('#') || line == "[instructions]" {
                continue;
            }
            let (name, value) = line.split_once(" = ").with_context(place)?;
            match name {
                "why" => why = Some(unquoted(value).with_context(place)?.to_owned()),
                "made_with" => made_with = Some(unquoted(value).with_context(place)?.to_owned()),
                _ => {
                    let name = unquoted(name).with_context(place)?;
                    let count = value.parse().with_context(place)?;
                    ensure!(counts.insert(name.to_owned(), count).is_none(), "{} comes twice", place());
                }
            }
        }
        let why = why.filter(|why| !why.is_empty()).context("it does not say why it is so")?;
        Ok(Self { why, made_with: made_with.context("it does not say what it was made with")?, counts })
    }

    /// The whole file.
    pub fn to_text(&self) -> String {
        let Self { why, made_with, counts } = self;
        let mut text = format!("{HEAD}\nwhy = \"{why}\"\nmade_with = \"{made_with}\"\n\n[instructions]\n");
        for (name, count) in counts {
            writeln!(text, "\"{name}\" = {count}").expect("a string takes everything");
        }
        text
    }

    /// The record after a change. A small rise leaves the old count, so that many of them add up to one that is seen.
    /// With another toolchain everything is recorded anew.
    ///
    /// # Errors
    /// If `why` says nothing, or is not one line without quotes and backslashes.
    pub fn moved(old: Option<&Self>, why: &str, made_with: &str, counted: &Counts) -> anyhow::Result<Self> {
        let why = why.trim();
        ensure!(!why.is_empty(), "say why the counts move");
        ensure!(!why.contains(['"', '\\', '\n']), "the reason is one line without quotes and backslashes");
        let mut counts = counted.clone();
        if let Some(old) = old.filter(|old| old.made_with == made_with) {
            for (name, &from) in &old.counts {
                if let Some(count) =
                    counts.get_mut(name).filter(|count| **count > from && !is_rise(from, **count))
                {
                    *count = from;
                }
            }
        }
        Ok(Self { why: why.to_owned(), made_with: made_with.to_owned(), counts })
    }
}

fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"').filter(|inside| !inside.contains(['"', '\\']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(made_with: &str, counts: &[(&str, u64)]) -> Record {
        let counts = counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        Record { why: "it had to be".to_owned(), made_with: made_with.to_owned(), counts }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let record =
            record("rustc 1.95.0, x86_64", &[("engine/pair/few", 2_450_029), ("proto/decode/ping", 0)]);
        assert_eq!(Record::parse(&record.to_text()).expect("it is a record"), record);
    }

    #[test]
    fn canary_what_is_no_record_is_an_error() {
        let good = "why = \"w\"\nmade_with = \"m\"\n[instructions]\n\"a\" = 1\n";
        assert!(Record::parse(good).is_ok());
        for (part, broken) in [
            ("why = \"w\"\n", ""),
            ("why = \"w\"", "why = \"\""),
            ("why = \"w\"", "why = w"),
            ("made_with = \"m\"\n", ""),
            ("\"a\" = 1", "\"a\" = one"),
            ("\"a\" = 1", "\"a\": 1"),
            ("\"a\" = 1", "a = 1"),
            ("\"a\" = 1", "\"a\" = 1\n\"a\" = 2"),
        ] {
            assert!(good.contains(part) && Record::parse(&good.replace(part, broken)).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_move_takes_falls_and_great_rises_and_keeps_the_count_below_small_ones() {
        let old = record("m", &[("gone", 9), ("great", 100), ("less", 100), ("small", 100)]);
        let counted = record("m", &[("great", 106), ("less", 99), ("new", 7), ("small", 105)]).counts;
        let moved = Record::moved(Some(&old), " why ", "m", &counted).expect("it has a reason");
        let expected = record("m", &[("great", 106), ("less", 99), ("new", 7), ("small", 100)]).counts;
        assert_eq!((moved.why.as_str(), &moved.counts), ("why", &expected));
        let anew = Record::moved(Some(&old), "why", "another", &counted).expect("it has a reason");
        assert_eq!(anew.counts, counted);
    }

    #[test]
    fn a_move_without_a_reason_is_refused() {
        for why in ["", "  ", "two\nlines", "a \"quote\""] {
            assert!(Record::moved(None, why, "m", &Counts::new()).is_err(), "{why:?}");
        }
    }
}
