//! What a run counts: latencies by operation, and answers that should not have come.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use lockstead_proto::{BusyReason, ErrorCode};

/// The longest latency that is told from longer ones: more than the longest wait.
const LONGEST: Duration = Duration::from_secs(600);

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// From the acquire to its grant, for a key that nobody else wants.
    Acquire,
    /// From the release to its answer.
    Release,
    /// From the extend to its answer.
    Extend,
    /// From before a release is sent until the next in the queue has its grant.
    HandOff,
    /// How late the end of a wait comes.
    Timeout,
}

impl Operation {
    const ALL: [Self; 5] = [Self::Acquire, Self::Release, Self::Extend, Self::HandOff, Self::Timeout];

    /// The word for it in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Extend => "extend",
            Self::HandOff => "hand-off",
            Self::Timeout => "timeout",
        }
    }
}

/// An answer, or the lack of one, that no workload asks for.
#[derive(Debug)]
pub enum Fault {
    /// A limit was reached, or the server stops.
    Busy(BusyReason),
    /// The server refused a request.
    Rejected(ErrorCode),
    /// A lock was lost before its lease had ended.
    NotHeld,
    /// A key was not free, and should have been.
    NotFree,
    /// A wait ended before its time.
    EarlyTimeout,
    /// A key was granted while another holder's lease lasted.
    TwoHolders,
    /// An answer to nothing that was asked.
    Unexpected(String),
    /// The connection broke, or its bytes made no sense.
    Connection(io::Error),
}

impl Fault {
    /// The word for it in results.
    fn kind(&self) -> String {
        match self {
            Self::Busy(reason) => format!("busy_{}", reason.as_u8()),
            Self::Rejected(code) => format!("rejected_{}", code.as_u8()),
            Self::NotHeld => "not_held".to_owned(),
            Self::NotFree => "not_free".to_owned(),
            Self::EarlyTimeout => "early_timeout".to_owned(),
            Self::TwoHolders => "two_holders".to_owned(),
            Self::Unexpected(_) => "unexpected".to_owned(),
            Self::Connection(_) => "connection".to_owned(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(reason) => reason.fmt(f),
            Self::Rejected(code) => write!(f, "refused: {code}"),
            Self::NotHeld => f.write_str("not held, though the lease had not ended"),
            Self::NotFree => f.write_str("not free, though nobody held it"),
            Self::EarlyTimeout => f.write_str("a wait ended too early"),
            Self::TwoHolders => f.write_str("granted while another holder's lease lasted"),
            Self::Unexpected(answer) => write!(f, "nobody asked for {answer}"),
            Self::Connection(error) => error.fmt(f),
        }
    }
}

/// The counts of a run. All its connections live on one thread.
#[derive(Debug)]
pub struct Tally {
    is_open: Cell<bool>,
    latencies_ns: RefCell<[Histogram<u64>; Operation::ALL.len()]>,
    faults: RefCell<BTreeMap<String, (u64, String)>>,
    ended_leases: Cell<u64>,
}

impl Tally {
    /// Nothing counted, and closed.
    pub fn new() -> Self {
        let longest_ns = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
        let empty = || Histogram::new_with_bounds(1, longest_ns, 3).expect("these bounds are valid");
        Self {
            is_open: Cell::new(false),
            latencies_ns: RefCell::new(Operation::ALL.map(|_| empty())),
            faults: RefCell::default(),
            ended_leases: Cell::new(0),
        }
    }

    /// Latencies count from now on, or no longer.
    pub fn set_open(&self, is_open: bool) {
        self.is_open.set(is_open);
    }

    /// One operation took so long.
    pub fn record(&self, operation: Operation, took: Duration) {
        if self.is_open.get() {
            let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
            self.latencies_ns.borrow_mut()[operation as usize].saturating_record(ns);
        }
    }

    /// Something went wrong. Counts always.
    pub fn fault(&self, fault: &Fault) {
        let mut faults = self.faults.borrow_mut();
        let (count, _) = faults.entry(fault.kind()).or_insert_with(|| (0, fault.to_string()));
        *count += 1;
    }

    /// A lease was over when its turn came: there are too many keys for the speed. No fault of the server's.
    pub fn lease_ended(&self) {
        self.ended_leases.set(self.ended_leases.get() + 1);
    }

    /// How many leases were.
    pub fn ended_leases(&self) -> u64 {
        self.ended_leases.get()
    }

    /// Everything recorded so far.
    pub fn count(&self) -> u64 {
        self.latencies_ns.borrow().iter().map(Histogram::len).sum()
    }

    /// All faults so far.
    pub fn fault_count(&self) -> u64 {
        self.faults.borrow().values().map(|(count, _)| count).sum()
    }

    /// Each kind of fault with its count and, in a sentence, its first case.
    pub fn faults(&self) -> Vec<(String, u64, String)> {
        let faults = self.faults.borrow();
        faults.iter().map(|(kind, (count, first))| (kind.clone(), *count, first.clone())).collect()
    }

    /// The operations that happened, with their latencies in nanoseconds.
    pub fn operations(&self) -> Vec<(Operation, Histogram<u64>)> {
        let latencies = self.latencies_ns.borrow();
        let all = Operation::ALL.into_iter().map(|operation| (operation, &latencies[operation as usize]));
        all.filter(|(_, latency)| !latency.is_empty()).map(|(o, latency)| (o, latency.clone())).collect()
    }
}
