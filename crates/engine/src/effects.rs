//! Where the engine puts what it does, in the order in which it happens.

use alloc::vec::Vec;

use crate::command::{Answer, Effect, SessionId};
use crate::time::Instant;

/// Takes what the engine does: answers for sessions, and the decisions that must survive a crash.
///
/// A decision comes before the answer that tells of it, so an answer that must not be known before its decision is
/// safe may wait for everything that came before (docs/journal-format.md). An extend that moves no end
/// is no decision.
pub trait Effects {
    /// The session is to hear this.
    fn answer(&mut self, session: SessionId, answer: Answer);

    /// The key is held by this token from now on, until `ends`.
    fn granted(&mut self, key: &str, token: u64, ends: Instant);

    /// The lease of the key ends later now, at `ends`.
    fn extended(&mut self, key: &str, token: u64, ends: Instant);

    /// The token of the key is void: released, ended or taken back.
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
