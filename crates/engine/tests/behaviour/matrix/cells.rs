//! What the engine does in one state to one request or event, in the words of the page.

use super::scene::{KEY, LEASE_END_MS, OTHER_KEY, RECOVERY_END_MS, START_MS, Scene, WAITS_S};
use crate::world::{World, grant};
use lockstead_engine::{Answer, Counts, Effect, Limits, UnsentGrant};
use lockstead_proto::{BusyReason, KeyState as State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    Free,
    Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    None,
    Recovering,
    Draining,
    StorageFailing,
}

impl Condition {
    /// Whether the waiters are sent away when it starts, and nobody waits as long as it lasts.
    pub fn sends_away(self) -> bool {
        matches!(self, Self::Draining | Self::StorageFailing)
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Row {
    AcquireNow,
    AcquireWait,
    ReleaseActive,
    ReleaseOther,
    ExtendActive,
    ExtendOther,
    Cancel,
    Query,
    LeaseEnds,
    WaitEnds,
    SessionCloses,
}

/// What happens, in the words of the page.
pub fn observe(row: Row, key: KeyState, condition: Condition) -> String {
    match row {
        Row::AcquireNow => acquire(0, key, condition),
        Row::AcquireWait => {
            let shortest = acquire(1, key, condition);
            assert_eq!(shortest, acquire(255, key, condition));
            shortest
        }
        Row::ReleaseActive => release_active(key, condition),
        Row::ReleaseOther => release_other(key, condition),
        Row::ExtendActive => extend_active(key, condition),
        Row::ExtendOther => extend_other(key, condition),
        Row::Cancel => cancel(key, condition),
        Row::Query => query(key, condition),
        Row::LeaseEnds => lease_ends(key, condition),
        Row::WaitEnds => wait_ends(key, condition),
        Row::SessionCloses => session_closes(key, condition),
    }
}

/// With every limit reached, then without those that are named, one after the other.
fn acquire(wait_s: u8, key: KeyState, condition: Condition) -> String {
    let max_keys = if key == KeyState::Held { 2 } else { 1 };
    let mut limits = Limits {
        max_keys,
        max_waiters: 0,
        max_waiters_per_key: 0,
        max_waiters_per_session: 0,
        ..Limits::default()
    };
    let mut refusals = Vec::new();
    loop {
        let mut scene = Scene::without_waiters(limits, key, condition);
        assert_eq!(scene.start(), []);
        let (name, limit, reason) = match attempt(&mut scene, wait_s) {
            Ok(outcome) => return [vec![outcome], refusals].concat().join("; "),
            Err(BusyReason::KeyQueueFull) => ("key's waiters", &mut limits.max_waiters_per_key, 1),
            Err(BusyReason::WaitersFull) => ("all waiters", &mut limits.max_waiters, 2),
            Err(BusyReason::KeysFull) => ("keys", &mut limits.max_keys, 3),
            Err(BusyReason::SessionWaitersFull) => {
                ("session's waiters", &mut limits.max_waiters_per_session, 4)
            }
            Err(other) => panic!("{other}"),
        };
        // Room for one is room enough.
        *limit += 1;
        refusals.push(format!("{name} full: `B` {reason}"));
    }
}

/// The outcome of an acquire, or the limit that was in its way.
fn attempt(scene: &mut Scene, wait_s: u8) -> Result<String, BusyReason> {
    let before = scene.state();
    let effects = scene.world.acquire(scene.asker, KEY, wait_s, 30, 9);
    let after = scene.state();
    if effects.is_empty() {
        assert_eq!(after.1.waiters, before.1.waiters + 1);
        let wait_end_ms = START_MS + 1000 * u64::from(wait_s) + 1;
        assert_eq!(after.2, before.2.map(|next| next.min(wait_end_ms)));
        return Ok("queued".into());
    }
    match scene.answer(&effects) {
        Answer::Acquired { owner: 9, token, lease_s: 30, waited_ms: 0, .. } => {
            assert!(token > scene.other_token);
            assert_eq!(scene.key_state(), (State::Held, 30_001, 0));
            Ok("granted: `A`".into())
        }
        answer => {
            assert_eq!(after, before);
            match answer {
                Answer::Timeout { owner: 9 } => Ok("`T`".into()),
                Answer::Busy { owner: 9, reason: BusyReason::Draining } => Ok("`B` 5".into()),
                Answer::Busy { owner: 9, reason: BusyReason::NotDurable } => Ok("`B` 6".into()),
                Answer::Busy { owner: 9, reason } => Err(reason),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn release_active(key: KeyState, condition: Condition) -> String {
    let mut scene = Scene::new(key, condition);
    let token = scene.token;
    let before = scene.state();
    let effects = scene.world.release(scene.asker, KEY, token);
    match scene.answer(&effects[..1]) {
        Answer::NotHeld { token: named } => {
            assert_eq!((named, scene.state(), effects.len()), (token, before, 1));
            "`N`".into()
        }
        Answer::Released { token: named } => {
            assert_eq!(named, token);
            format!("`R`, freed; {}", scene.freed(&effects[1..]))
        }
        other => panic!("{other:?}"),
    }
}

fn release_other(key: KeyState, condition: Condition) -> String {
    let mut scene = Scene::new(key, condition);
    let before = scene.state();
    for token in [0, scene.token - 1, scene.other_token, u64::MAX] {
        let effects = scene.world.release(scene.asker, KEY, token);
        assert_eq!(scene.answer(&effects), Answer::NotHeld { token });
        assert_eq!(scene.state(), before);
    }
    "`N`".into()
}

fn extend_active(key: KeyState, condition: Condition) -> String {
    let mut scene = Scene::new(key, condition);
    let (session, token) = (scene.asker, scene.token);
    let (_, old_ms, waiters) = scene.key_state();
    let effects = scene.world.extend(session, KEY, 1, token);
    if key == KeyState::Free {
        assert_eq!(scene.answer(&effects), Answer::NotHeld { token });
        return "`N`".into();
    }
    if condition == Condition::StorageFailing {
        let before = scene.state();
        for lease_s in [1, 255] {
            let effects = scene.world.extend(session, KEY, lease_s, token);
            assert_eq!(scene.answer(&effects), Answer::NotDurable { token });
            assert_eq!(scene.state(), before);
        }
        assert_eq!(scene.answer(&effects), Answer::NotDurable { token });
        return "`X` 10, end unchanged".into();
    }
    // The first would end earlier, the second later.
    assert_eq!(scene.answer(&effects), Answer::Extended { token, lease_s: 1 });
    assert_eq!(scene.key_state(), (State::Held, old_ms, waiters));
    let effects = scene.world.extend(session, KEY, 90, token);
    assert_eq!(scene.answer(&effects), Answer::Extended { token, lease_s: 90 });
    assert_eq!(scene.key_state(), (State::Held, 90_001, waiters));
    "`E`, ends at the later of the old end and now + lease".into()
}

fn extend_other(key: KeyState, condition: Condition) -> String {
    let mut scene = Scene::new(key, condition);
    let before = scene.state();
    for token in [0, scene.token - 1, scene.other_token, u64::MAX] {
        let effects = scene.world.extend(scene.asker, KEY, 200, token);
        assert_eq!(scene.answer(&effects), Answer::NotHeld { token });
        assert_eq!(scene.state(), before);
    }
    "`N`".into()
}

fn cancel(key: KeyState, condition: Condition) -> String {
    let mut scene = Scene::new(key, condition);
    let session = scene.asker;
    let unknown = scene.state();
    // The waiters have this owner, in other sessions.
    assert_eq!(scene.world.cancel(session, KEY, 50), []);
    assert_eq!(scene.state(), unknown);
    if scene.waiters.is_empty() {
        return "nothing".into();
    }
    // The oldest has the shortest wait: the next deadline shows that it was the one.
    for wait_s in [2, 3, 4] {
        assert_eq!(scene.world.acquire(session, KEY, wait_s, 1, 9), []);
    }
    for left in [2, 1, 0] {
        let effects = scene.world.cancel(session, KEY, 9);
        assert_eq!(scene.answer(&effects), Answer::Timeout { owner: 9 });
        let (_, counts, next_ms) = scene.state();
        assert_eq!(counts.waiters, 2 + left);
        let next_wait_s = if left == 0 { WAITS_S[0].into() } else { 5 - u64::from(left) };
        assert_eq!(next_ms, Some(START_MS + 1000 * next_wait_s + 1));
    }
    assert_eq!(scene.state(), unknown);
    "oldest attempt of this session with that owner: `T`; none: nothing".into()
}

fn query(key: KeyState, condition: Condition) -> String {
    let mut scene = Scene::new(key, condition);
    let waiting = scene.waiters.len() as u32;
    match scene.key_state() {
        (State::Free, 0, 0) => "state 0".into(),
        (State::Held, remaining_ms, waiters) => {
            assert_eq!((u64::from(remaining_ms), waiters), (LEASE_END_MS - START_MS, waiting));
            "state 1, remaining, waiters".into()
        }
        (State::Recovering, remaining_ms, waiters) => {
            assert_eq!((u64::from(remaining_ms), waiters), (RECOVERY_END_MS - START_MS, waiting));
            "state 2, remaining, waiters".into()
        }
        other => panic!("{other:?}"),
    }
}

fn lease_ends(key: KeyState, condition: Condition) -> String {
    let mut scene = Scene::new(key, condition);
    scene.world.at(LEASE_END_MS - 1);
    let effects = scene.world.at(LEASE_END_MS);
    if key == KeyState::Free {
        assert_eq!(effects, []);
        return "–".into();
    }
    // By then the waits have ended: nobody gets the key, which leaves no room taken.
    assert_eq!(effects, []);
    assert_eq!(scene.world.engine.counts().keys, 1);
    let mut scene = Scene::new(key, condition);
    let next = scene.waiters.len();
    if !condition.sends_away() {
        let effects = scene.world.acquire(scene.asker, KEY, 255, 30, 9);
        assert_eq!(effects, []);
    }
    scene.world.at(LEASE_END_MS - 1);
    assert_eq!(scene.key_state(), (State::Held, 1, u32::from(next > 0)));
    scene.waiters = if next > 0 { vec![scene.asker] } else { Vec::new() };
    let effects = scene.world.at(LEASE_END_MS);
    format!("freed; {}", scene.freed(&effects))
}

fn wait_ends(key: KeyState, condition: Condition) -> String {
    let mut scene = Scene::new(key, condition);
    if scene.waiters.is_empty() {
        assert_eq!(scene.world.engine.counts().waiters, 0);
        return "–".into();
    }
    for (nth, wait_s) in WAITS_S.into_iter().enumerate() {
        let ends = START_MS + 1000 * u64::from(wait_s) + 1;
        assert_eq!(scene.world.at(ends - 1), []);
        let effects = scene.world.at(ends);
        let answer = Answer::Timeout { owner: 50 + nth as u64 };
        assert_eq!(effects, [Effect { session: scene.waiters[nth], answer }]);
    }
    let keys = if key == KeyState::Held { 2 } else { 1 };
    assert_eq!(scene.world.engine.counts().keys, keys);
    "that waiter: `T`".into()
}

fn session_closes(key: KeyState, condition: Condition) -> String {
    let mut told: Vec<String> = Vec::new();
    let mut scene = Scene::new(key, condition);
    if let [first, _] = scene.waiters[..] {
        let before = scene.state();
        assert_eq!(scene.world.close(first, &[]), []);
        let after = scene.state();
        assert_eq!(after.1, Counts { waiters: 1, ..before.1 });
        told.push("its waiters leave".into());
    }
    let mut scene = Scene::new(key, condition);
    if let (Some(grant), KeyState::Held) = (scene.grant, key) {
        let asker = scene.asker;
        scene.asker = scene.world.open();
        let effects = scene.world.close(asker, &[grant]);
        told.push(format!("its unsent grants freed, {}", scene.freed(&effects)));
        let mut scene = Scene::new(key, condition);
        let before = (scene.state(), scene.asker);
        scene.asker = scene.world.open();
        assert_eq!(scene.world.close(before.1, &[]), []);
        assert_eq!(scene.state(), before.0);
        told.push("its other grants kept".into());
    }
    if told.is_empty() { "–".into() } else { told.join("; ") }
}

/// A new engine that is told when the recovery ends is recovering.
pub fn recovery_starts() -> String {
    let mut world = World::restored(Limits::default(), Some(RECOVERY_END_MS), &[]);
    let session = world.open();
    let effects = world.acquire(session, KEY, 0, 1, 1);
    assert_eq!(effects, [Effect { session, answer: Answer::Timeout { owner: 1 } }]);
    "at a start of the server".into()
}

pub fn recovery_ends() -> String {
    let mut world = World::restored(Limits::default(), Some(RECOVERY_END_MS), &[]);
    let sessions = [world.open(), world.open(), world.open(), world.open()];
    world.at(START_MS);
    for (session, key) in sessions.into_iter().zip([KEY, OTHER_KEY, OTHER_KEY, KEY]) {
        assert_eq!(world.acquire(session, key, 255, 30, 9), []);
    }
    assert_eq!(world.at(RECOVERY_END_MS - 1), []);
    let effects = world.at(RECOVERY_END_MS);
    assert_eq!(effects.len(), 2);
    assert!(effects.iter().all(|effect| grant(effect).is_some()));
    assert_eq!([effects[0].session, effects[1].session], sessions[..2]);
    world.take(sessions[0], "free", 1);
    "every free key with waiters: first waiter: `A`".into()
}

pub fn draining_starts() -> String {
    let mut scene = Scene::new(KeyState::Held, Condition::None);
    let effects = scene.world.drain();
    let busy = |owner| Answer::Busy { owner, reason: BusyReason::Draining };
    let [first, second] = scene.waiters[..] else { panic!("there are two waiters") };
    let expected =
        [(first, 50), (second, 51)].map(|(session, owner)| Effect { session, answer: busy(owner) });
    assert_eq!(effects, expected);
    "every waiter: `B` 5".into()
}

/// It does not end: not with time, and not by beginning again.
pub fn draining_ends() -> String {
    let mut scene = Scene::new(KeyState::Held, Condition::Draining);
    scene.world.at(1_000_000);
    assert_eq!(scene.world.drain(), []);
    let effects = scene.world.acquire(scene.asker, KEY, 0, 1, 9);
    let answer = Answer::Busy { owner: 9, reason: BusyReason::Draining };
    assert_eq!(scene.answer(&effects), answer);
    "–".into()
}

/// The waiters are sent away first, so that nobody is granted what is freed; and only the exact token is.
pub fn storage_failing_starts() -> String {
    let lose = |token: fn(&Scene) -> u64| {
        let mut scene = Scene::new(KeyState::Held, Condition::None);
        let grant = scene.grant.expect("it was not restored");
        let effects = scene.world.storage_fails(&[UnsentGrant { token: token(&scene), ..grant }]);
        let busy = |owner| Answer::Busy { owner, reason: BusyReason::NotDurable };
        let [first, second] = scene.waiters[..] else { panic!("there are two waiters") };
        let expected =
            [(first, 50), (second, 51)].map(|(session, owner)| Effect { session, answer: busy(owner) });
        assert_eq!(effects, expected);
        scene.waiters.clear();
        scene
    };
    let mut scene = lose(|scene| scene.other_token);
    assert_eq!(scene.key_state().0, State::Held);
    let mut scene = lose(|scene| scene.token);
    let lost = scene.freed(&[]);
    assert_eq!(scene.world.engine.counts(), Counts { held: 1, keys: 1, waiters: 0 });
    format!("every waiter: `B` 6; grants that could not be made durable: freed, {lost}")
}

/// It does not end with time, and then everything is as if it had never been.
pub fn storage_failing_ends() -> String {
    let mut scene = Scene::new(KeyState::Held, Condition::StorageFailing);
    let session = scene.asker;
    scene.world.at(LEASE_END_MS - 1);
    let effects = scene.world.acquire(session, KEY, 0, 1, 9);
    assert_eq!(scene.answer(&effects), Answer::Busy { owner: 9, reason: BusyReason::NotDurable });
    scene.world.storage_works();
    let token = scene.token;
    let effects = scene.world.extend(session, KEY, 90, token);
    assert_eq!(scene.answer(&effects), Answer::Extended { token, lease_s: 90 });
    assert_eq!(scene.world.acquire(session, KEY, 9, 30, 9), []);
    assert!(grant(&scene.world.release(session, KEY, token)[1]).is_some());
    scene.world.take(session, "free", 1);
    "grants go on".into()
}
