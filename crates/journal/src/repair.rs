//! What an operator does to a directory that a start refuses, or that is not the one the last run left.

use std::fmt;
use std::io;

use crate::batch::NotGood;
use crate::boot::BootIdentity;
use crate::checkpoint::Alone;
use crate::job::unlink_all;
use crate::open::{Warning, warnings_of};
use crate::record::{Cause, End, Kind, LeaseRecord, Record, RepairCause, Run};
use crate::replay::{Corrupt, Directory, Log, ReadError, Replay, read_if_there};
use crate::segment::{HEAD, Name, Segment, Unreadable};
use crate::storage::Storage;

/// Why a repair could not be made. The directory that was looked at has not been changed.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// A server's.
    #[error("a server uses this data directory")]
    InUse,
    /// The operator's: nothing to repair.
    #[error("there is no journal in the data directory")]
    NoData,
    /// The operator's: a cut goes to an empty directory.
    #[error("there is a journal in the new directory already")]
    NotEmpty,
    /// The operator's: no such segment.
    #[error("{file} is no segment of the journal")]
    NoSuchFile {
        /// The name that was given.
        file: String,
    },
    /// The operator's: a later version wrote this.
    #[error("{file} has format version {version}, which is newer than this program")]
    NewerFormat {
        /// The segment.
        file: String,
        /// Its version.
        version: u32,
    },
    /// What is left is not a log.
    #[error("{file} is damaged at offset {offset}: {what}")]
    Corrupt {
        /// The segment.
        file: String,
        /// Where the damage begins.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// The system's.
    #[error("cannot {what}: {source}")]
    Storage {
        /// What could not be done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl From<Corrupt> for RepairError {
    fn from(Corrupt { file, offset, what }: Corrupt) -> Self {
        Self::Corrupt { file, offset, what }
    }
}

impl From<ReadError> for RepairError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Storage { file, source } => Self::Storage { what: format!("read {file}"), source },
            ReadError::Newer { file, version } => Self::NewerFormat { file, version },
            ReadError::Corrupt(corrupt) => corrupt.into(),
        }
    }
}

fn storage_error(what: &str) -> impl FnOnce(io::Error) -> RepairError + use<> {
    let what = what.to_owned();
    move |source| RepairError::Storage { what, source }
}

/// What is in a directory, and what a start would say to it.
#[derive(Debug)]
pub struct Report {
    /// A server uses the directory. What it writes at this very moment may look like a write that never ended.
    pub is_taken: bool,
    /// One sentence for each segment, oldest first.
    pub segments: Vec<String>,
    /// What a start would warn of, or why it would refuse.
    pub start: Result<Vec<Warning>, RepairError>,
    /// Where to cut so that only good batches are left, if a start would refuse because of bad ones.
    pub cut: Option<Cut>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_taken {
            writeln!(f, "a server uses this directory; what it is just writing may look unfinished")?;
        }
        self.segments.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        match &self.start {
            Ok(warnings) if warnings.is_empty() => writeln!(f, "nothing is damaged"),
            Ok(warnings) => warnings
                .iter()
                .try_for_each(|warning| writeln!(f, "a start goes on with a warning: {warning}")),
            Err(error) => writeln!(f, "a start refuses: {error}"),
        }
    }
}

/// A place in a journal: everything from there on is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment.
    pub file: String,
    /// The offset in it.
    pub offset: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

impl std::str::FromStr for Cut {
    type Err = &'static str;

    /// `FILE:OFFSET`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (file, offset) = text.rsplit_once(':').ok_or("expected FILE:OFFSET")?;
        let offset = offset.parse().map_err(|_| "the offset is not a number")?;
        Ok(Self { file: file.to_owned(), offset })
    }
}

/// Looks at a directory and changes nothing. What a start would say is judged for a start on this boot at `now_ms`,
/// see [`OpenOptions`](crate::OpenOptions).
///
/// # Errors
/// If it cannot be read, or there is no journal.
pub fn report(
    storage: &dyn Storage,
    boot: Option<&BootIdentity>,
    now_ms: u64,
) -> Result<Report, RepairError> {
    let is_taken = storage.is_taken().map_err(storage_error("look at the lock file"))?;
    let directory = Directory::list(storage).map_err(storage_error("list the data directory"))?;
    let (mut lines, mut segments) = (Vec::new(), Vec::new());
    for number in directory.segments {
        let file = Name::Journal(number).to_string();
        let Some(bytes) = read_if_there(storage, &file).map_err(storage_error(&format!("read {file}")))?
        else {
            continue;
        };
        let length = bytes.len();
        let segment = Segment::read(number, bytes);
        let line = match &segment {
            Ok(segment) => describe(segment),
            Err(Unreadable::Newer(version)) => format!("written in format version {version}"),
            Err(Unreadable::NoRun(_)) => "no readable run record".to_owned(),
        };
        lines.push((number, format!("{file}: {length} bytes, {line}")));
        segments.push(segment.map_err(|unreadable| ReadError::of_segment(file, unreadable)));
    }
    let mut cut = None;
    let start = match Log::collect(segments.into_iter().rev()) {
        Ok(None) => return Err(RepairError::NoData),
        Ok(Some(log)) => {
            let first = log.segments[0].number;
            let void = lines.iter_mut().filter(|(number, _)| *number < first);
            void.for_each(|(_, line)| line.push_str("; void: never read again"));
            log.replay(boot, now_ms).map(|replay| warnings_of(&replay)).map_err(|corrupt| {
                cut = Some(Cut { file: corrupt.file.clone(), offset: corrupt.offset });
                corrupt.into()
            })
        }
        Err(error) => {
            if let ReadError::Corrupt(Corrupt { file, .. }) = &error {
                cut = Some(Cut { file: file.clone(), offset: 0 });
            }
            Err(error.into())
        }
    };
    let segments = lines.into_iter().map(|(_, line)| line).collect();
    Ok(Report { is_taken, segments, start, cut })
}

fn describe(segment: &Segment) -> String {
    let Run { number, mode, .. } = segment.run;
    let complete = if segment.is_complete { "complete" } else { "without an end mark" };
    let state = match (segment.bad, segment.behind.first()) {
        (None, _) => "good to its end".to_owned(),
        (Some(bad), Some(behind)) => {
            format!("bad from offset {} on, and a good batch behind that at {}", bad.offset, behind.offset)
        }
        (Some(bad), None) if bad.why == NotGood::EndsInside => {
            format!("ends inside the batch at offset {}", bad.offset)
        }
        (Some(bad), None) => format!("bad from offset {} to its end", bad.offset),
    };
    format!("run {number}, mode {}, {complete}, {} batches, {state}", mode.as_str(), segment.batches.len())
}

/// Writes what the log of `from` comes to before the cut into the empty directory `to`, and marks that: the next start
/// recovers for 255 s. `random` are sixteen bytes drawn for this call. Nothing is changed in `from`.
///
/// # Errors
/// If there is no log before the cut, or one of the directories cannot be used.
pub fn cut(from: &dyn Storage, to: &dyn Storage, cut: &Cut, random: &[u8; 16]) -> Result<(), RepairError> {
    let no_such_file = || RepairError::NoSuchFile { file: cut.file.clone() };
    let Some(Name::Journal(number)) = Name::parse(&cut.file) else { return Err(no_such_file()) };
    if from.is_taken().map_err(storage_error("look at the lock file"))? {
        return Err(RepairError::InUse);
    }
    take(to)?;
    let list = |storage: &dyn Storage| Directory::list(storage).map_err(storage_error("list a directory"));
    if !list(to)?.segments.is_empty() {
        return Err(RepairError::NotEmpty);
    }
    let mut directory = list(from)?;
    if !directory.segments.contains(&number) {
        return Err(no_such_file());
    }
    // Of a segment that is cut in its head nothing is left.
    directory.segments.retain(|&segment| segment < number || (segment == number && cut.offset > HEAD as u64));
    let mut log = Log::read(from, &directory)?.ok_or(RepairError::NoData)?;
    if let Some(last) = log.segments.last_mut().filter(|last| last.number == number) {
        last.cut(cut.offset);
    }
    let bad = log.segments.iter().position(|segment| segment.bad.is_some());
    let replay = log.apply(bad.unwrap_or(log.segments.len() - 1));
    rewrite(to, &log, &replay, 1, random, RepairCause::Cut)
}

/// Marks a directory that was put back from a copy: the next start recovers for 255 s. `random` are sixteen bytes drawn
/// for this call.
///
/// # Errors
/// If there is no log, or it is damaged, or the directory cannot be used.
pub fn mark_restored(storage: &dyn Storage, random: &[u8; 16]) -> Result<(), RepairError> {
    take(storage)?;
    let directory = Directory::list(storage).map_err(storage_error("list the data directory"))?;
    let log = Log::read(storage, &directory)?.ok_or(RepairError::NoData)?;
    // Nobody knows on which boot the copy was made.
    let replay = log.replay(None, 0)?;
    rewrite(storage, &log, &replay, directory.next_number(), random, RepairCause::Restored)?;
    let void = directory.segments.iter().map(|&number| Name::Journal(number).to_string()).collect();
    unlink_all(storage, void);
    Ok(())
}

fn take(storage: &dyn Storage) -> Result<(), RepairError> {
    let is_ours = storage.lock().map_err(storage_error("lock a data directory"))?;
    if is_ours { Ok(()) } else { Err(RepairError::InUse) }
}

/// Writes one segment with everything that a log comes to, as the run that wrote the log would have.
fn rewrite(
    storage: &dyn Storage,
    log: &Log,
    replay: &Replay,
    number: u64,
    random: &[u8; 16],
    cause: RepairCause,
) -> Result<(), RepairError> {
    let run = Run { kind: Kind::Alone, ceilings: replay.ceilings, ..replay.run.clone() };
    let mut leases: Vec<(&str, u64, End)> =
        replay.leases.iter().map(|(key, &(token, end))| (&**key, token, end)).collect();
    leases.sort_unstable_by_key(|&(_, token, _)| token);
    let now_ms = log.newest_stamp_ms();
    let alone = Alone { number, random, run: &run, now_ms, last: Some(Record::RepairMark(cause)) };
    let leases =
        leases.into_iter().map(|(key, token, end)| LeaseRecord { cause: Cause::Copy, token, end, key });
    let written = alone.write(storage, leases);
    written.map(drop).map_err(storage_error("write the repaired journal"))
}
