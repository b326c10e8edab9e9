//! Slots, chunks, records, rings and the texts of keys.

use super::Random;
use crate::key_store::KeyStore;
use crate::pool::Pool;
use crate::ring::{Link, Linked, Ring};
use crate::slab::Slab;
use crate::slot_set::{CHUNK, SlotSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::string::String;
use std::vec::Vec;

#[test]
fn the_lowest_free_slot_is_taken() {
    let mut random = Random(1);
    let mut slots = SlotSet::default();
    let mut taken = BTreeSet::new();
    // Up and down across the borders of words on two levels: 64 and 4096 slots.
    for target in [100, 4200, 4090, 4100, 0, 70, 64, 65, 1] {
        while taken.len() != target {
            if taken.len() < target {
                let slot = slots.take();
                // Below it everything is taken.
                assert_eq!(taken.range(..slot).count(), slot as usize);
                assert!(!taken.contains(&slot));
                taken.insert(slot);
            } else {
                let nth = random.below(taken.len() as u64) as usize;
                let slot = *taken.iter().nth(nth).unwrap();
                taken.remove(&slot);
                let first = slot / CHUNK as u32 * CHUNK as u32;
                let chunk_is_free = taken.range(first..first + CHUNK as u32).next().is_none();
                assert_eq!(slots.give(slot), chunk_is_free);
            }
        }
        for from in [0, 1, 63, 64, 65, 4095, 4096, 4199, 4200, u32::MAX - 1, u32::MAX] {
            assert!(slots.taken_from(from).eq(taken.range(from..).copied()), "from {from}");
        }
    }
    assert!(!slots.is_taken(1));
    assert!(!slots.is_taken(u32::MAX));
}

#[test]
fn taken_slots_at_the_ends_of_chunks_are_found() {
    let mut slots = SlotSet::default();
    assert_eq!((slots.taken_from(0).next(), slots.taken_from(u32::MAX).next()), (None, None));
    (0..256).for_each(|slot| assert_eq!(slots.take(), slot));
    let is_last = |slot: &u32| [127, 192, 255].contains(slot);
    (0..256).filter(|slot| !is_last(slot)).for_each(|slot| _ = slots.give(slot));
    let first = |from| slots.taken_from(from).next();
    assert_eq!([0, 63, 64, 127, 128].map(first), [127, 127, 127, 127, 192].map(Some));
    assert_eq!([191, 192, 193, 255, 256].map(first), [Some(192), Some(192), Some(255), Some(255), None]);
    // A chunk costs one look, however many of its slots are free.
    let before = slots.steps.get();
    assert!(slots.taken_from(0).eq([127, 192, 255]));
    assert_eq!(slots.steps.get() - before, 2 + 1 + 2 + 1);
}

#[test]
fn half_a_million_slots_need_a_fourth_level() {
    let mut slots = SlotSet::default();
    for expected in 0..500_000 {
        assert_eq!(slots.take(), expected);
    }
    for slot in [499_999, 262_144, 262_143, 4096, 4095, 64, 63] {
        assert!(!slots.give(slot));
    }
    for expected in [63, 64, 4095, 4096, 262_143, 262_144, 499_999, 500_000] {
        assert_eq!(slots.take(), expected);
    }
}

#[test]
fn an_empty_chunk_is_kept_as_the_spare_and_another_given_back() {
    let mut pool = Pool::new();
    let mut made = 0;
    let mut take = |pool: &mut Pool<u32>| {
        pool.take(|| {
            made += 1;
            made
        })
    };
    for _ in 0..3 * CHUNK {
        take(&mut pool);
    }
    assert_eq!([0, 64, 128].map(|slot| *pool.chunk(slot).0), [1, 2, 3]);
    assert_eq!((pool.chunk(70).1, pool.chunk_mut(70).1, pool.len()), (6, 6, 192));
    // Chunk 1 is the spare, then chunk 2, and 1 is given back.
    (0..128).for_each(|slot| pool.give(slot));
    assert_eq!(pool.len(), 64);
    assert!(!pool.is_taken(0) && pool.is_taken(128));
    assert_eq!((take(&mut pool), *pool.chunk(0).0), (0, 2));
    (1..64).for_each(|slot| assert_eq!(take(&mut pool), slot));
    assert_eq!((take(&mut pool), *pool.chunk(64).0), (64, 4));
    assert_eq!(pool.taken_from(0).count(), 129);
}

/// A record in two rings.
#[derive(Clone, Copy)]
struct Node([Link; 2]);

impl Linked for Node {
    fn links(&self) -> &[Link] {
        &self.0
    }

    fn links_mut(&mut self) -> &mut [Link] {
        &mut self.0
    }
}

#[test]
fn records_are_what_was_stored() {
    let mut slab = Slab::new();
    for number in 0..200u64 {
        assert_eq!(u64::from(slab.insert(number * 3)), number);
    }
    assert_eq!((slab[150], slab.get(150), slab.get(200), slab.len()), (450, Some(&450), None, 200));
    assert_eq!((slab.remove(150), slab.get(150), slab.len()), (450, None, 199));
    assert!(slab.slots().eq((0..200).filter(|slot| *slot != 150)));
    slab[7] += 1;
    assert_eq!((slab[7], slab.insert(1), slab[150]), (22, 150, 1));
}

#[test]
fn rings_are_queues() {
    let mut random = Random(2);
    let mut slab = Slab::new();
    let (mut ring, mut other) = (Ring::<1>::EMPTY, Ring::<0>::EMPTY);
    let mut expected: VecDeque<u32> = VecDeque::new();
    for _ in 0..2000 {
        if expected.is_empty() || random.below(2) == 0 {
            let slot = slab.insert(Node([Link::NONE; 2]));
            ring.push_back(&mut slab, slot);
            other.push_back(&mut slab, slot);
            expected.push_back(slot);
        } else {
            let slot = expected.remove(random.below(expected.len() as u64) as usize).unwrap();
            ring.remove(&mut slab, slot);
            other.remove(&mut slab, slot);
            slab.remove(slot);
        }
        assert_eq!((ring.first(), ring.last(&slab)), (expected.front().copied(), expected.back().copied()));
        assert!(ring.iter(&slab).eq(expected.iter().copied()));
        assert!(other.iter(&slab).eq(expected.iter().copied()));
    }
}

#[test]
fn texts_are_what_was_stored() {
    let mut random = Random(3);
    let mut store = KeyStore::new();
    let mut texts: BTreeMap<(u32, usize), String> = BTreeMap::new();
    for round in 0..3000 {
        if texts.len() < 500 && round % 3 != 2 {
            let letter = char::from(b'a' + random.below(26) as u8);
            let text: String = std::iter::repeat_n(letter, random.below(1025) as usize).collect();
            let slot = store.insert(&text);
            texts.insert((slot, text.len().div_ceil(8)), text);
        } else {
            let nth = random.below(texts.len() as u64) as usize;
            let place = *texts.keys().nth(nth).unwrap();
            let text = texts.remove(&place).unwrap();
            store.remove(place.0, text.len());
        }
        assert_eq!(store.len() as usize, texts.len());
    }
    for ((slot, _), text) in &texts {
        assert_eq!(store.get(*slot, text.len()), text.as_bytes());
    }
    let lens: Vec<usize> = texts.values().map(String::len).collect();
    assert!(lens.iter().any(|len| *len > 1000), "long texts are among them");
}
