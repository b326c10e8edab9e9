//! A checkpoint while serving: when it is due, how fast it goes, and when it is complete.
//!
//! Copies go into a segment of their own, which stands alone, while the run goes on in another one behind it. So a
//! copy is written once, its segment means nothing before it is complete, and how many copies a decision costs does
//! not depend on how many leases there are.

use crate::batch;
use crate::canary::{self, Canary};
use crate::core::{Change, Core, Current, Stale};
use crate::record::{Cause, End, LeaseRecord, Record};
use crate::segment::Name;

/// Nothing new is admitted when the directory would take more than this and two and a half times the live leases. So with
/// the checkpoint of a start behind it, and what the files have reserved, it stays below 64 MiB and three times the live
/// leases.
const FULL_BYTES: u64 = 54 << 20;
/// What is decided while copies are made stays until the next checkpoint is complete, so each may take half of the room. So
/// much of that, and one part of so many, is left when the last copy is made.
const ROOM_LEFT: u64 = 8 << 20;
const PART_LEFT: u64 = 16;
/// Copies are made at this speed even if nothing is decided, …
const COPIED_PER_MS: u64 = 16 << 10;
/// … in turns that are so far apart.
const PAUSE_MS: u64 = 4;
/// No more is copied in a turn: it takes half a millisecond.
const COPIED_PER_TURN: u64 = 640 << 10;
/// Copies are written when there are so many bytes of them, …
pub(super) const COPIES_WRITTEN: usize = 1 << 20;
/// … and while so many wait, no more are made.
const COPIES_WAITING: usize = 2 << 20;
/// Nothing new is admitted while copies are so far behind: so a slow disk slows decisions down, and does not stop them
/// all at the end.
const FULL_BEHIND: u64 = 4 << 20;

/// Where a checkpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its segment is being made.
    Creating,
    /// The segment behind it is being made, in which the run goes on.
    Continuing,
    /// The caller hands in the live leases.
    Copying,
    /// All are handed in. With what was decided up to this position it is complete.
    Copied(u64),
    /// Its segment gets its name.
    Publishing,
}

/// A checkpoint that is being made.
pub(super) struct Checkpoint {
    pub(super) number: u64,
    pub(super) stage: Stage,
    /// Where the copies go, from when it has been made until it has its name.
    pub(super) segment: Option<Current>,
    /// Copies that are to be written.
    pub(super) copies: Vec<u8>,
    pub(super) spare: Option<Vec<u8>>,
    /// The room that there was when copying began.
    room_at_first: u64,
    /// The last turn in which copies were wanted.
    last_turn_ms: u64,
    /// Bytes of all copies.
    copied: u64,
    /// Up to how many bytes of copies are wanted in this turn, once that has been asked.
    wanted: Option<u64>,
}

impl Checkpoint {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            stage: Stage::Creating,
            segment: None,
            copies: batch::empty(),
            spare: None,
            room_at_first: 0,
            last_turn_ms: 0,
            copied: 0,
            wanted: None,
        }
    }

    /// The number of the segment in which the run goes on.
    pub(super) fn number_behind(&self) -> u64 {
        self.number + 1
    }

    fn room_for_the_end(&self) -> u64 {
        (ROOM_LEFT + self.room_at_first / PART_LEFT).min(self.room_at_first)
    }

    fn append(&mut self, record: &Record<'_>) {
        let before = self.copies.len();
        record.encode(&mut self.copies);
        self.copied += (self.copies.len() - before) as u64;
    }
}

impl Core {
    pub(super) fn begin_turn_of_copies(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.wanted = None;
        }
    }

    /// Whether one should begin: what was written has outgrown the live leases by enough, or the storage failed and it
    /// is time to try again.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        match self.failing {
            Some(retry_ms) => self.now_ms >= retry_ms,
            None => self.is_outgrown(),
        }
    }

    fn is_outgrown(&self) -> bool {
        self.log_bytes() > self.checkpoint_bytes + self.live_bytes
    }

    /// The number of the checkpoint that wants copies, if one does: a new number means to begin with the first lease.
    pub(crate) fn copying(&self) -> Option<u64> {
        let checkpoint = self.checkpoint.as_ref()?;
        (checkpoint.stage == Stage::Copying && !self.stopping).then_some(checkpoint.number)
    }

    pub(super) fn begin_copying(&mut self) {
        let (now_ms, room) = (self.now_ms, self.room_for_copying());
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.stage = Stage::Copying;
            checkpoint.room_at_first = room;
            checkpoint.last_turn_ms = now_ms;
        }
    }

    /// Whether a copy is wanted in this turn. What was decided in it counts if it was decided before the first call.
    pub(crate) fn wants_copy(&mut self) -> bool {
        if self.copying().is_none() {
            return false;
        }
        let wanted = self.copies_wanted();
        let Some(checkpoint) = &mut self.checkpoint else { return false };
        checkpoint.wanted = Some(wanted);
        checkpoint.last_turn_ms = self.now_ms;
        checkpoint.copied < wanted && checkpoint.copies.len() < COPIES_WAITING
    }

    /// Up to how many bytes of copies are wanted in this turn.
    fn copies_wanted(&self) -> u64 {
        let Some(checkpoint) = &self.checkpoint else { return 0 };
        checkpoint.wanted.unwrap_or_else(|| {
            let by_time = (self.now_ms - checkpoint.last_turn_ms) * COPIED_PER_MS;
            checkpoint.copied + self.hurried_by().max(by_time).min(COPIED_PER_TURN)
        })
    }

    /// Whether a turn without any other reason should bring the checkpoint on, more than the next one after a pause does.
    pub(crate) fn wants_turn(&self) -> bool {
        let has_place =
            self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.copies.len() < COPIES_WAITING);
        self.copying().is_some() && has_place && self.hurried_by() > PAUSE_MS * COPIED_PER_MS
    }

    /// How many bytes of copies should be made at once: all while grants wait for them, and when there is no room for
    /// more decisions but what is left for the end.
    fn hurried_by(&self) -> u64 {
        let is_late = self
            .checkpoint
            .as_ref()
            .is_some_and(|checkpoint| self.room_for_copying() <= checkpoint.room_for_the_end());
        if self.failing.is_some() || is_late { u64::MAX } else { self.copies_behind() }
    }

    /// When the next turn with copies is due, if nothing else brings one.
    pub(super) fn next_copies_ms(&self) -> Option<u64> {
        self.copying().map(|_| self.now_ms + PAUSE_MS)
    }

    /// By how many bytes the copies are behind. Of all that are to be made the same part should be left as of the room
    /// that there was when they began; a bit less, so that they end before the room does.
    fn copies_behind(&self) -> u64 {
        let Some(checkpoint) = self.checkpoint.as_ref().filter(|it| it.stage == Stage::Copying) else {
            return 0;
        };
        let left = self.copies_left();
        let all = u128::from(checkpoint.copied + left);
        let for_the_end = checkpoint.room_for_the_end();
        let room = self.room_for_copying().saturating_sub(for_the_end);
        let first = checkpoint.room_at_first - for_the_end;
        let may_be_left = (all * u128::from(room)).checked_div(u128::from(first)).unwrap_or(0);
        left.saturating_sub(u64::try_from(may_be_left).unwrap_or(u64::MAX))
    }

    /// What is yet to be copied, in bytes, if the leases that were copied are still there.
    fn copies_left(&self) -> u64 {
        match &self.checkpoint {
            Some(Checkpoint {
                stage: Stage::Creating | Stage::Continuing | Stage::Copying, copied, ..
            }) => self.live_bytes.saturating_sub(*copied),
            None if self.is_outgrown() => self.live_bytes,
            _ => 0,
        }
    }

    /// How many more bytes may be decided before the directory is full, the copies that are to be made counted in.
    fn room(&self) -> u64 {
        let copied = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.copied);
        let taken = self.log_bytes() + self.stale_bytes() + copied + self.copies_left();
        (FULL_BYTES + self.live_bytes * 5 / 2).saturating_sub(taken)
    }

    /// How many more bytes may be decided while copies are made.
    fn room_for_copying(&self) -> u64 {
        let decided = self.segment.as_ref().map_or(0, |segment| segment.bytes);
        (FULL_BYTES / 2 + self.live_bytes / 4).saturating_sub(decided).min(self.room())
    }

    /// Whether something has to be done to the directory before more is admitted. Only while it is being done, or waits
    /// for another job, as a long sync: if there is no room for another reason, refusing would not help.
    pub(super) fn is_full(&self) -> bool {
        let is_coming = self.checkpoint.is_some() || self.is_outgrown() && !self.stopping;
        let is_emptied = self.failing.is_none() && is_coming || self.is_unlinking();
        is_emptied && (self.room() == 0 || self.copies_behind() > FULL_BEHIND)
    }

    pub(crate) fn copy(&mut self, key: &str, token: u64, ends_ms: u64) {
        let end = End::new(ends_ms, self.now_ms);
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.append(&Record::Lease(LeaseRecord { cause: Cause::Copy, token, end, key }));
        }
    }

    /// Every live lease has been handed in.
    pub(crate) fn end_copies(&mut self) {
        let (ceilings, at) = (self.run.ceilings, self.appended);
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.append(&Record::LeaseCeiling(ceilings.lease_ms));
        checkpoint.append(&Record::TokenCeiling(ceilings.token));
        checkpoint.append(&Record::EndMark);
        checkpoint.stage = Stage::Copied(at);
        if canary::is_planted(Canary::VoidUnsynced) {
            self.trash.append(&mut self.old);
        }
    }

    /// The checkpoint has its name: what was before it is void.
    pub(super) fn complete(&mut self, segment: &Current) {
        self.trash.append(&mut self.old);
        self.old.push(segment.stale());
        self.unlink_at_ms = self.now_ms;
        match (&mut self.checkpoint, self.failing) {
            // After a failure the run goes on behind it from now on.
            (Some(checkpoint), Some(_)) => checkpoint.stage = Stage::Continuing,
            (checkpoint, _) => *checkpoint = None,
        }
    }

    /// A checkpoint was made after a failure, and the run can go on behind it.
    pub(super) fn recover(&mut self) {
        self.checkpoint = None;
        self.failing = None;
        self.changes.push_back(Change::Recovered);
        self.update_reached();
    }

    /// The checkpoint is given up; the next is tried in a second.
    pub(super) fn abandon_checkpoint(&mut self) {
        if let Some(Checkpoint { number, segment: Some(segment), .. }) = self.checkpoint.take() {
            // If it was about to get its name, it may have either.
            self.trash.push(Stale { name: Name::New(number).to_string(), bytes: segment.bytes });
            self.trash.push(Stale { name: Name::Journal(number).to_string(), bytes: 0 });
        }
        // What is left of it may be what fills the disk.
        self.unlink_at_ms = self.now_ms;
    }
}
