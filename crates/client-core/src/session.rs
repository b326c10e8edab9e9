//! One connection, from the attempt to open it to its end: what is under way on it, and whether it still answers.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::time::{Instant, seconds};

/// How long an answer that is due at once may take before the session is suspect.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a session with open acquires may be silent before it is pinged.
const SILENCE: Duration = Duration::from_secs(5);

/// How long a session may be silent before it must show that it lives ahead of the next acquire.
const IDLE: Duration = Duration::from_secs(30);

/// How long a suspect session may be silent before it is closed.
const SUSPECT_SILENCE: Duration = Duration::from_secs(5);

/// One connection of this client; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(crate) u32);

/// How far a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The transport is being opened.
    Connecting,
    /// The hello is written or under way; nothing else is handed over.
    Greeting,
    /// Welcomed.
    Ready,
}

/// A release or extend that the session has not answered.
#[derive(Clone, Debug)]
pub(crate) struct Confirm {
    pub(crate) op: u64,
    pub(crate) token: u64,
    /// The ticket that it is for.
    pub(crate) ticket: Option<u64>,
    /// The lease of an extend; `None` is a release.
    pub(crate) extend_s: Option<u8>,
    pub(crate) sent: Instant,
    /// The key of an extend that outlives the release of its ticket: what it confirms must be released once more.
    pub(crate) outlives: Option<Arc<str>>,
}

/// A query or ping that the session has not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// The id on the wire, which is also the request's own if the program asked.
    pub(crate) id: u64,
    pub(crate) ping: bool,
    pub(crate) sent: Instant,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The index of the address that it leads to.
    pub(crate) address: usize,
    pub(crate) stage: Stage,
    /// When the connection was opened; before, when that was begun.
    pub(crate) since: Instant,
    pub(crate) hello: u64,
    pub(crate) hello_sent: bool,
    /// Received bytes that are no whole answer yet.
    pub(crate) input: Vec<u8>,
    /// The rest of a frame whose first bytes were accepted.
    pub(crate) tail: Vec<u8>,
    /// Acquires that are possibly sent and unanswered.
    pub(crate) open: usize,
    open_since: Instant,
    pub(crate) confirms: VecDeque<Confirm>,
    pub(crate) asks: VecDeque<Ask>,
    /// Whether it has answered a request.
    pub(crate) answered: bool,
    /// Owners whose cancel is to be sent.
    pub(crate) cancels: VecDeque<u64>,
    /// The id of a ping of the client's own that is to be sent.
    pub(crate) ping: Option<u64>,
    /// Acquires wait for a sign of life.
    pub(crate) proving: bool,
    pub(crate) suspect: Option<Instant>,
    /// Calls at their deadline, waiting for the last look at what was received.
    pub(crate) overdue: Vec<u64>,
    /// That look is under way.
    pub(crate) looking: bool,
    received: Instant,
    blocked: Option<Instant>,
    /// No request becomes overdue before this instant.
    patience_ends: Option<Instant>,
}

impl Session {
    pub(crate) fn new(id: SessionId, address: usize, hello: u64, now: Instant) -> Self {
        Self {
            id,
            address,
            stage: Stage::Connecting,
            since: now,
            hello,
            hello_sent: false,
            input: Vec::new(),
            tail: Vec::new(),
            open: 0,
            open_since: now,
            confirms: VecDeque::new(),
            asks: VecDeque::new(),
            answered: false,
            cancels: VecDeque::new(),
            ping: None,
            proving: false,
            suspect: None,
            overdue: Vec::new(),
            looking: false,
            received: now,
            blocked: None,
            patience_ends: None,
        }
    }

    /// Whether requests may be handed to it.
    pub(crate) fn sound(&self) -> bool {
        self.stage == Stage::Ready && self.suspect.is_none()
    }

    /// Until when it may still become sound soon enough that no other needs to be opened.
    pub(crate) fn promise_ends(&self) -> Option<Instant> {
        (self.stage != Stage::Ready).then(|| self.since + PATIENCE)
    }

    /// Whether an answer can still come that matters.
    pub(crate) fn in_use(&self) -> bool {
        self.open > 0 || !self.confirms.is_empty()
    }

    /// For people: what was waited for in vain.
    pub(crate) fn silence(&self) -> &'static str {
        match self.stage {
            Stage::Connecting => "no answer to the attempt to connect",
            Stage::Greeting => "connected, but nothing welcomed the client",
            Stage::Ready => "connected, but it does not respond",
        }
    }

    /// Bytes came.
    pub(crate) fn note_received(&mut self, now: Instant) {
        self.received = now;
        self.proving = false;
    }

    /// An acquire was handed over.
    pub(crate) fn note_acquire(&mut self, now: Instant) {
        if self.open == 0 {
            self.open_since = now;
        }
        self.open += 1;
    }

    /// A release or extend was handed over.
    pub(crate) fn note_confirm(&mut self, confirm: Confirm) {
        self.expect_by(confirm.sent + patience(confirm.extend_s));
        self.confirms.push_back(confirm);
    }

    /// A query or ping was handed over, or a ping of the client's own is wanted.
    pub(crate) fn note_ask(&mut self, ask: Ask) {
        if ask.ping {
            self.expect_by(ask.sent + PATIENCE);
        }
        self.asks.push_back(ask);
    }

    /// The transport took `accepted` of the bytes offered, or all of them, or none were left to offer.
    pub(crate) fn note_written(&mut self, now: Instant, accepted: usize, all: bool) {
        if all {
            self.blocked = None;
        } else if accepted > 0 || self.blocked.is_none() {
            self.blocked = Some(now);
            self.expect_by(now + PATIENCE);
        }
    }

    /// Wants a sign of life: a ping of the client's own, unless one is under way.
    pub(crate) fn want_ping(&mut self, now: Instant, id: impl FnOnce() -> u64) {
        if !self.asks.iter().any(|ask| ask.ping) {
            let id = id();
            self.ping = Some(id);
            self.note_ask(Ask { id, ping: true, sent: now });
        }
    }

    /// Whether it has been idle so long that it must show that it lives before an acquire is handed to it.
    pub(crate) fn idle(&self, now: Instant) -> bool {
        now >= self.received + IDLE
    }

    /// Whether acquires are open on it and it has been silent for too long.
    pub(crate) fn silent(&self, now: Instant) -> bool {
        self.silent_at().is_some_and(|at| at <= now)
    }

    fn silent_at(&self) -> Option<Instant> {
        let watched = self.sound() && self.open > 0 && !self.asks.iter().any(|ask| ask.ping);
        watched.then(|| self.received.max(self.open_since) + SILENCE)
    }

    /// Whether a request is unanswered, or the transport has taken nothing, for too long. Cheap until the bound is
    /// reached; then the bound is taken anew.
    pub(crate) fn unanswered(&mut self, now: Instant) -> bool {
        if self.patience_ends.is_none_or(|at| now < at) {
            return false;
        }
        let confirms = self.confirms.iter().map(|confirm| confirm.sent + patience(confirm.extend_s));
        let pings = self.asks.iter().filter(|ask| ask.ping).map(|ask| ask.sent + PATIENCE);
        let blocked = self.blocked.map(|since| since + PATIENCE);
        self.patience_ends = confirms.chain(pings).chain(blocked).min();
        self.patience_ends.is_some_and(|at| at <= now)
    }

    /// Whether it is to be given up: not welcomed, or suspect and silent, for too long.
    pub(crate) fn hopeless(&self, now: Instant) -> bool {
        self.hopeless_at().is_some_and(|at| at <= now)
    }

    fn hopeless_at(&self) -> Option<Instant> {
        match (self.stage, self.suspect) {
            (Stage::Ready, None) => None,
            (Stage::Ready, Some(since)) => Some(since.max(self.received) + SUSPECT_SILENCE),
            _ => Some(self.since + PATIENCE + SUSPECT_SILENCE),
        }
    }

    /// When it must be looked at again.
    pub(crate) fn due(&self) -> Option<Instant> {
        let patience = self.patience_ends.filter(|_| self.sound());
        [patience, self.silent_at(), self.hopeless_at()].into_iter().flatten().min()
    }

    fn expect_by(&mut self, at: Instant) {
        self.patience_ends = Some(self.patience_ends.map_or(at, |other| other.min(at)));
    }
}

/// How long a release (`None`) or an extend may stay unanswered. The shortest lease gives an extend 166 ms.
fn patience(extend_s: Option<u8>) -> Duration {
    extend_s.map_or(PATIENCE, |lease_s| (seconds(lease_s) / 6).min(PATIENCE))
}
