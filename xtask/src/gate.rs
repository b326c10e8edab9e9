//! `cargo xtask gate`: every check that a change must pass, the cheapest first.

use anyhow::{Context as _, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Each step with the arguments given to cargo.
const STEPS: [(&str, &[&str]); 4] = [
    ("format", &["fmt", "--all", "--check"]),
    ("tidy", &["xtask", "tidy"]),
    ("licences, bans, sources", &["deny", "--workspace", "check", "licenses", "bans", "sources"]),
    ("clippy", &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]),
];

/// The README's second command.
const TESTS: &[&str] = &["test", "--workspace"];

/// Runs the steps in order, the tests last, and stops at the first that fails.
pub fn run(root: &Path) -> anyhow::Result<()> {
    for (name, args) in STEPS {
        let begun = announce(name, args);
        let status = cargo(root, args).status().context("cannot start cargo")?;
        let hint = if args[0] == "deny" { " (is it there? `cargo install --locked cargo-deny`)" } else { "" };
        ensure!(status.success(), "{name}: cargo {} failed{hint}", args.join(" "));
        println!("== {name}: passed in {} s", begun.elapsed().as_secs());
    }
    let begun = Instant::now();
    println!("== instructions: cargo xtask instructions");
    crate::instructions::gate(root)?;
    println!("== instructions: ended after {} s", begun.elapsed().as_secs());
    run_tests(root)
}

/// The tests, with the counts of all their binaries added up.
fn run_tests(root: &Path) -> anyhow::Result<()> {
    let begun = announce("tests", TESTS);
    let mut child = cargo(root, TESTS).stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("the tests have no output")?;
    let mut sum = Counts::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        sum.add(&line);
    }
    let status = child.wait()?;
    println!("== tests: ended after {} s", begun.elapsed().as_secs());
    println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.ignored);
    ensure!(status.success(), "tests: cargo {} failed", TESTS.join(" "));
    ensure!(sum.passed > 0, "tests: not one test ran");
    Ok(())
}

fn announce(name: &str, args: &[&str]) -> Instant {
    println!("== {name}: cargo {}", args.join(" "));
    Instant::now()
}

fn cargo(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(args).current_dir(root);
    command
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// Adds a line like `test result: ok. 21 passed; 1 failed; 0 ignored; …`; others count nothing.
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|l| l.split_once(". ")) else {
            return;
        };
        for count in counts.split("; ") {
            match count.split_once(' ').map(|(n, what)| (n.parse::<u64>(), what)) {
                Some((Ok(n), "passed")) => self.passed += n,
                Some((Ok(n), "failed")) => self.failed += n,
                Some((Ok(n), "ignored")) => self.ignored += n,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_several_binaries_add_up() {
        let mut sum = Counts::default();
        for line in [
            "running 22 tests",
            "test result: FAILED. 21 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.15s",
            "test 5 passed; 6 failed ... ok",
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 1.00s",
        ] {
            sum.add(line);
        }
        assert_eq!(sum, Counts { passed: 25, failed: 1, ignored: 3 });
    }
}
