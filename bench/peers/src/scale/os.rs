//! What is asked of the system.

use crate::locker::R;
use std::io;

/// Makes sure that this process may have so many files open.
pub fn want_files(n: usize) -> R<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a `rlimit` that lives during the call, which writes nothing else.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    let n = n as libc::rlim_t;
    if limit.rlim_cur >= n {
        return Ok(());
    }
    let most = limit.rlim_max;
    if most < n {
        return Err(
            format!("wants {n} open files, and the hard limit is {most}: raise it (ulimit -Hn)").into()
        );
    }
    limit.rlim_cur = n;
    // SAFETY: the pointer is to a `rlimit` that lives during the call, which only reads it.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    Ok(())
}

/// Lets this thread run before all ordinary ones, so that it does not measure the generator's own load. Whether the
/// system allows that.
pub fn go_first() -> bool {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a `sched_param` that lives during the call, which only reads it; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) == 0 }
}

/// Stops a process until [`go_on`].
pub fn stop(pid: i32) -> io::Result<()> {
    signal(pid, libc::SIGSTOP)
}

pub fn go_on(pid: i32) -> io::Result<()> {
    signal(pid, libc::SIGCONT)
}

fn signal(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: this call takes no pointer.
    if unsafe { libc::kill(pid, signal) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
