//! The duration lists against a sorted map.

use super::Random;
use crate::duration_lists::{DurationList, DurationLists, Timed};
use crate::ring::{Link, Linked};
use crate::slab::Slab;
use crate::time::Instant;
use crate::winner_tree::WinnerTree;
use std::collections::BTreeMap;

#[derive(Clone, Copy)]
struct Timer {
    ends: Instant,
    list: DurationList,
    links: [Link; 1],
}

impl Linked for Timer {
    fn links(&self) -> &[Link] {
        &self.links
    }

    fn links_mut(&mut self) -> &mut [Link] {
        &mut self.links
    }
}

impl Timed for Timer {
    fn ends(&self) -> Instant {
        self.ends
    }
}

/// The lists and, by end and order of arming, the oracle.
struct Both {
    slab: Slab<Timer>,
    lists: DurationLists<0>,
    oracle: BTreeMap<(u64, u64), u32>,
    armed: u64,
}

impl Both {
    fn new() -> Self {
        Self { slab: Slab::new(), lists: DurationLists::new(), oracle: BTreeMap::new(), armed: 0 }
    }

    fn arm(&mut self, ends: Instant, list: DurationList) {
        let slot = self.slab.insert(Timer { ends, list, links: [Link::NONE] });
        self.lists.arm(&mut self.slab, slot, list);
        self.oracle.insert((ends.0, self.armed), slot);
        self.armed += 1;
    }

    fn disarm(&mut self, timer: (u64, u64)) {
        let slot = self.oracle.remove(&timer).unwrap();
        let list = self.slab[slot].list;
        self.lists.disarm(&mut self.slab, slot, list);
        self.slab.remove(slot);
    }

    fn compare(&self) {
        let earliest = self.oracle.first_key_value().map(|(&(ends, _), &slot)| (Instant(ends), slot));
        assert_eq!(self.lists.next_end().zip(self.lists.earliest()), earliest);
    }
}

#[test]
fn timers_end_in_the_order_of_a_sorted_map() {
    let mut random = Random(8);
    for round in 0..8 {
        let mut both = Both::new();
        for nth in 0..random.below(20) {
            both.arm(Instant(1000 * (nth / 3)), DurationList::RESTORED);
        }
        let mut now = Instant(0);
        for _ in 0..2000 {
            match random.below(6) {
                0..=2 => {
                    // Few durations in even rounds, so that many end at one instant; all of them in odd ones.
                    let duration_s = 1 + random.below(if round % 2 == 0 { 4 } else { 255 }) as u8;
                    both.arm(now.end_after(duration_s), DurationList::of(duration_s));
                }
                3 if !both.oracle.is_empty() => {
                    let nth = random.below(both.oracle.len() as u64) as usize;
                    both.disarm(*both.oracle.keys().nth(nth).unwrap());
                }
                4 => now = Instant(now.0 + 1000 * random.below(2)),
                _ => {
                    while let Some((&timer, _)) = both.oracle.first_key_value() {
                        both.compare();
                        if timer.0 > now.0 {
                            break;
                        }
                        both.disarm(timer);
                    }
                }
            }
            both.compare();
        }
    }
}

#[test]
fn restored_timers_have_a_list_of_their_own() {
    let mut both = Both::new();
    both.arm(Instant(300_000), DurationList::RESTORED);
    for duration_s in 1..=255 {
        both.arm(Instant(0).end_after(duration_s), DurationList::of(duration_s));
        both.compare();
    }
    for _ in 0..256 {
        let (&timer, _) = both.oracle.first_key_value().unwrap();
        both.disarm(timer);
        both.compare();
    }
}

#[test]
fn a_timer_that_would_end_before_the_one_ahead_is_refused() {
    let refused = std::panic::catch_unwind(|| {
        let mut both = Both::new();
        both.arm(Instant(2001), DurationList::of(2));
        both.arm(Instant(2001), DurationList::of(2));
        both.arm(Instant(2000), DurationList::of(2));
    });
    assert!(refused.is_err());
}

#[test]
fn the_winner_is_the_least_and_of_equal_ones_the_highest_leaf() {
    let mut random = Random(9);
    let mut tree = WinnerTree::new();
    let mut numbers: BTreeMap<u8, u64> = BTreeMap::new();
    assert_eq!((tree.least(), tree.winner()), (None, None));
    for round in 0..4000u64 {
        let leaf = random.next() as u8;
        // All leaves, then the first and last few.
        let leaf = if round < 2000 { leaf } else { (leaf % 6).wrapping_sub(3) };
        let number = (random.below(3) > 0).then(|| random.below(20));
        tree.set(leaf, number);
        match number {
            Some(number) => numbers.insert(leaf, number),
            None => numbers.remove(&leaf),
        };
        let least = numbers.iter().map(|(&leaf, &number)| (number, leaf)).min_by_key(|&(n, leaf)| (n, !leaf));
        assert_eq!(tree.least().zip(tree.winner()), least);
    }
}

#[test]
fn instants_are_never_early_and_waits_never_overstated() {
    assert_eq!(Instant(7).end_after(1), Instant(1008));
    assert_eq!(Instant(7).end_after(255), Instant(255_008));
    let asked = Instant(1000);
    assert_eq!([999, 1000, 1001, 1002, 3000].map(|now| Instant(now).waited_ms(asked)), [0, 0, 0, 1, 1999]);
    assert_eq!(Instant(1 << 40).waited_ms(asked), u32::MAX);
    assert_eq!([999, 1000, 1001].map(|now| Instant(now).ms_until(asked)), [1, 0, 0]);
    assert_eq!(asked.ms_until(Instant(1 << 40)), u32::MAX);
}
