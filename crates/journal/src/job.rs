//! What is done to the disk away from the engine's thread.

use std::io;
use std::sync::Arc;

use crate::storage::{AppendFile, Storage};

/// A file that is appended to.
pub(crate) type SharedFile = Arc<dyn AppendFile>;

/// A piece of work on the disk, made by the journal; [`Job::run`] does it and may block.
pub struct Job(pub(crate) Work);

/// How a [`Job`] ended.
pub struct Done(pub(crate) Outcome);

pub(crate) enum Work {
    /// Append a batch and sync it.
    Write {
        file: SharedFile,
        batch: Vec<u8>,
    },
    /// Append a batch of copies and sync it. Nobody reads it before the next start.
    Copies {
        file: SharedFile,
        batch: Vec<u8>,
    },
    Sync {
        files: Vec<SharedFile>,
    },
    /// Make a segment that begins with these bytes; with a name, sync it and give it that.
    Create {
        new: String,
        name: Option<String>,
        begin: Vec<u8>,
    },
    /// Sync a segment and give it its name.
    Publish {
        file: SharedFile,
        new: String,
        name: String,
    },
    Unlink {
        names: Vec<String>,
    },
}

pub(crate) enum Outcome {
    /// The buffer comes back to be used again.
    Write {
        buffer: Vec<u8>,
        result: io::Result<()>,
    },
    Sync(io::Result<()>),
    Create(Result<SharedFile, NotCreated>),
    Publish(io::Result<()>),
    Unlink(Left),
}

/// Files that could not be taken out of the directory.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) names: Vec<String>,
    /// Why not, for the last of them.
    pub(crate) error: Option<io::Error>,
}

/// Why a segment could not be made.
pub(crate) struct NotCreated {
    pub(crate) error: io::Error,
    /// A file of it may be left. On a disk that refuses new files none is: else each try would add to the names to
    /// unlink, and such a disk unlinks nothing either.
    pub(crate) is_left: bool,
}

impl Job {
    /// Does the work.
    #[must_use = "the journal must hear of it"]
    pub fn run(self, storage: &dyn Storage) -> Done {
        Done(match self.0 {
            Work::Write { file, batch } => {
                let result = file.append(&batch).and_then(|()| file.sync());
                Outcome::Write { buffer: batch, result }
            }
            Work::Copies { file, batch } => {
                let result = file.append(&batch).and_then(|()| sync_and_forget(&file));
                Outcome::Write { buffer: batch, result }
            }
            Work::Sync { files } => Outcome::Sync(files.iter().try_for_each(|file| {
                file.expect_appends();
                sync_and_forget(file)
            })),
            Work::Create { new, name, begin } => {
                Outcome::Create(create(storage, &new, name.as_deref(), &begin))
            }
            Work::Publish { file, new, name } => Outcome::Publish(publish(storage, &file, &new, &name)),
            Work::Unlink { names } => Outcome::Unlink(unlink_all(storage, names)),
        })
    }
}

/// Syncs a file that nobody reads soon; one that is not in memory is also deleted sooner. After a failure what is in memory
/// may be all that is left of it, and the next process on this boot reads that.
fn sync_and_forget(file: &SharedFile) -> io::Result<()> {
    file.sync()?;
    file.expect_no_reads();
    Ok(())
}

fn create(
    storage: &dyn Storage,
    new: &str,
    name: Option<&str>,
    begin: &[u8],
) -> Result<SharedFile, NotCreated> {
    let file = storage.create(new).map_err(|error| NotCreated { error, is_left: false })?;
    let begun = file.append(begin).and_then(|()| match name {
        Some(name) => publish(storage, &file, new, name),
        None => Ok(()),
    });
    begun.map(|()| file).map_err(|error| NotCreated { error, is_left: true })
}

/// Makes a segment part of the directory: its content first, then its name.
///
/// Before that the names that are there: an earlier process may have deleted a segment whose number is used again, or a
/// greater one, and a power loss must not bring that back behind this one.
pub(crate) fn publish(storage: &dyn Storage, file: &SharedFile, new: &str, name: &str) -> io::Result<()> {
    file.sync()?;
    storage.sync_directory()?;
    storage.rename(new, name)?;
    storage.sync_directory()
}

/// Takes files out of the directory; gives back those for which that failed.
pub(crate) fn unlink_all(storage: &dyn Storage, names: Vec<String>) -> Left {
    let mut left = Left::default();
    for name in names {
        if let Err(error) = storage.unlink(&name)
            && error.kind() != io::ErrorKind::NotFound
        {
            left.names.push(name);
            left.error = Some(error);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::memory_storage::{Disk, MemoryStorage};

    struct File {
        works: bool,
        is_forgotten: AtomicBool,
    }

    impl AppendFile for File {
        fn append(&self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn expect_no_reads(&self) {
            self.is_forgotten.store(true, Ordering::Relaxed);
        }

        fn sync(&self) -> io::Result<()> {
            if self.works { Ok(()) } else { Err(io::Error::other("the disk")) }
        }
    }

    /// What the kernel could not write may still be in memory, where the next process finds it.
    #[test]
    fn what_could_not_be_synced_is_kept_in_memory() {
        let storage = MemoryStorage::new(Disk::default());
        for works in [true, false] {
            let file = Arc::new(File { works, is_forgotten: AtomicBool::new(false) });
            let shared = || Arc::clone(&file) as SharedFile;
            let sync = Job(Work::Sync { files: vec![shared()] }).run(&storage);
            assert!(matches!(sync.0, Outcome::Sync(result) if result.is_ok() == works));
            let copies = Job(Work::Copies { file: shared(), batch: Vec::new() }).run(&storage);
            assert!(matches!(copies.0, Outcome::Write { result, .. } if result.is_ok() == works));
            assert_eq!(file.is_forgotten.load(Ordering::Relaxed), works);
        }
    }
}
