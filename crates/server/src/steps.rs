//! Where the engine's steps go: decisions to the journal, if there is one, and answers to those who carry them to
//! their sessions, each with the position behind its own decisions.

use lockstead_engine::{Answer, Effects, Engine, Instant, SessionId};
use lockstead_journal::Journal;
use lockstead_session::Position;

/// An answer on its way to its session.
pub(crate) struct Sent {
    pub(crate) session: SessionId,
    pub(crate) answer: Answer,
    /// It may be known when the journal has come here.
    pub(crate) position: Position,
}

/// What the engine did since the answers were last taken.
pub(crate) struct Steps {
    pub(crate) answers: Vec<Sent>,
    pub(crate) journal: Option<Journal>,
    /// The checkpoint that is being fed, and the place in the engine's table from which it goes on.
    fed: (u64, u32),
}

impl Steps {
    pub(crate) fn new(journal: Option<Journal>) -> Self {
        Self { answers: Vec::new(), journal, fed: (0, 0) }
    }

    /// Hands the live leases to a checkpoint, as many as it wants in this turn.
    pub(crate) fn feed_checkpoint(&mut self, engine: &Engine) {
        let Some(journal) = &mut self.journal else { return };
        let Some(checkpoint) = journal.checkpoint() else { return };
        if self.fed.0 != checkpoint {
            self.fed = (checkpoint, 0);
        }
        while journal.wants_copy() {
            match engine.held_from(self.fed.1) {
                Some(held) => {
                    journal.copy(held.key, held.token, held.ends.0);
                    self.fed.1 = held.place + 1;
                }
                None => journal.end_copies(),
            }
        }
    }
}

impl Effects for Steps {
    fn answer(&mut self, session: SessionId, answer: Answer) {
        // An extend that moved no end relies on the one before, so it waits for all that was decided so far.
        let position =
            self.journal.as_ref().map_or(Position::START, |journal| Position(journal.position().0));
        self.answers.push(Sent { session, answer, position });
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
