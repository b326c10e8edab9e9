//! Waiting for one of several descriptors.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Instant;

/// Waits until one of `fds` can be read (or is broken), or the deadline has passed; says which are ready.
pub(super) fn wait_readable(fds: &[BorrowedFd<'_>], deadline: Instant) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout =
        libc::timespec { tv_sec: left.as_secs() as libc::time_t, tv_nsec: left.subsec_nanos().into() };
    let count = polled.len() as libc::nfds_t;
    // SAFETY: `polled` has `count` entries and it and `timeout` are valid for the whole call; no signal mask.
    let result = unsafe { libc::ppoll(polled.as_mut_ptr(), count, &timeout, std::ptr::null()) };
    if result < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(polled.iter().map(|fd| fd.revents != 0).collect())
}
