//! What a held key and a waiter cost: every byte that the engine allocates is counted.

use lockstead_engine::{Command, Effect, Engine, Instant, Limits, Progress, SessionId};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Counts what is allocated and what is not freed yet.
struct Counting;

static BYTES: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, SeqCst);
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, SeqCst);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test counts at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// An engine whose bytes can be told, apart from the vector of effects and the key that tests write.
struct Measured {
    engine: Engine,
    before: u64,
    effects: Vec<Effect>,
    key: String,
}

impl Measured {
    fn new(limits: Limits) -> Self {
        let effects = Vec::with_capacity(4);
        let key = String::with_capacity(64);
        let before = BYTES.load(SeqCst);
        let mut engine = Engine::new(limits, [1, 2], Instant(0), None);
        engine.supply_tokens(1, 1 << 60);
        Self { engine, before, effects, key }
    }

    fn bytes(&self) -> u64 {
        BYTES.load(SeqCst) - self.before
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
    let _alone = ALONE.lock();
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
    let _alone = ALONE.lock();
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
    let _alone = ALONE.lock();
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
    let (bytes, allocations) = (measured.bytes(), ALLOCATIONS.load(SeqCst));
    for nth in 1..1_000_000 {
        round(&mut measured, nth);
    }
    assert_eq!(measured.bytes(), bytes);
    assert_eq!(ALLOCATIONS.load(SeqCst), allocations);
}
