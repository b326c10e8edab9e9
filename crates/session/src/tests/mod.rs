//! Sessions over a real engine, without a socket.

use std::string::String;
use std::vec::Vec;

use lockstead_engine::{Answer, Command, Effect, Engine, Instant, Limits, SessionId};
use lockstead_proto::*;

use crate::session::*;
use crate::*;

mod closing;
mod gate;
mod limits;
mod requests;

const OWNER: u64 = 0x0a0a_0a0a_0a0a_0a0a;

/// An engine and one session of it, with the clock in hand.
struct Bench {
    engine: Engine,
    id: SessionId,
    session: Session,
    facts: Facts,
    now: Instant,
    /// The journal position that the next answers need.
    position: Position,
}

impl Bench {
    fn new() -> Self {
        let mut engine = Engine::new(Limits::default(), [1, 2], Instant(0), None);
        engine.supply_tokens(1, 1_000_000);
        let id = engine.open_session();
        let facts = Facts { server_id: "00ff".into(), version: "9.9.9", max_lease_s: 77 };
        Self { engine, id, session: Session::new(42), facts, now: Instant(1_000), position: Position::START }
    }

    /// Runs every request that may be run now.
    fn process(&mut self, which: NextRequests) {
        let mut effects = Vec::new();
        while let Some(command) = self.session.next(&self.facts, which) {
            self.engine.run(self.now, self.id, command, &mut effects);
            for Effect { answer, .. } in effects.drain(..) {
                self.session.answer(answer, self.position);
            }
        }
    }

    /// One whole turn in which `bytes` were read.
    fn turn(&mut self, bytes: &[u8]) {
        self.session.received(bytes);
        self.process(NextRequests::All);
        self.session.settle(self.now);
    }

    /// Everything that waits to be written, accepted by the kernel now.
    fn written(&mut self) -> Vec<u8> {
        let bytes = self.session.output().to_vec();
        self.session.accepted(bytes.len());
        bytes
    }

    /// The server has decided: what was read is processed, then the session closes.
    fn finish(&mut self) {
        assert_eq!(self.session.phase(), Phase::Finishing);
        assert_eq!(self.session.output(), b"");
        self.process(NextRequests::All);
        assert_eq!(self.session.phase(), Phase::Ending);
        self.close();
    }

    fn close(&mut self) -> Vec<u64> {
        let unsent = self.session.unsent_grants();
        let tokens: Vec<u64> = self.session.close(self.now).map(|grant| grant.token).collect();
        assert_eq!(tokens.len(), unsent);
        tokens
    }
}

fn bytes(requests: &[Request<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    requests.iter().for_each(|request| request.encode(&mut out));
    out
}

fn acquire(owner: u64, key: &str) -> Request<'_> {
    Request::Acquire(Acquire { wait_s: 10, lease_s: 10, owner, key })
}

fn release(token: u64, key: &str) -> Request<'_> {
    Request::Release(Release { token, key })
}

fn extend(token: u64, key: &str) -> Request<'_> {
    Request::Extend(Extend { lease_s: 20, token, key })
}

fn ping(id: u64) -> Request<'static> {
    Request::Ping(Ping { id })
}

fn query(id: u64, key: &str) -> Request<'_> {
    Request::Query(Query { id, key })
}

fn hello(text: &str) -> Request<'_> {
    Request::Hello(Hello { version: VERSION, id: 3, text })
}

/// Answers by op and id; errors by code too.
fn names(mut bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((answer, used)) = decode_answer(bytes).unwrap() {
        bytes = &bytes[used..];
        names.push(match answer {
            AnswerFrame::Acquired(a) => std::format!("A {}", a.owner),
            AnswerFrame::Timeout(t) => std::format!("T {}", t.owner),
            AnswerFrame::Busy(b) => std::format!("B {}", b.owner),
            AnswerFrame::Released(r) => std::format!("R {}", r.token),
            AnswerFrame::Extended(e) => std::format!("E {}", e.token),
            AnswerFrame::NotHeld(n) => std::format!("N {}", n.token),
            AnswerFrame::State(q) => std::format!("Q {}", q.id),
            AnswerFrame::Pong(p) => std::format!("P {}", p.id),
            AnswerFrame::Welcome(h) => std::format!("H {}", h.id),
            AnswerFrame::Error(x) => std::format!("X{} {}", x.code.as_u8(), x.id),
        });
    }
    assert_eq!(bytes, b"", "output is whole frames");
    names
}

type AnswerFrame<'a> = lockstead_proto::Answer<'a>;

/// Each request, and each answer, once.
fn everything() -> Vec<u8> {
    let mut all = bytes(&[
        hello("name=x"),
        acquire(OWNER, "k"),
        acquire(8, "k"),
        Request::Cancel(Cancel { owner: 8, key: "k" }),
        extend(1, "k"),
        query(9, "k"),
        ping(OWNER),
    ]);
    all.extend_from_slice(b"R\0\0\0\0\0\0\0\x05\n"); // empty key
    all.extend_from_slice(&bytes(&[release(1, "k"), release(1, "k")]));
    all
}

const EVERYTHING: [&str; 9] =
    ["H 3", "A 723401728380766730", "T 8", "E 1", "Q 9", "P 723401728380766730", "X2 5", "R 1", "N 1"];
