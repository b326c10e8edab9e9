//! The few things about signals that only the C library offers.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use rustix::process::{Signal, kill_current_process_group};

/// Makes this thread, and what it starts, not take `signal`.
pub fn block(signal: Signal) {
    change_mask(libc::SIG_BLOCK, signal);
}

/// Lets this thread take `signal`, whatever mask it was started with. May be called between fork and exec.
pub fn unblock(signal: Signal) {
    change_mask(libc::SIG_UNBLOCK, signal);
}

fn change_mask(how: i32, signal: Signal) {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` fills the set that the next calls read. All of them are async-signal-safe, and they cannot
    // fail with a valid `how` and signal.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
        libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut());
    }
}

/// Whether this process was started with `signal` ignored, as by nohup(1). Ask before a handler is set.
pub fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is set, and on success the whole of `action` is filled.
    unsafe {
        libc::sigaction(signal.as_raw(), ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Stops this process's own group as ctrl-Z does. Returns when the process was continued; or at once if the kernel does
/// not let it stop, as in a group that no shell could continue.
pub fn stop_own_group() -> io::Result<()> {
    let handler = set_default(Signal::TSTP)?;
    let sent = kill_current_process_group(Signal::TSTP);
    // SAFETY: `handler` is what the kernel itself gave for this signal.
    unsafe { libc::sigaction(libc::SIGTSTP, &handler, ptr::null_mut()) };
    Ok(sent?)
}

/// Takes `signal` as if this program had never heard of it; returns only if that does not end the process.
pub fn take_as_default(signal: Signal) {
    if set_default(signal).is_ok() {
        // SAFETY: raising a signal has no preconditions.
        unsafe { libc::raise(signal.as_raw()) };
    }
}

/// Sets the default action for `signal`; the action before.
fn set_default(signal: Signal) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: all zeroes is a valid `sigaction`: the default action, no flags, an empty mask. On success the whole of
    // `before` is filled.
    unsafe {
        let default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        match libc::sigaction(signal.as_raw(), &default, before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
