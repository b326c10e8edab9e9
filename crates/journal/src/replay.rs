//! Reading a directory: which segments are the log, what is good in them, and what it comes to.

use std::collections::HashMap;
use std::io;

use crate::batch::NotGood;
use crate::boot::BootIdentity;
use crate::record::{Ceilings, End, Kind, LeaseRecord, Mode, Record, Run};
use crate::segment::{HEAD, Name, Segment, Unreadable};
use crate::storage::Storage;

/// The files of a journal, by number.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Segments, oldest first.
    pub(crate) segments: Vec<u64>,
    /// Segments that never became one.
    pub(crate) new: Vec<u64>,
}

impl Directory {
    pub(crate) fn list(storage: &dyn Storage) -> io::Result<Self> {
        let mut directory = Self::default();
        for name in storage.list()? {
            match Name::parse(&name) {
                Some(Name::Journal(number)) => directory.segments.push(number),
                Some(Name::New(number)) => directory.new.push(number),
                None => {}
            }
        }
        directory.segments.sort_unstable();
        directory.new.sort_unstable();
        Ok(directory)
    }

    /// A number above every file's.
    pub(crate) fn next_number(&self) -> u64 {
        self.segments.iter().chain(&self.new).max().map_or(1, |greatest| greatest + 1)
    }
}

/// Why a directory cannot be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    Storage { file: String, source: io::Error },
    Newer { file: String, version: u32 },
    Corrupt(Corrupt),
}

impl ReadError {
    pub(crate) fn of_segment(file: String, unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Newer(version) => Self::Newer { file, version },
            Unreadable::NoRun(offset) => {
                let what = "there is no readable run record";
                Self::Corrupt(Corrupt { file, offset: offset as u64, what })
            }
        }
    }
}

/// The bytes of a segment, for those who look at a directory that may be a server's: none if it has just deleted it.
pub(crate) fn read_if_there(storage: &dyn Storage, file: &str) -> io::Result<Option<Vec<u8>>> {
    match storage.read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Damage that no crash explains.
#[derive(Debug)]
pub(crate) struct Corrupt {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) what: &'static str,
}

impl Corrupt {
    fn new(segment: &Segment, offset: usize, what: &'static str) -> Self {
        Self { file: segment.name(), offset: offset as u64, what }
    }
}

const INCOMPLETE: &str = "it has no end mark, and there is no complete segment before it";

/// Why bytes at the end of a log were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// They are a write that never returned, or that nobody was told of.
    Unfinished,
    /// They are bad and the last of the log.
    Damaged,
    /// The machine stopped before they were synced.
    OtherBoot,
}

/// What was left out.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) why: Dropped,
}

/// The segments that count, oldest first.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) segments: Vec<Segment>,
}

/// What a log comes to.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) run: Run,
    pub(crate) another_boot: bool,
    pub(crate) leases: HashMap<Box<str>, (u64, End)>,
    pub(crate) ceilings: Ceilings,
    /// The log ends with a stop record.
    pub(crate) is_stopped: bool,
    /// A repair mark is in it.
    pub(crate) is_marked: bool,
    pub(crate) tail: Option<Tail>,
}

impl Log {
    /// Reads from the newest segment down to the one that begins the log. None if there is no segment.
    pub(crate) fn read(storage: &dyn Storage, directory: &Directory) -> Result<Option<Self>, ReadError> {
        Self::collect(directory.segments.iter().rev().map(|&number| {
            let file = Name::Journal(number).to_string();
            let bytes = match storage.read(&file) {
                Ok(bytes) => bytes,
                Err(source) => return Err(ReadError::Storage { file, source }),
            };
            let segment = Segment::read(number, bytes)
                .map_err(|unreadable| ReadError::of_segment(file.clone(), unreadable))?;
            tracing::info!(
                file,
                bytes = segment.bytes.len(),
                batches = segment.batches.len(),
                "journal read"
            );
            Ok(segment)
        }))
    }

    /// Takes segments, newest first, down to the one that begins the log.
    pub(crate) fn collect(
        newest_first: impl Iterator<Item = Result<Segment, ReadError>>,
    ) -> Result<Option<Self>, ReadError> {
        let mut segments = Vec::new();
        for segment in newest_first {
            let segment = segment?;
            let begins_log = segment.is_complete || segment.run.kind == Kind::Alone;
            segments.push(segment);
            if begins_log {
                break;
            }
        }
        segments.reverse();
        Ok((!segments.is_empty()).then_some(Self { segments }))
    }

    /// Judges the log at a start on this boot, at `now_ms`.
    pub(crate) fn replay(&self, boot: Option<&BootIdentity>, now_ms: u64) -> Result<Replay, Corrupt> {
        let base = &self.segments[0];
        self.check_that_one_run_wrote_it()?;
        let another_boot =
            boot.is_none() || boot != base.run.boot.as_ref() || now_ms < self.newest_stamp_ms();
        let bad = self.segments.iter().position(|segment| segment.bad.is_some());
        let tail = match bad {
            Some(at) if another_boot && base.run.mode == Mode::Process => {
                // The checkpoint that begins a log was synced before it had its name, so this is not the machine's end;
                // and the ceilings in it may be among what is bad.
                let why = if base.is_complete { Dropped::OtherBoot } else { Dropped::Damaged };
                Some(self.tail(at, why))
            }
            _ => self.judge_strictly(bad)?,
        };
        let mut replay = self.apply(bad.unwrap_or(self.segments.len() - 1));
        replay.another_boot = another_boot;
        replay.is_stopped &= tail.is_none();
        replay.tail = tail;
        Ok(replay)
    }

    /// What the log comes to, up to the first bad batch in segment `last`, whatever a start would say to it.
    pub(crate) fn apply(&self, last: usize) -> Replay {
        let mut replay = Replay {
            run: self.segments[0].run.clone(),
            another_boot: false,
            leases: HashMap::new(),
            ceilings: Ceilings::default(),
            is_stopped: false,
            is_marked: false,
            tail: None,
        };
        for (index, segment) in self.segments.iter().enumerate() {
            for batch in &segment.batches {
                for record in segment.records(batch) {
                    if index <= last { replay.apply(record) } else { replay.raise_ceilings(&record) }
                }
            }
            for record in segment.behind.iter().flat_map(|batch| segment.records(batch)) {
                replay.raise_ceilings(&record);
            }
        }
        replay
    }

    fn check_that_one_run_wrote_it(&self) -> Result<(), Corrupt> {
        let [base, others @ ..] = &self.segments[..] else { unreachable!("a log has a segment") };
        let is_strange = |other: &&Segment| {
            let (ours, theirs) = (&base.run, &other.run);
            (ours.number, ours.server_id, ours.mode, &ours.boot)
                != (theirs.number, theirs.server_id, theirs.mode, &theirs.boot)
        };
        match others.iter().find(is_strange) {
            Some(other) => Err(Corrupt::new(other, HEAD, "it continues a segment that is not there")),
            None => Ok(()),
        }
    }

    pub(crate) fn newest_stamp_ms(&self) -> u64 {
        let batches = self.segments.iter().flat_map(|segment| segment.batches.iter().chain(&segment.behind));
        batches.map(|batch| batch.stamp_ms).max().unwrap_or(0)
    }

    /// Where no crash of the machine can have lost what was written.
    fn judge_strictly(&self, bad: Option<usize>) -> Result<Option<Tail>, Corrupt> {
        let base = &self.segments[0];
        if let Some(at) = bad {
            let segment = &self.segments[at];
            let is_behind =
                !segment.behind.is_empty() || self.segments[at + 1..].iter().any(Segment::is_begun);
            if is_behind {
                let what = "there is a bad batch, and good ones behind it";
                return Err(Corrupt::new(segment, segment.good_bytes(), what));
            }
        }
        if !base.is_complete {
            return Err(Corrupt::new(base, base.good_bytes(), INCOMPLETE));
        }
        Ok(bad.map(|at| {
            let ends_inside = self.segments[at].bad.is_some_and(|bad| bad.why == NotGood::EndsInside);
            self.tail(at, if ends_inside { Dropped::Unfinished } else { Dropped::Damaged })
        }))
    }

    fn tail(&self, at: usize, why: Dropped) -> Tail {
        let segment = &self.segments[at];
        Tail { file: segment.name(), offset: segment.good_bytes() as u64, why }
    }
}

impl Replay {
    fn apply(&mut self, record: Record<'_>) {
        self.raise_ceilings(&record);
        self.is_stopped = record == Record::Stop;
        match record {
            Record::Run(run) => self.run = run,
            Record::Lease(LeaseRecord { token, end, key, .. }) => match self.leases.get_mut(key) {
                // A copy may be newer than what stands behind it: of one end, the least time left is the newest.
                Some((held_by, known)) if (*held_by, known.at_ms) == (token, end.at_ms) => {
                    known.left_ms = known.left_ms.min(end.left_ms);
                }
                Some(lease) => *lease = (token, end),
                None => {
                    self.leases.insert(key.into(), (token, end));
                }
            },
            Record::Freed { token, key } => {
                if self.leases.get(key).is_some_and(|&(held_by, _)| held_by <= token) {
                    self.leases.remove(key);
                }
            }
            Record::RepairMark(_) => self.is_marked = true,
            Record::LeaseCeiling(_) | Record::TokenCeiling(_) | Record::EndMark | Record::Stop => {}
        }
    }

    fn raise_ceilings(&mut self, record: &Record<'_>) {
        let Ceilings { lease_ms, token } = match *record {
            Record::Run(ref run) => run.ceilings,
            Record::LeaseCeiling(lease_ms) => Ceilings { lease_ms, token: 0 },
            Record::TokenCeiling(token) => Ceilings { lease_ms: 0, token },
            // What was written without its ceiling never happens, and costs nothing to believe.
            Record::Lease(LeaseRecord { token, end, .. }) => Ceilings { lease_ms: end.left_ms, token },
            _ => return,
        };
        self.ceilings.lease_ms = self.ceilings.lease_ms.max(lease_ms);
        self.ceilings.token = self.ceilings.token.max(token);
    }
}
