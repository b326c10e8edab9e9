//! Loaded into a server by LD_PRELOAD, shifts its wall clock by as many seconds as a file says (8 bytes,
//! native order).
//!
//! Only CLOCK_REALTIME is touched; every other clock is passed through. See `lockstead_testkit::wall_clock`.

use std::ffi::CStr;

const OFFSET_FILE: &CStr = c"WALL_CLOCK_SHIFT_FILE";

/// Takes the place of the C library's function of this name.
///
/// # Safety
/// As clock_gettime(2): `time` must be valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: the caller's promise about `time` is the one the system call asks for.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as libc::c_int;
    if result == 0 && clock == libc::CLOCK_REALTIME {
        // SAFETY: the system call has just written to it.
        unsafe { (*time).tv_sec += offset_s() };
    }
    result
}

/// The offset in the file, 0 when there is none. Plain system calls: this may run inside any caller.
fn offset_s() -> libc::time_t {
    let mut bytes = [0u8; 8];
    // SAFETY: the name is a C string; getenv returns null or a C string that open may read; the buffer is
    // valid for the eight bytes that read may write; the descriptor is closed once.
    let length = unsafe {
        let path = libc::getenv(OFFSET_FILE.as_ptr());
        if path.is_null() {
            return 0;
        }
        let fd = libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return 0;
        }
        let length = libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len());
        libc::close(fd);
        length
    };
    if length == 8 { i64::from_ne_bytes(bytes) } else { 0 }
}
