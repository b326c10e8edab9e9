//! The table of the queued attempts. Any of them can leave in a bounded number of steps.

use crate::duration_lists::{DurationList, DurationLists, Timed};
use crate::hash::KeyedHash;
use crate::linear_hash::LinearHash;
use crate::ring::{Link, Linked, Ring};
use crate::slab::Slab;
use crate::time::Instant;

/// The link in the queue of the key.
const QUEUE: usize = 0;
/// The link among the waiters of the session.
const SESSION: usize = 1;
/// The link in the list of the timer.
const TIMER: usize = 2;
/// The link in the index by which a cancel finds its attempt.
const CHAIN: usize = 3;

/// The waiters of one key, oldest first.
pub(crate) type Queue = Ring<QUEUE>;
/// The waiters of one session, oldest first.
pub(crate) type SessionQueue = Ring<SESSION>;

/// What an attempt asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) session: u32,
    pub(crate) key: u32,
    pub(crate) owner: u64,
    pub(crate) asked: Instant,
    pub(crate) wait_s: u8,
    pub(crate) lease_s: u8,
}

/// An attempt in 56 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    owner: u64,
    /// The instant of asking in milliseconds (6 bytes), the wait, the lease.
    pub(crate) times: [u8; 8],
    session: u32,
    key: u32,
    links: [Link; 4],
}

impl Waiter {
    fn new(attempt: Attempt) -> Self {
        let Attempt { session, key, owner, asked, wait_s, lease_s } = attempt;
        let [_, _, a, b, c, d, e, f] = asked.0.to_be_bytes();
        let times = [a, b, c, d, e, f, wait_s, lease_s];
        Self { owner, times, session, key, links: [Link::NONE; 4] }
    }

    pub(crate) fn attempt(&self) -> Attempt {
        let [a, b, c, d, e, f, wait_s, lease_s] = self.times;
        let asked = Instant(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        Attempt { session: self.session, key: self.key, owner: self.owner, asked, wait_s, lease_s }
    }

    /// The hash of what a cancel names.
    pub(crate) fn hash(&self, hash: KeyedHash) -> u32 {
        hash.of((self.session, self.owner, self.key))
    }
}

impl Linked for Waiter {
    fn links(&self) -> &[Link] {
        &self.links
    }

    fn links_mut(&mut self) -> &mut [Link] {
        &mut self.links
    }
}

impl Timed for Waiter {
    fn ends(&self) -> Instant {
        let Attempt { asked, wait_s, .. } = self.attempt();
        asked.end_after(wait_s)
    }
}

/// The waiters, the timers of their waits and the index for cancels.
#[derive(Debug)]
pub(crate) struct Waiters {
    pub(crate) slab: Slab<Waiter>,
    pub(crate) timers: DurationLists<TIMER>,
    pub(crate) index: LinearHash<CHAIN>,
    pub(crate) hash: KeyedHash,
}

impl Waiters {
    pub(crate) fn new(hash: KeyedHash) -> Self {
        Self { slab: Slab::new(), timers: DurationLists::new(), index: LinearHash::new(), hash }
    }

    /// Puts an attempt behind those in the queues of its key and its session.
    pub(crate) fn join(&mut self, attempt: Attempt, queue: &mut Queue, session_queue: &mut SessionQueue) {
        let waiter = Waiter::new(attempt);
        let slot = self.slab.insert(waiter);
        queue.push_back(&mut self.slab, slot);
        session_queue.push_back(&mut self.slab, slot);
        self.timers.arm(&mut self.slab, slot, DurationList::of(attempt.wait_s));
        let hash = self.hash;
        self.index.insert(&mut self.slab, slot, waiter.hash(hash), |waiter| waiter.hash(hash));
    }

    /// Takes an attempt out of the queues of its key and its session.
    pub(crate) fn leave(&mut self, slot: u32, queue: &mut Queue, session_queue: &mut SessionQueue) {
        let waiter = self.slab[slot];
        self.index.remove(&mut self.slab, slot, waiter.hash(self.hash));
        self.timers.disarm(&mut self.slab, slot, DurationList::of(waiter.attempt().wait_s));
        session_queue.remove(&mut self.slab, slot);
        queue.remove(&mut self.slab, slot);
        self.slab.remove(slot);
    }

    /// The oldest attempt of this session with this owner on this key. Equal ones share a bucket, oldest first, so
    /// it is found without passing any of the others.
    pub(crate) fn oldest(&self, session: u32, owner: u64, key: u32) -> Option<u32> {
        let named = (session, owner, key);
        self.index.candidates(&self.slab, self.hash.of(named)).find(|&slot| {
            let waiter = &self.slab[slot];
            (waiter.session, waiter.owner, waiter.key) == named
        })
    }
}
