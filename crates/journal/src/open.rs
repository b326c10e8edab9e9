//! The start: what the last run left, whether to recover and how long, and the checkpoint before serving.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::boot::BootIdentity;
use crate::canary::{self, Canary};
use crate::checkpoint::Alone;
use crate::core::{CHECKPOINT_BYTES, Core, Current, Stale, Start};
use crate::executor::Executor;
use crate::job::unlink_all;
use crate::journal::Journal;
use crate::record::{Cause, Ceilings, End, Kind, LeaseRecord, Mode, Run, lease_bytes};
use crate::replay::{Corrupt, Directory, Dropped, Log, ReadError, Replay, Tail};
use crate::segment::Name;
use crate::storage::Storage;
use crate::tokens::TokenBlock;

/// How long a start recovers from a directory that it cannot trust: the longest lease there is.
const LONGEST_MS: u64 = 255_000;

/// What a start is told.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The clock: milliseconds of CLOCK_BOOTTIME.
    pub now_ms: u64,
    /// The wall clock: microseconds since 1970.
    pub wall_us: u64,
    /// Which boot this is; none if that cannot be told, and then another one is assumed.
    pub boot: Option<BootIdentity>,
    /// What answers wait for in this run.
    pub mode: Mode,
    /// Sixteen random bytes, drawn for this start. They become the server's id if the directory is new.
    pub random: [u8; 16],
    /// An empty directory is an error.
    pub require_data: bool,
    /// A checkpoint is due when the current segment exceeds this much and the live leases; only tests choose.
    pub checkpoint_bytes: u64,
}

impl OpenOptions {
    /// Options with the usual size of a segment; no boot identity, and an empty directory is fine.
    #[must_use]
    pub fn new(mode: Mode, now_ms: u64, wall_us: u64, random: [u8; 16]) -> Self {
        Self {
            now_ms,
            wall_us,
            boot: None,
            mode,
            random,
            require_data: false,
            checkpoint_bytes: CHECKPOINT_BYTES,
        }
    }
}

/// A lease that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The key.
    pub key: Box<str>,
    /// Its token.
    pub token: u64,
    /// Its end on the clock of this boot, in milliseconds.
    pub ends_ms: u64,
}

/// A journal that is ready to be written to, and what was in it.
pub struct Opened {
    /// The journal. If the start's checkpoint failed, it [is failing](Journal::is_failing) already.
    pub journal: Journal,
    /// The live leases, in the order of their ends.
    pub leases: Vec<Lease>,
    /// Until when nothing may be granted, on the clock of this boot.
    pub recovery_ends_ms: Option<u64>,
    /// The server's id, drawn when the directory was made.
    pub server_id: [u8; 16],
    /// The number of this run in this directory, from 1. (A start whose checkpoint failed shares it with the next.)
    pub run: u64,
    /// The directory held no journal before.
    pub is_new: bool,
    /// The last run was on another boot of the machine, or may have been.
    pub another_boot: bool,
    /// What the operator should know.
    pub warnings: Vec<Warning>,
}

/// Why a journal could not be opened. Nothing in the directory has been changed, but for what a failed write left.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server's.
    #[error("another server uses this data directory")]
    InUse,
    /// The operator's: there is no journal and there should be one.
    #[error("there is no journal in the data directory, and one is required")]
    NoData,
    /// The operator's: memory does not survive the machine.
    #[error("the data directory is in memory, which does not survive what mode machine promises to")]
    Volatile,
    /// The operator's: a later version wrote this.
    #[error("{file} has format version {version}, which is newer than this server")]
    NewerFormat {
        /// The segment.
        file: String,
        /// Its version.
        version: u32,
    },
    /// The disk's, or whoever changed the file's.
    #[error("{file} is damaged at offset {offset}: {what}")]
    Corrupt {
        /// The segment.
        file: String,
        /// The offset of the first bad byte range in it.
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

impl OpenError {
    fn storage(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Storage { what, source }
    }
}

impl From<Corrupt> for OpenError {
    fn from(Corrupt { file, offset, what }: Corrupt) -> Self {
        Self::Corrupt { file, offset, what }
    }
}

impl From<ReadError> for OpenError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Storage { file, source } => Self::storage(format!("read {file}"))(source),
            ReadError::Newer { file, version } => Self::NewerFormat { file, version },
            ReadError::Corrupt(corrupt) => corrupt.into(),
        }
    }
}

/// What an operator should know of a start that went on all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Bytes at the end of the log were left out.
    Dropped {
        /// The segment in which they begin.
        file: String,
        /// The offset of the first.
        offset: u64,
        /// What they were, in words.
        why: &'static str,
    },
    /// The directory is in memory: it does not survive the machine.
    Volatile,
    /// A repair marked the directory.
    Repaired,
    /// The start's checkpoint failed: nothing is granted until one succeeds.
    CheckpointFailed(String),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped { file, offset, why } => {
                write!(f, "{file} is read up to offset {offset} only: {why}")
            }
            Self::Volatile => write!(f, "the data directory is in memory and does not survive the machine"),
            Self::Repaired => write!(f, "the data directory was repaired, so the server recovers for 255 s"),
            Self::CheckpointFailed(error) => {
                write!(f, "cannot write to the data directory, so nothing is granted: {error}")
            }
        }
    }
}

/// What a start makes of the log.
struct Plan {
    run: Run,
    tokens: TokenBlock,
    leases: Vec<Lease>,
    recovery_ends_ms: Option<u64>,
}

impl Plan {
    fn first_run(options: &OpenOptions) -> Self {
        let tokens = TokenBlock::above(0, options.wall_us);
        let run = Run {
            number: 1,
            mode: options.mode,
            kind: Kind::Alone,
            server_id: options.random,
            ceilings: Ceilings { lease_ms: 0, token: tokens.last() },
            recovery: None,
            boot: options.boot.clone(),
        };
        Self { run, tokens, leases: Vec::new(), recovery_ends_ms: None }
    }

    /// The run after the last one.
    fn next_run(replay: &mut Replay, options: &OpenOptions) -> Self {
        let now_ms = options.now_ms;
        let tokens = TokenBlock::above(replay.ceilings.token, options.wall_us);
        let recovery_ends_ms = recovery_ends_ms(replay, now_ms);
        let leases = live_leases(std::mem::take(&mut replay.leases), replay.another_boot, now_ms);
        let longest_ms = leases.last().map_or(0, |lease| End::new(lease.ends_ms, now_ms).left_ms);
        let run = Run {
            number: replay.run.number.saturating_add(1),
            mode: options.mode,
            kind: Kind::Alone,
            server_id: replay.run.server_id,
            ceilings: Ceilings { lease_ms: longest_ms, token: tokens.last() },
            recovery: recovery_ends_ms.map(|ends_ms| End::new(ends_ms, now_ms)),
            boot: options.boot.clone(),
        };
        Self { run, tokens, leases, recovery_ends_ms }
    }

    fn lease_records(&self, now_ms: u64) -> impl Iterator<Item = LeaseRecord<'_>> {
        self.leases.iter().map(move |lease| LeaseRecord {
            cause: Cause::Copy,
            token: lease.token,
            end: End::new(lease.ends_ms, now_ms),
            key: &lease.key,
        })
    }
}

/// The end on the clock of this boot. An end is read only under the boot identity of its run; otherwise what was left
/// of it runs from now on, with the millisecond that rounding may have cost.
fn end_on_this_boot(end: End, another_boot: bool, now_ms: u64) -> Option<u64> {
    let another_boot = another_boot && !canary::is_planted(Canary::ForeignEnds);
    let ends_ms = match (another_boot, end.left_ms) {
        (false, _) => end.at_ms,
        (true, 0) => return None,
        (true, left_ms) => now_ms + u64::from(left_ms) + 1,
    };
    (ends_ms > now_ms).then_some(ends_ms)
}

fn live_leases(leases: HashMap<Box<str>, (u64, End)>, another_boot: bool, now_ms: u64) -> Vec<Lease> {
    let live = leases.into_iter().filter_map(|(key, (token, end))| {
        end_on_this_boot(end, another_boot, now_ms).map(|ends_ms| Lease { key, token, ends_ms })
    });
    let mut live: Vec<Lease> = live.collect();
    live.sort_unstable_by_key(|lease| (lease.ends_ms, lease.token));
    live
}

/// Until when a start recovers: grants that it does not know may run so long, or an earlier recovery does.
fn recovery_ends_ms(replay: &Replay, now_ms: u64) -> Option<u64> {
    let older = replay.run.recovery.filter(|_| !canary::is_planted(Canary::DropRecoveryEnd));
    let older = older.and_then(|end| end_on_this_boot(end, replay.another_boot, now_ms));
    let may_lack_grants = replay.another_boot && replay.run.mode == Mode::Process && !replay.is_stopped;
    let lease_ms = u64::from(replay.ceilings.lease_ms);
    let own = (may_lack_grants && lease_ms > 0).then(|| now_ms + lease_ms + 1);
    let is_damaged = replay.tail.as_ref().is_some_and(|tail| tail.why == Dropped::Damaged);
    let distrust = (replay.is_marked || is_damaged).then(|| now_ms + LONGEST_MS + 1);
    older.max(own).max(distrust)
}

impl From<&Tail> for Warning {
    fn from(tail: &Tail) -> Self {
        let why = match tail.why {
            Dropped::Unfinished => "the rest is a write that never ended, and nobody was told of it",
            Dropped::Damaged => "the rest is damaged, so the server recovers for 255 s",
            Dropped::OtherBoot => "the rest was not on stable storage when the machine stopped",
        };
        Self::Dropped { file: tail.file.clone(), offset: tail.offset, why }
    }
}

/// What the operator should know of a log.
pub(crate) fn warnings_of(replay: &Replay) -> Vec<Warning> {
    let tail = replay.tail.as_ref().map(Warning::from);
    tail.into_iter().chain(replay.is_marked.then_some(Warning::Repaired)).collect()
}

/// Opens a journal; see [`Journal::open`].
pub(crate) fn open(
    storage: Arc<dyn Storage>,
    options: &OpenOptions,
    executor: Box<dyn Executor>,
) -> Result<Opened, OpenError> {
    let mut warnings = Vec::new();
    take_directory(&*storage, options, &mut warnings)?;
    let directory = Directory::list(&*storage).map_err(OpenError::storage("list the data directory"))?;
    let log = Log::read(&*storage, &directory)?;
    if log.is_none() && options.require_data {
        return Err(OpenError::NoData);
    }
    let mut replay = log.as_ref().map(|log| log.replay(options.boot.as_ref(), options.now_ms)).transpose()?;
    warnings.extend(replay.iter().flat_map(warnings_of));
    let (mut trash, old) = unlink_void(&*storage, &directory, log.as_ref());
    drop(log);
    let plan = match &mut replay {
        Some(replay) => Plan::next_run(replay, options),
        None => Plan::first_run(options),
    };
    tracing::info!(leases = plan.leases.len(), run = plan.run.number, "journal replayed");

    let number = directory.next_number();
    let segment = match checkpoint(&*storage, &plan, options, number) {
        Ok(segment) => {
            tracing::info!(bytes = segment.bytes, "journal checkpointed");
            Some(segment)
        }
        Err(source) if replay.is_none() => {
            return Err(OpenError::storage("write to the data directory")(source));
        }
        Err(error) => {
            warnings.push(Warning::CheckpointFailed(error.to_string()));
            trash.extend(stale(vec![Name::New(number).to_string(), Name::Journal(number).to_string()]));
            None
        }
    };
    let core = Core::new(start(&plan, options, number, segment, old, trash));
    Ok(Opened {
        journal: Journal::new(core, executor),
        leases: plan.leases,
        recovery_ends_ms: plan.recovery_ends_ms,
        server_id: plan.run.server_id,
        run: plan.run.number,
        is_new: replay.is_none(),
        another_boot: replay.is_some_and(|replay| replay.another_boot),
        warnings,
    })
}

/// Locks the directory, and refuses one that cannot keep what the mode promises.
fn take_directory(
    storage: &dyn Storage,
    options: &OpenOptions,
    warnings: &mut Vec<Warning>,
) -> Result<(), OpenError> {
    if !storage.lock().map_err(OpenError::storage("lock the data directory"))? {
        return Err(OpenError::InUse);
    }
    if storage.is_volatile().map_err(OpenError::storage("tell the kind of the file system"))? {
        match options.mode {
            Mode::Machine => return Err(OpenError::Volatile),
            Mode::Process => warnings.push(Warning::Volatile),
        }
    }
    Ok(())
}

fn checkpoint(storage: &dyn Storage, plan: &Plan, options: &OpenOptions, number: u64) -> io::Result<Current> {
    let (random, now_ms) = (&options.random, options.now_ms);
    let alone = Alone { number, random, run: &plan.run, now_ms, last: None };
    alone.write(storage, plan.lease_records(now_ms))
}

fn start(
    plan: &Plan,
    options: &OpenOptions,
    number: u64,
    segment: Option<Current>,
    old: Vec<Stale>,
    mut trash: Vec<Stale>,
) -> Start {
    let old = if segment.is_some() {
        trash.extend(old);
        Vec::new()
    } else {
        old
    };
    Start {
        run: plan.run.clone(),
        random: options.random,
        now_ms: options.now_ms,
        checkpoint_bytes: options.checkpoint_bytes,
        tokens: plan.tokens,
        live_bytes: plan.leases.iter().map(|lease| lease_bytes(&lease.key)).sum(),
        next_segment: number + 1,
        segment,
        old,
        trash,
    }
}

/// Unlinks what means nothing already, so that there is room for the start's checkpoint, however often starts are killed:
/// segments without a name, and those before the first of the log. Returns what is left to unlink, and every segment that
/// the next checkpoint makes void.
fn unlink_void(storage: &dyn Storage, directory: &Directory, log: Option<&Log>) -> (Vec<Stale>, Vec<Stale>) {
    let new = directory.new.iter().map(|&number| Name::New(number).to_string()).collect();
    let mut trash = stale(unlink_all(storage, new).names);
    let Some(log) = log else { return (trash, Vec::new()) };
    let first = &log.segments[0];
    let bytes_of = |number| log.segments.iter().find(|s| s.number == number).map_or(0, |s| s.bytes.len());
    let stale_of =
        |&number: &u64| Stale { name: Name::Journal(number).to_string(), bytes: bytes_of(number) as u64 };
    let (void, mut old): (Vec<u64>, Vec<u64>) =
        directory.segments.iter().partition(|&&number| number < first.number);
    // What makes them void has to be on stable storage: the content, as it is in a segment that stands alone before it has
    // its name, and the name.
    if first.run.kind == Kind::Alone && (void.is_empty() || storage.sync_directory().is_ok()) {
        trash.extend(stale(unlink_all(storage, void.iter().map(|void| stale_of(void).name).collect()).names));
    } else {
        old.splice(..0, void);
    }
    (trash, old.iter().map(stale_of).collect())
}

fn stale(names: Vec<String>) -> Vec<Stale> {
    names.into_iter().map(|name| Stale { name, bytes: 0 }).collect()
}
