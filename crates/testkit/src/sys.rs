//! The few system calls that the standard library does not offer.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Waits until `fd` is ready for `events` or the deadline has passed; true when it is ready (or broken).
pub fn wait_ready(fd: BorrowedFd<'_>, events: libc::c_short, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout =
            libc::timespec { tv_sec: left.as_secs() as libc::time_t, tv_nsec: left.subsec_nanos().into() };
        let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        // SAFETY: `polled` and `timeout` are valid for the whole call, one descriptor is passed, no signal
        // mask.
        let ready = unsafe { libc::ppoll(&mut polled, 1, &timeout, std::ptr::null()) };
        match ready {
            0 if Instant::now() >= deadline => return Ok(false),
            0 => {}
            1.. => return Ok(true),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Sends a signal to a process that this one has started and not yet waited for.
pub fn kill(pid: u32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: kill takes no pointers.
    check(unsafe { libc::kill(pid as libc::pid_t, signal) })
}

/// A descriptor that becomes readable when the process ends.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes a process id and flags, no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    check(fd as libc::c_int)?;
    // SAFETY: the call has succeeded, so `fd` is a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Waits until a child that was sent SIGSTOP has stopped. A child that has ended instead is not reaped.
pub fn wait_stopped(pid: u32) -> io::Result<()> {
    loop {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        let flags = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
        // SAFETY: `info` is valid for writing for the whole call.
        let result = unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), flags) };
        match check(result) {
            Ok(()) => {
                // SAFETY: waitid has filled it in (and it was zeroed before).
                let info = unsafe { info.assume_init() };
                if info.si_code == libc::CLD_STOPPED {
                    return Ok(());
                }
                return Err(io::Error::other(format!("the process ended instead (code {})", info.si_code)));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Lowers this process's own limit of open files; meant for a child before it becomes another program.
pub fn limit_open_files(limit: u64) -> io::Result<()> {
    let limits = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: `limits` is valid for the whole call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limits) })
}

/// Lowers the limit of open files of a running child.
pub fn limit_open_files_of(pid: u32, limit: u64) -> io::Result<()> {
    let limits = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: `limits` is valid for the whole call, and the old limits are not asked for.
    check(unsafe { libc::prlimit(pid as libc::pid_t, libc::RLIMIT_NOFILE, &limits, std::ptr::null_mut()) })
}

/// Limits how large the files of a running child, or of this process (0), may grow; none: as large as its hard limit allows.
pub fn limit_file_size_of(pid: u32, limit: Option<u64>) -> io::Result<()> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let pid = pid as libc::pid_t;
    // SAFETY: `limits` is valid for writing for the whole call, and no new limits are given.
    check(unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, std::ptr::null(), &mut limits) })?;
    limits.rlim_cur = limit.unwrap_or(limits.rlim_max);
    // SAFETY: `limits` is valid for the whole call, and the old limits are not asked for.
    check(unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &limits, std::ptr::null_mut()) })
}

/// Raises this process's soft limit of open files to its hard limit and returns it.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limits` is valid for writing for the whole call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limits) })?;
    limits.rlim_cur = limits.rlim_max;
    // SAFETY: `limits` is valid for the whole call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limits) })?;
    Ok(limits.rlim_cur)
}

/// Sets one socket option of level SOL_SOCKET.
pub fn set_socket_option<T>(fd: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for `length` bytes for the whole call.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, std::ptr::from_ref(value).cast(), length)
    })
}

/// CLOCK_BOOTTIME.
pub fn boottime() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing for the whole call.
    let read = check(unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) });
    read.expect("every Linux has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Gives the calling thread, and what it starts from now on, a table of mounts of its own, from which nothing gets out.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: unshare takes flags, no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(None, c"/", libc::MS_REC | libc::MS_PRIVATE, None)
}

/// Mounts a file system in memory, of at most so many bytes, for the calling thread's table of mounts.
pub fn mount_tmpfs(at: &CStr, bytes: u64) -> io::Result<()> {
    let options = CString::new(format!("size={bytes},mode=0700")).expect("there is no NUL in it");
    mount(Some(c"tmpfs"), at, 0, Some(&options))
}

/// Makes a file system that was mounted at this place read-only.
pub fn remount_read_only(at: &CStr) -> io::Result<()> {
    mount(None, at, libc::MS_REMOUNT | libc::MS_RDONLY, None)
}

fn mount(kind: Option<&CStr>, at: &CStr, flags: libc::c_ulong, options: Option<&CStr>) -> io::Result<()> {
    let or_null = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: all texts end in NUL and are valid for the whole call; the others are null, which mount allows.
    check(unsafe { libc::mount(or_null(kind), at.as_ptr(), or_null(kind), flags, or_null(options).cast()) })
}

/// Makes closing the socket send a reset at once.
pub fn reset_on_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_socket_option(fd, libc::SO_LINGER, &libc::linger { l_onoff: 1, l_linger: 0 })
}

/// A point `within` from now.
pub fn deadline(within: Duration) -> Instant {
    Instant::now() + within
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
