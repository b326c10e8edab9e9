//! A hash index that grows and shrinks by one bucket at a time, so that no request pays for all the others.
//!
//! Linear hashing: with `n` buckets a hash belongs to bucket `hash mod p`, `p` the least power of two that is not
//! below `n`, or, if there is no such bucket yet, to `hash mod p/2`. Adding bucket `n` moves part of one other there.
//! A bucket is a ring, and records with equal hashes keep the order in which they came.

use crate::ring::{Linked, Ring};
use crate::slab::Slab;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Buckets that are allocated together. There are never fewer, so a small table neither grows nor shrinks.
const CHUNK: u32 = 1024;

/// An index over the records of a slab, through their links number `LINK`.
#[derive(Debug)]
pub(crate) struct LinearHash<const LINK: usize> {
    chunks: Vec<Box<[Ring<LINK>; CHUNK as usize]>>,
    buckets: u32,
    len: u32,
}

impl<const LINK: usize> LinearHash<LINK> {
    pub(crate) fn new() -> Self {
        Self { chunks: alloc::vec![new_chunk()], buckets: CHUNK, len: 0 }
    }

    /// Adds a record; `hash_of` tells the hashes of those that have to move.
    pub(crate) fn insert<T: Linked>(
        &mut self,
        slab: &mut Slab<T>,
        slot: u32,
        hash: u32,
        hash_of: impl Fn(&T) -> u32,
    ) {
        self.len += 1;
        if self.len > self.buckets {
            self.split(slab, hash_of);
        }
        let bucket = self.bucket_of(hash);
        self.bucket(bucket).push_back(slab, slot);
    }

    /// Takes a record out.
    pub(crate) fn remove<T: Linked>(&mut self, slab: &mut Slab<T>, slot: u32, hash: u32) {
        let bucket = self.bucket_of(hash);
        self.bucket(bucket).remove(slab, slot);
        self.len -= 1;
        while self.buckets > CHUNK && self.buckets / 2 > self.len {
            self.merge(slab);
        }
    }

    /// The records whose hash may be this one, those of equal hash oldest first.
    pub(crate) fn candidates<T: Linked>(&self, slab: &Slab<T>, hash: u32) -> impl Iterator<Item = u32> {
        let bucket = self.bucket_of(hash);
        self.chunks[(bucket / CHUNK) as usize][(bucket % CHUNK) as usize].iter(slab)
    }

    /// Every record, bucket by bucket.
    pub(crate) fn iter<T: Linked>(&self, slab: &Slab<T>) -> impl Iterator<Item = u32> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).flat_map(|ring| ring.iter(slab))
    }

    /// The number of buckets and of chunks of them.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (u32, u32) {
        (self.buckets, self.chunks.len() as u32)
    }

    /// Adds a bucket and moves there what belongs to it.
    fn split<T: Linked>(&mut self, slab: &mut Slab<T>, hash_of: impl Fn(&T) -> u32) {
        if self.buckets.is_multiple_of(CHUNK) {
            self.chunks.push(new_chunk());
        }
        let added = self.buckets;
        self.buckets += 1;
        let mut ring = core::mem::replace(self.bucket(parent(added)), Ring::EMPTY);
        while let Some(slot) = ring.first() {
            ring.remove(slab, slot);
            let bucket = self.bucket_of(hash_of(&slab[slot]));
            self.bucket(bucket).push_back(slab, slot);
        }
    }

    /// Drops the last bucket and moves what it held back.
    fn merge<T: Linked>(&mut self, slab: &mut Slab<T>) {
        self.buckets -= 1;
        let dropped = self.buckets;
        let mut ring = core::mem::replace(self.bucket(dropped), Ring::EMPTY);
        while let Some(slot) = ring.first() {
            ring.remove(slab, slot);
            self.bucket(parent(dropped)).push_back(slab, slot);
        }
        if self.buckets.is_multiple_of(CHUNK) {
            self.chunks.pop();
        }
    }

    fn bucket_of(&self, hash: u32) -> u32 {
        let bucket = hash & (self.buckets.next_power_of_two() - 1);
        if bucket < self.buckets { bucket } else { parent(bucket) }
    }

    fn bucket(&mut self, bucket: u32) -> &mut Ring<LINK> {
        &mut self.chunks[(bucket / CHUNK) as usize][(bucket % CHUNK) as usize]
    }
}

/// The bucket that held what belongs to `bucket` before it was there: the same number without its highest bit.
fn parent(bucket: u32) -> u32 {
    bucket ^ (1 << bucket.ilog2())
}

fn new_chunk<const LINK: usize>() -> Box<[Ring<LINK>; CHUNK as usize]> {
    Box::new([Ring::EMPTY; CHUNK as usize])
}
