//! Libraries for LD_PRELOAD, which lie in `examples`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable by which the dynamic linker is told to load one.
pub const VARIABLE: &str = "LD_PRELOAD";

/// The library of this name, beside the running test program. `cargo test --workspace` has built it; for a test run
/// of one package it is built here.
///
/// # Panics
/// When it cannot be built.
pub fn library(name: &str) -> PathBuf {
    let program = env::current_exe().expect("a running program has a path");
    // <target>/<profile>/deps/<test program>
    let profile = program.parent().and_then(Path::parent).expect("a test program lies in a target directory");
    let library = profile.join("examples").join(format!("lib{name}.so"));
    if !library.exists() {
        build(name, profile);
    }
    assert!(library.exists(), "{} was not built", library.display());
    library
}

fn build(name: &str, profile: &Path) {
    let target = profile.parent().expect("a profile directory lies in a target directory");
    let directory = profile.file_name().expect("a profile directory has a name");
    let profile = if directory == "debug" { "dev".as_ref() } else { directory };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--offline", "--package", "lockstead-testkit", "--example", name])
        .arg("--profile")
        .arg(profile)
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    let status = status.unwrap_or_else(|error| panic!("cargo build of {name}: {error}"));
    assert!(status.success(), "cargo build of {name}: {status}");
}
