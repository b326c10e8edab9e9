//! One connection: its socket, its session, and what the driver knows about it.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lockstead_engine::{Instant, SessionId};
use lockstead_session::{Phase, Session};

use crate::stream::Stream;
use crate::wake::WakeHandle;

/// At most this much is read of one connection in a turn.
pub(crate) const READ_PER_TURN: usize = 16 * 1024;

/// A connection that the driver owns.
pub(crate) struct Connection {
    stream: Stream,
    pub(crate) session: Session,
    /// The engine's session, until it is closed there.
    pub(crate) id: Option<SessionId>,
    wake: Arc<WakeHandle>,
    waker: Waker,
    /// When the driver looks at the session's own deadline.
    pub(crate) armed: Option<Instant>,
    /// It is on the list of those to write to.
    pub(crate) dirty: bool,
    /// It is on the list of those to read.
    pub(crate) to_read: bool,
    /// It is on the list of those with requests to process.
    pub(crate) to_process: bool,
    /// It is on the list of those with answers that wait for the journal.
    pub(crate) gated: bool,
    /// There may be more to read than was read.
    unread: bool,
    shut_down: bool,
}

impl Connection {
    /// A connection that was just accepted, and is put on the list of those to read.
    pub(crate) fn new(
        stream: Stream,
        session: Session,
        id: Option<SessionId>,
        wake: Arc<WakeHandle>,
    ) -> Self {
        let waker = Waker::from(wake.clone());
        Self {
            stream,
            session,
            id,
            wake,
            waker,
            armed: None,
            dirty: false,
            to_read: true,
            to_process: false,
            gated: false,
            unread: true,
            shut_down: false,
        }
    }

    /// Takes note that the connection woke.
    pub(crate) fn woke(&mut self) {
        self.wake.taken();
        self.unread = true;
    }

    /// Reads what is there, within the session's room and one turn's share, and says how much that was.
    pub(crate) fn read(&mut self, scratch: &mut [u8; READ_PER_TURN]) -> usize {
        let mut cx = Context::from_waker(&self.waker);
        let mut total = 0;
        loop {
            let room = self.session.room().min(READ_PER_TURN - total);
            if room == 0 {
                return total;
            }
            match self.stream.poll_read(&mut cx, &mut scratch[..room]) {
                Poll::Ready(Ok(n)) if n > 0 => {
                    self.session.received(&scratch[..n]);
                    total += n;
                }
                Poll::Ready(_) => {
                    self.unread = false;
                    self.session.read_ended();
                    return total;
                }
                Poll::Pending => {
                    self.unread = false;
                    return total;
                }
            }
        }
    }

    /// Whether another turn could read more.
    pub(crate) fn wants_reading(&self) -> bool {
        self.unread && self.session.room() > 0
    }

    /// Writes what the kernel takes. When it is full, the connection wakes once there is room again.
    pub(crate) fn write(&mut self) {
        while !self.session.output().is_empty() {
            match self.stream.try_write(self.session.output()) {
                Ok(n) => self.session.accepted(n),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    if !self.stream.wake_when_writable(&mut Context::from_waker(&self.waker)) {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => self.session.write_failed(),
            }
        }
        if self.session.has_said_all() && !self.shut_down {
            self.stream.shut_down_writing();
            self.shut_down = true;
        }
    }

    /// The server stops: says that nothing more comes, and takes what is there, so that closing the socket does not
    /// take back answers that are still on their way.
    pub(crate) fn finish(&mut self, scratch: &mut [u8; READ_PER_TURN]) {
        self.stream.shut_down_writing();
        let mut cx = Context::from_waker(&self.waker);
        let mut left = lockstead_session::INPUT_LIMIT;
        while let Poll::Ready(Ok(n @ 1..)) = self.stream.poll_read(&mut cx, scratch) {
            left = left.saturating_sub(n);
            if left == 0 {
                return;
            }
        }
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.session.phase() == Phase::Closed
    }
}
