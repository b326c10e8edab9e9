//! The floor with epoll: one thread, level-triggered, non-blocking sockets, no user-space queue.

use super::FRAME;
use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};

struct Conn {
    s: TcpStream,
    part: Vec<u8>,
}

impl Conn {
    /// read -> write at once; whether the connection is over. (A short write is an error: the frames here are tiny.)
    fn turn(&mut self, buf: &mut [u8]) -> bool {
        let have = self.part.len();
        buf[..have].copy_from_slice(&self.part);
        match self.s.read(&mut buf[have..]) {
            Ok(0) => true,
            Ok(k) => {
                let tot = have + k;
                let whole = tot / FRAME * FRAME;
                self.part.clear();
                self.part.extend_from_slice(&buf[whole..tot]);
                whole > 0 && !matches!(self.s.write(&buf[..whole]), Ok(w) if w == whole)
            }
            Err(e) => e.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

pub fn serve(port: u16) -> io::Result<()> {
    let l = TcpListener::bind(("127.0.0.1", port))?;
    l.set_nonblocking(true)?;
    // SAFETY: this call takes no pointer.
    let ep = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let add = |fd: RawFd| {
        let mut ev = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd as u64 };
        // SAFETY: the event lives during the call, and the kernel only reads it.
        unsafe { libc::epoll_ctl(ep, libc::EPOLL_CTL_ADD, fd, &mut ev) }
    };
    add(l.as_raw_fd());
    let mut conns: HashMap<RawFd, Conn> = HashMap::new();
    let mut evs = vec![libc::epoll_event { events: 0, u64: 0 }; 256];
    let mut buf = vec![0u8; 16 * 1024];
    loop {
        // SAFETY: the kernel writes at most as many events as there is room for, and says how many.
        let n = unsafe { libc::epoll_wait(ep, evs.as_mut_ptr(), evs.len() as i32, -1) };
        if n < 0 {
            let e = io::Error::last_os_error();
            if e.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(e);
        }
        for ev in &evs[..n as usize] {
            let fd = ev.u64 as RawFd;
            if fd == l.as_raw_fd() {
                while let Ok((s, _)) = l.accept() {
                    s.set_nonblocking(true)?;
                    s.set_nodelay(true)?;
                    add(s.as_raw_fd());
                    conns.insert(s.as_raw_fd(), Conn { s, part: Vec::new() });
                }
            } else if conns.get_mut(&fd).is_some_and(|c| c.turn(&mut buf)) {
                conns.remove(&fd); // closing drops it from epoll
            }
        }
    }
}
