//! Answers: each is matched with what its own session sent, or it is a stray (docs/client-contract.md, rules 8, 11, 12).

use alloc::string::String;

use lockstead_proto::{Answer, CLIENT_ID_BIT, ErrorAnswer, ErrorCode, MalformedAnswer, State, decode_answer};

use crate::core::{Core, Output};
use crate::fault::Fault;
use crate::op::OpResult;
use crate::outcome::{CallError, KeyInfo};
use crate::session::{Ask, Confirm, SessionId, Stage};
use crate::time::Instant;

/// The session cannot be trusted any more, for the reason that this gives to people.
struct Broken(String);

impl Broken {
    fn because(why: &str) -> Self {
        Self(String::from(why))
    }
}

impl Core {
    /// Bytes came on a session.
    pub fn received(&mut self, now: Instant, id: SessionId, bytes: &[u8]) {
        let Some(session) = self.session(id) else { return };
        session.note_received(now);
        let mut input = core::mem::take(&mut session.input);
        let result = if input.is_empty() {
            self.answers(now, id, bytes).map(|used| input.extend_from_slice(&bytes[used..]))
        } else {
            input.extend_from_slice(bytes);
            self.answers(now, id, &input).map(|used| drop(input.drain(..used)))
        };
        match result {
            Ok(()) => {
                if let Some(session) = self.session(id) {
                    session.input = input;
                }
                self.close_if_spent(id);
            }
            Err(Broken(why)) => self.break_session(now, id, true, &why),
        }
        self.settle(now);
    }

    /// Deals with every whole answer in `input` and says how many bytes that took.
    fn answers(&mut self, now: Instant, id: SessionId, input: &[u8]) -> Result<usize, Broken> {
        let mut rest = input;
        while let Some((answer, length)) = decode_answer(rest).map_err(no_answer)? {
            rest = &rest[length..];
            self.answer(now, id, answer)?;
            if self.session(id).is_none() {
                break;
            }
        }
        Ok(input.len() - rest.len())
    }

    fn answer(&mut self, now: Instant, id: SessionId, answer: Answer<'_>) -> Result<(), Broken> {
        match answer {
            Answer::Acquired(frame) => self.acquired(now, id, frame),
            Answer::Timeout(frame) => self.timed_out(id, frame.owner),
            Answer::Busy(frame) => self.busy(id, frame.owner, frame.reason),
            Answer::Released(frame) => {
                if let Some(confirm) = self.confirmed(id, frame.token, |confirm| confirm.extend_s.is_none()) {
                    self.released(now, confirm.op);
                }
            }
            Answer::Extended(frame) => {
                if let Some(confirm) = self.confirmed(id, frame.token, |confirm| confirm.extend_s.is_some()) {
                    self.extended(now, &confirm, frame.lease_s);
                }
            }
            Answer::NotHeld(frame) => {
                if let Some(confirm) = self.confirmed(id, frame.token, |_| true) {
                    self.not_held(now, &confirm);
                }
            }
            Answer::State(frame) => self.state(now, id, frame),
            Answer::Pong(frame) => {
                if let Some(ask) = self.asked(id, frame.id, true) {
                    self.finish(now, ask.id, |_| OpResult::Ping(Ok(now.since(ask.sent))));
                }
            }
            Answer::Welcome(frame) => self.welcome(now, id, frame),
            Answer::Error(frame) => return self.error(now, id, frame),
        }
        Ok(())
    }

    /// Takes the oldest unanswered release or extend of a token on a session, if this kind of answer fits it.
    fn confirmed(&mut self, id: SessionId, token: u64, fits: impl Fn(&Confirm) -> bool) -> Option<Confirm> {
        let session = self.session(id)?;
        let oldest = session.confirms.iter().position(|confirm| confirm.token == token);
        match oldest {
            Some(at) if fits(&session.confirms[at]) => {
                session.answered = true;
                session.confirms.remove(at)
            }
            _ => {
                self.stray(id, token);
                None
            }
        }
    }

    /// Takes the query (or, with `ping`, the ping) that an answer is for.
    fn asked(&mut self, from: SessionId, id: u64, ping: bool) -> Option<Ask> {
        let session = self.session(from)?;
        match session.asks.iter().position(|ask| ask.id == id && ask.ping == ping) {
            Some(at) => {
                session.answered = true;
                session.asks.remove(at)
            }
            None => {
                self.stray(from, id);
                None
            }
        }
    }

    fn state(&mut self, now: Instant, session: SessionId, frame: State) {
        if let Some(ask) = self.asked(session, frame.id, false) {
            let info = KeyInfo {
                state: frame.state,
                remaining: core::time::Duration::from_millis(u64::from(frame.remaining_ms)),
                waiters: frame.waiters,
            };
            self.finish(now, ask.id, |_| OpResult::Query(Ok(info)));
        }
    }

    /// `X`: the request that it names is answered; with a code that closes, or no request named, the session breaks.
    fn error(&mut self, now: Instant, id: SessionId, frame: ErrorAnswer<'_>) -> Result<(), Broken> {
        let ErrorAnswer { code, id: about, text } = frame;
        if self.is_hello(id, about) && refuses_client(code) {
            self.refuse_client(now, id, code, text);
            return Ok(());
        }
        if about == 0 || self.is_hello(id, about) {
            return Err(Broken::because(text));
        }
        if about & CLIENT_ID_BIT == 0 {
            if let Some(confirm) = self.confirmed(id, about, |_| true) {
                self.rejected(now, confirm.op, code, text);
            }
        } else if self.session(id).is_some_and(|session| session.asks.iter().any(|ask| ask.id == about)) {
            self.ask_rejected(now, id, about, code, text);
        } else {
            self.acquire_rejected(id, about, code, text);
        }
        if code.closes() { Err(Broken::because(text)) } else { Ok(()) }
    }

    /// Whether an error is about the hello: it names it, or nothing, while nothing else has been sent.
    fn is_hello(&mut self, id: SessionId, about: u64) -> bool {
        self.session(id)
            .is_some_and(|session| session.stage == Stage::Greeting && (about == session.hello || about == 0))
    }

    fn ask_rejected(&mut self, now: Instant, session: SessionId, id: u64, code: ErrorCode, text: &str) {
        if let Some(session) = self.session(session) {
            session.asks.retain(|ask| ask.id != id);
        }
        self.rejected(now, id, code, text);
    }

    fn rejected(&mut self, now: Instant, op: u64, code: ErrorCode, text: &str) {
        let message = String::from(text);
        self.finish(now, op, |op| op.kind.failed(CallError::Rejected { code, message }));
    }

    /// An answer that repeats, or to what this session did not send: nothing is done for it.
    pub(crate) fn stray(&mut self, session: SessionId, id: u64) {
        self.outputs.push_back(Output::Fault(Fault::Stray { session, id }));
    }
}

fn no_answer(_: MalformedAnswer) -> Broken {
    Broken::because("what answers there is no Lockstead server")
}

/// Whether a hello answered with this code would be answered so again.
fn refuses_client(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NotAuthenticated | ErrorCode::Forbidden | ErrorCode::UnsupportedVersion)
}
