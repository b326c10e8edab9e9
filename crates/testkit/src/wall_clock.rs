//! Moves the wall clock of a running server, and nothing else of it.
//!
//! A small library (`examples/wall_clock_shift.rs`) is loaded into the server by LD_PRELOAD. It answers
//! `clock_gettime(CLOCK_REALTIME)` with the true time plus an offset, which it reads from a file at each
//! call, so a test can make the wall clock jump at any moment.

use crate::preload;
use std::fs;
use std::path::{Path, PathBuf};

/// The environment variable that tells the library which file has the offset.
pub const OFFSET_FILE: &str = "WALL_CLOCK_SHIFT_FILE";

/// A wall clock that a test moves.
#[derive(Debug)]
pub struct WallClock {
    shim: PathBuf,
    offset: PathBuf,
}

impl WallClock {
    /// A clock that still shows the true time; its offset is kept in a file in `dir`.
    ///
    /// # Panics
    /// When the library cannot be found or built.
    pub fn new(dir: &Path) -> Self {
        let clock =
            Self { shim: preload::library("wall_clock_shift"), offset: dir.join("wall_clock_offset") };
        clock.set_offset_s(0);
        clock
    }

    /// The environment that a server must be started with.
    pub fn env(&self) -> [(&'static str, &Path); 2] {
        [(preload::VARIABLE, &self.shim), (OFFSET_FILE, &self.offset)]
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
