//! Keeps the few decisions of a lock server that must survive: granted, extended, freed.
//!
//! The journal knows no locks. It takes decisions and says how far they are safe; at a start it tells which leases
//! are live, whether and how long the server must recover, and from where tokens go on. The bytes on disk are
//! described in docs/journal-format.md, what the modes promise in docs/guarantees.md.
//!
//! ```
//! use std::sync::{Arc, mpsc};
//! use lockstead_journal::{Disk, Journal, MemoryStorage, Mode, OpenOptions, Storage};
//!
//! // A server uses `FileStorage`, CLOCK_BOOTTIME, the wall clock, random bytes and its boot identity.
//! let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(Disk::default()));
//! let options = OpenOptions::new(Mode::Machine, 5_000, 1_764_512_345_678_901, [7; 16]);
//! let (wake, woken) = mpsc::channel();
//! let mut opened = Journal::open(storage, &options, move || wake.send(()).unwrap_or(()))?;
//! assert!(opened.leases.is_empty() && opened.recovery_ends_ms.is_none());
//! let journal = &mut opened.journal;
//! let tokens = journal.take_tokens(options.wall_us).expect("the start has reserved a block");
//!
//! journal.turn(5_010);
//! let position = journal.granted("jobs/nightly", tokens.first, 5_010 + 30_001);
//! journal.flush();
//! while journal.reached() < position {
//!     woken.recv().expect("the journal wakes its server after each job");
//!     journal.turn(5_011);
//!     journal.flush();
//! }
//! // Now the grant may be answered.
//! opened.journal.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - `journal`: what a server calls; `core`: what it decides, without a thread or a file; `job`, `executor`: what is
//!   done to the disk and on which thread.
//! - `open`, `replay`, `checkpoint`: the start.
//! - `record`, `batch`, `segment`, `bytes`: the format.
//! - `storage`: the one door to the disk, with `file_storage` and `memory_storage` behind it.
//! - `repair`, `dump`: what operators call.

mod batch;
mod boot;
mod bytes;
mod canary;
mod checkpoint;
mod core;
mod dump;
mod executor;
mod file_storage;
mod job;
mod journal;
mod memory_storage;
mod open;
mod record;
mod repair;
mod replay;
mod segment;
mod storage;
mod tokens;

#[cfg(test)]
mod tests;

pub use self::boot::BootIdentity;
pub use self::core::{Change, Position};
pub use self::dump::{DumpError, dump};
pub use self::executor::{Executor, Manual, Threaded};
pub use self::file_storage::FileStorage;
pub use self::job::{Done, Job};
pub use self::journal::Journal;
pub use self::memory_storage::{Disk, Fault, MemoryStorage, Op};
pub use self::open::{Lease, OpenError, OpenOptions, Opened, Warning};
pub use self::record::Mode;
pub use self::repair::{Cut, RepairError, Report, cut, mark_restored, report};
pub use self::storage::{AppendFile, Storage};
pub use self::tokens::TokenBlock;
