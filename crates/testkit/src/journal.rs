//! Reads the journal of a data directory, by docs/journal-format.md alone.
//!
//! It shares no code with what writes and reads a journal in the server, so a mistake that those two make together
//! does not hide here. It changes nothing, and it is meant for a directory that no server writes to at the time.

mod crc;
mod lines;
mod log;
mod record;
mod segment;

pub use log::{Log, Tenure};
pub use record::{ALONE, CONTINUING, Lease, MACHINE, PROCESS, Record, Run};
pub use segment::{BATCH_HEAD, Bad, Batch, HEAD, Segment, segment_number, set_stamp, set_version};

use std::fs;
use std::path::Path;

/// Every segment of a directory, oldest first.
///
/// # Errors
/// What makes a file no segment.
///
/// # Panics
/// When the directory cannot be read.
pub fn segments(dir: &Path) -> Result<Vec<Segment>, String> {
    let mut names = names(dir);
    names.retain(|name| segment_number(name).is_some());
    let parse = |name: &String| {
        let bytes = fs::read(dir.join(name)).unwrap_or_else(|error| panic!("read {name}: {error}"));
        Segment::parse(name, &bytes)
    };
    names.iter().map(parse).collect()
}

/// The log of a directory.
///
/// # Errors
/// What makes a file no segment, or that there is none.
///
/// # Panics
/// When the directory cannot be read.
pub fn log(dir: &Path) -> Result<Log, String> {
    Log::of(segments(dir)?).ok_or_else(|| format!("{}: there is no journal", dir.display()))
}

/// The names of all files in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("list {}: {error}", dir.display()));
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("a directory can be listed").file_name().into_string().expect("names are text here")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort_unstable();
    names
}
