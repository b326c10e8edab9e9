//! What went wrong in other lock systems, as far as it can be shown with the clock in hand (docs/field-reports.md).

use crate::say;
use crate::world::{World, grant, only_grant};
use lockstead_engine::{Answer, Counts, Effect, Limits, SessionId};

const NOTHING: Counts = Counts { held: 0, keys: 0, waiters: 0 };

fn acquired(effects: &[Effect], session: SessionId) -> bool {
    effects.len() == 1 && effects[0].session == session && grant(&effects[0]).is_some()
}

#[test]
fn p01_a_lease_counts_from_the_grant_and_not_from_the_request() {
    let mut world = World::new();
    let [a, b, c] = [world.open(), world.open(), world.open()];
    world.take(a, "k", 10);
    assert_eq!(world.acquire(b, "k", 20, 3, 1), []);
    // The server comes to the end of the lease late, too: its lateness takes nothing from the next lease.
    assert!(acquired(&world.at(10_031), b));
    for now_ms in [10_031, 11_000, 13_000, 13_031] {
        world.at(now_ms);
        assert_eq!(say::lines(&world.acquire(c, "k", 0, 5, 2)), ["s2 T owner=2"]);
    }
    world.at(13_032);
    assert!(acquired(&world.acquire(c, "k", 0, 5, 3), c));
}

#[test]
fn p03_a_waiter_that_timed_out_has_left_the_queue() {
    let mut world = World::new();
    let [a, b, c] = [world.open(), world.open(), world.open()];
    let held = world.take(a, "k", 30);
    world.acquire(b, "k", 1, 30, 1);
    assert_eq!(say::lines(&world.at(1001)), ["s1 T owner=1"]);
    assert_eq!(say::lines(&world.release(a, "k", held.token)), ["s0 R token=1"]);
    assert!(acquired(&world.acquire(c, "k", 0, 5, 2), c));
    assert_eq!(world.engine.counts(), Counts { held: 1, keys: 1, waiters: 0 });
}

/// One key of [`p04_a_release_at_the_deadline_of_the_waiter`].
struct Race {
    nth: usize,
    key: String,
    token: u64,
    deadline_ms: u64,
    release_ms: u64,
}

#[test]
fn p04_a_release_at_the_deadline_of_the_waiter() {
    const KEYS: u64 = 100;
    const ROUNDS: u64 = 10_000;
    let mut world = World::new();
    let [holder, waiter, next] = [world.open(), world.open(), world.open()];
    for batch in 0..ROUNDS / KEYS {
        let start_ms = batch * 10_000;
        world.at(start_ms);
        let mut races = Vec::new();
        for nth in 0..KEYS {
            let key = format!("key {nth}");
            let token = world.take(holder, &key, 255).token;
            let wait_s = 1 + ((batch + nth) % 3) as u8;
            assert_eq!(world.acquire(waiter, &key, wait_s, 200, nth), []);
            assert_eq!(world.acquire(next, &key, 100, 200, nth), []);
            let deadline_ms = start_ms + 1000 * u64::from(wait_s) + 1;
            races.push(Race {
                nth: nth as usize,
                key,
                token,
                deadline_ms,
                release_ms: deadline_ms + (batch + nth / 3) % 5 - 2,
            });
        }
        races.sort_by_key(|race| race.release_ms);
        let mut answered = vec![Vec::new(); KEYS as usize];
        for race in &races {
            let due = world.at(race.release_ms);
            let released = world.release(holder, &race.key, race.token);
            assert_eq!(released[0].answer, Answer::Released { token: race.token });
            // In time the waiter has the key, too late the next one, in this very step.
            let expected = if race.release_ms < race.deadline_ms { waiter } else { next };
            assert!(acquired(&released[1..], expected), "{released:?}");
            for effect in due.iter().chain(&released) {
                if let Answer::Acquired { owner, .. } | Answer::Timeout { owner } = effect.answer {
                    answered[owner as usize].push(effect.session);
                }
            }
            if expected == waiter {
                let handed_on = world.release(waiter, &race.key, grant(&released[1]).unwrap().token);
                assert!(acquired(&handed_on[1..], next));
                answered[race.nth].push(next);
                world.release(next, &race.key, grant(&handed_on[1]).unwrap().token);
            } else {
                world.release(next, &race.key, grant(&released[1]).unwrap().token);
            }
        }
        assert!(answered.iter().all(|sessions| *sessions == [waiter, next]), "{answered:?}");
        assert_eq!(world.engine.counts(), NOTHING);
    }
}

#[test]
fn p05_a_waiter_that_leaves_does_not_take_the_wake_up_along() {
    let mut world = World::new();
    for round in 0..1000 {
        let [a, b, c] = [world.open(), world.open(), world.open()];
        let held = world.take(a, "k", 30);
        world.acquire(b, "k", 30, 30, 1);
        world.acquire(c, "k", 30, 30, 2);
        let effects = if round % 2 == 0 {
            world.close(b, &[]);
            world.release(a, "k", held.token)
        } else {
            // The grant went to a session that was closed before a byte of it was sent.
            let released = world.release(a, "k", held.token);
            assert_eq!(released[1].session, b);
            [vec![released[0]], world.close(b, &[grant(&released[1]).unwrap()])].concat()
        };
        assert!(acquired(&effects[1..], c), "{effects:?}");
        let unsent = grant(&effects[1]).unwrap();
        assert_eq!(world.close(c, &[unsent]), []);
        world.close(a, &[]);
        assert_eq!(world.engine.counts(), NOTHING);
    }
}

#[test]
fn p06_the_end_of_a_lease_wakes_the_next_waiter() {
    let mut world = World::new();
    let [a, b] = [world.open(), world.open()];
    world.take(a, "k", 1);
    world.acquire(b, "k", 5, 5, 1);
    assert_eq!(world.next_deadline_ms(), Some(1001));
    assert_eq!(world.at(1000), []);
    assert!(acquired(&world.at(1001), b));
}

#[test]
fn p07_a_long_waiter_keeps_its_place() {
    let mut world = World::new();
    let [holder, long, later] = [world.open(), world.open(), world.open()];
    let held = world.take(holder, "k", 255);
    world.acquire(long, "k", 255, 10, 1);
    for now_s in 1..200 {
        assert_eq!(world.at(1000 * now_s), []);
        assert_eq!(world.acquire(later, "k", 255, 10, 1 + now_s), []);
    }
    world.at(200_000);
    let effects = world.release(holder, "k", held.token);
    assert!(acquired(&effects[1..], long));
    assert_eq!(say::lines(&effects)[1], "s1 A owner=1 token=2 lease=10 waited=199999");
    assert_eq!(say::lines(&world.at(210_001)), ["s2 A owner=2 token=3 lease=10 waited=209000"]);
}

#[test]
fn p08_an_ended_lease_is_free_for_a_single_try() {
    let mut world = World::new();
    let [a, b] = [world.open(), world.open()];
    world.take(a, "k", 1);
    world.at(1050);
    assert!(acquired(&world.acquire(b, "k", 0, 5, 1), b));
}

#[test]
fn p09_a_lease_is_as_long_as_it_was_asked_for() {
    for lease_s in [1, 2, 5, 30, 255] {
        let mut world = World::new();
        let [a, b] = [world.open(), world.open()];
        world.at(12_345);
        world.take(a, "k", lease_s);
        let end_ms = 12_345 + 1000 * u64::from(lease_s) + 1;
        assert_eq!(world.next_deadline_ms(), Some(end_ms));
        world.at(end_ms - 1);
        assert_eq!(say::lines(&world.acquire(b, "k", 0, 1, 1)), ["s1 T owner=1"]);
        world.at(end_ms);
        assert!(acquired(&world.acquire(b, "k", 0, 1, 2), b));
    }
}

/// The steps of each hand-over are counted in the unit tests.
#[test]
fn p12_a_release_wakes_one_waiter() {
    let mut world = World::with(Limits { max_waiters_per_session: 5000, ..Limits::default() });
    let [holder, waiters] = [world.open(), world.open()];
    let mut held = world.take(holder, "k", 255).token;
    for owner in 0..5000 {
        assert_eq!(world.acquire(waiters, "k", 255, 255, owner), []);
    }
    for owner in 0..100 {
        let effects = world.release(holder, "k", held);
        assert_eq!(effects.len(), 2);
        let (token, lease_s, waited_ms) = (held + 1, 255, 0);
        match effects[1].answer {
            Answer::Acquired { key, .. } => {
                let answer = Answer::Acquired { owner, token, lease_s, waited_ms, key };
                assert_eq!(effects[1], Effect { session: waiters, answer });
            }
            other => panic!("{other:?}"),
        }
        held = token;
    }
    assert_eq!(world.engine.counts(), Counts { held: 1, keys: 1, waiters: 4900 });
}

/// What happens to the memory is measured in `memory.rs`.
#[test]
fn p13_a_free_key_leaves_nothing_behind() {
    let mut world = World::new();
    let session = world.open();
    for nth in 0..2000u64 {
        let key = format!("key {nth}");
        let held = world.take(session, &key, 1);
        if nth % 2 == 0 {
            world.release(session, &key, held.token);
        } else {
            world.acquire(session, &key, 1, 1, 1);
            world.at(world.now_ms() + 1001);
            world.at(world.now_ms() + 1001);
        }
        assert_eq!(world.engine.counts(), NOTHING);
        assert_eq!(world.next_deadline_ms(), None);
    }
}

#[test]
fn p14_places_in_a_queue_are_given_back() {
    let limits =
        Limits { max_waiters: 30, max_waiters_per_key: 20, max_waiters_per_session: 10, ..Limits::default() };
    let mut world = World::with(limits);
    let holder = world.open();
    world.take(holder, "k", 255);
    world.take(holder, "l", 255);
    for round in 0..100 {
        world.at(1000 * round);
        let sessions: Vec<SessionId> = (0..4).map(|_| world.open()).collect();
        let mut refused = Vec::new();
        for key in ["k", "l"] {
            for &session in &sessions {
                for owner in 0..11 {
                    let effects = world.acquire(session, key, 255, 255, owner);
                    if let [Effect { answer: Answer::Busy { reason, .. }, .. }] = effects[..] {
                        refused.push(reason.as_u8());
                    }
                }
            }
        }
        // On k two sessions fill their own places and the key's; on l a third fills its own and the last of all.
        let expected = [vec![4; 2], vec![1; 22], vec![4; 22], vec![4], vec![2; 11]].concat();
        assert_eq!(refused, expected);
        assert_eq!(world.engine.counts().waiters, 30);
        for session in sessions {
            assert_eq!(world.close(session, &[]), []);
        }
        assert_eq!(world.engine.counts(), Counts { held: 2, keys: 2, waiters: 0 });
    }
}

#[test]
fn a_single_grant_is_recognised() {
    let mut world = World::new();
    let session = world.open();
    let first = only_grant(&world.acquire(session, "k", 0, 1, 1));
    assert_eq!((first.token, world.engine.key(first.key)), (1, Some("k")));
    world.release(session, "k", 1);
    assert_eq!(world.engine.key(first.key), None);
}
