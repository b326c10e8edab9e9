//! What a held key and a waiter cost: every byte that the engine allocates is counted.

use lockstead_engine::{Command, Effect, Engine, Instant, Limits, Progress, SessionId};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write;

/// Counts what is allocated and what is not freed yet.
struct Counting;

thread_local! {
    /// By thread, so that what the test harness allocates meanwhile does not count.
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Adds to this thread's count, unless the thread is ending.
fn count(bytes: i64, allocations: u64) {
    let _ = BYTES.try_with(|count| count.set(count.get() + bytes));
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + allocations));
}

// SAFETY: every call goes on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64, 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64), 0);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// An engine whose bytes can be told, apart from the vector of effects and the key that tests write.
struct Measured {
    engine: Engine,
    before: i64,
    effects: Vec<Effect>,
    key: String,
}

impl Measured {
    fn new(limits: Limits) -> Self {
        let effects = Vec::with_capacity(4);
        let key = String::with_capacity(64);
        let before = BYTES.get();
        let mut engine = Engine::new(limits, [1, 2], Instant(0), None);
        engine.supply_tokens(1, 1 << 60);
        Self { engine, before, effects, key }
    }

    fn bytes(&self) -> u64 {
        u64::try_from(BYTES.get() - self.before).expect("an engine frees what it allocated")
    }

    /// Writes a key of 32 bytes.
    fn name(&mut self, nth: u64) {
        self.key.clear();
        write!(self.key, "{nth:032}").expect("a string takes all");
    }

    /// Acquires a key of 32 bytes for 255 s.
    fn acquire(&mut self, session: SessionId, nth: u64, wait_s: u8) {
        self.name(nth);
        let command = Command::Acquire { wait_s, lease_s: 255, owner: nth, key: &self.key };
        self.effects.clear();
        let now = Instant(nth / 1000);
        assert_eq!(self.engine.advance(now, 1, &mut self.effects), Progress::Done);
        self.engine.run(now, session, command, &mut self.effects);
        assert_eq!(self.effects.len(), usize::from(wait_s == 0));
    }

    /// Lets everything end.
    fn end(&mut self) {
        let later = Instant(10_000_000);
        while self.engine.advance(later, 2, &mut self.effects) == Progress::More {
            self.effects.clear();
        }
    }
}

#[test]
fn a_held_key_costs_88_bytes_and_its_text() {
    const KEYS: u64 = 1_000_000;
    let mut measured = Measured::new(Limits::default());
    let empty = measured.bytes();
    let session = measured.engine.open_session();
    for nth in 0..KEYS {
        measured.acquire(session, nth, 0);
    }
    let full = measured.bytes();
    let each = (full - empty) as f64 / KEYS as f64;
    println!("a held key of 32 bytes: {each:.2} bytes; an empty engine: {empty} bytes");
    assert!(each <= 88.0 + 32.0, "a key of 32 bytes costs {each} bytes");

    // What is left is a bit and a pointer where much more was.
    measured.end();
    assert_eq!(measured.engine.counts().keys, 0);
    let left = measured.bytes() - empty;
    println!("after all of them ended: {left} bytes more than empty");
    assert!(left * 100 <= full, "{left} of {full} bytes are left");
}

#[test]
fn a_waiter_costs_64_bytes() {
    const WAITERS: u64 = 1_000_000;
    const PER_SESSION: u64 = 25_000;
    let limits =
        Limits { max_waiters: WAITERS as u32, max_waiters_per_key: WAITERS as u32, ..Limits::default() };
    let mut measured = Measured::new(limits);
    let session = measured.engine.open_session();
    for key in 0..1000 {
        measured.acquire(session, key, 0);
    }
    let without = measured.bytes();
    for nth in 0..WAITERS {
        let session = if nth % PER_SESSION == 0 {
            measured.engine.open_session()
        } else {
            SessionId((nth / PER_SESSION) as u32 + 1)
        };
        // Owner and key go on together, and each key gets its share.
        let (key, wait_s) = (nth % 1000, 1 + (nth % 255) as u8);
        measured.name(key);
        let command = Command::Acquire { wait_s, lease_s: 1, owner: nth, key: &measured.key };
        measured.engine.run(Instant(0), session, command, &mut measured.effects);
    }
    assert_eq!(u64::from(measured.engine.counts().waiters), WAITERS);
    let full = measured.bytes();
    let each = (full - without) as f64 / WAITERS as f64;
    println!("a waiter: {each:.2} bytes");
    assert!(each <= 64.0, "a waiter costs {each} bytes");

    for nth in 0..=WAITERS / PER_SESSION {
        measured.engine.close_session(Instant(0), SessionId(nth as u32), [], &mut measured.effects);
    }
    assert_eq!(measured.engine.counts().waiters, 0);
    let left = measured.bytes() - without;
    println!("after all of them left: {left} bytes more than before");
    assert!(left * 50 <= full, "{left} of {full} bytes are left");
}

#[test]
fn p13_one_key_after_another_allocates_nothing() {
    let mut measured = Measured::new(Limits::default());
    let session = measured.engine.open_session();
    let round = |measured: &mut Measured, nth: u64| {
        measured.acquire(session, nth, 0);
        let now = Instant(nth / 1000);
        let wait = Command::Acquire { wait_s: 1, lease_s: 1, owner: 1, key: &measured.key };
        measured.engine.run(now, session, wait, &mut measured.effects);
        let cancel = Command::Cancel { owner: 1, key: &measured.key };
        measured.engine.run(now, session, cancel, &mut measured.effects);
        let release = Command::Release { token: nth + 1, key: &measured.key };
        measured.engine.run(now, session, release, &mut measured.effects);
        assert_eq!(measured.effects.len(), 3);
        assert_eq!(measured.engine.counts().keys, 0);
    };
    round(&mut measured, 0);
    let (bytes, allocations) = (measured.bytes(), ALLOCATIONS.get());
    for nth in 1..1_000_000 {
        round(&mut measured, nth);
    }
    assert_eq!(measured.bytes(), bytes);
    assert_eq!(ALLOCATIONS.get(), allocations);
}
