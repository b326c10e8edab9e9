//! The server's turn without its sockets: bytes in, commands, the engine, the journal, answers, bytes out.

use lockstead_engine::{Answer, Effects, Engine, Instant, Limits, Progress, SessionId};
use lockstead_journal::Journal;
use lockstead_proto::{Acquire, Ping, Release};
use lockstead_session::{Facts, NextRequests, Position, Session};

use crate::journal::{NOW_MS, open};
use crate::{Case, OPERATIONS, Work, keys};

const LEASE_S: u8 = 30;
const NOW: Instant = Instant(NOW_MS);
/// The bytes that answer an acquire and its release.
const PAIR_BYTES: usize = 23 + 10;
const PONG_BYTES: usize = 10;

pub(crate) fn cases() -> Vec<Case> {
    let pairs = |name, in_flight, is_kept| Case::new(name, move || Pairs::new(in_flight, is_kept));
    vec![
        Case::new("session/pings/32-in-flight", Pings::new),
        pairs("turn/pair/none/1-in-flight", 1, false),
        pairs("turn/pair/none/32-in-flight", 32, false),
        pairs("turn/pair/process/1-in-flight", 1, true),
        pairs("turn/pair/process/32-in-flight", 32, true),
    ]
}

/// One session with its engine and, if there is one, its journal.
struct Server {
    engine: Engine,
    session: Session,
    id: SessionId,
    facts: Facts,
    steps: Steps,
}

/// Where the engine's effects go, as in the server.
struct Steps {
    answers: Vec<(Answer, Position)>,
    journal: Option<Journal>,
}

impl Effects for Steps {
    fn answer(&mut self, _: SessionId, answer: Answer) {
        let reached = self.journal.as_ref().map_or(Position::START, |journal| Position(journal.position().0));
        self.answers.push((answer, reached));
    }

    fn granted(&mut self, key: &str, token: u64, ends: Instant) {
        if let Some(journal) = &mut self.journal {
            journal.granted(key, token, ends.0);
        }
    }

    fn extended(&mut self, key: &str, token: u64, ends: Instant) {
        if let Some(journal) = &mut self.journal {
            journal.extended(key, token, ends.0);
        }
    }

    fn freed(&mut self, key: &str, token: u64) {
        if let Some(journal) = &mut self.journal {
            journal.freed(key, token);
        }
    }
}

impl Server {
    fn new() -> Self {
        let mut engine = Engine::new(Limits::default(), [1, 2], NOW, None);
        engine.supply_tokens(1, 1 << 62);
        let id = engine.open_session();
        let facts = Facts { server_id: "0".repeat(32), version: "0", max_lease_s: u8::MAX };
        let steps = Steps { answers: Vec::new(), journal: None };
        Self { engine, session: Session::new(1), id, facts, steps }
    }

    /// A turn in which `bytes` were read. Says how many were written.
    fn turn(&mut self, bytes: &[u8]) -> usize {
        let Self { engine, session, id, facts, steps } = self;
        session.received(bytes);
        if let Some(journal) = &mut steps.journal {
            journal.turn(NOW.0);
        }
        assert_eq!(engine.advance(NOW, OPERATIONS, steps), Progress::Done, "nothing ends here by time");
        while let Some(command) = session.next(facts, NextRequests::All) {
            engine.run(NOW, *id, command, steps);
            for (answer, position) in steps.answers.drain(..) {
                session.answer(answer, position);
            }
        }
        if let Some(journal) = &mut steps.journal {
            journal.flush();
            session.reached(Position(journal.reached().0));
        }
        let written = session.output().len();
        session.accepted(written);
        session.settle(NOW);
        written
    }
}

/// Acquires of free keys, so many in a turn, and their releases in the next one.
struct Pairs {
    server: Server,
    keys: Vec<String>,
    in_flight: usize,
    is_kept: bool,
    /// What is read in each turn.
    turns: Vec<Vec<u8>>,
}

impl Pairs {
    fn new(in_flight: usize, is_kept: bool) -> Self {
        Self { server: Server::new(), keys: keys(64), in_flight, is_kept, turns: Vec::new() }
    }
}

impl Work for Pairs {
    fn prepare(&mut self) {
        if self.is_kept {
            let journal = open(NOW.end_after(LEASE_S).0);
            // The positions of a new journal begin anew, and so must what the session has seen of them.
            (self.server.session, self.server.steps.journal) = (Session::new(1), Some(journal));
        }
        self.turns.clear();
        let mut token = self.server.engine.last_token();
        for first in (0..OPERATIONS).step_by(self.in_flight) {
            let (mut acquires, mut releases) = (Vec::new(), Vec::new());
            for i in first..OPERATIONS.min(first + self.in_flight) {
                let key = &self.keys[i % self.keys.len()];
                token += 1;
                Acquire { wait_s: 0, lease_s: LEASE_S, owner: token, key }.encode(&mut acquires);
                Release { token, key }.encode(&mut releases);
            }
            self.turns.extend([acquires, releases]);
        }
    }

    fn run(&mut self) -> usize {
        self.turns.iter().map(|bytes| self.server.turn(bytes)).sum::<usize>() / PAIR_BYTES
    }
}

/// Pings, which the session answers by itself.
struct Pings {
    server: Server,
    turns: Vec<Vec<u8>>,
}

impl Pings {
    fn new() -> Self {
        let ids: Vec<u64> = (0..OPERATIONS as u64).collect();
        let turn = |ids: &[u64]| {
            let mut bytes = Vec::new();
            ids.iter().for_each(|&id| Ping { id }.encode(&mut bytes));
            bytes
        };
        Self { server: Server::new(), turns: ids.chunks(32).map(turn).collect() }
    }
}

impl Work for Pings {
    fn run(&mut self) -> usize {
        self.turns.iter().map(|bytes| self.server.turn(bytes)).sum::<usize>() / PONG_BYTES
    }
}
