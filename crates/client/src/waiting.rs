//! Which tasks wait for what.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::task::{Context, Waker};

/// The tasks that wait for an outcome, for the loss of a ticket, or for the end of the client.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// For the outcome of a call or request, by its id.
    ready: HashMap<u64, Waker, BuildHasherDefault<Ids>>,
    /// For the loss of a ticket.
    lost: HashMap<u64, Vec<(Signal, Waker)>, BuildHasherDefault<Ids>>,
    signals: u64,
    ended: Vec<Waker>,
}

/// Names one that waits for the loss of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(u64);

impl Waiting {
    /// Wakes this task when the call or request has its outcome.
    pub(crate) fn until_ready(&mut self, id: u64, context: &Context<'_>) {
        self.ready
            .entry(id)
            .and_modify(|waker| waker.clone_from(context.waker()))
            .or_insert_with(|| context.waker().clone());
    }

    /// The call or request has its outcome, or nobody waits for it any more.
    pub(crate) fn ready(&mut self, id: u64) -> Option<Waker> {
        self.ready.remove(&id)
    }

    /// Wakes this task when the ticket is lost. `signal` is what this gave when it was called before.
    pub(crate) fn until_lost(
        &mut self,
        ticket: u64,
        signal: Option<Signal>,
        context: &Context<'_>,
    ) -> Signal {
        let waiting = self.lost.entry(ticket).or_default();
        if let Some(signal) = signal
            && let Some((_, waker)) = waiting.iter_mut().find(|(other, _)| *other == signal)
        {
            waker.clone_from(context.waker());
            return signal;
        }
        let signal = Signal(self.signals);
        self.signals += 1;
        waiting.push((signal, context.waker().clone()));
        signal
    }

    /// The ticket is lost.
    pub(crate) fn lost(&mut self, ticket: u64) -> impl Iterator<Item = Waker> {
        self.lost.remove(&ticket).unwrap_or_default().into_iter().map(|(_, waker)| waker)
    }

    /// This one no longer waits for the loss of the ticket.
    pub(crate) fn forget_signal(&mut self, ticket: u64, signal: Signal) {
        if let Some(waiting) = self.lost.get_mut(&ticket) {
            waiting.retain(|(other, _)| *other != signal);
            if waiting.is_empty() {
                self.lost.remove(&ticket);
            }
        }
    }

    /// Wakes this task when the client has ended.
    pub(crate) fn until_ended(&mut self, context: &Context<'_>) {
        if !self.ended.iter().any(|waker| waker.will_wake(context.waker())) {
            self.ended.push(context.waker().clone());
        }
    }

    /// The client has ended.
    pub(crate) fn ended(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.ended)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.lost.values().map(Vec::len).sum::<usize>() + self.ended.len()
    }
}

/// Hashes ids that this client has counted up itself, so that nobody can choose them: their low bits tell them apart,
/// and one multiplication spreads them over the high ones, which the table looks at too.
#[derive(Debug, Default)]
struct Ids(u64);

impl Hasher for Ids {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_no_longer_waits_is_forgotten() {
        let mut waiting = Waiting::default();
        let context = Context::from_waker(Waker::noop());
        waiting.until_ready(1, &context);
        waiting.until_ready(1, &context);
        let first = waiting.until_lost(7, None, &context);
        let second = waiting.until_lost(7, None, &context);
        assert_eq!(waiting.until_lost(7, Some(first), &context), first);
        waiting.until_ended(&context);
        waiting.until_ended(&context);
        assert_eq!(waiting.len(), 4);
        waiting.forget_signal(7, first);
        assert_eq!(waiting.len(), 3);
        waiting.forget_signal(7, second);
        assert!(waiting.lost.is_empty());
        assert!(waiting.ready(1).is_some() && waiting.ready(1).is_none());
        assert_eq!(waiting.ended().len(), 1);
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn a_loss_wakes_all_that_wait_for_it_and_nobody_else() {
        let mut waiting = Waiting::default();
        let context = Context::from_waker(Waker::noop());
        waiting.until_lost(1, None, &context);
        let gone = waiting.until_lost(1, None, &context);
        waiting.until_lost(2, None, &context);
        assert_eq!(waiting.lost(1).count(), 2);
        assert_eq!((waiting.lost(1).count(), waiting.len()), (0, 1));
        waiting.forget_signal(1, gone);
        let again = waiting.until_lost(1, Some(gone), &context);
        assert_ne!(again, gone, "a signal that was given before is given anew");
    }
}
