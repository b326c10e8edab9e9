//! What the driver and the journal have to do with each other: what the engine decides is written before anybody is
//! told, and while the journal fails or is full, nothing is decided.

use lockstead_engine::Instant;
use lockstead_journal::{Change, Journal};
use lockstead_session::Position;

use super::{Driver, EVENTS_PER_TURN, mark_dirty};
use crate::tokens;

impl Driver {
    /// Whether due events and requests may be run: what they decide must find room in the journal, and a token for
    /// each grant. If not, the journal wakes the driver when something has changed.
    pub(super) fn admits(&mut self) -> bool {
        self.steps.journal.as_ref().is_none_or(Journal::admits) && self.has_tokens(EVENTS_PER_TURN)
    }

    pub(super) fn has_tokens(&mut self, n: usize) -> bool {
        tokens::ensure(&mut self.engine, self.steps.journal.as_mut(), n)
    }

    /// Takes what the journal has done since the last time.
    pub(super) fn take_journal(&mut self, now: Instant) {
        if let Some(journal) = &mut self.steps.journal {
            journal.turn(now.0);
            self.take_changes();
        }
    }

    /// Writes what was decided, before anybody is told.
    pub(super) fn write_journal(&mut self) {
        if let Some(journal) = &mut self.steps.journal {
            journal.flush();
            self.take_changes();
        }
    }

    fn take_changes(&mut self) {
        while let Some(change) = self.steps.journal.as_mut().and_then(Journal::next_change) {
            match change {
                Change::Failed { after, error } => {
                    tracing::error!(%error, "the data directory cannot be written: nothing is granted or extended");
                    self.storage_failed(Position(after.0));
                }
                Change::Recovered => {
                    tracing::info!("the data directory can be written again: grants go on");
                    self.engine.storage_works();
                }
                Change::NotDeleted { files, error } => {
                    tracing::warn!(files, %error, "old files in the data directory cannot be deleted: it grows until they can");
                }
            }
        }
        let Some(journal) = &self.steps.journal else { return };
        let reached = Position(journal.reached().0);
        self.gated.retain(|&slot| {
            let Some(connection) = self.connections.get_mut(slot).filter(|connection| connection.gated)
            else {
                return false;
            };
            connection.session.reached(reached);
            connection.gated = connection.session.is_gated();
            let waits_on = connection.gated;
            mark_dirty(&mut self.connections, &mut self.to_write, slot);
            waits_on
        });
    }

    /// Takes back every grant that nobody was told of.
    fn storage_failed(&mut self, after: Position) {
        let mut lost = Vec::new();
        for &slot in &self.gated {
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.session.storage_failed(after, &mut lost);
            }
        }
        self.engine.storage_fails(lost, &mut self.steps);
        self.deliver();
    }
}
