//! What the journal adds to a pair, on a disk that takes everything and keeps nothing.

use std::io;
use std::sync::Arc;

use lockstead_journal::{AppendFile, Journal, Manual, Mode, OpenOptions, Storage};

use crate::{Case, OPERATIONS, Work, keys};

/// When everything happens, and when its leases end.
pub(crate) const NOW_MS: u64 = 1_000_000;
const ENDS_MS: u64 = NOW_MS + 30_001;

pub(crate) fn cases() -> Vec<Case> {
    let pairs =
        |name, per_turn| Case::new(name, move || Pairs { journal: open(ENDS_MS), keys: keys(64), per_turn });
    // A turn ends with a batch: the first shares it among many pairs, the second has one for each.
    vec![pairs("journal/pair/32-a-turn", 32), pairs("journal/pair/1-a-turn", 1)]
}

/// A journal in mode `process` without a job to do, that knows of leases up to `ends_ms` and keeps its buffers.
///
/// # Panics
/// If that cannot be, which would be a fault of the journal.
pub(crate) fn open(ends_ms: u64) -> Journal {
    let storage: Arc<dyn Storage> = Arc::new(Null);
    let manual = Manual::new(Arc::clone(&storage));
    let options = OpenOptions::new(Mode::Process, NOW_MS, 1, [7; 16]);
    let opened = Journal::open_with(storage, &options, Box::new(manual.clone()));
    let mut journal = opened.expect("an empty directory can be opened").journal;
    for _ in 0..2 {
        journal.turn(NOW_MS);
        for (i, key) in keys(64).iter().enumerate() {
            journal.granted(key, i as u64 + 1, ends_ms);
            journal.freed(key, i as u64 + 1);
        }
        journal.flush();
        while manual.step() {
            journal.turn(NOW_MS);
            journal.flush();
        }
    }
    assert_eq!(journal.reached(), journal.position(), "everything is as safe as it is to be");
    journal
}

/// A grant and its end, as records.
struct Pairs {
    journal: Journal,
    keys: Vec<String>,
    per_turn: usize,
}

impl Work for Pairs {
    fn prepare(&mut self) {
        // A new one each time, or it would come to its next checkpoint, which is no part of a pair.
        self.journal = open(ENDS_MS);
    }

    fn run(&mut self) -> usize {
        let before = self.journal.reached().0;
        for first in (0..OPERATIONS).step_by(self.per_turn) {
            self.journal.turn(NOW_MS);
            for i in first..OPERATIONS.min(first + self.per_turn) {
                let key = &self.keys[i % self.keys.len()];
                self.journal.granted(key, i as u64 + 1_000, ENDS_MS);
                self.journal.freed(key, i as u64 + 1_000);
            }
            self.journal.flush();
        }
        (self.journal.reached().0 - before) as usize / 2
    }
}

/// Takes everything and keeps nothing.
struct Null;

impl Storage for Null {
    fn lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn is_taken(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn is_volatile(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn read(&self, _: &str) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn AppendFile>> {
        Ok(Arc::new(Null))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn unlink(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

impl AppendFile for Null {
    fn append(&self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
