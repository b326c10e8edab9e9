//! Handing over: which frames a session's transport is offered next, and what it took of them (docs/client-contract.md,
//! rules 3 to 6).
//!
//! Composing a batch changes nothing: frames are read off the queues, stamped and encoded, and a frame leaves its queue
//! only when the transport has accepted its first byte. So a frame behind the accepted bytes is taken back by doing
//! nothing, and is stamped anew in the next batch.

use alloc::vec::Vec;

use lockstead_proto::{Acquire, Cancel, Extend, Hello, Ping, Query, Release, VERSION};

use crate::call::{Call, CallState};
use crate::core::Core;
use crate::op::OpKind;
use crate::session::{Ask, Confirm, Session, SessionId, Stage};
use crate::time::Instant;

/// No more than this is offered at once, so that what is taken back and encoded again stays small.
const BATCH: usize = 32_768;

/// What came of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// There was nothing to offer.
    Idle,
    /// The transport took everything; there may be more.
    Taken,
    /// The transport took less than it was offered: offer again when it can take more.
    Blocked,
}

/// Frames as they were offered; kept between batches for its memory alone.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    frames: Vec<(Frame, usize)>,
}

/// One frame of a batch.
#[derive(Clone, Copy, Debug)]
enum Frame {
    Tail,
    Hello,
    Ping,
    Cancel,
    Op(u64),
    Acquire(u64),
}

impl Batch {
    /// The frame just encoded ends here.
    fn end(&mut self, frame: Frame) {
        self.frames.push((frame, self.bytes.len()));
    }

    fn full(&self) -> bool {
        self.bytes.len() >= BATCH
    }
}

impl Core {
    /// Offers what is to be sent on a session to `write`, which returns how many bytes of it may have left: on a plain
    /// socket what the kernel accepted; where a layer such as TLS takes plaintext, all of it (and then nothing may be
    /// offered before that layer has nothing left to write).
    ///
    /// `now` is read just before; it is the instant at which the frames count as sent.
    pub fn transmit(&mut self, now: Instant, id: SessionId, write: impl FnOnce(&[u8]) -> usize) -> Transmit {
        let Some(at) = self.sessions.iter().position(|session| session.id == id) else {
            return Transmit::Idle;
        };
        self.drop_needless_cancels(at);
        self.prove_before_acquires(now, at);
        let mut batch = core::mem::take(&mut self.batch);
        self.compose(now, &self.sessions[at], &mut batch);
        let offered = batch.bytes.len();
        let result = if offered == 0 {
            self.sessions[at].note_written(now, 0, true);
            Transmit::Idle
        } else {
            let accepted = write(&batch.bytes).min(offered);
            self.commit(now, at, &batch, accepted);
            if accepted < offered { Transmit::Blocked } else { Transmit::Taken }
        };
        batch.bytes.clear();
        batch.frames.clear();
        self.batch = batch;
        result
    }

    /// An attempt that was answered needs no cancel any more.
    fn drop_needless_cancels(&mut self, at: usize) {
        let (session, calls) = (&mut self.sessions[at], &self.calls);
        session.cancels.retain(|owner| calls.get(owner).is_some_and(Call::is_sent));
    }

    /// A session that was idle for long must show that it lives before an acquire is handed to it.
    fn prove_before_acquires(&mut self, now: Instant, at: usize) {
        let session = &mut self.sessions[at];
        if !self.unsent.is_empty() && session.sound() && session.idle(now) && !session.proving {
            session.proving = true;
            session.want_ping(now, || self.ids.draw());
        }
    }

    fn compose(&self, now: Instant, session: &Session, batch: &mut Batch) {
        if session.suspect.is_some() || session.stage == Stage::Connecting {
            return;
        }
        if !session.tail.is_empty() {
            batch.bytes.extend_from_slice(&session.tail);
            batch.end(Frame::Tail);
        }
        if session.stage == Stage::Greeting {
            self.compose_hello(session, batch);
            return;
        }
        if let Some(id) = session.ping {
            Ping { id }.encode(&mut batch.bytes);
            batch.end(Frame::Ping);
        }
        for &owner in session.cancels.iter() {
            if batch.full() {
                return;
            }
            if let Some(call) = self.calls.get(&owner) {
                let key = &*call.key;
                Cancel { owner, key }.encode(&mut batch.bytes);
                batch.end(Frame::Cancel);
            }
        }
        for &op in &self.pending {
            if batch.full() {
                return;
            }
            self.compose_op(op, batch);
        }
        if !session.proving {
            self.compose_acquires(now, batch);
        }
    }

    fn compose_hello(&self, session: &Session, batch: &mut Batch) {
        if !session.hello_sent {
            let hello = Hello { version: VERSION, id: session.hello, text: &self.hello_text };
            hello.encode(&mut batch.bytes);
            batch.end(Frame::Hello);
        }
    }

    fn compose_op(&self, id: u64, batch: &mut Batch) {
        let Some(op) = self.ops.get(&id) else { return };
        let (token, key) = (op.token, &*op.key);
        match op.kind {
            OpKind::Release { .. } => Release { token, key }.encode(&mut batch.bytes),
            OpKind::Extend { lease_s, .. } => Extend { lease_s, token, key }.encode(&mut batch.bytes),
            OpKind::Query => Query { id, key }.encode(&mut batch.bytes),
            OpKind::Ping => Ping { id }.encode(&mut batch.bytes),
        }
        batch.end(Frame::Op(id));
    }

    fn compose_acquires(&self, now: Instant, batch: &mut Batch) {
        for &owner in &self.unsent {
            if batch.full() {
                return;
            }
            if let Some(call) = self.calls.get(&owner)
                && let Some(wait_s) = call.budget.wire_wait_s(now)
            {
                let acquire = Acquire { wait_s, lease_s: call.lease_s, owner, key: &call.key };
                acquire.encode(&mut batch.bytes);
                batch.end(Frame::Acquire(owner));
            }
        }
    }

    fn commit(&mut self, now: Instant, at: usize, batch: &Batch, accepted: usize) {
        let mut start = 0;
        for &(frame, end) in &batch.frames {
            if start >= accepted {
                break;
            }
            self.handed_over(now, at, frame);
            self.sessions[at].tail.extend_from_slice(&batch.bytes[accepted.min(end)..end]);
            start = end;
        }
        let all = accepted == batch.bytes.len();
        self.sessions[at].note_written(now, accepted, all);
    }

    /// A byte of the frame may have left.
    fn handed_over(&mut self, now: Instant, at: usize, frame: Frame) {
        let session = &mut self.sessions[at];
        match frame {
            Frame::Tail => session.tail.clear(),
            Frame::Hello => session.hello_sent = true,
            Frame::Ping => session.ping = None,
            Frame::Cancel => {
                session.cancels.pop_front();
            }
            Frame::Op(id) => {
                self.pending.remove(&id);
                if let Some(op) = self.ops.get_mut(&id) {
                    op.sends += 1;
                    note_op(session, now, id, op.kind, op.token);
                }
            }
            Frame::Acquire(owner) => {
                self.unsent.remove(&owner);
                if let Some(call) = self.calls.get_mut(&owner) {
                    call.state = CallState::Sent(session.id, now);
                    session.note_acquire(now);
                }
            }
        }
    }
}

fn note_op(session: &mut Session, now: Instant, op: u64, kind: OpKind, token: u64) {
    let ticket = kind.ticket();
    let confirm = |extend_s| Confirm { op, token, ticket, extend_s, sent: now, outlives: None };
    let ask = |ping| Ask { id: op, ping, sent: now };
    match kind {
        OpKind::Release { .. } => session.note_confirm(confirm(None)),
        OpKind::Extend { lease_s, .. } => session.note_confirm(confirm(Some(lease_s))),
        OpKind::Query => session.note_ask(ask(false)),
        OpKind::Ping => session.note_ask(ask(true)),
    }
}
