//! A checkpoint while serving: when it is due, how fast it goes, and when it is complete.

use crate::canary::{self, Canary};
use crate::core::{Change, Core};
use crate::record::{Cause, End, LeaseRecord, Record};
use crate::segment::Name;

/// At least so much is copied in a turn, in bytes, …
const COPIED_PER_TURN: usize = 64 << 10;
/// … and so many times what was decided in it, …
const COPIED_PER_DECIDED: u64 = 4;
/// … and once more for each of so many bytes of live leases: all copies must be there before the directory is full, which
/// is some 20 MiB of decisions after the first.
const LIVE_PER_COPIED: u64 = 24 << 20;
/// No more is copied while so much waits to be written: a turn in which it is takes 2 ms.
const COPIED_AHEAD: usize = 640 << 10;

/// Where a checkpoint stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// None is under way.
    #[default]
    Idle,
    /// One is due.
    Wanted,
    /// Its segment is being made.
    Creating,
    /// The caller hands in the live leases.
    Copying,
    /// The end mark has this position.
    Marked(u64),
    /// Its segment gets its name.
    Publishing,
}

impl Core {
    pub(super) fn is_checkpointing(&self) -> bool {
        self.checkpoint != Checkpoint::Idle
    }

    /// A segment that has outgrown the live leases by enough is left for a new one.
    pub(super) fn want_checkpoint_if_large(&mut self) {
        let limit = self.checkpoint_bytes + self.live_bytes;
        let is_large = self.segment.as_ref().is_some_and(|segment| segment.bytes > limit);
        if is_large && self.failing.is_none() && self.checkpoint == Checkpoint::Idle {
            self.checkpoint = Checkpoint::Wanted;
        }
    }

    /// The number of the checkpoint that wants copies, if one does: a new number means to begin with the first lease.
    pub(crate) fn copying(&self) -> Option<u64> {
        let segment = self.segment.as_ref()?;
        (self.checkpoint == Checkpoint::Copying && !self.stopping).then_some(segment.name.number())
    }

    /// Whether a copy is wanted in this turn.
    pub(crate) fn wants_copy(&self) -> bool {
        let per_decided = COPIED_PER_DECIDED + self.live_bytes / LIVE_PER_COPIED;
        let pace = COPIED_PER_TURN.max(self.decided.saturating_mul(per_decided as usize));
        self.copying().is_some() && self.copied < pace && self.buffer.len() < COPIED_AHEAD
    }

    /// Whether a turn without any other reason would bring the checkpoint on.
    pub(crate) fn wants_turn(&self) -> bool {
        self.copying().is_some() && self.buffer.len() < COPIED_AHEAD
    }

    pub(crate) fn copy(&mut self, key: &str, token: u64, ends_ms: u64) {
        let before = self.decided;
        let end = End::new(ends_ms, self.now_ms);
        self.append(&Record::Lease(LeaseRecord { cause: Cause::Copy, token, end, key }));
        self.copied += self.decided - before;
        self.decided = before;
    }

    /// Every live lease has been handed in.
    pub(crate) fn end_copies(&mut self) {
        let ceilings = self.ceilings();
        self.append(&Record::LeaseCeiling(ceilings.lease_ms));
        self.append(&Record::TokenCeiling(ceilings.token));
        self.checkpoint = Checkpoint::Marked(self.append(&Record::EndMark));
        if canary::is_planted(Canary::VoidUnsynced) && self.failing.is_none() {
            self.complete();
        }
    }

    /// Something new is synced: the end mark may be, too.
    pub(super) fn complete_if_marked(&mut self) {
        let has_name = self.segment.as_ref().is_some_and(|segment| matches!(segment.name, Name::Journal(_)));
        if let Checkpoint::Marked(at) = self.checkpoint
            && has_name
            && self.synced >= at
        {
            self.complete();
        }
    }

    /// The checkpoint is on stable storage, and so is its name: what was before is void.
    pub(super) fn complete(&mut self) {
        self.checkpoint = Checkpoint::Idle;
        self.trash.append(&mut self.old);
        self.unlink_at_ms = self.now_ms;
        if self.failing.take().is_some() {
            self.changes.push_back(Change::Recovered);
        }
        self.update_reached();
    }
}
