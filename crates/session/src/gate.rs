//! Answers that wait until the journal has reached a position.
//!
//! Only a grant and an extend wait: each until the records of its own step are as safe as the mode demands. What
//! answers a release or an extend behind a waiting extend of its session waits with it, because those are answered in
//! the order of their requests. A release that is lost keeps the key held: late, never early; so it need not wait for
//! itself.

use alloc::collections::VecDeque;

use lockstead_engine::{Answer, UnsentGrant};
use lockstead_proto::BusyReason;

use crate::output::NOT_DURABLE;

/// How far a journal has come. Grows; [`Position::START`] is reached from the beginning, which is all there is without
/// a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

impl Position {
    /// The position before the first record.
    pub const START: Self = Self(0);
}

/// What comes out of the gate when the storage has failed.
pub(crate) struct Failed {
    /// What is to be said.
    pub(crate) answer: Answer,
    /// The grant that the peer was never told of.
    pub(crate) lost: Option<UnsentGrant>,
}

/// Answers held back, in the order in which they come free.
#[derive(Default)]
pub(crate) struct Gate {
    reached: Position,
    held: VecDeque<(Position, Answer)>,
    /// What they take at the most when they come out, in bytes.
    bytes: usize,
    /// How many of them are answered in the order of their requests.
    in_order: usize,
}

/// Whether an answer keeps the order of the requests: those to releases and extends do.
fn is_in_order(answer: &Answer) -> bool {
    match answer {
        Answer::Extended { .. }
        | Answer::Released { .. }
        | Answer::NotHeld { .. }
        | Answer::NotDurable { .. } => true,
        Answer::Acquired { .. } | Answer::Timeout { .. } | Answer::Busy { .. } | Answer::State { .. } => {
            false
        }
    }
}

/// The most bytes that come of an answer that waits: an extend may become an error, which has a sentence.
fn longest(answer: &Answer) -> usize {
    match answer {
        Answer::Extended { .. } | Answer::NotDurable { .. } => 11 + NOT_DURABLE.len(),
        _ => 23,
    }
}

impl Gate {
    /// Takes an answer that needs `position`. Gives it back if nothing has to wait.
    pub(crate) fn pass(&mut self, answer: Answer, position: Position) -> Option<Answer> {
        let needs = match answer {
            Answer::Acquired { .. } | Answer::Extended { .. } => position,
            _ => Position::START,
        };
        let in_order = is_in_order(&answer);
        if needs <= self.reached && !(in_order && self.in_order > 0) {
            return Some(answer);
        }
        self.in_order += usize::from(in_order);
        // Positions only grow, so what waits behind something else needs no position of its own.
        let behind = self.held.back().map_or(needs, |&(last, _)| last.max(needs));
        self.bytes += longest(&answer);
        self.held.push_back((behind, answer));
        None
    }

    /// The journal has come to `position`.
    pub(crate) fn reach(&mut self, position: Position) {
        self.reached = self.reached.max(position);
    }

    /// The next answer that no longer waits.
    pub(crate) fn next_free(&mut self) -> Option<Answer> {
        let (_, answer) = self.held.pop_front_if(|(position, _)| *position <= self.reached)?;
        self.in_order -= usize::from(is_in_order(&answer));
        self.bytes -= longest(&answer);
        Some(answer)
    }

    /// Nothing behind `after` will be safe. Everything comes out: what waits for no more than that as it is; a grant
    /// behind it as `B` 6, an extend as `X` 10, and the answers to releases that waited only for their turn.
    pub(crate) fn fail(&mut self, after: Position) -> impl Iterator<Item = Failed> + use<> {
        self.reach(after);
        (self.in_order, self.bytes) = (0, 0);
        core::mem::take(&mut self.held).into_iter().map(move |(position, answer)| match answer {
            Answer::Acquired { owner, token, key, .. } if position > after => Failed {
                answer: Answer::Busy { owner, reason: BusyReason::NotDurable },
                lost: Some(UnsentGrant { key, token }),
            },
            Answer::Extended { token, .. } if position > after => {
                Failed { answer: Answer::NotDurable { token }, lost: None }
            }
            answer => Failed { answer, lost: None },
        })
    }

    /// How many answers wait.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// What waits takes at the most when it comes out, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many grants wait.
    pub(crate) fn grants(&self) -> usize {
        self.held.iter().filter(|(_, answer)| matches!(answer, Answer::Acquired { .. })).count()
    }

    /// Takes everything that waits: the session ends.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Answer> + use<> {
        (self.in_order, self.bytes) = (0, 0);
        core::mem::take(&mut self.held).into_iter().map(|(_, answer)| answer)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const E5: Answer = Answer::Extended { token: 5, lease_s: 1 };
    const E6: Answer = Answer::Extended { token: 6, lease_s: 1 };
    const R: Answer = Answer::Released { token: 5 };
    const N: Answer = Answer::NotHeld { token: 5 };
    const T: Answer = Answer::Timeout { owner: 1 };

    fn free(gate: &mut Gate) -> Vec<Answer> {
        core::iter::from_fn(|| gate.next_free()).collect()
    }

    #[test]
    fn without_a_journal_nothing_waits() {
        let mut gate = Gate::default();
        for answer in [E5, R, N, T] {
            assert_eq!(gate.pass(answer, Position::START), Some(answer));
        }
        assert_eq!(gate.len(), 0);
    }

    #[test]
    fn an_extend_waits_and_releases_behind_it_wait_with_it() {
        let mut gate = Gate::default();
        assert_eq!(gate.pass(R, Position(1)), Some(R), "a release alone waits for nothing");
        assert_eq!(gate.pass(E5, Position(2)), None);
        assert_eq!(gate.pass(T, Position(2)), Some(T), "a timeout is in no order with an extend");
        assert_eq!(gate.pass(R, Position(3)), None);
        assert_eq!(gate.pass(N, Position(3)), None);
        assert_eq!(gate.pass(E6, Position::START), None, "an extend that wrote nothing keeps its turn");
        assert_eq!(gate.len(), 4);
        gate.reach(Position(1));
        assert_eq!(free(&mut gate), []);
        gate.reach(Position(2));
        assert_eq!(free(&mut gate), [E5, R, N, E6], "a release needs no position of its own");
        assert_eq!(gate.pass(R, Position(9)), Some(R), "no extend waits any more");
    }

    #[test]
    fn a_position_never_goes_back() {
        let mut gate = Gate::default();
        gate.reach(Position(7));
        gate.reach(Position(3));
        assert_eq!(gate.pass(E5, Position(7)), Some(E5));
        assert_eq!(gate.pass(E5, Position(8)), None);
    }

    #[test]
    fn what_is_taken_is_gone() {
        let mut gate = Gate::default();
        assert_eq!(gate.pass(E5, Position(1)), None);
        assert_eq!(gate.take().collect::<Vec<_>>(), [E5]);
        assert_eq!(gate.len(), 0);
        assert_eq!(gate.pass(R, Position(1)), Some(R));
    }
}
