//! A directory on a real disk.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};

use crate::storage::{AppendFile, Storage};

const LOCK: &str = "lock";
/// What statfs(2) calls file systems that live in memory.
const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;
/// What a sync finds reserved ahead of what is written, at least, …
const RESERVE: u64 = 2 << 20;
/// … and how much more is reserved, so that not each sync has to.
const RESERVE_MORE: u64 = 512 << 10;
/// No page of memory is larger than this.
const PAGE: u64 = 64 << 10;

/// A directory of the file system.
#[derive(Debug)]
pub struct FileStorage {
    path: PathBuf,
    /// Open while the directory is ours; closing it unlocks.
    locked: Mutex<Option<File>>,
}

impl FileStorage {
    /// The directory at `path`; it is made if it is not there, for its owner alone.
    ///
    /// # Errors
    /// If it is no directory or cannot be made.
    pub fn open(path: &Path) -> io::Result<Self> {
        let missing: Vec<&Path> =
            path.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        // The directory's own name must survive like all that is in it.
        for made in missing {
            sync_parent(made)?;
        }
        let storage = Self::open_existing(path)?;
        match sync_parent(path) {
            // Whoever may not read the parent did not make the directory either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            result => result?,
        }
        Ok(storage)
    }

    /// The directory at `path`, which must be there: for those who look at a journal, and for a server that requires
    /// one.
    ///
    /// # Errors
    /// If it is not, or is no directory.
    pub fn open_existing(path: &Path) -> io::Result<Self> {
        if !std::fs::metadata(path)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { path: path.to_owned(), locked: Mutex::new(None) })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        None => Ok(()),
        Some(parent) if parent.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(parent) => File::open(parent)?.sync_all(),
    }
}

impl Storage for FileStorage {
    fn lock(&self) -> io::Result<bool> {
        let mut options = OpenOptions::new();
        let path = self.file(LOCK);
        let file = match options.create(true).truncate(false).write(true).mode(0o600).open(&path) {
            // Nothing is ever written to it, so whoever serves from what has become read-only can lock it all the same.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => File::open(&path)?,
            result => result?,
        };
        match file.try_lock() {
            Ok(()) => {
                *self.locked.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
                Ok(true)
            }
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn is_taken(&self) -> io::Result<bool> {
        let file = match File::open(self.file(LOCK)) {
            Ok(file) => file,
            // Whoever takes the directory makes the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        // A shared lock, so that two who look do not see each other; given back at once, with the file.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn is_volatile(&self) -> io::Result<bool> {
        let stat = rustix::fs::statfs(&self.path)?;
        Ok([TMPFS, RAMFS].contains(&stat.f_type))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A name that is no text is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.file(name))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn AppendFile>> {
        let mut options = OpenOptions::new();
        let file = options.create_new(true).append(true).mode(0o600).open(self.file(name))?;
        let [written, reserved, synced] = [const { AtomicU64::new(0) }; 3];
        Ok(Arc::new(RealFile { file, written, reserved, synced }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.file(from), self.file(to))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.file(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// A file, and how far it has come.
///
/// A sync finds places on the disk for what was written since the last one, and on some file systems (ext4) a write of
/// new bytes waits meanwhile, for up to a tenth of a second. Bytes that have their place already do not wait, so
/// before a sync places are reserved for what may be written while it runs. The length of the file stays what was
/// written.
struct RealFile {
    file: File,
    written: AtomicU64,
    reserved: AtomicU64,
    synced: AtomicU64,
}

impl AppendFile for RealFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Where it fails, writes may have to wait, and are as safe as before.
    fn expect_appends(&self) {
        let written = self.written.load(Ordering::Relaxed);
        if written + RESERVE <= self.reserved.load(Ordering::Relaxed) {
            return;
        }
        let ahead = RESERVE + RESERVE_MORE;
        let reserved = match fallocate(&self.file, FallocateFlags::KEEP_SIZE, written, ahead) {
            Ok(()) => written + ahead,
            Err(_) => u64::MAX,
        };
        self.reserved.store(reserved, Ordering::Relaxed);
    }

    fn expect_no_reads(&self) {
        // Not the page that the next append goes into: the system would write it at once, and the append wait for that.
        let synced = self.synced.load(Ordering::Relaxed) / PAGE * PAGE;
        if let Some(length) = NonZeroU64::new(synced) {
            // Where it fails, the system keeps them.
            let _ = fadvise(&self.file, 0, Some(length), Advice::DontNeed);
        }
    }

    fn sync(&self) -> io::Result<()> {
        let written = self.written.load(Ordering::Relaxed);
        self.file.sync_data()?;
        self.synced.store(written, Ordering::Relaxed);
        Ok(())
    }
}
