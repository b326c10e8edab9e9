//! A disk in memory that keeps nothing it did not promise: for tests and simulations.
//!
//! What was not synced is lost or kept in pieces when the machine stops: of a file any length and any pages of it, of
//! the directory each new name, rename and unlink for itself. Calls fail when told to, a failed write leaves a part
//! of its bytes, and what a failed sync was to keep is never safe again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::storage::{AppendFile, Storage};

/// Something that was done to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new file, by its number.
    Create {
        /// Its name.
        name: String,
        /// Its number.
        file: usize,
    },
    /// Bytes behind a file, as many as were written.
    Append {
        /// The file's number.
        file: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Everything in the file is safe.
    Sync {
        /// The file's number.
        file: usize,
    },
    /// What was not safe yet never will be.
    FailedSync {
        /// The file's number.
        file: usize,
    },
    /// Another name.
    Rename {
        /// The old one.
        from: String,
        /// The new one.
        to: String,
    },
    /// No name any more.
    Unlink {
        /// The old one.
        name: String,
    },
    /// All names are safe.
    SyncDirectory,
}

/// A call that can be told to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// [`AppendFile::append`], after half of the bytes.
    Append,
    /// [`AppendFile::sync`].
    Sync,
    /// [`Storage::create`].
    Create,
    /// [`Storage::rename`].
    Rename,
    /// [`Storage::unlink`].
    Unlink,
    /// [`Storage::sync_directory`].
    SyncDirectory,
    /// [`Storage::read`].
    Read,
}

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    /// So many bytes are safe, but for those that a failed sync lost.
    safe: usize,
    lost: Vec<Range<usize>>,
}

/// A change of the names that is not safe yet.
#[derive(Clone, Debug)]
enum NameChange {
    Add(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

/// The state of a disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    safe_names: BTreeMap<String, usize>,
    unsafe_changes: Vec<NameChange>,
}

impl Disk {
    /// Does to the disk what was done to another one before.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { name, file } => {
                self.files.resize_with(self.files.len().max(file + 1), File::default);
                self.names.insert(name.clone(), *file);
                self.unsafe_changes.push(NameChange::Add(name.clone(), *file));
            }
            Op::Append { file, bytes } => self.files[*file].bytes.extend_from_slice(bytes),
            Op::Sync { file } => self.files[*file].safe = self.files[*file].bytes.len(),
            Op::FailedSync { file } => {
                let file = &mut self.files[*file];
                file.lost.push(file.safe..file.bytes.len());
                file.safe = file.bytes.len();
            }
            Op::Rename { from, to } => {
                let file = self.names.remove(from).expect("the rename worked");
                self.names.insert(to.clone(), file);
                self.unsafe_changes.push(NameChange::Rename(from.clone(), to.clone(), file));
            }
            Op::Unlink { name } => {
                self.names.remove(name);
                self.unsafe_changes.push(NameChange::Remove(name.clone()));
            }
            Op::SyncDirectory => {
                self.safe_names = self.names.clone();
                self.unsafe_changes.clear();
            }
        }
    }

    /// What is left when the machine stops. `draw` gives random numbers; the same ones give the same disk.
    #[must_use]
    pub fn after_power_loss(&self, draw: &mut dyn FnMut() -> u64) -> Self {
        let mut names = self.safe_names.clone();
        for change in &self.unsafe_changes {
            if draw() & 1 == 0 {
                continue;
            }
            match change {
                NameChange::Add(name, file) => drop(names.insert(name.clone(), *file)),
                NameChange::Remove(name) => drop(names.remove(name)),
                NameChange::Rename(from, to, file) => {
                    names.remove(from);
                    names.insert(to.clone(), *file);
                }
            }
        }
        let kept: BTreeSet<usize> = names.values().copied().collect();
        let mut files = vec![File::default(); self.files.len()];
        for number in kept {
            files[number] = self.files[number].after_power_loss(draw);
        }
        Self { files, names: names.clone(), safe_names: names, unsafe_changes: Vec::new() }
    }

    /// The content of a file.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<&[u8]> {
        self.names.get(name).map(|&file| &self.files[file].bytes[..])
    }

    /// Puts a file there, safely, as if it had always been.
    pub fn put(&mut self, name: &str, bytes: Vec<u8>) {
        let file = File { safe: bytes.len(), bytes, lost: Vec::new() };
        self.files.push(file);
        self.names.insert(name.to_owned(), self.files.len() - 1);
        self.safe_names.insert(name.to_owned(), self.files.len() - 1);
    }

    /// The names of all files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// The size of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.names.values().map(|&file| self.files[file].bytes.len() as u64).sum()
    }
}

impl File {
    fn after_power_loss(&self, draw: &mut dyn FnMut() -> u64) -> Self {
        let mut bytes = self.bytes.clone();
        let not_safe = bytes.len() - self.safe;
        let kept = match draw() % 4 {
            0 => 0,
            1 => not_safe,
            _ => usize::try_from(draw() % (not_safe as u64 + 1)).expect("it is below a length"),
        };
        bytes.truncate(self.safe + kept);
        let mut gone = self.lost.clone();
        // Unsafe pages reach the disk in any order; the length may be ahead of them.
        if draw() & 1 == 0 {
            gone.push(self.safe..bytes.len());
        }
        let page = 1 << (4 + draw() % 9);
        for range in gone {
            lose_pages(&mut bytes, range, page, draw);
        }
        Self { safe: bytes.len(), bytes, lost: Vec::new() }
    }
}

/// Loses each page of the range or not: it reads as zeros, or as what was there before.
fn lose_pages(bytes: &mut [u8], range: Range<usize>, page: usize, draw: &mut dyn FnMut() -> u64) {
    let end = range.end.min(bytes.len());
    let mut start = range.start;
    while start < end {
        let stop = ((start / page + 1) * page).min(end);
        match draw() % 4 {
            0 => bytes[start..stop].fill(0),
            1 => {
                let (before, lost) = bytes.split_at_mut(start);
                let stale = before.len().saturating_sub(stop - start);
                let length = (before.len() - stale).min(stop - start);
                lost[..stop - start].fill(0);
                lost[..length].copy_from_slice(&before[stale..stale + length]);
            }
            _ => {}
        }
        start = stop;
    }
}

#[derive(Debug, Default)]
struct Inner {
    disk: Disk,
    log: Vec<Op>,
    /// Each call in here fails so many times.
    faults: BTreeMap<Fault, u32>,
    is_locked: bool,
    is_volatile: bool,
}

impl Inner {
    fn apply(&mut self, op: Op) {
        self.disk.apply(&op);
        self.log.push(op);
    }

    fn fails(&mut self, fault: Fault) -> io::Result<()> {
        match self.faults.get_mut(&fault) {
            Some(times) if *times > 0 => {
                *times -= 1;
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            _ => Ok(()),
        }
    }
}

/// A process's view of a disk in memory.
#[derive(Debug)]
pub struct MemoryStorage {
    inner: Arc<Mutex<Inner>>,
    has_lock: AtomicBool,
}

impl MemoryStorage {
    /// A view of a disk, by the first process that looks at it.
    #[must_use]
    pub fn new(disk: Disk) -> Self {
        let inner = Inner { disk, ..Inner::default() };
        Self { inner: Arc::new(Mutex::new(inner)), has_lock: AtomicBool::new(false) }
    }

    /// Another process's view of the same disk.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), has_lock: AtomicBool::new(false) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// The disk as it is now.
    #[must_use]
    pub fn disk(&self) -> Disk {
        self.inner().disk.clone()
    }

    /// The size of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inner().disk.bytes()
    }

    /// How much has been done to the disk.
    #[must_use]
    pub fn log_len(&self) -> usize {
        self.inner().log.len()
    }

    /// What has been done to the disk from the beginning.
    #[must_use]
    pub fn log(&self) -> Vec<Op> {
        self.inner().log.clone()
    }

    /// The next `times` calls of this kind fail.
    pub fn fail(&self, fault: Fault, times: u32) {
        self.inner().faults.insert(fault, times);
    }

    /// How many calls of this kind are still to fail.
    #[must_use]
    pub fn faults_left(&self, fault: Fault) -> u32 {
        self.inner().faults.get(&fault).copied().unwrap_or(0)
    }

    /// No call fails any more.
    pub fn heal(&self) {
        self.inner().faults.clear();
    }

    /// The directory is lost with the machine's memory.
    pub fn set_volatile(&self) {
        self.inner().is_volatile = true;
    }
}

impl Drop for MemoryStorage {
    fn drop(&mut self) {
        if self.has_lock.load(Ordering::Relaxed) {
            self.inner().is_locked = false;
        }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage for MemoryStorage {
    fn lock(&self) -> io::Result<bool> {
        let was_locked = std::mem::replace(&mut self.inner().is_locked, true);
        self.has_lock.fetch_or(!was_locked, Ordering::Relaxed);
        Ok(!was_locked)
    }

    fn is_taken(&self) -> io::Result<bool> {
        Ok(self.inner().is_locked)
    }

    fn is_volatile(&self) -> io::Result<bool> {
        Ok(self.inner().is_volatile)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.inner().disk.names.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut inner = self.inner();
        inner.fails(Fault::Read)?;
        inner.disk.content(name).map(<[u8]>::to_vec).ok_or_else(not_found)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn AppendFile>> {
        let mut inner = self.inner();
        inner.fails(Fault::Create)?;
        if inner.disk.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = inner.disk.files.len();
        inner.apply(Op::Create { name: name.to_owned(), file });
        Ok(Arc::new(MemoryFile { file, inner: Arc::clone(&self.inner) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.inner();
        inner.fails(Fault::Rename)?;
        if !inner.disk.names.contains_key(from) {
            return Err(not_found());
        }
        inner.apply(Op::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        let mut inner = self.inner();
        inner.fails(Fault::Unlink)?;
        if !inner.disk.names.contains_key(name) {
            return Err(not_found());
        }
        inner.apply(Op::Unlink { name: name.to_owned() });
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.fails(Fault::SyncDirectory)?;
        inner.apply(Op::SyncDirectory);
        Ok(())
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

#[derive(Debug)]
struct MemoryFile {
    file: usize,
    inner: Arc<Mutex<Inner>>,
}

impl AppendFile for MemoryFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut inner = lock(&self.inner);
        let result = inner.fails(Fault::Append);
        let kept = if result.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        inner.apply(Op::Append { file: self.file, bytes: kept.to_vec() });
        result
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = lock(&self.inner);
        let result = inner.fails(Fault::Sync);
        let file = self.file;
        inner.apply(if result.is_ok() { Op::Sync { file } } else { Op::FailedSync { file } });
        result
    }
}
