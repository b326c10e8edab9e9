//! A client that writes down what it asks and hears.

use super::{Call, Reply, Request, Said};
use crate::raw::Raw;
use crate::{Address, Answer, Event, boottime, frame};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Owners and ids of one recorder lie so far apart from those of the next.
const IDS: u64 = 1 << 32;

/// What a recorder heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The answer to the call with this index.
    Answer(usize),
    /// Nothing, until the time was over.
    Nothing,
    /// The connection has ended.
    End,
}

/// One connection whose requests and answers are written down.
#[derive(Debug)]
pub struct Recorder {
    raw: Raw,
    run: usize,
    calls: Vec<Call>,
    next_id: u64,
    /// Calls that are written at the next [`Recorder::send`], from this one on.
    unsent: usize,
    bytes: Vec<u8>,
    /// Acquires and queries, by owner and id.
    by_id: HashMap<u64, usize>,
    /// Releases and extends, which are answered in their order.
    in_order: VecDeque<usize>,
}

impl Recorder {
    /// Connects to a server; its calls will be of run `run`. None when the server is gone already.
    pub fn connect(address: &Address, run: usize, number: u64) -> Option<Self> {
        let raw = Raw::try_connect(address).ok()?;
        Some(Self {
            raw,
            run,
            calls: Vec::new(),
            next_id: (1 << 63) | (number * IDS),
            unsent: 0,
            bytes: Vec::new(),
            by_id: HashMap::new(),
            in_order: VecDeque::new(),
        })
    }

    /// Adds a request to those that the next [`Recorder::send`] writes.
    pub fn ask(&mut self, key: &str, request: Request) {
        let (id, index) = (self.next_id, self.calls.len());
        self.next_id += 1;
        let frame = match request {
            Request::Acquire { wait_s, lease_s } => frame::acquire(wait_s, lease_s, id, key),
            Request::Extend { token, lease_s } => frame::extend(lease_s, token, key),
            Request::Release { token } => frame::release(token, key),
            Request::Query => frame::query(id, key),
        };
        match request {
            Request::Acquire { .. } | Request::Query => _ = self.by_id.insert(id, index),
            Request::Extend { .. } | Request::Release { .. } => self.in_order.push_back(index),
        }
        self.bytes.extend_from_slice(&frame);
        self.calls.push(Call {
            run: self.run,
            key: key.to_owned(),
            request,
            sent: Duration::MAX,
            reply: None,
            left: None,
        });
    }

    /// Writes all that was asked, in one piece. False when the connection has ended; what was on its way may have
    /// arrived all the same.
    pub fn send(&mut self) -> bool {
        let now = boottime::now();
        self.calls[self.unsent..].iter_mut().for_each(|call| call.sent = now);
        self.unsent = self.calls.len();
        let sent = self.raw.try_send(&self.bytes, crate::raw::PATIENCE);
        self.bytes.clear();
        sent.is_ok()
    }

    /// What comes next, waiting `within` at most.
    ///
    /// # Panics
    /// When it is an answer that nobody asked for, or out of order.
    pub fn next(&mut self, within: Duration) -> Heard {
        match self.raw.event(within) {
            Event::Answer(arrival) => {
                let (index, said) = self.place(&arrival.answer);
                self.calls[index].reply = Some(Reply { said, at: boottime::of(arrival.at) });
                Heard::Answer(index)
            }
            Event::Quiet => Heard::Nothing,
            Event::End | Event::Reset | Event::Cut(_) => Heard::End,
        }
    }

    /// The call that an answer belongs to, and what it says.
    fn place(&mut self, answer: &Answer) -> (usize, Said) {
        let (index, said) = match *answer {
            Answer::Acquired { owner, token, lease_s, waited_ms } => {
                (self.by_id.remove(&owner), Said::Granted { token, lease_s, waited_ms })
            }
            Answer::TimedOut { owner } => (self.by_id.remove(&owner), Said::TimedOut),
            Answer::Busy { owner, reason } => (self.by_id.remove(&owner), Said::Busy(reason)),
            Answer::State { id, state, .. } => (self.by_id.remove(&id), Said::State(state)),
            Answer::Released { token } => (self.in_turn(token), Said::Released),
            Answer::Extended { token, lease_s } => (self.in_turn(token), Said::Extended(lease_s)),
            Answer::NotHeld { token } => (self.in_turn(token), Said::NotHeld),
            Answer::Error { code, id, .. } => {
                (self.by_id.remove(&id).or_else(|| self.in_turn(id)), Said::Refused(code))
            }
            Answer::Pong { .. } | Answer::Welcome { .. } => (None, Said::Refused(0)),
        };
        let index = index.unwrap_or_else(|| {
            let awaited: Vec<&Call> = self.in_order.iter().take(3).map(|&index| &self.calls[index]).collect();
            panic!("nobody asked for {answer:?}, or it came out of order; awaited: {awaited:?}")
        });
        (index, said)
    }

    /// The oldest release or extend that is open, if it is of this token.
    fn in_turn(&mut self, token: u64) -> Option<usize> {
        let index = *self.in_order.front()?;
        let asked = match self.calls[index].request {
            Request::Extend { token, .. } | Request::Release { token } => token,
            Request::Acquire { .. } | Request::Query => return None,
        };
        if asked == token { self.in_order.pop_front() } else { None }
    }

    /// A call by its index.
    pub fn call(&self, index: usize) -> &Call {
        &self.calls[index]
    }

    /// How many calls were asked so far.
    pub fn asked(&self) -> usize {
        self.calls.len()
    }

    /// How many calls are without an answer.
    pub fn open(&self) -> usize {
        self.by_id.len() + self.in_order.len()
    }

    /// Everything that was sent, with what was heard of it, when the connection has ended.
    pub fn finish(mut self) -> Vec<Call> {
        self.calls.truncate(self.unsent);
        self.calls
    }

    /// Closes the connection while the server lives; everything that was sent, with what was heard of it.
    pub fn leave(self) -> Vec<Call> {
        let now = boottime::now();
        let mut calls = self.finish();
        calls.iter_mut().filter(|call| call.reply.is_none()).for_each(|call| call.left = Some(now));
        calls
    }
}
