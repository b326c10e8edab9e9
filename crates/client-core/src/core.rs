//! The client as one value: what goes in, what comes out.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::backoff::Backoff;
use crate::call::Call;
use crate::config::Config;
use crate::fault::Fault;
use crate::ids::IdSource;
use crate::lease::Margin;
use crate::op::{Op, OpResult};
use crate::sending::Batch;
use crate::servers::Servers;
use crate::session::{Session, SessionId};
use crate::stopping::Phase;
use crate::ticket::Ticket;
use crate::time::Instant;
use crate::timers::{Timer, Timers};

/// What the shell is to do. After every input the shell takes all outputs, in order, before it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a connection to the address with this index; answer with [`Core::connected`] or [`Core::closed`].
    Connect {
        /// Names the connection from now on.
        session: SessionId,
        /// Which address.
        address: usize,
    },
    /// Close this connection; nothing more is handed in for it.
    Close {
        /// Which one.
        session: SessionId,
        /// Whether by reset, so that bytes that are still in the kernel go nowhere and the server drops the waiters.
        reset: bool,
    },
    /// Hand in everything that the connection has already received, then call [`Core::looked`].
    Look {
        /// Which one.
        session: SessionId,
    },
    /// The acquire or the other request with this id has its outcome.
    Ready(u64),
    /// The ticket of the acquire with this owner is lost.
    Lost(u64),
    /// Something is wrong with the server; for the log.
    Fault(Fault),
    /// The client has stopped; see [`Core::shutdown`].
    Stopped,
}

/// How much the client has in hand. All zero when nothing is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Acquires, until their outcome is taken and no answer is awaited any more.
    pub calls: usize,
    /// Tickets in use, or with a release that is not answered.
    pub tickets: usize,
    /// Other requests that are not answered.
    pub requests: usize,
    /// Results that wait to be picked up.
    pub results: usize,
    /// Connections.
    pub sessions: usize,
}

/// The client without its clock, sockets and tasks. See the crate's own documentation.
#[derive(Debug)]
pub struct Core {
    pub(crate) hello_text: String,
    pub(crate) answer_allowance: Duration,
    pub(crate) margin: Margin,
    pub(crate) max_open: usize,
    pub(crate) addresses: Vec<String>,
    pub(crate) ids: IdSource,
    pub(crate) timers: Timers,
    pub(crate) outputs: VecDeque<Output>,
    pub(crate) phase: Phase,

    /// Acquires by owner.
    pub(crate) calls: BTreeMap<u64, Call>,
    /// The acquires that are certainly unsent, oldest first: owners count up.
    pub(crate) unsent: BTreeSet<u64>,
    /// Tickets by the owner of their acquire.
    pub(crate) tickets: BTreeMap<u64, Ticket>,
    /// Other requests by id.
    pub(crate) ops: BTreeMap<u64, Op>,
    /// The other requests that are to be handed over, for the first time or again.
    pub(crate) pending: BTreeSet<u64>,
    pub(crate) results: BTreeMap<u64, OpResult>,

    pub(crate) sessions: Vec<Session>,
    pub(crate) sessions_opened: u32,
    pub(crate) servers: Servers,
    pub(crate) backoff: Backoff,
    /// No connection is opened before this instant.
    pub(crate) retry_at: Instant,
    /// For people: what came of the latest session that ended with no other to go on with; `None` once a server
    /// welcomes the client.
    pub(crate) trouble: Option<Arc<str>>,
    /// The address to try next.
    pub(crate) next_address: usize,
    pub(crate) batch: Batch,
}

impl Core {
    /// A client that has done nothing yet. It connects when there is something to send.
    pub fn new(config: Config) -> Self {
        Self {
            hello_text: config.hello_text,
            answer_allowance: config.answer_allowance,
            margin: config.margin,
            max_open: config.max_open,
            ids: IdSource::new(config.seeds[0]),
            timers: Timers::default(),
            outputs: VecDeque::new(),
            phase: Phase::Running,
            calls: BTreeMap::new(),
            unsent: BTreeSet::new(),
            tickets: BTreeMap::new(),
            ops: BTreeMap::new(),
            pending: BTreeSet::new(),
            results: BTreeMap::new(),
            sessions: Vec::new(),
            sessions_opened: 0,
            servers: Servers::new(config.addresses.len()),
            addresses: config.addresses,
            trouble: None,
            backoff: Backoff::new(config.seeds[1]),
            retry_at: Instant::default(),
            next_address: 0,
            batch: Batch::default(),
        }
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether [`poll_output`](Self::poll_output) has something: the input before it changed more than its own result.
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// When [`tick`](Self::tick) must be called at the latest; `None`: not before another input.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let sessions = self.sessions.iter().filter_map(Session::due);
        let others = [self.timers.next(), self.connect_due(), self.stop_due()];
        sessions.chain(others.into_iter().flatten()).min()
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: Instant) {
        // What becomes due by this is left to the next tick, so that each of them ends.
        for _ in 0..self.timers.len() {
            match self.timers.pop_due(now) {
                None => break,
                Some(Timer::Call(owner)) => self.call_due(now, owner),
                Some(Timer::Ticket(ticket)) => self.ticket_due(now, ticket),
                Some(Timer::Op(op)) => self.op_due(now, op),
            }
        }
        self.tend_sessions(now);
        self.settle(now);
    }

    /// How much the client has in hand.
    pub fn counts(&self) -> Counts {
        Counts {
            calls: self.calls.len(),
            tickets: self.tickets.len(),
            requests: self.ops.len(),
            results: self.results.len(),
            sessions: self.sessions.len(),
        }
    }

    /// Ends every input: opens a session if one is needed, and stops if it is time.
    pub(crate) fn settle(&mut self, now: Instant) {
        self.stop_if_done(now);
        self.connect_if_needed(now);
    }

    pub(crate) fn session(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }
}
