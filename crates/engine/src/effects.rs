//! Where the engine puts what it does, in the order in which it happens.

use alloc::vec::Vec;

use crate::command::{Answer, Effect, SessionId};
use crate::time::Instant;

/// Takes what the engine does: answers for sessions, and the decisions that must survive a crash.
///
/// The decisions alone tell which keys are held, by which tokens and until when. A grant and a later end come before
/// the answer that tells of them, so that answer may wait until everything before it is safe (ARCHITECTURE.md, *The
/// journal gate*). The end of a grant may come after its answer, which waits for nothing: if it is lost, the key stays
/// held for the rest of its lease, late and never early. An extend that moves no end is no decision.
pub trait Effects {
    /// The session is to hear this.
    fn answer(&mut self, session: SessionId, answer: Answer);

    /// The key is held by this token from now on, until `ends`.
    fn granted(&mut self, key: &str, token: u64, ends: Instant);

    /// The lease of the key ends later now, at `ends`.
    fn extended(&mut self, key: &str, token: u64, ends: Instant);

    /// The token of the key is void: released, ended, or taken back because nobody knows it or it is not durable.
    fn freed(&mut self, key: &str, token: u64);
}

/// Answers alone, for whoever keeps no journal.
impl Effects for Vec<Effect> {
    fn answer(&mut self, session: SessionId, answer: Answer) {
        self.push(Effect { session, answer });
    }

    fn granted(&mut self, _: &str, _: u64, _: Instant) {}

    fn extended(&mut self, _: &str, _: u64, _: Instant) {}

    fn freed(&mut self, _: &str, _: u64) {}
}
