//! The limits, and which of several that are reached is named.

use crate::say;
use crate::world::World;
use lockstead_engine::Limits;

/// Reached are those of the set bits: 1 session, 2 key, 4 all, 8 keys.
fn limits(reached: u8) -> Limits {
    let limit = |bit: u8, room| if reached & bit == 0 { room } else { 0 };
    Limits {
        max_waiters_per_session: limit(1, 1),
        max_waiters_per_key: limit(2, 1),
        max_waiters: limit(4, 1),
        max_keys: limit(8, 1),
        max_lease_s: 255,
    }
}

#[test]
fn of_several_reached_limits_the_first_is_named() {
    for reached in 0..16 {
        let expected = match reached {
            0 => vec![],
            r if r & 1 != 0 => vec!["s0 B owner=1 reason=4".to_string()],
            r if r & 2 != 0 => vec!["s0 B owner=1 reason=1".to_string()],
            r if r & 4 != 0 => vec!["s0 B owner=1 reason=2".to_string()],
            _ => vec!["s0 B owner=1 reason=3".to_string()],
        };
        // While recovering a free key needs both a record and a place in the queue.
        let mut world = World::restored(limits(reached), Some(1000), &[]);
        let session = world.open();
        assert_eq!(say::lines(&world.acquire(session, "k", 9, 9, 1)), expected, "{reached}");
        // Otherwise it needs only a record.
        let mut world = World::with(limits(reached));
        let session = world.open();
        let expected =
            if reached & 8 == 0 { "s0 A owner=1 token=1 lease=9 waited=0" } else { "s0 B owner=1 reason=3" };
        assert_eq!(say::lines(&world.acquire(session, "k", 9, 9, 1)), [expected], "{reached}");
    }
}

#[test]
fn defaults_are_those_of_the_page() {
    let Limits { max_keys, max_waiters, max_waiters_per_key, max_waiters_per_session, max_lease_s } =
        Limits::default();
    assert_eq!((max_keys, max_waiters), (10_000_000, 1_000_000));
    assert_eq!((max_waiters_per_key, max_waiters_per_session, max_lease_s), (100_000, 32_768, 255));
}

#[test]
fn keys_of_every_length_are_told_apart() {
    let mut world = World::new();
    let session = world.open();
    let long = "ä".repeat(512);
    let keys: Vec<&str> = (1..=512).map(|chars| &long[..2 * chars]).collect();
    let grants: Vec<_> = keys.iter().map(|key| world.take(session, key, 9)).collect();
    for (key, grant) in keys.iter().zip(&grants) {
        assert_eq!(world.engine.key(grant.key), Some(*key));
        let released = format!("s0 R token={}", grant.token);
        assert_eq!(say::lines(&world.release(session, key, grant.token)), [released]);
    }
    assert_eq!(world.engine.counts().keys, 0);
}
