//! What one run counts. All clients of a run live on one thread, so a cell will do.

use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Display;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How many errors of a run are printed; all are counted.
const PRINTED_ERRORS: u64 = 3;

/// After so many errors a client gives up.
const MOST_ERRORS: u64 = 1000;

pub struct Tally {
    /// Whether the window is open: only then are times recorded.
    pub rec: Cell<bool>,
    pub stop: Cell<bool>,
    pub pairs: Cell<u64>,
    pub denied: Cell<u64>,
    pub errors: Cell<u64>,
    /// Nanoseconds of an acquire; of a hand-off in contended workloads.
    pub hist: RefCell<Histogram<u64>>,
    /// Contended workloads: who holds the lock by the clients' own account; never more than one.
    pub holders: Cell<i64>,
    /// How often it was more than one.
    pub violations: Cell<u64>,
    pub grants_seen: Cell<u64>,
    /// Who released last, and when.
    pub last_release: Cell<Option<(usize, Instant)>>,
    /// Nanoseconds from asking to holding, in contended workloads.
    pub wait_hist: RefCell<Histogram<u64>>,
    /// Clients that may ask again only at a later grant: (grant number, whom to wake).
    pub parked: RefCell<VecDeque<(u64, Rc<Notify>)>>,
    random: Cell<u64>,
}

impl Tally {
    pub fn new() -> Rc<Self> {
        let hist = || Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("these bounds are valid");
        Rc::new(Tally {
            rec: Cell::new(false),
            stop: Cell::new(false),
            pairs: Cell::new(0),
            denied: Cell::new(0),
            errors: Cell::new(0),
            hist: RefCell::new(hist()),
            holders: Cell::new(0),
            violations: Cell::new(0),
            grants_seen: Cell::new(0),
            last_release: Cell::new(None),
            wait_hist: RefCell::new(hist()),
            parked: RefCell::new(VecDeque::new()),
            random: Cell::new(0x2545F4914F6CDD1D),
        })
    }

    /// Records a latency if the window is open.
    pub fn lat(&self, took: Duration) {
        if self.rec.get() {
            let _ = self.hist.borrow_mut().record(took.as_nanos().max(1) as u64);
        }
    }

    /// Counts an error, and prints the first few.
    pub fn fail(&self, error: impl Display) {
        if self.errors.get() < PRINTED_ERRORS {
            eprintln!("error: {error}");
        }
        bump(&self.errors);
    }

    /// Whether so much went wrong that going on shows nothing.
    pub fn is_hopeless(&self) -> bool {
        self.errors.get() > MOST_ERRORS
    }

    /// The next of a fixed sequence of numbers that look random (xorshift).
    pub fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x
    }
}

pub fn bump(count: &Cell<u64>) {
    count.set(count.get() + 1)
}
