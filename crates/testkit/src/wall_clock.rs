//! Moves the wall clock of a running server, and nothing else of it.
//!
//! A small library (`examples/wall_clock_shift.rs`) is loaded into the server by LD_PRELOAD. It answers
//! `clock_gettime(CLOCK_REALTIME)` with the true time plus an offset, which it reads from a file at each
//! call, so a test can make the wall clock jump at any moment.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that tells the library which file has the offset.
pub const OFFSET_FILE: &str = "WALL_CLOCK_SHIFT_FILE";

const LIBRARY: &str = "libwall_clock_shift.so";

/// A wall clock that a test moves.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    offset: PathBuf,
}

impl WallClock {
    /// A clock that still shows the true time; its offset is kept in a file in `dir`.
    ///
    /// # Panics
    /// When the library cannot be found or built.
    pub fn new(dir: &Path) -> Self {
        let clock = Self { library: library(), offset: dir.join("wall_clock_offset") };
        clock.set_offset_s(0);
        clock
    }

    /// The environment that a server must be started with.
    pub fn env(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", &self.library), (OFFSET_FILE, &self.offset)]
    }

    /// From now on the wall clock shows the true time plus so many seconds.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn set_offset_s(&self, offset_s: i64) {
        // Renamed into place, so that the library never reads half a number.
        let fresh = self.offset.with_extension("new");
        fs::write(&fresh, offset_s.to_ne_bytes()).expect("the offset can be written");
        fs::rename(&fresh, &self.offset).expect("the offset can be put in place");
    }
}

/// The library beside the running test program. `cargo test --workspace` has built it; for a test run of one
/// package it is built here.
fn library() -> PathBuf {
    let program = env::current_exe().expect("a running program has a path");
    // <target>/<profile>/deps/<test program>
    let profile = program.parent().and_then(Path::parent).expect("a test program lies in a target directory");
    let library = profile.join("examples").join(LIBRARY);
    if !library.exists() {
        build(profile);
    }
    assert!(library.exists(), "{} was not built", library.display());
    library
}

fn build(profile: &Path) {
    let target = profile.parent().expect("a profile directory lies in a target directory");
    let name = profile.file_name().expect("a profile directory has a name");
    let name = if name == "debug" { "dev".as_ref() } else { name };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--offline",
            "--package",
            "lockstead-testkit",
            "--example",
            "wall_clock_shift",
        ])
        .arg("--profile")
        .arg(name)
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    let status = status.unwrap_or_else(|error| panic!("cargo build of {LIBRARY}: {error}"));
    assert!(status.success(), "cargo build of {LIBRARY}: {status}");
}
