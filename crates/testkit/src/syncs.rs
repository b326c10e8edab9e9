//! Holds a server's syncs back, or lets them fail, and counts them; nothing else of it changes.
//!
//! A small library (`examples/sync_faults.rs`) is loaded into the server by LD_PRELOAD. It stands before fsync(2) and
//! fdatasync(2) and looks for files that a test makes and removes.

use crate::preload;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// While this file is there, no sync begins.
pub const HOLD_FILE: &str = "SYNC_HOLD_FILE";
/// While this file is there, each sync fails with an I/O error, and nothing is synced.
pub const FAIL_FILE: &str = "SYNC_FAIL_FILE";
/// Gets one byte for each sync that was asked for.
pub const COUNT_FILE: &str = "SYNC_COUNT_FILE";

/// Syncs that a test controls. At first they work.
#[derive(Debug)]
pub struct Syncs {
    shim: PathBuf,
    hold: PathBuf,
    fail: PathBuf,
    count: PathBuf,
}

impl Syncs {
    /// Keeps its files in `dir`.
    ///
    /// # Panics
    /// When the library cannot be found or built.
    pub fn new(dir: &Path) -> Self {
        Self {
            shim: preload::library("sync_faults"),
            hold: dir.join("hold"),
            fail: dir.join("fail"),
            count: dir.join("count"),
        }
    }

    /// The environment that a server must be started with.
    pub fn env(&self) -> [(&'static str, &Path); 4] {
        [
            (preload::VARIABLE, &self.shim),
            (HOLD_FILE, &self.hold),
            (FAIL_FILE, &self.fail),
            (COUNT_FILE, &self.count),
        ]
    }

    /// From now on every sync waits.
    ///
    /// # Panics
    /// When the file cannot be made.
    pub fn hold(&self) {
        fs::write(&self.hold, "").expect("a file can be made");
    }

    /// From now on every sync fails.
    ///
    /// # Panics
    /// When the file cannot be made.
    pub fn fail(&self) {
        fs::write(&self.fail, "").expect("a file can be made");
    }

    /// From now on syncs work, those that waited too.
    ///
    /// # Panics
    /// When a file cannot be removed.
    pub fn work(&self) {
        for file in [&self.fail, &self.hold] {
            match fs::remove_file(file) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => panic!("{}: {error}", file.display()),
            }
        }
    }

    /// How many syncs were asked for so far.
    pub fn count(&self) -> u64 {
        fs::metadata(&self.count).map_or(0, |meta| meta.len())
    }
}
