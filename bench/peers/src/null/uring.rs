//! The floor with io_uring: one thread; every ready socket of a turn is received from and answered with one
//! io_uring_enter. Plain Recv and Send operations, no registered buffers, no SQPOLL.

use super::FRAME;
use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;

const SIZE: usize = 4096;

/// The user data of an accept; that of a connection's receive and send is twice its index, and one more.
const ACCEPT: u64 = u64::MAX;

struct Conn {
    fd: i32,
    buf: Box<[u8; SIZE]>,
    have: usize,
    sending: usize,
}

impl Conn {
    fn recv(&mut self, i: usize) -> Entry {
        let room = &mut self.buf[self.have..];
        opcode::Recv::new(types::Fd(self.fd), room.as_mut_ptr(), room.len() as u32)
            .build()
            .user_data(i as u64 * 2)
    }

    fn send(&mut self, i: usize, len: usize) -> Entry {
        self.sending = len;
        opcode::Send::new(types::Fd(self.fd), self.buf.as_ptr(), len as u32)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build()
            .user_data(i as u64 * 2 + 1)
    }

    /// What to do after this many bytes came in.
    fn received(&mut self, i: usize, n: usize) -> Entry {
        self.have += n;
        let whole = self.have / FRAME * FRAME;
        if whole == 0 { self.recv(i) } else { self.send(i, whole) }
    }

    fn sent(&mut self, i: usize, n: usize) -> Entry {
        assert_eq!(n, self.sending, "short send");
        self.buf.copy_within(self.sending..self.have, 0);
        self.have -= self.sending;
        self.recv(i)
    }
}

fn accept(l: &TcpListener) -> Entry {
    let (no_addr, no_len) = (std::ptr::null_mut(), std::ptr::null_mut());
    opcode::Accept::new(types::Fd(l.as_raw_fd()), no_addr, no_len).build().user_data(ACCEPT)
}

/// Takes the first free place for a new connection, and receives from it.
fn begin(conns: &mut Vec<Option<Conn>>, fd: i32) -> Entry {
    let one = 1i32;
    // SAFETY: the option is an int of 4 bytes, and `one` lives during the call.
    unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const one).cast(), 4) };
    let i = conns.iter().position(Option::is_none).unwrap_or_else(|| {
        conns.push(None);
        conns.len() - 1
    });
    conns[i].insert(Conn { fd, buf: Box::new([0; SIZE]), have: 0, sending: 0 }).recv(i)
}

pub fn serve(port: u16) -> io::Result<()> {
    let l = TcpListener::bind(("127.0.0.1", port))?;
    let mut ring: IoUring =
        IoUring::builder().setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun().build(2048)?;
    let mut conns: Vec<Option<Conn>> = Vec::new();
    let mut sqes = vec![accept(&l)];
    loop {
        for e in sqes.drain(..) {
            // SAFETY: an entry points into the boxed buffer of its connection, which is dropped only when the
            // completion of its one operation has said that it is over.
            while unsafe { ring.submission().push(&e) }.is_err() {
                ring.submit()?;
            }
        }
        ring.submit_and_wait(1)?;
        for cqe in ring.completion() {
            let (data, res) = (cqe.user_data(), cqe.result());
            if data == ACCEPT {
                if res >= 0 {
                    sqes.push(begin(&mut conns, res));
                }
                sqes.push(accept(&l));
                continue;
            }
            let i = (data / 2) as usize;
            let Some(c) = &mut conns[i] else { continue };
            if res <= 0 {
                // SAFETY: the descriptor is this connection's own, and nothing uses it after this.
                unsafe { libc::close(c.fd) };
                conns[i] = None;
            } else if data % 2 == 0 {
                sqes.push(c.received(i, res as usize));
            } else {
                sqes.push(c.sent(i, res as usize));
            }
        }
    }
}
