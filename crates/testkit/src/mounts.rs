//! File systems that only a test sees.

use crate::sys;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Gives the calling thread, and all threads and processes that it starts from now on, mounts of their own. What they
/// mount is gone when the last of them is.
///
/// # Errors
/// When this process may not do that.
pub fn make_private() -> io::Result<()> {
    sys::unshare_mounts()
}

/// Mounts a file system in memory over a directory, with room for so many bytes. The calling thread must have mounts
/// of its own ([`make_private`]).
///
/// # Errors
/// When this process may not do that.
pub fn mount_tmpfs(at: &Path, bytes: u64) -> io::Result<()> {
    let at = CString::new(at.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
    sys::mount_tmpfs(&at, bytes)
}

/// Lets nobody write to what [`mount_tmpfs`] has mounted any more.
///
/// # Errors
/// When somebody has a file there open for writing, or this process may not do that.
pub fn make_read_only(at: &Path) -> io::Result<()> {
    let at = CString::new(at.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
    sys::remount_read_only(&at)
}
