//! Loaded into a server by LD_PRELOAD, stands before fsync(2) and fdatasync(2): holds them back while one file is
//! there, lets them fail while another is, and counts them in a third. See `lockstead_testkit::syncs`.
//!
//! Plain system calls throughout: this may run inside any caller.

use std::ffi::CStr;

const HOLD_FILE: &CStr = c"SYNC_HOLD_FILE";
const FAIL_FILE: &CStr = c"SYNC_FAIL_FILE";
const COUNT_FILE: &CStr = c"SYNC_COUNT_FILE";

/// Takes the place of the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: libc::c_int) -> libc::c_int {
    sync(libc::SYS_fsync, fd)
}

/// Takes the place of the C library's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: libc::c_int) -> libc::c_int {
    sync(libc::SYS_fdatasync, fd)
}

fn sync(call: libc::c_long, fd: libc::c_int) -> libc::c_int {
    count();
    while is_there(HOLD_FILE) {
        // Another process removes the file; there is nothing to wait for but that.
        // SAFETY: usleep takes no pointers.
        unsafe { libc::usleep(1_000) };
    }
    if is_there(FAIL_FILE) {
        // SAFETY: the C library gives a valid address for this thread.
        unsafe { *libc::__errno_location() = libc::EIO };
        return -1;
    }
    // SAFETY: both calls take a descriptor and no pointers.
    unsafe { libc::syscall(call, fd) as libc::c_int }
}

/// Whether there is a file of the name that this variable has.
fn is_there(variable: &CStr) -> bool {
    // SAFETY: the variable's name is a C string; getenv returns null or a C string, which access may read.
    unsafe {
        let path = libc::getenv(variable.as_ptr());
        !path.is_null() && libc::access(path, libc::F_OK) == 0
    }
}

fn count() {
    // SAFETY: as above; the buffer is valid for the one byte that is written; the descriptor is closed once.
    unsafe {
        let path = libc::getenv(COUNT_FILE.as_ptr());
        if path.is_null() {
            return;
        }
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
        let fd = libc::open(path, flags, 0o600);
        if fd >= 0 {
            libc::write(fd, c"s".as_ptr().cast(), 1);
            libc::close(fd);
        }
    }
}
