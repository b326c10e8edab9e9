//! The hash index.

use super::{Random, acquire, engine, run};
use crate::hash::KeyedHash;
use crate::linear_hash::LinearHash;
use crate::ring::{Link, Linked};
use crate::slab::Slab;
use crate::{Answer, Command};
use std::collections::HashMap;
use std::format;
use std::string::String;
use std::vec::Vec;

#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    nth: u32,
    links: [Link; 1],
}

impl Linked for Entry {
    fn links(&self) -> &[Link] {
        &self.links
    }

    fn links_mut(&mut self) -> &mut [Link] {
        &mut self.links
    }
}

struct Indexed {
    slab: Slab<Entry>,
    index: LinearHash<0>,
    next: u32,
}

impl Indexed {
    fn new() -> Self {
        Self { slab: Slab::new(), index: LinearHash::new(), next: 0 }
    }

    fn insert(&mut self, hash: u32) -> u32 {
        let slot = self.slab.insert(Entry { hash, nth: self.next, links: [Link::NONE] });
        self.next += 1;
        self.index.insert(&mut self.slab, slot, hash, |entry| entry.hash);
        slot
    }

    fn remove(&mut self, slot: u32) {
        let hash = self.slab[slot].hash;
        self.index.remove(&mut self.slab, slot, hash);
        self.slab.remove(slot);
    }

    /// Those with this hash, as they were numbered.
    fn found(&self, hash: u32) -> Vec<u32> {
        let candidates = self.index.candidates(&self.slab, hash).map(|slot| self.slab[slot]);
        candidates.filter(|entry| entry.hash == hash).map(|entry| entry.nth).collect()
    }
}

#[test]
fn buckets_follow_the_number_of_records() {
    let mut random = Random(4);
    let mut indexed = Indexed::new();
    let mut slots = Vec::new();
    assert_eq!(indexed.index.size(), (1024, 1));
    for len in 1..=5000u32 {
        slots.push(indexed.insert(random.next() as u32));
        // One bucket for each record, in chunks of 1024, and never fewer than a chunk.
        let buckets = len.max(1024);
        assert_eq!(indexed.index.size(), (buckets, buckets.div_ceil(1024)));
    }
    let mut buckets = 5000;
    while let Some(slot) = slots.pop() {
        indexed.remove(slot);
        buckets = buckets.min(2 * slots.len() as u32 + 1).max(1024);
        assert_eq!(indexed.index.size(), (buckets, buckets.div_ceil(1024)));
    }
    assert_eq!(buckets, 1024);
}

#[test]
fn every_record_is_found_at_every_size() {
    let mut random = Random(5);
    let mut indexed = Indexed::new();
    let mut slots: Vec<u32> = Vec::new();
    for target in [1, 40, 3, 1100, 0, 2100, 1000, 3000, 1030, 500, 10, 0] {
        while slots.len() != target {
            if slots.len() < target {
                slots.push(indexed.insert(random.next() as u32));
            } else {
                let nth = random.below(slots.len() as u64) as usize;
                indexed.remove(slots.swap_remove(nth));
            }
            if slots.len().is_multiple_of(16) {
                assert!(
                    slots
                        .iter()
                        .all(|&slot| indexed.found(indexed.slab[slot].hash) == [indexed.slab[slot].nth])
                );
                let mut all: Vec<u32> = indexed.index.iter(&indexed.slab).collect();
                all.sort_unstable();
                let mut expected = slots.clone();
                expected.sort_unstable();
                assert_eq!(all, expected);
            }
        }
    }
}

#[test]
fn records_are_spread_over_the_buckets() {
    let mut random = Random(6);
    let mut indexed = Indexed::new();
    let hashes: Vec<u32> = (0..10_000).map(|_| random.next() as u32).collect();
    for &hash in &hashes {
        indexed.insert(hash);
    }
    let looked_at: usize =
        hashes.iter().map(|&hash| indexed.index.candidates(&indexed.slab, hash).count()).sum();
    // Two on average: itself, and those that happen to be in its bucket.
    assert!(looked_at < 25_000, "{looked_at} candidates");
}

#[test]
fn equal_hashes_keep_their_order_while_buckets_come_and_go() {
    let mut random = Random(7);
    let mut indexed = Indexed::new();
    let hashes = [0, 5, 0xffff_ffff];
    let mut kept: Vec<(u32, u32)> = Vec::new();
    let mut others = Vec::new();
    for round in 0..6 {
        for _ in 0..300 {
            for hash in hashes {
                let slot = indexed.insert(hash);
                kept.push((hash, indexed.slab[slot].nth));
            }
            others.push(indexed.insert(random.next() as u32 | 0x10));
        }
        if round % 2 == 1 {
            others.drain(..).for_each(|slot| indexed.remove(slot));
            for hash in hashes {
                // The oldest is the first that is found, until it leaves.
                for _ in 0..500 {
                    let oldest = kept.iter().position(|entry| entry.0 == hash).unwrap();
                    let (_, nth) = kept.remove(oldest);
                    let first = indexed
                        .index
                        .candidates(&indexed.slab, hash)
                        .find(|&slot| indexed.slab[slot].hash == hash)
                        .unwrap();
                    assert_eq!(indexed.slab[first].nth, nth);
                    indexed.remove(first);
                }
            }
        }
        for hash in hashes {
            let expected: Vec<u32> =
                kept.iter().filter(|entry| entry.0 == hash).map(|entry| entry.1).collect();
            assert_eq!(indexed.found(hash), expected);
        }
    }
}

/// Two texts that this engine's hash does not tell apart.
fn colliding(hash: KeyedHash) -> [String; 2] {
    let mut seen: HashMap<u32, u32> = HashMap::new();
    for nth in 0.. {
        if let Some(other) = seen.insert(hash.of(format!("{nth}").as_str()), nth) {
            return [other, nth].map(|nth| format!("{nth}"));
        }
    }
    unreachable!("there are fewer hashes than numbers")
}

#[test]
fn keys_with_one_hash_are_two_keys() {
    let mut engine = engine(None);
    let session = engine.open_session();
    let [one, other] = colliding(KeyedHash::new([7, 8]));
    assert_eq!(acquire(&mut engine, session, &one, 0, 1).len(), 1);
    let effects = acquire(&mut engine, session, &other, 0, 2);
    assert!(matches!(effects[0].answer, Answer::Acquired { token: 2, .. }), "{effects:?}");
    for (key, token) in [(&one, 1), (&other, 2)] {
        let effects = run(&mut engine, session, Command::Release { token, key });
        assert_eq!(effects[0].answer, Answer::Released { token });
    }
    assert_eq!(engine.counts().keys, 0);
}
