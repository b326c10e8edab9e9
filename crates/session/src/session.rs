//! One connection, from its first byte to its last.

use alloc::vec::Vec;

use lockstead_engine::{Answer, Command, Instant, UnsentGrant};
use lockstead_proto::{
    Acquire, Cancel, ErrorAnswer, ErrorCode, Extend, MAX_TEXT, Pong, Query, Release, Request, decode_request,
};

use crate::fault::{Fault, reject};
use crate::gate::{Gate, Position};
use crate::greeting::{Facts, greet};
use crate::input::Input;
use crate::output::Output;

/// The most bytes of one session that are read and not processed.
pub const INPUT_LIMIT: usize = 64 * 1024;
/// The most bytes of one session that are answered and not accepted by the kernel.
pub const OUTPUT_LIMIT: usize = 1024 * 1024;
/// A frame that was begun must be whole within this many milliseconds.
pub const FINISH_FRAME_MS: u64 = 10_000;
/// A session whose output is full must make progress within this many milliseconds.
pub const STALL_MS: u64 = 10_000;
/// After an error that closes, what the peer still sends is read away for at most this many milliseconds.
pub const LINGER_MS: u64 = 1_000;

/// The longest answer to one request: requests are only processed while it still fits.
const LONGEST_ANSWER: usize = 11 + MAX_TEXT;

/// Which requests may be processed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRequests {
    /// All of them: no event is due.
    All,
    /// Only pings: events are due and come first (docs/protocol.md, *Order*).
    PingsOnly,
}

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Requests are read and served.
    Open,
    /// It is over: its end was read, or the server has decided so. What was read before still counts and is processed
    /// first, but nothing more is read, and nothing is written any more.
    Finishing,
    /// All that was read is processed, and the shell has to take [`Session::close`] to the engine.
    Ending,
    /// Closed, but the peer may still read why: its bytes are read away until it closes or the time is over.
    Lingering,
    /// Nothing is left to do; the connection can be dropped.
    Closed,
}

/// The server's side of one connection.
pub struct Session {
    number: u64,
    phase: Phase,
    input: Input,
    output: Output,
    gate: Gate,
    /// End of stream, or an error, was read.
    gone: bool,
    /// A write failed: nothing more reaches the peer.
    broken: bool,
    /// What was read ends within a frame, or with one.
    starved: bool,
    /// A frame was consumed since the last settling.
    consumed: bool,
    fault: Option<Fault>,
    frame_since: Option<Instant>,
    full_since: Option<Instant>,
    linger_until: Instant,
}

impl Session {
    /// A session that was just accepted. Its `number` is told to the peer and never used again under this server id.
    pub fn new(number: u64) -> Self {
        Self {
            number,
            phase: Phase::Open,
            input: Input::default(),
            output: Output::default(),
            gate: Gate::default(),
            gone: false,
            broken: false,
            starved: true,
            consumed: false,
            fault: None,
            frame_since: None,
            full_since: None,
            linger_until: Instant(0),
        }
    }

    /// A session that cannot be served, because the server has as many as it may have: it is told so and lingers.
    pub fn refused(now: Instant) -> Self {
        let mut session = Self::new(0);
        session.finish_over_limits("the server has all the sessions it may have; try again later");
        session.close(now).for_each(drop);
        session
    }

    /// Where the session is in its life.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How many bytes may be read from the connection now; 0 stops the reading until output has gone.
    pub fn room(&self) -> usize {
        match self.phase {
            Phase::Open if is_full(self.backlog()) => 0,
            Phase::Open => INPUT_LIMIT.saturating_sub(self.input.len()),
            Phase::Lingering => INPUT_LIMIT,
            Phase::Finishing | Phase::Ending | Phase::Closed => 0,
        }
    }

    /// These bytes were read.
    pub fn received(&mut self, bytes: &[u8]) {
        if self.phase == Phase::Open {
            self.input.push(bytes);
            self.starved = false;
        }
    }

    /// End of stream, or an error, was read: no more bytes will come.
    pub fn read_ended(&mut self) {
        self.gone = true;
        match self.phase {
            Phase::Open => self.phase = Phase::Finishing,
            Phase::Lingering => self.phase = Phase::Closed,
            Phase::Finishing | Phase::Ending | Phase::Closed => {}
        }
    }

    /// A write failed. The session goes on until the end of its input is read, but nothing reaches the peer.
    pub fn write_failed(&mut self) {
        self.broken = true;
        self.output.clear();
        if self.phase == Phase::Lingering {
            self.phase = Phase::Closed;
        }
    }

    /// Whether [`Session::next`] has something to do that it could not do the last time, or the session is ending.
    pub fn has_requests(&self) -> bool {
        match self.phase {
            Phase::Open => !self.starved && !is_full(self.backlog()),
            Phase::Finishing | Phase::Ending => true,
            Phase::Lingering | Phase::Closed => false,
        }
    }

    /// The next request for the engine. Pings, hellos and bad requests are answered on the way. `None`: there is none
    /// for now, or the session is [`Phase::Ending`]. While events are due, only pings are looked at.
    pub fn next(&mut self, facts: &Facts, which: NextRequests) -> Option<Command<'_>> {
        let Self { phase, input, output, starved, consumed, fault, .. } = self;
        if !matches!(phase, Phase::Open | Phase::Finishing) {
            return None;
        }
        let gated = self.gate.bytes();
        let (bytes, at) = input.split();
        loop {
            *starved = false;
            if *phase == Phase::Open && !self.broken && is_full(output.rest().len() + gated) {
                return None;
            }
            let (request, used) = match decode_request(&bytes[*at..]) {
                Ok(Some(decoded)) => decoded,
                Ok(None) => {
                    *starved = true;
                    if *phase == Phase::Finishing {
                        *phase = Phase::Ending;
                    }
                    return None;
                }
                Err(_) if which == NextRequests::PingsOnly => return None,
                Err(error) => {
                    *consumed = true;
                    if let Some(closing) = reject(error, at, output) {
                        fault.get_or_insert(closing);
                        *phase = Phase::Ending;
                        return None;
                    }
                    continue;
                }
            };
            if which == NextRequests::PingsOnly && !matches!(request, Request::Ping(_)) {
                return None;
            }
            *at += used;
            *consumed = true;
            match request {
                Request::Ping(ping) => Pong { id: ping.id }.encode(output.buffer()),
                Request::Hello(hello) => {
                    if let Some(closing) = greet(hello, self.number, facts, output) {
                        fault.get_or_insert(closing);
                        *phase = Phase::Ending;
                        return None;
                    }
                }
                Request::Acquire(Acquire { wait_s, lease_s, owner, key }) => {
                    return Some(Command::Acquire { wait_s, lease_s, owner, key });
                }
                Request::Release(Release { token, key }) => return Some(Command::Release { token, key }),
                Request::Extend(Extend { lease_s, token, key }) => {
                    return Some(Command::Extend { lease_s, token, key });
                }
                Request::Cancel(Cancel { owner, key }) => return Some(Command::Cancel { owner, key }),
                Request::Query(Query { id, key }) => return Some(Command::Query { id, key }),
            }
        }
    }

    /// The engine answers. `position` is the end of the journal records of the same step.
    pub fn answer(&mut self, answer: Answer, position: Position) {
        if let Some(answer) = self.gate.pass(answer, position) {
            self.output.answer(answer);
        }
        self.check_overflow();
    }

    /// The journal has reached `position`: what waited for it comes out.
    pub fn reached(&mut self, position: Position) {
        self.gate.reach(position);
        while let Some(answer) = self.gate.next_free() {
            self.output.answer(answer);
        }
    }

    /// The storage has failed: what waits for more than `after` is answered as not durable. Grants among it go to
    /// `lost`, for the engine to take back.
    pub fn storage_failed(&mut self, after: Position, lost: &mut Vec<UnsentGrant>) {
        for failed in self.gate.fail(after) {
            lost.extend(failed.lost);
            self.output.answer(failed.answer);
        }
    }

    /// Whether answers wait for the journal.
    pub fn is_gated(&self) -> bool {
        self.gate.len() > 0
    }

    /// What is to be written to the connection. Nothing, once the session is over: a grant that reaches the kernel
    /// then would count as sent, though nobody is there to use it.
    pub fn output(&self) -> &[u8] {
        match self.phase {
            Phase::Open | Phase::Lingering if !self.broken => self.output.rest(),
            _ => &[],
        }
    }

    /// The kernel accepted the next `n` bytes of [`Session::output`].
    pub fn accepted(&mut self, n: usize) {
        self.output.accept(n);
        self.full_since = None;
        if self.has_said_all() && self.gone {
            self.phase = Phase::Closed;
        }
    }

    /// How many bytes of memory hold output.
    #[cfg(test)]
    pub(crate) fn buffered_output(&self) -> usize {
        self.output.rest().len()
    }

    /// Whether the last answer was written, so that the writing side is to be shut down.
    pub fn has_said_all(&self) -> bool {
        self.phase == Phase::Lingering && self.output().is_empty()
    }

    /// Ends the turn: `now` is when frames that are not whole and output that is full begin to count.
    pub fn settle(&mut self, now: Instant) {
        self.input.tidy();
        if self.broken {
            self.output.clear();
        }
        let open = self.phase == Phase::Open;
        self.frame_since = match self.frame_since {
            _ if !open || !self.starved || self.input.len() == 0 => None,
            Some(since) if !self.consumed => Some(since),
            _ => Some(now),
        };
        self.consumed = false;
        // What waits for the journal is not the peer's to read yet.
        let is_unread = open && !self.output().is_empty() && is_full(self.backlog());
        self.full_since = if is_unread { self.full_since.or(Some(now)) } else { None };
    }

    /// When [`Session::expire`] has something to do, if nothing else happens before.
    pub fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Open => {
                let frame = self.frame_since.map(|since| Instant(since.0 + FINISH_FRAME_MS + 1));
                let full = self.full_since.map(|since| Instant(since.0 + STALL_MS + 1));
                [frame, full].into_iter().flatten().min()
            }
            Phase::Lingering => Some(self.linger_until),
            Phase::Finishing | Phase::Ending | Phase::Closed => None,
        }
    }

    /// Ends the session if a deadline of its own has come. The shell has read, processed and written before, so that
    /// what came in time counts, however late the shell is.
    pub fn expire(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.phase {
            Phase::Lingering => self.phase = Phase::Closed,
            _ if self.full_since.is_some() => self.finish_over_limits("the answers were not read for 10 s"),
            _ => self.finish_over_limits("a frame was begun and not finished within 10 s"),
        }
    }

    /// How many grants [`Session::close`] would return.
    pub fn unsent_grants(&self) -> usize {
        self.output.unsent_grants() + self.gate.grants()
    }

    /// Closes, in one step: output that was not begun is thrown away for good, and with it the grants that the peer can
    /// never have seen, which are returned for the engine to free. If the server ends the session, what is wrong is the
    /// last thing written.
    pub fn close(&mut self, now: Instant) -> impl Iterator<Item = UnsentGrant> + use<> {
        let unsent = self.output.throw_away();
        let gated = self.gate.take().filter_map(|answer| match answer {
            Answer::Acquired { key, token, .. } => Some(UnsentGrant { key, token }),
            _ => None,
        });
        self.input.clear();
        match self.fault.take() {
            Some(Fault { code, id, text }) if !self.broken => {
                ErrorAnswer { code, id, text }.encode(self.output.buffer());
                self.phase = Phase::Lingering;
                self.linger_until = Instant(now.0 + LINGER_MS);
            }
            _ => {
                self.output.clear();
                self.phase = Phase::Closed;
            }
        }
        unsent.chain(gated)
    }

    /// The server has had enough of this session.
    fn finish_over_limits(&mut self, text: &'static str) {
        self.fault = Some(Fault { code: ErrorCode::OverLimits, id: 0, text });
        self.phase = Phase::Finishing;
    }

    /// Bytes that are answered and not accepted, those behind the gate among them.
    fn backlog(&self) -> usize {
        self.output().len() + self.gate.bytes()
    }

    fn check_overflow(&mut self) {
        if self.phase == Phase::Open && self.backlog() > OUTPUT_LIMIT {
            self.finish_over_limits("more answers came than were read");
        }
    }
}

/// No request is processed, and so none read, until some of this much output has gone.
fn is_full(backlog: usize) -> bool {
    backlog + LONGEST_ANSWER > OUTPUT_LIMIT
}
