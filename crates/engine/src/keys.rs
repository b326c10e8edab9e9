//! The table of the keys that take room: held, or free with waiters while recovering.

use crate::duration_lists::{DurationList, DurationLists, Timed};
use crate::hash::KeyedHash;
use crate::key_store::KeyStore;
use crate::linear_hash::LinearHash;
use crate::ring::{Link, Linked, Ring};
use crate::slab::Slab;
use crate::time::Instant;
use crate::waiters::Queue;

/// The link that a held key has in the list of its lease, and a free one in the list of parked keys.
const LEASE: usize = 0;
/// The link in the hash index.
const CHAIN: usize = 1;

/// What the engine knows of one key: one cache line, of which 12 bytes are left for the grant instant and a
/// reference to the holder.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Key {
    /// The active token, 0 if the key is free.
    pub(crate) token: u64,
    /// The end of the lease, while the key is held.
    pub(crate) ends: Instant,
    text: u32,
    text_len: u16,
    lease_list: DurationList,
    links: [Link; 2],
    pub(crate) hash: u32,
    /// The waiters, oldest first.
    pub(crate) queue: Queue,
    /// How many they are.
    pub(crate) waiters: u32,
}

impl Key {
    pub(crate) fn is_held(&self) -> bool {
        self.token != 0
    }

    /// Whether this is the active token of the key. 0 is none.
    pub(crate) fn has_token(&self, token: u64) -> bool {
        self.is_held() && self.token == token
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.waiters > 0
    }
}

impl Linked for Key {
    fn links(&self) -> &[Link] {
        &self.links
    }

    fn links_mut(&mut self) -> &mut [Link] {
        &mut self.links
    }
}

impl Timed for Key {
    fn ends(&self) -> Instant {
        self.ends
    }
}

/// A key as a request names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'k> {
    text: &'k str,
    hash: u32,
}

/// The keys, their index and the timers of their leases.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) slab: Slab<Key>,
    pub(crate) texts: KeyStore,
    pub(crate) index: LinearHash<CHAIN>,
    pub(crate) leases: DurationLists<LEASE>,
    /// Free keys with waiters, in the order in which they became so.
    pub(crate) parked: Ring<LEASE>,
    pub(crate) held: u32,
    hash: KeyedHash,
}

impl Keys {
    pub(crate) fn new(hash: KeyedHash) -> Self {
        Self {
            slab: Slab::new(),
            texts: KeyStore::new(),
            index: LinearHash::new(),
            leases: DurationLists::new(),
            parked: Ring::EMPTY,
            held: 0,
            hash,
        }
    }

    /// Names a key by its text: the hash is the dearest step of a request, so it is taken once.
    pub(crate) fn named<'k>(&self, text: &'k str) -> Named<'k> {
        Named { text, hash: self.hash.of(text) }
    }

    /// Where a key is, if it takes room.
    pub(crate) fn find(&self, Named { text, hash }: Named<'_>) -> Option<u32> {
        self.index.candidates(&self.slab, hash).find(|&slot| {
            let record = &self.slab[slot];
            record.hash == hash && self.bytes(slot) == text.as_bytes()
        })
    }

    /// Gives room to a key that has none. The caller makes it held or parks it in the same step.
    pub(crate) fn insert(&mut self, Named { text, hash }: Named<'_>) -> u32 {
        let slot = self.slab.insert(Key {
            token: 0,
            ends: Instant(0),
            text: self.texts.insert(text),
            text_len: u16::try_from(text.len()).expect("a key has at most 1024 bytes"),
            lease_list: DurationList::RESTORED,
            links: [Link::NONE; 2],
            hash,
            queue: Queue::EMPTY,
            waiters: 0,
        });
        self.index.insert(&mut self.slab, slot, hash, |key| key.hash);
        slot
    }

    /// Takes the room of a key that is neither held nor parked.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Key { text, text_len, hash, .. } = self.slab[slot];
        self.index.remove(&mut self.slab, slot, hash);
        self.texts.remove(text, usize::from(text_len));
        self.slab.remove(slot);
    }

    /// The text of a key.
    pub(crate) fn text(&self, slot: u32) -> &str {
        core::str::from_utf8(self.bytes(slot)).expect("it was stored from a str")
    }

    fn bytes(&self, slot: u32) -> &[u8] {
        let Key { text, text_len, .. } = self.slab[slot];
        self.texts.get(text, usize::from(text_len))
    }

    /// Makes a key held, that is neither held nor parked.
    pub(crate) fn hold(&mut self, slot: u32, token: u64, ends: Instant, list: DurationList) {
        self.held += 1;
        self.slab[slot].token = token;
        self.arm(slot, ends, list);
    }

    /// Moves the end of the lease of a held key.
    pub(crate) fn extend(&mut self, slot: u32, ends: Instant, list: DurationList) {
        self.disarm(slot);
        self.arm(slot, ends, list);
    }

    /// Voids the token of a held key.
    pub(crate) fn void(&mut self, slot: u32) {
        self.disarm(slot);
        self.slab[slot].token = 0;
        self.held -= 1;
    }

    /// Puts a free key behind the other parked ones.
    pub(crate) fn park(&mut self, slot: u32) {
        self.parked.push_back(&mut self.slab, slot);
    }

    /// Takes a parked key out of the list.
    pub(crate) fn unpark(&mut self, slot: u32) {
        self.parked.remove(&mut self.slab, slot);
    }

    fn arm(&mut self, slot: u32, ends: Instant, list: DurationList) {
        let record = &mut self.slab[slot];
        record.ends = ends;
        record.lease_list = list;
        self.leases.arm(&mut self.slab, slot, list);
    }

    fn disarm(&mut self, slot: u32) {
        let list = self.slab[slot].lease_list;
        self.leases.disarm(&mut self.slab, slot, list);
    }
}
