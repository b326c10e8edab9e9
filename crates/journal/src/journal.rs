//! What a server calls. The engine's thread owns the journal; it writes in mode `process`, and never waits for a sync.

use std::io;
use std::sync::Arc;

use crate::core::{Change, Core, Position};
use crate::executor::{Executor, Threaded};
use crate::open::{self, OpenError, OpenOptions, Opened};
use crate::record::Mode;
use crate::storage::Storage;
use crate::tokens::TokenBlock;

/// The journal of a running server.
///
/// A turn: [`turn`](Self::turn), the engine's work with [`granted`](Self::granted), [`extended`](Self::extended) and
/// [`freed`](Self::freed), copies while [`wants_copy`](Self::wants_copy), [`flush`](Self::flush). After `turn` and
/// after `flush` the caller takes every [`next_change`](Self::next_change) and then lets out the answers whose
/// positions are [reached](Self::reached). It comes back when woken, at [`deadline_ms`](Self::deadline_ms), and at
/// once while [`wants_turn`](Self::wants_turn).
pub struct Journal {
    core: Core,
    executor: Box<dyn Executor>,
}

impl Journal {
    /// Reads the directory, decides about the recovery and makes the start's checkpoint. Blocks until that is done.
    ///
    /// Afterwards `wake` is called on another thread whenever a turn is needed.
    ///
    /// # Errors
    /// If the directory cannot be taken, read, or (if it is empty) written.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: &OpenOptions,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Opened, OpenError> {
        let executor = Threaded::start(Arc::clone(&storage), wake)
            .map_err(|source| OpenError::Storage { what: "start a thread".to_owned(), source })?;
        Self::open_with(storage, options, Box::new(executor))
    }

    /// Like [`Journal::open`], with somebody else to do the jobs.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_with(
        storage: Arc<dyn Storage>,
        options: &OpenOptions,
        executor: Box<dyn Executor>,
    ) -> Result<Opened, OpenError> {
        open::open(storage, options, executor)
    }

    pub(crate) fn new(core: Core, executor: Box<dyn Executor>) -> Self {
        Self { core, executor }
    }

    /// A turn begins at `now_ms`: takes what was done meanwhile.
    pub fn turn(&mut self, now_ms: u64) {
        self.core.turn(now_ms);
        while let Some(done) = self.executor.poll() {
            self.core.finish(done);
        }
    }

    /// `key` was granted to `token` until `ends_ms`. The answer waits for the position.
    pub fn granted(&mut self, key: &str, token: u64, ends_ms: u64) -> Position {
        self.core.granted(key, token, ends_ms)
    }

    /// The lease of `key` ends later now, at `ends_ms`. The answer waits for the position. An extend that moves no end
    /// is not told; its answer waits for [`Journal::position`], as the end that it relies on may not be safe yet.
    pub fn extended(&mut self, key: &str, token: u64, ends_ms: u64) -> Position {
        self.core.extended(key, token, ends_ms)
    }

    /// The lease of `key` with `token` is over: released, ended or taken back. Nobody waits for that.
    pub fn freed(&mut self, key: &str, token: u64) -> Position {
        self.core.freed(key, token)
    }

    /// The position of the last record.
    #[must_use]
    pub fn position(&self) -> Position {
        self.core.position()
    }

    /// Up to here everything is as safe as the mode demands.
    #[must_use]
    pub fn reached(&self) -> Position {
        self.core.reached()
    }

    /// What went wrong or right since the last call, oldest first.
    pub fn next_change(&mut self) -> Option<Change> {
        self.core.next_change()
    }

    /// Whether nothing may be granted because the storage fails.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.core.is_failing()
    }

    /// Another block of tokens, above all before, on stable storage. None: not yet, or the storage fails; nothing can
    /// be granted then, and a later turn has one.
    pub fn take_tokens(&mut self, wall_us: u64) -> Option<TokenBlock> {
        self.core.take_tokens(wall_us)
    }

    /// Whether requests and due events may be run now. If not, too much waits for the disk, and a turn comes when
    /// some of it is done.
    #[must_use]
    pub fn admits(&self) -> bool {
        self.core.admits()
    }

    /// The number of the checkpoint that wants a copy of every live lease, if one is under way. When the number is a
    /// new one, the copies begin anew.
    #[must_use]
    pub fn checkpoint(&self) -> Option<u64> {
        self.core.copying()
    }

    /// Whether a copy is wanted in this turn. How many are depends on what was decided in it before the first call.
    #[must_use]
    pub fn wants_copy(&mut self) -> bool {
        self.core.wants_copy()
    }

    /// A live lease, for the checkpoint. Every lease that lives throughout the checkpoint must be handed in.
    pub fn copy(&mut self, key: &str, token: u64, ends_ms: u64) {
        self.core.copy(key, token, ends_ms);
    }

    /// There are no more leases to copy.
    pub fn end_copies(&mut self) {
        self.core.end_copies();
    }

    /// Whether the next turn should come at once.
    #[must_use]
    pub fn wants_turn(&self) -> bool {
        self.core.wants_turn()
    }

    /// When the next turn must come at the latest.
    #[must_use]
    pub fn deadline_ms(&self) -> Option<u64> {
        self.core.deadline_ms()
    }

    /// What the directory takes, in bytes.
    #[must_use]
    pub fn directory_bytes(&self) -> u64 {
        self.core.directory_bytes()
    }

    /// What a copy of all live leases takes, in bytes.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.core.live_bytes()
    }

    /// Ends a turn: writes what was decided, as one batch, in mode `process` at once; otherwise as soon as the batch
    /// before is safe.
    pub fn flush(&mut self) {
        if self.core.mode() == Mode::Process
            && let Some(write) = self.core.take_write()
        {
            let result = write.file.append(&write.batch);
            self.core.wrote(write, result);
        }
        if let Some(job) = self.core.next_job() {
            self.executor.submit(job);
        }
    }

    /// The clean stop, when nothing is served any more: syncs everything, then writes and syncs a stop record. Blocks
    /// until that is done.
    ///
    /// # Errors
    /// If the storage fails. Then there is no stop record, and the next start decides as after a crash.
    pub fn stop(mut self) -> io::Result<()> {
        self.core.begin_stop();
        self.settle()?;
        self.core.stopped();
        self.settle()
    }

    fn settle(&mut self) -> io::Result<()> {
        loop {
            self.flush();
            if self.core.has_job() {
                let done = self.executor.wait();
                self.core.finish(done);
            }
            if self.core.is_failing() {
                return Err(io::Error::other("the storage fails"));
            }
            if self.core.is_settled() {
                return Ok(());
            }
        }
    }
}
