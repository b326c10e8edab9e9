//! The pieces that every request goes through, each as a case that does a fixed work.
//!
//! The same cases are timed by `cargo bench -p lockstead-micro` and counted, instruction by instruction, by
//! `cargo xtask instructions`. Nothing here draws a random number or looks at a clock, so a case does the same work each
//! time. Each checks its own work as it goes: a case that does nothing is fast and wrong.

mod codec;
mod engine;
mod journal;
mod turn;

use std::hint::black_box;

/// What one run of a case does so many times.
pub const OPERATIONS: usize = 1_000;

/// How many bytes a key has here.
const KEY_BYTES: usize = 32;

/// A fixed work, in a state that it can be done in again and again.
pub trait Work {
    /// What must be there before the next run; neither timed nor counted.
    fn prepare(&mut self) {}

    /// Does [`OPERATIONS`] operations and says how many of them went as they should.
    fn run(&mut self) -> usize;
}

/// A work with a name.
pub struct Case {
    /// `crate/operation` or `crate/operation/variant`.
    pub name: String,
    /// Whether its instructions are counted. Not if making ready takes long and the count says nothing new.
    pub is_counted: bool,
    make: Box<dyn Fn() -> Box<dyn Work>>,
}

impl Case {
    fn new<W: Work + 'static>(name: impl Into<String>, make: impl Fn() -> W + 'static) -> Self {
        Self { name: name.into(), is_counted: true, make: Box::new(move || Box::new(make())) }
    }

    /// Made ready and run once, so that buffers have grown.
    ///
    /// # Panics
    /// If an operation does not do what it should.
    #[must_use]
    pub fn make(&self) -> Box<dyn Work> {
        let mut work = (self.make)();
        work.prepare();
        assert_eq!(work.run(), OPERATIONS, "{}: operations that went as they should", self.name);
        work
    }
}

/// All of them.
#[must_use]
pub fn cases() -> Vec<Case> {
    [engine::cases(), codec::cases(), turn::cases(), journal::cases()].into_iter().flatten().collect()
}

/// The run whose instructions are counted: the counter is switched on at the entry of this very function and off at its
/// end, so it must stay one.
#[inline(never)]
pub fn measured(work: &mut dyn Work) -> usize {
    // Something is left to do after the run, or the call could become a jump that never comes back here.
    black_box(work.run())
}

/// `n` keys of [`KEY_BYTES`] bytes.
fn keys(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("orders/2026/{i:0width$}", width = KEY_BYTES - "orders/2026/".len())).collect()
}
