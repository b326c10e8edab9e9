//! What is done next to the disk, and what follows from what became of it.

use std::io;
use std::sync::Arc;

use crate::batch::{self, Place};
use crate::core::copying::{COPIES_WRITTEN, Checkpoint, Stage};
use crate::core::{Change, Core, Current, SECOND_MS, Stale};
use crate::job::{Done, Job, Left, NotCreated, Outcome, SharedFile, Work};
use crate::record::{End, Kind, Mode, Record};
use crate::segment::{self, Name};

/// In mode `process` the log is synced when so much has been written since the last time, so that no sync is long and
/// holds up the other work for the disk.
const SYNC_BYTES: u64 = 8 << 20;

/// A batch to append.
pub(crate) struct Write {
    pub(crate) file: SharedFile,
    pub(crate) batch: Vec<u8>,
    upto: u64,
}

/// The job that is under way.
pub(crate) enum InFlight {
    Write {
        upto: u64,
    },
    Sync {
        upto: u64,
        bytes: u64,
    },
    /// Copies, for the checkpoint of this number.
    Copies(u64),
    Create(NewSegment),
    /// A name for the checkpoint of this number.
    Publish {
        at: u64,
        number: u64,
    },
    /// These still count until it is done.
    Unlink(Vec<Stale>),
}

/// A segment that is being made.
#[derive(Clone, Copy)]
pub(crate) struct NewSegment {
    kind: Kind,
    number: u64,
    tag: u64,
    bytes: u64,
}

impl NewSegment {
    fn current(self, file: SharedFile) -> Current {
        let Self { number, tag, bytes, .. } = self;
        Current { number, file, tag, next_batch: 1, bytes }
    }

    /// The file, under whichever name it may have.
    fn trash(self) -> [Stale; 2] {
        [Name::New(self.number), Name::Journal(self.number)]
            .map(|name| Stale { name: name.to_string(), bytes: self.bytes })
    }
}

impl Core {
    /// The buffer as one batch, if there is something in it. In mode `machine` this is part of a job, and waits for the
    /// one before.
    pub(crate) fn take_write(&mut self) -> Option<Write> {
        if self.buffer.len() == batch::HEADER {
            return None;
        }
        let segment = self.segment.as_mut()?;
        segment.seal(&mut self.buffer, self.now_ms);
        let next = self.spare.take().unwrap_or_else(batch::empty);
        Some(Write {
            file: Arc::clone(&segment.file),
            batch: std::mem::replace(&mut self.buffer, next),
            upto: self.appended,
        })
    }

    /// What became of a batch that was appended and not synced.
    pub(crate) fn wrote(&mut self, write: Write, result: io::Result<()>) {
        let Write { batch, upto, .. } = write;
        let bytes = batch.len() as u64;
        self.keep_buffer(batch);
        match result {
            Ok(()) => {
                self.written = upto;
                self.unsynced_bytes += bytes;
                // What was decided before the copies that ended a failure is on stable storage with them.
                if self.written > self.synced {
                    self.sync_at_ms.get_or_insert(self.now_ms + SECOND_MS);
                }
                self.update_reached();
            }
            Err(error) => self.fail(&error),
        }
    }

    fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        // A buffer that had to hold far more than usual is not kept for good.
        if buffer.capacity() <= 1 << 20 {
            batch::clear(&mut buffer);
            self.spare = Some(buffer);
        }
    }

    /// The next work for the disk, when there is some and none is under way.
    pub(crate) fn next_job(&mut self) -> Option<Job> {
        if self.in_flight.is_some() {
            return None;
        }
        // They take turns; what answers wait for goes first.
        let checkpoint_is_next = std::mem::take(&mut self.checkpoint_is_next);
        let work = self.unlink_trash().or_else(|| {
            if checkpoint_is_next {
                self.checkpoint_work().or_else(|| self.log_work())
            } else {
                self.log_work().or_else(|| self.checkpoint_work())
            }
        });
        self.checkpoint_is_next =
            matches!(self.in_flight, Some(InFlight::Write { .. } | InFlight::Sync { .. }));
        work.map(Job)
    }

    fn log_work(&mut self) -> Option<Work> {
        match self.mode() {
            Mode::Process => self.sync_if_due(),
            Mode::Machine => self.write_and_sync(),
        }
    }

    fn checkpoint_work(&mut self) -> Option<Work> {
        if self.stopping {
            return None;
        }
        match &self.checkpoint {
            None if self.is_checkpoint_due() => {
                let number = self.next_segment;
                // The number behind it is that of the segment in which the run goes on.
                self.next_segment += 2;
                self.checkpoint = Some(Checkpoint::new(number));
                Some(self.create(Kind::Alone, number))
            }
            None => None,
            Some(checkpoint) => match checkpoint.stage {
                Stage::Creating | Stage::Publishing => None,
                Stage::Continuing => Some(self.create(Kind::Continuing, checkpoint.number_behind())),
                Stage::Copying => self.write_copies(COPIES_WRITTEN),
                Stage::Copied(at) => {
                    self.write_copies(batch::HEADER + 1).or_else(|| self.publish_if_written(at))
                }
            },
        }
    }

    /// Writes copies, if there are so many bytes of them.
    fn write_copies(&mut self, at_least: usize) -> Option<Work> {
        let checkpoint = self.checkpoint.as_mut()?;
        let segment = checkpoint.segment.as_mut().filter(|_| checkpoint.copies.len() >= at_least)?;
        segment.seal(&mut checkpoint.copies, self.now_ms);
        let next = checkpoint.spare.take().unwrap_or_else(batch::empty);
        let batch = std::mem::replace(&mut checkpoint.copies, next);
        self.in_flight = Some(InFlight::Copies(checkpoint.number));
        Some(Work::Copies { file: Arc::clone(&segment.file), batch })
    }

    fn write_and_sync(&mut self) -> Option<Work> {
        let Write { file, batch, upto } = self.take_write()?;
        self.in_flight = Some(InFlight::Write { upto });
        Some(Work::Write { file, batch })
    }

    fn sync_if_due(&mut self) -> Option<Work> {
        let segment = self.segment.as_ref()?;
        let waits_for = [self.barrier.map(|barrier| barrier.last), self.tokens.waits_for()];
        let is_awaited = waits_for.into_iter().flatten().any(|at| self.synced < at);
        let is_due = self.sync_at_ms.is_some_and(|at| at <= self.now_ms);
        let is_much = self.unsynced_bytes >= SYNC_BYTES;
        if self.synced == self.written || !(is_awaited || is_due || is_much || self.stopping) {
            return None;
        }
        let files = self.unsynced_old.iter().chain([&segment.file]).map(Arc::clone).collect();
        self.sync_at_ms = None;
        self.in_flight = Some(InFlight::Sync { upto: self.written, bytes: self.unsynced_bytes });
        Some(Work::Sync { files })
    }

    /// A checkpoint gets its name when all copies are written, and so is everything that was decided meanwhile. That need
    /// not be synced: what is lost of it with the machine is lost behind a checkpoint as it is without one. What is decided
    /// after a failure is written behind it.
    fn publish_if_written(&mut self, at: u64) -> Option<Work> {
        let is_written = match (self.failing, self.mode()) {
            (Some(_), _) => true,
            (None, Mode::Process) => self.written >= at,
            (None, Mode::Machine) => self.synced >= at,
        };
        if !is_written {
            return None;
        }
        let checkpoint = self.checkpoint.as_mut()?;
        let file = Arc::clone(&checkpoint.segment.as_ref()?.file);
        checkpoint.stage = Stage::Publishing;
        let number = checkpoint.number;
        self.in_flight = Some(InFlight::Publish { at, number });
        let (new, name) = (Name::New(number).to_string(), Name::Journal(number).to_string());
        Some(Work::Publish { file, new, name })
    }

    /// Whether files that take room are about to go.
    pub(super) fn is_unlinking(&self) -> bool {
        let is_due = !self.trash.is_empty() && self.now_ms >= self.unlink_at_ms;
        is_due || matches!(self.in_flight, Some(InFlight::Unlink(_)))
    }

    fn unlink_trash(&mut self) -> Option<Work> {
        if self.trash.is_empty() || self.stopping || self.now_ms < self.unlink_at_ms {
            return None;
        }
        let trash = std::mem::take(&mut self.trash);
        let names = trash.iter().map(|stale| stale.name.clone()).collect();
        self.in_flight = Some(InFlight::Unlink(trash));
        Some(Work::Unlink { names })
    }

    /// A new segment: a checkpoint's, which stands alone and gets its name when it is complete, or the one behind it.
    fn create(&mut self, kind: Kind, number: u64) -> Work {
        let recovery = self.run.recovery.map(|end| End::new(end.at_ms, self.now_ms));
        self.run.recovery = recovery.filter(|end| end.left_ms > 0);
        self.run.kind = kind;
        let tag = segment::tag(&self.random, number);
        let begin = begin(tag, &Record::Run(self.run.clone()), self.now_ms);
        self.in_flight = Some(InFlight::Create(NewSegment { kind, number, tag, bytes: begin.len() as u64 }));
        let name = (kind == Kind::Continuing).then(|| Name::Journal(number).to_string());
        Work::Create { new: Name::New(number).to_string(), name, begin }
    }

    /// What became of the job.
    pub(crate) fn finish(&mut self, done: Done) {
        let in_flight = self.in_flight.take().expect("a job was under way");
        match (in_flight, done.0) {
            (InFlight::Write { upto }, Outcome::Write { buffer, result }) => {
                self.keep_buffer(buffer);
                self.synced_or_failed(upto, result, |core| core.written = upto);
            }
            (InFlight::Sync { upto, bytes }, Outcome::Sync(result)) => {
                self.synced_or_failed(upto, result, |core| {
                    core.unsynced_bytes = core.unsynced_bytes.saturating_sub(bytes);
                    core.plan_sync_behind(upto);
                });
            }
            (InFlight::Copies(number), Outcome::Write { buffer, result }) => {
                self.copies_written(number, buffer, result);
            }
            (InFlight::Create(new), Outcome::Create(result)) => self.created(new, result),
            (InFlight::Publish { at, number }, Outcome::Publish(result)) => {
                self.published(at, number, result);
            }
            (InFlight::Unlink(trash), Outcome::Unlink(left)) => self.unlinked(trash, left),
            _ => unreachable!("a job ends as what it began"),
        }
    }

    fn unlinked(&mut self, trash: Vec<Stale>, left: Left) {
        self.trash.extend(trash.into_iter().filter(|stale| left.names.contains(&stale.name)));
        self.unlink_at_ms = self.now_ms + SECOND_MS;
        let was_told = std::mem::replace(&mut self.is_told_of_trash, left.error.is_some());
        if let Some(error) = left.error.filter(|_| !was_told) {
            let change = Change::NotDeleted { files: left.names.len(), error: error.to_string() };
            self.changes.push_back(change);
        }
    }

    /// If a write failed meanwhile, the journal is failing whatever became of the sync.
    fn synced_or_failed(&mut self, upto: u64, result: io::Result<()>, on_success: impl FnOnce(&mut Self)) {
        match result {
            Ok(()) => {
                on_success(self);
                self.note_synced(upto);
                self.update_reached();
            }
            Err(error) => self.fail(&error),
        }
    }

    /// What was written during a sync has to wait a second at most, too; if there is nothing, no sync is due, as a
    /// deadline in the past would wake the caller again and again. Nor is one if a write has failed meanwhile.
    fn plan_sync_behind(&mut self, upto: u64) {
        self.unsynced_old = None;
        let is_due = self.failing.is_none() && self.written > upto;
        self.sync_at_ms = is_due.then_some(self.now_ms + SECOND_MS);
    }

    fn note_synced(&mut self, upto: u64) {
        self.synced = upto;
        self.tokens.synced(upto);
    }

    fn created(&mut self, new: NewSegment, result: Result<SharedFile, NotCreated>) {
        let wanted = self.checkpoint.as_ref().map(|checkpoint| match checkpoint.stage {
            Stage::Continuing => checkpoint.number_behind(),
            _ => checkpoint.number,
        });
        match result {
            Ok(file) if wanted == Some(new.number) => match new.kind {
                Kind::Alone => self.checkpoint_created(new.current(file)),
                Kind::Continuing => self.go_on_in(new.current(file)),
            },
            // A write failed meanwhile.
            Ok(_) => self.trash.extend(new.trash()),
            Err(NotCreated { error, is_left }) => {
                if is_left {
                    self.trash.extend(new.trash());
                }
                self.fail(&error);
            }
        }
    }

    fn checkpoint_created(&mut self, segment: Current) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.segment = Some(segment);
        if self.failing.is_some() {
            self.begin_copying();
        } else {
            // What is decided while copies are made belongs behind them.
            checkpoint.stage = Stage::Continuing;
        }
    }

    fn go_on_in(&mut self, segment: Current) {
        let unsynced = self.mode() == Mode::Process && self.written > self.synced;
        if let Some(before) = self.segment.replace(segment) {
            self.old.push(before.stale());
            self.unsynced_old = unsynced.then_some(before.file);
        }
        if self.failing.is_some() {
            self.recover();
        } else {
            self.begin_copying();
        }
    }

    fn copies_written(&mut self, number: u64, mut buffer: Vec<u8>, result: io::Result<()>) {
        let Some(checkpoint) = self.checkpoint.as_mut().filter(|checkpoint| checkpoint.number == number)
        else {
            return;
        };
        match result {
            Ok(()) => {
                batch::clear(&mut buffer);
                checkpoint.spare = Some(buffer);
            }
            Err(error) => self.fail(&error),
        }
    }

    /// If a write failed meanwhile, the file stays among those to unlink, under either name.
    fn published(&mut self, at: u64, number: u64, result: io::Result<()>) {
        let Some(checkpoint) = self.checkpoint.as_mut().filter(|checkpoint| checkpoint.number == number)
        else {
            return;
        };
        match result {
            Ok(()) => {
                let segment = checkpoint.segment.take().expect("it was published");
                // What was decided before the copies is in them.
                self.unsynced_old = None;
                if self.failing.is_some() {
                    self.written = at;
                    self.note_synced(at);
                }
                self.complete(&segment);
            }
            Err(error) => self.fail(&error),
        }
    }
}

/// The first bytes of a segment: its head and its run record.
pub(crate) fn begin(tag: u64, run: &Record<'_>, now_ms: u64) -> Vec<u8> {
    let mut first = batch::empty();
    run.encode(&mut first);
    batch::seal(&mut first, Place { tag, number: 0 }, now_ms);
    let mut begin = segment::head(tag);
    begin.append(&mut first);
    begin
}
