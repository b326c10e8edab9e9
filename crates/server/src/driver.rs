//! The turn of the loop.
//!
//! Each turn reads what is there, *then* stamps the time, then runs the events that are due by that time, then the
//! requests, then writes once to each connection that has something to hear. So a request is never dated before its
//! last byte was read, and an event that was due before a request comes before it: late perhaps, never early.
//!
//! With a journal, what the engine decided in a turn is written before anybody is told of it. While the journal takes
//! nothing more, or has reserved no tokens, requests and due events wait: late perhaps, never lost.
//!
//! A turn's work is bounded: so many connections accepted, bytes read, events run, and waiters who leave with their
//! sessions. When more events are due than fit, requests wait until all are done, over several turns; only pings are
//! answered in between. Requests have no budget but that of reading: what is read is run in the same turn, so that an
//! extend which was read in time is not too late.

mod journaling;

use std::collections::VecDeque;
use std::task::{Context, Poll};

use lockstead_engine::{Engine, Instant, Progress};
use lockstead_journal::Journal;
use lockstead_session::{Facts, NextRequests, Phase, Session};
use slab::Slab;

use crate::accept::Door;
use crate::alarm::Alarm;
use crate::connection::{Connection, READ_PER_TURN};
use crate::listen::Listener;
use crate::memory::Memory;
use crate::steps::{Sent, Steps};
use crate::stop::{self, Signals, Stage};
use crate::store::Store;
use crate::stream::Stream;
use crate::timeouts::Timeouts;
use crate::wake::{Bell, ReadyList};
use crate::{Config, ServeError, clock, millis_up};

/// At most this many connections are accepted in a turn.
const ACCEPTS_PER_TURN: usize = 128;
/// At most this much is read in a turn, over all connections.
const BYTES_PER_TURN: usize = 256 * 1024;
/// At most this many due events are run in a turn.
const EVENTS_PER_TURN: usize = 1_024;
/// No session ends in a turn in which so many waiters have left with theirs. One ends in one step, with all it has.
const LEAVERS_PER_TURN: usize = 8_192;

/// Owns everything: sockets, sessions and the engine.
pub(crate) struct Driver {
    engine: Engine,
    facts: Facts,
    door: Door,
    connections: Slab<Connection>,
    /// The connection of each engine session.
    by_session: Vec<usize>,
    sessions: usize,
    next_number: u64,
    ready: ReadyList,
    bell: Bell,
    /// Connections that woke; those to read, to process and to write to.
    woken: Vec<usize>,
    to_read: VecDeque<usize>,
    to_process: VecDeque<usize>,
    to_write: Vec<usize>,
    /// Connections with answers that wait for the journal.
    gated: Vec<usize>,
    timeouts: Timeouts,
    memory: Memory,
    alarm: Alarm,
    signals: Signals,
    stage: Stage,
    drain_grace_ms: u64,
    steps: Steps,
    recovering: bool,
    /// What is left of [`LEAVERS_PER_TURN`] in this turn.
    leavers_left: usize,
    scratch: Box<[u8; READ_PER_TURN]>,
}

impl Driver {
    pub(crate) fn new(config: &Config, listeners: Vec<Listener>) -> Result<Self, ServeError> {
        let ready = ReadyList::default();
        let woken = ready.clone();
        let store = Store::open(config, move || woken.wake_driver())?;
        Ok(Self {
            recovering: store.engine.is_recovering(),
            engine: store.engine,
            facts: Facts {
                server_id: store.server_id,
                version: env!("CARGO_PKG_VERSION"),
                max_lease_s: config.limits.max_lease_s,
            },
            door: Door::new(listeners, config.max_sessions),
            connections: Slab::new(),
            by_session: Vec::new(),
            sessions: 0,
            next_number: store.first_session,
            bell: Bell::new(ready.clone()),
            ready,
            woken: Vec::new(),
            to_read: VecDeque::new(),
            to_process: VecDeque::new(),
            to_write: Vec::new(),
            gated: Vec::new(),
            timeouts: Timeouts::default(),
            memory: Memory::default(),
            alarm: Alarm::new().map_err(ServeError::system("make a timer"))?,
            signals: Signals::new().map_err(ServeError::system("listen to signals"))?,
            stage: Stage::Serving,
            drain_grace_ms: millis_up(config.drain_grace),
            steps: Steps::new(store.journal),
            leavers_left: 0,
            scratch: Box::new([0; READ_PER_TURN]),
        })
    }

    /// One turn. Ready when the server has stopped.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ServeError>> {
        self.ready.set_driver(cx.waker());
        let signals = match self.look_outside() {
            Ok(signals) => signals,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let mut due = self.due_connections();
        self.read();
        self.keep_those_read(&mut due);

        let now = clock::now();
        self.take_journal(now);
        let admits = self.admits();
        let progress = if admits { self.advance(now) } else { Progress::More };
        if self.handle_signals(signals, now).is_err() {
            return Poll::Ready(Err(self
                .steps
                .journal
                .take()
                .map_or(ServeError::SecondSignal, stop::at_once)));
        }
        let which = match progress {
            Progress::Done => NextRequests::All,
            Progress::More => NextRequests::PingsOnly,
        };
        self.leavers_left = LEAVERS_PER_TURN;
        if !matches!(self.stage, Stage::Flushing(_)) {
            self.process(now, which);
        }
        self.steps.feed_checkpoint(&self.engine);
        self.write(now, which);
        self.expire(now, which, due);
        let counts = self.engine.counts();
        self.memory.watch(counts.keys as usize + counts.waiters as usize + self.connections.len());

        if self.is_stopped(now) {
            self.close_all(now);
            return Poll::Ready(Ok(()));
        }
        // What waits for the journal goes on when the journal wakes the driver, or now if writing has made room.
        let admits = self.admits();
        if let Err(error) = self.alarm.ring_at(self.next_deadline(admits)) {
            return Poll::Ready(Err(ServeError::system("set the timer")(error)));
        }
        let processes = !matches!(self.stage, Stage::Flushing(_));
        let more = progress == Progress::More || processes && !self.to_process.is_empty();
        let feeding = self.steps.journal.as_ref().is_some_and(Journal::wants_turn);
        if !self.to_read.is_empty() || feeding || admits && more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Ends the journal when nothing is served any more.
    pub(crate) async fn stop(self) -> Result<(), ServeError> {
        drop(self.connections);
        match self.steps.journal {
            Some(journal) => stop::cleanly(journal, self.signals).await,
            None => Ok(()),
        }
    }

    fn next_deadline(&self, admits: bool) -> Option<Instant> {
        let deadlines = [
            self.engine.next_deadline().filter(|_| admits),
            self.steps.journal.as_ref().and_then(Journal::deadline_ms).map(Instant),
            self.timeouts.first(),
            self.door.deadline(),
            self.stage.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn advance(&mut self, now: Instant) -> Progress {
        let progress = self.engine.advance(now, EVENTS_PER_TURN, &mut self.steps);
        self.deliver();
        if self.recovering && !self.engine.is_recovering() {
            self.recovering = false;
            tracing::info!("the recovery is over: grants begin");
        }
        progress
    }

    /// Looks at the alarm and lets in who waits at the door, if there may be news of them. Returns how many signals came.
    fn look_outside(&mut self) -> Result<usize, ServeError> {
        if !self.bell.take() && self.door.deadline().is_none() {
            return Ok(0);
        }
        let waker = self.bell.waker();
        let mut cx = Context::from_waker(&waker);
        self.alarm.poll(&mut cx).map_err(ServeError::system("read the timer"))?;
        self.accept(&mut cx);
        Ok(self.signals.poll(&mut cx))
    }

    fn accept(&mut self, cx: &mut Context<'_>) {
        let now = clock::now();
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(stream) = self.door.next(cx, now) else {
                return;
            };
            if self.door.has_room(self.sessions) {
                self.admit(stream);
            } else {
                self.refuse(stream, now);
            }
        }
        // There may be more.
        cx.waker().wake_by_ref();
    }

    fn admit(&mut self, stream: Stream) {
        let id = self.engine.open_session();
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let session = Session::new(self.next_number);
        entry.insert(Connection::new(stream, session, Some(id), self.ready.handle(slot)));
        let index = id.0 as usize;
        if self.by_session.len() <= index {
            self.by_session.resize(index + 1, usize::MAX);
        }
        self.by_session[index] = slot;
        self.sessions += 1;
        self.next_number += 1;
        self.to_read.push_back(slot);
    }

    /// Tells a connection that there is no room. It may linger to read that, as long as there are handles to spare.
    fn refuse(&mut self, stream: Stream, now: Instant) {
        let may_linger = self.door.may_linger(self.connections.len());
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let mut refused = Connection::new(stream, Session::refused(now), None, self.ready.handle(slot));
        if may_linger {
            entry.insert(refused);
            self.to_read.push_back(slot);
            mark_dirty(&mut self.connections, &mut self.to_write, slot);
        } else {
            refused.write();
        }
    }

    /// The connections whose own deadline has come. They are read first: what came in time counts, however late the
    /// server is, so each is judged at the end of the turn that reads it.
    fn due_connections(&mut self) -> Vec<usize> {
        if self.timeouts.first().is_none() {
            return Vec::new();
        }
        let now = clock::now();
        let due: Vec<usize> = std::iter::from_fn(|| self.timeouts.pop_due(now)).collect();
        for &slot in &due {
            let connection = &mut self.connections[slot];
            connection.armed = None;
            if !std::mem::replace(&mut connection.to_read, true) {
                self.to_read.push_front(slot);
            }
        }
        due
    }

    /// Those that this turn had no share of reading left for stay due.
    fn keep_those_read(&mut self, due: &mut Vec<usize>) {
        due.retain(|&slot| {
            let connection = &mut self.connections[slot];
            if connection.to_read {
                self.timeouts.arm(slot, &mut connection.armed, connection.session.deadline());
            }
            !connection.to_read
        });
    }

    /// Reads from the connections that are ready, one share each, in the order in which they got ready.
    fn read(&mut self) {
        self.ready.take(&mut self.woken);
        for slot in self.woken.drain(..) {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.woke();
            if !std::mem::replace(&mut connection.to_read, true) {
                self.to_read.push_back(slot);
            }
        }
        let mut left = BYTES_PER_TURN;
        for _ in 0..self.to_read.len() {
            if left == 0 {
                return;
            }
            let Some(slot) = self.to_read.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.to_read = false;
            left = left.saturating_sub(connection.read(&mut self.scratch).max(1));
            if !std::mem::replace(&mut connection.to_process, true) {
                self.to_process.push_back(slot);
            }
            // It may have woken because there is room to write again.
            mark_dirty(&mut self.connections, &mut self.to_write, slot);
        }
    }

    /// Ends the connections among `due` that have used up their time in spite of what this turn read and wrote.
    fn expire(&mut self, now: Instant, which: NextRequests, due: Vec<usize>) {
        for slot in due {
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.session.expire(now);
                mark_dirty(&mut self.connections, &mut self.to_write, slot);
            }
        }
        self.write(now, which);
    }

    /// Runs the requests of every connection on the list, in order. Those that have to wait stay on it.
    fn process(&mut self, now: Instant, which: NextRequests) {
        for _ in 0..self.to_process.len() {
            let Some(slot) = self.to_process.pop_front() else {
                return;
            };
            let Some(connection) = self.connections.get_mut(slot) else {
                continue;
            };
            connection.to_process = false;
            let Some(id) = connection.id else { continue };
            let full = self.steps.journal.as_ref().is_some_and(|journal| !journal.admits());
            let which = if full { NextRequests::PingsOnly } else { which };
            while (which == NextRequests::PingsOnly || self.has_tokens(1))
                && let Some(command) = self.connections[slot].session.next(&self.facts, which)
            {
                self.engine.run(now, id, command, &mut self.steps);
                self.deliver();
            }
            self.close_if_ending(now, which, slot);
            mark_dirty(&mut self.connections, &mut self.to_write, slot);
        }
    }

    /// Takes the engine's answers to their sessions.
    fn deliver(&mut self) {
        for Sent { session, answer, position } in self.steps.answers.drain(..) {
            let slot = self.by_session[session.0 as usize];
            let connection = &mut self.connections[slot];
            connection.session.answer(answer, position);
            if connection.session.is_gated() && !std::mem::replace(&mut connection.gated, true) {
                self.gated.push(slot);
            }
            mark_dirty(&mut self.connections, &mut self.to_write, slot);
        }
    }

    /// Closes a session that is over, in one step with the engine. Others may get what it gives back, so this too
    /// waits until no event is due, and for a turn that has room.
    fn close_if_ending(&mut self, now: Instant, which: NextRequests, slot: usize) {
        let session = &self.connections[slot].session;
        if session.phase() != Phase::Ending || which == NextRequests::PingsOnly || self.leavers_left == 0 {
            return;
        }
        let unsent = session.unsent_grants();
        if !self.has_tokens(unsent) {
            return;
        }
        let connection = &mut self.connections[slot];
        let unsent = connection.session.close(now);
        if let Some(id) = connection.id.take() {
            self.sessions -= 1;
            let waiting = self.engine.counts().waiters;
            self.engine.close_session(now, id, unsent, &mut self.steps);
            let left = (waiting - self.engine.counts().waiters) as usize;
            self.leavers_left = self.leavers_left.saturating_sub(1 + left);
            self.deliver();
        }
        mark_dirty(&mut self.connections, &mut self.to_write, slot);
    }

    /// Writes once to each connection that has something to hear, and lets go of those that are over.
    fn write(&mut self, now: Instant, which: NextRequests) {
        // Closing one session can make another overflow, so the list may grow while it is gone through.
        let mut next = 0;
        while let Some(&slot) = self.to_write.get(next) {
            next += 1;
            self.close_if_ending(now, which, slot);
        }
        self.write_journal();
        // In order, so that those who wait for another turn keep theirs.
        let mut to_write = std::mem::take(&mut self.to_write);
        for slot in to_write.drain(..) {
            let connection = &mut self.connections[slot];
            connection.dirty = false;
            connection.write();
            connection.session.settle(now);
            if connection.is_over() {
                self.timeouts.disarm(slot, &mut connection.armed);
                self.connections.remove(slot);
                continue;
            }
            self.timeouts.arm(slot, &mut connection.armed, connection.session.deadline());
            if connection.session.has_requests() && !std::mem::replace(&mut connection.to_process, true) {
                self.to_process.push_back(slot);
            }
            if connection.wants_reading() && !std::mem::replace(&mut connection.to_read, true) {
                self.to_read.push_back(slot);
            }
        }
        self.to_write = to_write;
    }

    fn handle_signals(&mut self, signals: usize, now: Instant) -> Result<(), ServeError> {
        for _ in 0..signals {
            if self.stage != Stage::Serving {
                return Err(ServeError::SecondSignal);
            }
            tracing::info!(grace_ms = self.drain_grace_ms, held = self.engine.counts().held, "draining");
            self.stage = Stage::Draining(Instant(now.0 + self.drain_grace_ms + 1));
            self.engine.drain(&mut self.steps);
            self.deliver();
        }
        Ok(())
    }

    /// Closes every session. Grants that nobody can have seen are freed, as at any other close; the journal has that
    /// before its stop.
    fn close_all(&mut self, now: Instant) {
        for (_, connection) in &mut self.connections {
            let unsent = connection.session.close(now);
            if let Some(id) = connection.id.take() {
                self.engine.close_session(now, id, unsent, &mut self.steps);
            }
            connection.finish(&mut self.scratch);
        }
    }

    /// Moves on from draining to flushing to the end.
    fn is_stopped(&mut self, now: Instant) -> bool {
        if let Stage::Draining(until) = self.stage {
            let held = self.engine.counts().held;
            if held == 0 || now >= until {
                match self.steps.journal {
                    Some(_) => tracing::info!(leases_kept = held, "drained; held leases are in the journal"),
                    None => tracing::info!(
                        leases_forgotten = held,
                        "drained; durability is none, so held leases are forgotten"
                    ),
                }
                self.stage = Stage::flushing(now);
            }
        }
        let Stage::Flushing(until) = self.stage else {
            return false;
        };
        let has_said_all =
            |connection: &Connection| !connection.gated && connection.session.output().is_empty();
        now >= until || self.connections.iter().all(|(_, connection)| has_said_all(connection))
    }
}

fn mark_dirty(connections: &mut Slab<Connection>, to_write: &mut Vec<usize>, slot: usize) {
    if !std::mem::replace(&mut connections[slot].dirty, true) {
        to_write.push(slot);
    }
}
