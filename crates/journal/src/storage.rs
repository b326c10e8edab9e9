//! The one door to the disk. Everything that the journal does to a directory goes through these few calls, so a test
//! can stand in for the disk and lose, reorder or refuse what it likes.

use std::io;
use std::sync::Arc;

/// A directory of files that only grow. All names are plain file names in it.
pub trait Storage: Send + Sync {
    /// Takes the directory for this process, until the storage is dropped. `false`: another process has it.
    ///
    /// # Errors
    /// If the system refuses for any other reason.
    fn lock(&self) -> io::Result<bool>;

    /// Whether a process has taken the directory. Changes nothing in it and keeps nobody out.
    ///
    /// # Errors
    /// If the system does not tell.
    fn is_taken(&self) -> io::Result<bool>;

    /// Whether the directory is lost with the machine's memory.
    ///
    /// # Errors
    /// If the system does not tell.
    fn is_volatile(&self) -> io::Result<bool>;

    /// The names of all files, in any order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn list(&self) -> io::Result<Vec<String>>;

    /// The whole content of a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Makes a new, empty file to append to. Its name is safe only after [`Storage::sync_directory`].
    ///
    /// # Errors
    /// If there is a file of this name already, or none can be made.
    fn create(&self, name: &str) -> io::Result<Arc<dyn AppendFile>>;

    /// Gives a file another name, in one step. Safe only after [`Storage::sync_directory`].
    ///
    /// # Errors
    /// If there is no such file, or the system refuses.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a file out of the directory. Safe only after [`Storage::sync_directory`].
    ///
    /// # Errors
    /// If there is no such file, or the system refuses.
    fn unlink(&self, name: &str) -> io::Result<()>;

    /// Puts all names on stable storage.
    ///
    /// # Errors
    /// If that failed; then any of them may be lost.
    fn sync_directory(&self) -> io::Result<()>;
}

/// A file that is open for appending.
pub trait AppendFile: Send + Sync {
    /// Writes all bytes behind what is there.
    ///
    /// # Errors
    /// If that failed; then a part of the bytes may be there.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes ready for a sync during which more is appended, so that this does not wait for that. Only advice: there
    /// need not be anything to do.
    fn expect_appends(&self) {}

    /// What is synced need not be kept in memory. Only advice.
    fn expect_no_reads(&self) {}

    /// Puts everything that was appended before the call on stable storage.
    ///
    /// # Errors
    /// If that failed; then any part of what was appended since the last success may be lost, for ever.
    fn sync(&self) -> io::Result<()>;
}
