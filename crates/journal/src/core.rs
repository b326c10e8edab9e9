//! What the journal decides, without a thread or a file: what is written next, what is safe, what failed and what must
//! be done over.
//!
//! Decisions come in and are put into a buffer; each gets a position. `take_write` hands out the buffer as one batch,
//! `next_job` the next work for the disk; `wrote` and `finish` take what became of them. There is one job at a time,
//! so a write never overtakes the sync of the one before.

mod copying;
mod jobs;

use std::collections::VecDeque;
use std::io;

use crate::batch::{self, Place};
use crate::canary::{self, Canary};
use crate::job::SharedFile;
use crate::record::{Cause, End, LeaseRecord, Mode, Record, Run, lease_bytes};
use crate::segment::Name;
use crate::tokens::{TokenBlock, Tokens};
use copying::Checkpoint;
use jobs::InFlight;
pub(crate) use jobs::begin;

/// A checkpoint is due when the log has grown beyond this much and the live leases.
pub(crate) const CHECKPOINT_BYTES: u64 = 32 << 20;
/// Nothing new is admitted while so much waits to be written.
const FULL_BUFFER: usize = 4 << 20;
/// How long after a write its sync follows in mode `process`, and how long after a failure the next try.
const SECOND_MS: u64 = 1_000;

/// How far the journal has come: the number of records of this run that are safe. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// What the caller must act on, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A write or a sync failed. What waits for a position above `after`, up to the last one given out, is lost, and
    /// nothing is granted until [`Change::Recovered`].
    Failed {
        /// The last position that is safe.
        after: Position,
        /// What the system said.
        error: String,
    },
    /// A checkpoint has succeeded after a failure: grants go on.
    Recovered,
    /// Files that mean nothing any more cannot be deleted, so the directory outgrows its limit until they can. That is
    /// tried again and again, and told anew only when it had worked meanwhile.
    NotDeleted {
        /// How many there are.
        files: usize,
        /// What the system said.
        error: String,
    },
}

/// A segment that is written to.
pub(crate) struct Current {
    pub(crate) number: u64,
    pub(crate) file: SharedFile,
    pub(crate) tag: u64,
    pub(crate) next_batch: u64,
    pub(crate) bytes: u64,
}

impl Current {
    /// Makes a batch of a buffer, to be appended next.
    pub(crate) fn seal(&mut self, buffer: &mut [u8], now_ms: u64) {
        let place = Place { tag: self.tag, number: self.next_batch };
        batch::seal(buffer, place, now_ms);
        self.next_batch += 1;
        self.bytes += buffer.len() as u64;
    }

    fn stale(&self) -> Stale {
        Stale { name: Name::Journal(self.number).to_string(), bytes: self.bytes }
    }
}

/// A segment that is not written to any more.
#[derive(Clone, Debug)]
pub(crate) struct Stale {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Positions that are safe only when the last of them is synced, whatever the mode: a ceiling was raised there.
#[derive(Clone, Copy, Debug)]
struct Barrier {
    first: u64,
    last: u64,
}

/// What the core begins with.
pub(crate) struct Start {
    pub(crate) run: Run,
    pub(crate) random: [u8; 16],
    pub(crate) now_ms: u64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) tokens: TokenBlock,
    pub(crate) live_bytes: u64,
    pub(crate) next_segment: u64,
    /// The start's checkpoint, or none if it failed.
    pub(crate) segment: Option<Current>,
    /// Segments that the start's checkpoint makes void, or would have.
    pub(crate) old: Vec<Stale>,
    /// Files that mean nothing.
    pub(crate) trash: Vec<Stale>,
}

pub(crate) struct Core {
    /// The run record of the next segment, but for what changes.
    run: Run,
    random: [u8; 16],
    checkpoint_bytes: u64,
    now_ms: u64,
    /// What the leases take that are live, in bytes of a checkpoint.
    live_bytes: u64,
    next_segment: u64,
    /// None after a failure, until a checkpoint has been made.
    segment: Option<Current>,
    /// Segments before the current one that belong to the log until the next checkpoint is complete.
    old: Vec<Stale>,
    /// Files to unlink.
    trash: Vec<Stale>,
    unlink_at_ms: u64,
    /// The caller knows that they cannot be unlinked.
    is_told_of_trash: bool,
    /// The next batch.
    buffer: Vec<u8>,
    spare: Option<Vec<u8>>,
    /// Positions: given out, written, synced, reported as safe.
    appended: u64,
    written: u64,
    synced: u64,
    reached: u64,
    barrier: Option<Barrier>,
    /// Mode `process`: when the next sync is due, and a file before the current one that it must include.
    sync_at_ms: Option<u64>,
    unsynced_old: Option<SharedFile>,
    unsynced_bytes: u64,
    checkpoint: Option<Checkpoint>,
    /// The last job was the log's.
    checkpoint_is_next: bool,
    /// Failing since a write or a sync failed; the instant of the next try.
    failing: Option<u64>,
    in_flight: Option<InFlight>,
    tokens: Tokens,
    changes: VecDeque<Change>,
    stopping: bool,
}

impl Core {
    pub(crate) fn new(start: Start) -> Self {
        Self {
            run: start.run,
            random: start.random,
            checkpoint_bytes: start.checkpoint_bytes,
            now_ms: start.now_ms,
            live_bytes: start.live_bytes,
            next_segment: start.next_segment,
            failing: start.segment.is_none().then_some(start.now_ms + SECOND_MS),
            segment: start.segment,
            old: start.old,
            trash: start.trash,
            unlink_at_ms: start.now_ms,
            is_told_of_trash: false,
            buffer: batch::empty(),
            spare: None,
            appended: 0,
            written: 0,
            synced: 0,
            reached: 0,
            barrier: None,
            sync_at_ms: None,
            unsynced_old: None,
            unsynced_bytes: 0,
            checkpoint: None,
            checkpoint_is_next: false,
            in_flight: None,
            tokens: Tokens::new(start.tokens),
            changes: VecDeque::new(),
            stopping: false,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.run.mode
    }

    /// A turn begins. Time never goes back.
    pub(crate) fn turn(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.begin_turn_of_copies();
    }

    /// Puts a record into the buffer. After a failure there is nowhere to write it to and no need, until the next try
    /// has begun to copy everything: what is decided from then on is written behind the copies.
    fn append(&mut self, record: &Record<'_>) -> u64 {
        self.appended += 1;
        if self.segment.is_some() || self.checkpoint.is_some() {
            record.encode(&mut self.buffer);
        }
        self.appended
    }

    fn lease(&mut self, cause: Cause, key: &str, token: u64, ends_ms: u64) -> Position {
        let end = End::new(ends_ms, self.now_ms);
        if end.left_ms > self.run.ceilings.lease_ms {
            self.run.ceilings.lease_ms = end.left_ms;
            let at = self.append(&Record::LeaseCeiling(end.left_ms));
            self.barrier =
                Some(Barrier { first: self.barrier.map_or(at, |barrier| barrier.first), last: at });
        }
        Position(self.append(&Record::Lease(LeaseRecord { cause, token, end, key })))
    }

    pub(crate) fn granted(&mut self, key: &str, token: u64, ends_ms: u64) -> Position {
        self.live_bytes += lease_bytes(key);
        self.lease(Cause::Granted, key, token, ends_ms)
    }

    pub(crate) fn extended(&mut self, key: &str, token: u64, ends_ms: u64) -> Position {
        self.lease(Cause::Extended, key, token, ends_ms)
    }

    pub(crate) fn freed(&mut self, key: &str, token: u64) -> Position {
        self.live_bytes = self.live_bytes.saturating_sub(lease_bytes(key));
        Position(self.append(&Record::Freed { token, key }))
    }

    /// From now on only what was decided is written and synced.
    pub(crate) fn begin_stop(&mut self) {
        self.stopping = true;
    }

    pub(crate) fn stopped(&mut self) {
        self.append(&Record::Stop);
    }

    /// Whether everything is on stable storage and no job is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.buffer.len() == batch::HEADER && self.in_flight.is_none() && self.synced == self.written
    }

    pub(crate) fn has_job(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The next block of tokens, if it is on stable storage. Each call sees to it that another will be.
    pub(crate) fn take_tokens(&mut self, wall_us: u64) -> Option<TokenBlock> {
        if self.failing.is_some() {
            return None;
        }
        let block = self.tokens.take();
        if self.tokens.want_block() {
            let next = TokenBlock::above(self.run.ceilings.token, wall_us);
            self.run.ceilings.token = next.last();
            let at = self.append(&Record::TokenCeiling(next.last()));
            self.tokens.reserve(next, at);
            if canary::is_planted(Canary::TokensUnsynced) {
                self.tokens.synced(u64::MAX);
            }
        }
        block
    }

    /// The last position that was given out.
    pub(crate) fn position(&self) -> Position {
        Position(self.appended)
    }

    /// The last position that is as safe as the mode demands.
    pub(crate) fn reached(&self) -> Position {
        Position(self.reached)
    }

    fn update_reached(&mut self) {
        let holds = |barrier: &Barrier| {
            self.synced < barrier.last && !canary::is_planted(Canary::LeaseCeilingUnsynced)
        };
        self.barrier = self.barrier.filter(holds);
        let safe = match (self.run.mode, self.barrier) {
            (Mode::Machine, _) => self.synced,
            (Mode::Process, None) => self.written,
            (Mode::Process, Some(barrier)) => self.written.min(barrier.first - 1),
        };
        if self.failing.is_none() {
            self.reached = self.reached.max(safe);
        }
    }

    pub(crate) fn next_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// What the directory takes, in bytes, as far as the journal knows.
    pub(crate) fn directory_bytes(&self) -> u64 {
        let made = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.segment.as_ref());
        self.log_bytes() + self.stale_bytes() + made.map_or(0, |segment| segment.bytes)
    }

    /// What the log takes.
    fn log_bytes(&self) -> u64 {
        let old: u64 = self.old.iter().map(|stale| stale.bytes).sum();
        old + self.segment.as_ref().map_or(0, |segment| segment.bytes)
    }

    /// What files take that are void.
    fn stale_bytes(&self) -> u64 {
        let going = match &self.in_flight {
            Some(InFlight::Unlink(files)) => &files[..],
            _ => &[],
        };
        self.trash.iter().chain(going).map(|stale| stale.bytes).sum()
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Whether there is room for more decisions now. If not, a job is under way whose end makes room, or copies do.
    pub(crate) fn admits(&self) -> bool {
        self.buffer.len() < FULL_BUFFER && !self.is_full()
    }

    /// When a turn is needed at the latest.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        if self.in_flight.is_some() {
            return None;
        }
        let at_ms = match self.failing {
            Some(retry_ms) => self.checkpoint.is_none().then_some(retry_ms),
            None => self.sync_at_ms,
        };
        at_ms.into_iter().chain(self.next_copies_ms()).min()
    }

    /// A write, a sync or the making of a segment failed: nothing more is appended to the current segment, and
    /// nothing is safe until a checkpoint has succeeded.
    fn fail(&mut self, error: &io::Error) {
        if canary::is_planted(Canary::AppendAfterFailure) {
            return;
        }
        self.old.extend(self.segment.take().map(|segment| segment.stale()));
        self.abandon_checkpoint();
        batch::clear(&mut self.buffer);
        self.barrier = None;
        self.sync_at_ms = None;
        self.unsynced_old = None;
        self.unsynced_bytes = 0;
        if self.failing.replace(self.now_ms + SECOND_MS).is_none() {
            let after = Position(self.reached);
            self.changes.push_back(Change::Failed { after, error: error.to_string() });
        }
    }
}
