//! `cargo xtask instructions`: how many instructions each case of bench/micro takes, against the record.
//!
//! Valgrind's callgrind counts them one by one, so a busy machine changes nothing: the same program gives the same
//! number. It is run here directly, without a harness crate; bench/micro/README.md says why.

mod compare;
mod record;

use anyhow::{Context as _, bail, ensure};
use compare::compare;
use record::{Counts, Record};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// From the workspace's root.
const RECORD: &str = "bench/micro/instructions.toml";
const PACKAGE: &str = "lockstead-micro";
/// Counting is on between the entry of this function and its end, so that making a case ready is left out.
const MEASURED: &str = "--toggle-collect=lockstead_micro::measured*";

/// Counts and compares, if valgrind is there; says so in one line if not.
pub fn gate(root: &Path) -> anyhow::Result<()> {
    match has_valgrind()? {
        true => check(root),
        false => {
            println!(
                "!! instructions: NOT COUNTED, as there is no valgrind here; a slower request goes unseen"
            );
            Ok(())
        }
    }
}

/// Counts and compares with the record.
///
/// # Errors
/// If the counts are not as recorded, give or take the tolerance, and the toolchain is that of the record.
pub fn check(root: &Path) -> anyhow::Result<()> {
    let recorded = read(root)?;
    let made_with = toolchain()?;
    let differences = compare(&recorded.counts, &count(root)?);
    println!("{} cases counted with {made_with}", recorded.counts.len());
    differences.iter().for_each(|difference| println!("{difference}"));
    if recorded.made_with != made_with {
        println!("the record is of {}: what differs from it is shown and does not fail", recorded.made_with);
        return Ok(());
    }
    let failures = differences.iter().filter(|difference| difference.is_failure()).count();
    ensure!(
        failures == 0,
        "instructions: {failures} case(s) are not as recorded in {RECORD}; if the change is worth it, move the \
         record in the same commit: cargo xtask instructions record \"<why>\""
    );
    Ok(())
}

/// Counts, and writes what has moved into the record with the reason.
///
/// # Errors
/// If something cannot be run, read or written, or `why` says nothing.
pub fn move_record(root: &Path, why: &str) -> anyhow::Result<()> {
    let made_with = toolchain()?;
    let old = fs::exists(root.join(RECORD))?.then(|| read(root)).transpose()?;
    let record = Record::moved(old.as_ref(), why, &made_with, &count(root)?)?;
    fs::write(root.join(RECORD), record.to_text()).with_context(|| format!("cannot write {RECORD}"))?;
    println!("{RECORD} has {} cases now; look at `git diff {RECORD}`", record.counts.len());
    Ok(())
}

fn read(root: &Path) -> anyhow::Result<Record> {
    let text = fs::read_to_string(root.join(RECORD)).with_context(|| format!("cannot read {RECORD}"))?;
    Record::parse(&text).with_context(|| format!("{RECORD} is no record"))
}

fn has_valgrind() -> anyhow::Result<bool> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) => Ok(output.status.success()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).context("cannot start valgrind"),
    }
}

/// The instructions of each case.
fn count(root: &Path) -> anyhow::Result<Counts> {
    ensure!(has_valgrind()?, "there is no valgrind here; install it (apt-get install valgrind)");
    let program = build(root)?;
    let names = output(&mut Command::new(&program))?;
    names.lines().map(|name| Ok((name.to_owned(), count_case(&program, name)?))).collect()
}

fn count_case(program: &Path, name: &str) -> anyhow::Result<u64> {
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", MEASURED])
        .args([program.as_os_str(), name.as_ref()])
        .output()
        .context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "the case {name} failed under valgrind:\n{said}");
    match collected(&said) {
        Some(count) if count > 0 => Ok(count),
        _ => {
            bail!("valgrind counted nothing in the case {name}; is there a function like {MEASURED}?\n{said}")
        }
    }
}

/// The number in a line like `==17== Collected : 2450029`.
fn collected(said: &str) -> Option<u64> {
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}

/// Builds the program that does the cases, as a release is built.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--release", "--package", PACKAGE, "--bin", PACKAGE]);
    cargo.args(["--message-format", "json-render-diagnostics"]).current_dir(root);
    let messages = output(cargo.stderr(std::process::Stdio::inherit()))?;
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    messages.lines().find_map(executable).with_context(|| format!("cargo built no program of {PACKAGE}"))
}

/// What the counts depend on besides our code: the compiler, the machine and the C library.
fn toolchain() -> anyhow::Result<String> {
    let rustc = output(Command::new("rustc").arg("--version"))?;
    let libc = output(Command::new("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_default();
    Ok(format!("{}, {}, {}", rustc.trim(), std::env::consts::ARCH, libc.trim()))
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let out = command.output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(out.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&out.stderr));
    Ok(String::from_utf8(out.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_valgrind_says() {
        let said =
            "==17== Events    : Ir\n==17== Collected : 2450029\n==17== \n==17== I   refs:      2,450,029\n";
        assert_eq!(collected(said), Some(2_450_029));
        assert_eq!(collected("==17== Events    : Ir\n"), None);
    }
}
