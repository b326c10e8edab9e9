//! What is done next to the disk, and what follows from what became of it.

use std::io;
use std::sync::Arc;

use crate::batch::{self, Place};
use crate::core::{Checkpoint, Core, Current, SECOND_MS, Stale};
use crate::job::{Done, Job, NotCreated, Outcome, SharedFile, Work};
use crate::record::{End, Kind, Mode, Record};
use crate::segment::{self, Name};

/// In mode `process` a checkpoint is synced in pieces of so many bytes, so that its end does not wait for all of it.
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
    Create(NewSegment),
    Publish {
        upto: u64,
        segment: u64,
        name: Name,
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
        let Self { kind, number, tag, bytes } = self;
        let name = match kind {
            Kind::Alone => Name::New(number),
            Kind::Continuing => Name::Journal(number),
        };
        Current { name, file, tag, next_batch: 1, bytes }
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
        let place = Place { tag: segment.tag, number: segment.next_batch };
        batch::seal(&mut self.buffer, place, self.now_ms);
        let bytes = self.buffer.len() as u64;
        segment.next_batch += 1;
        segment.bytes += bytes;
        self.unsynced_bytes += bytes;
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
        self.keep_buffer(batch);
        match result {
            Ok(()) => {
                self.written = upto;
                self.sync_at_ms.get_or_insert(self.now_ms + SECOND_MS);
                self.update_reached();
            }
            Err(error) => self.fail(&error),
        }
    }

    fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        // A buffer that had to hold a whole checkpoint's turn is not kept for good.
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
        let work = match self.failing {
            Some(retry_ms) if self.segment.is_none() => self
                .unlink_trash()
                .or_else(|| (self.now_ms >= retry_ms && !self.stopping).then(|| self.create(Kind::Alone))),
            _ => self.next_work(),
        };
        work.map(Job)
    }

    fn next_work(&mut self) -> Option<Work> {
        if self.checkpoint == Checkpoint::Wanted && !self.stopping {
            return Some(self.create(Kind::Continuing));
        }
        self.publish_if_marked().or_else(|| self.unlink_trash()).or_else(|| match self.mode() {
            Mode::Process => self.sync_if_due(),
            Mode::Machine => self.write_and_sync(),
        })
    }

    fn write_and_sync(&mut self) -> Option<Work> {
        let Write { file, batch, upto } = self.take_write()?;
        self.in_flight = Some(InFlight::Write { upto });
        Some(Work::Write { file, batch })
    }

    fn sync_if_due(&mut self) -> Option<Work> {
        let segment = self.segment.as_ref()?;
        let waits_for = [
            self.barrier.map(|barrier| barrier.last),
            self.tokens.waits_for(),
            match self.checkpoint {
                Checkpoint::Marked(at) => Some(at),
                _ => None,
            },
        ];
        let is_awaited = waits_for.into_iter().flatten().any(|at| self.synced < at);
        let is_due = self.sync_at_ms.is_some_and(|at| at <= self.now_ms);
        let is_much = self.is_checkpointing() && self.unsynced_bytes >= SYNC_BYTES;
        if self.synced == self.written || !(is_awaited || is_due || is_much || self.stopping) {
            return None;
        }
        let files = self.unsynced_old.iter().chain([&segment.file]).map(Arc::clone).collect();
        let bytes = self.unsynced_bytes;
        self.sync_at_ms = None;
        self.in_flight = Some(InFlight::Sync { upto: self.written, bytes });
        Some(Work::Sync { files })
    }

    /// A segment that stands alone gets its name when all of it is written.
    fn publish_if_marked(&mut self) -> Option<Work> {
        let Checkpoint::Marked(at) = self.checkpoint else { return None };
        let segment = self.segment.as_ref()?;
        let Name::New(number) = segment.name else { return None };
        let upto = match self.mode() {
            Mode::Process => self.written,
            Mode::Machine => self.synced,
        };
        if upto < at || self.stopping {
            return None;
        }
        let name = Name::Journal(number);
        self.checkpoint = Checkpoint::Publishing;
        self.in_flight = Some(InFlight::Publish { upto, segment: number, name });
        let (file, new) = (Arc::clone(&segment.file), segment.name.to_string());
        Some(Work::Publish { file, new, name: name.to_string() })
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

    /// A new segment: of a failing journal one that stands alone, otherwise one in which the run goes on.
    fn create(&mut self, kind: Kind) -> Work {
        let number = self.next_segment;
        self.next_segment += 1;
        self.checkpoint = Checkpoint::Creating;
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
                    core.unsynced_old = None;
                    core.unsynced_bytes = core.unsynced_bytes.saturating_sub(bytes);
                    core.plan_sync_behind(upto);
                });
            }
            (InFlight::Create(new), Outcome::Create(result)) => self.created(new, result),
            (InFlight::Publish { upto, segment, name }, Outcome::Publish(result)) => {
                self.published(upto, segment, name, result);
            }
            (InFlight::Unlink(trash), Outcome::Unlink { left }) => {
                self.trash.extend(trash.into_iter().filter(|stale| left.contains(&stale.name)));
                self.unlink_at_ms = self.now_ms + SECOND_MS;
            }
            _ => unreachable!("a job ends as what it began"),
        }
    }

    /// If a write failed meanwhile, the journal is failing whatever became of the sync.
    fn synced_or_failed(&mut self, upto: u64, result: io::Result<()>, on_success: impl FnOnce(&mut Self)) {
        match result {
            Ok(()) => {
                on_success(self);
                self.note_synced(upto);
                self.update_reached();
                self.complete_if_marked();
            }
            Err(error) => self.fail(&error),
        }
    }

    /// What was written during a sync has to wait a second at most, too; if there is nothing, no sync is due, as a
    /// deadline in the past would wake the caller again and again.
    fn plan_sync_behind(&mut self, upto: u64) {
        self.sync_at_ms = (self.written > upto).then_some(self.now_ms + SECOND_MS);
    }

    fn note_synced(&mut self, upto: u64) {
        self.synced = upto;
        self.tokens.synced(upto);
    }

    fn created(&mut self, new: NewSegment, result: Result<SharedFile, NotCreated>) {
        let is_of_use = match new.kind {
            Kind::Continuing => self.failing.is_none(),
            Kind::Alone => self.failing.is_some() && self.segment.is_none(),
        };
        match result {
            Ok(file) if is_of_use => {
                let unsynced = self.mode() == Mode::Process && self.written > self.synced;
                if let Some(before) = self.segment.replace(new.current(file)) {
                    self.old.push(Stale { name: before.name.to_string(), bytes: before.bytes });
                    self.unsynced_old = unsynced.then_some(before.file);
                }
                self.checkpoint = Checkpoint::Copying;
            }
            Ok(_) => self.trash.extend(new.trash()),
            Err(NotCreated { error, is_left }) => {
                if is_left {
                    self.trash.extend(new.trash());
                }
                self.fail(&error);
            }
        }
    }

    fn published(&mut self, upto: u64, segment: u64, name: Name, result: io::Result<()>) {
        let Some(current) = self.segment.as_mut().filter(|current| current.name.number() == segment) else {
            // A write failed meanwhile: this one stays among the files to unlink, under either name.
            self.trash.push(Stale { name: name.to_string(), bytes: 0 });
            return;
        };
        match result {
            Ok(()) => {
                current.name = name;
                self.note_synced(upto);
                self.unsynced_bytes = 0;
                self.plan_sync_behind(upto);
                self.complete();
            }
            Err(error) => {
                self.trash.push(Stale { name: name.to_string(), bytes: current.bytes });
                self.fail(&error);
            }
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
