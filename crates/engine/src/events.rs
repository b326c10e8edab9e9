//! What becomes due by time, in the order of docs/protocol.md, *Order*, and what a grant and its end do to a key.

use crate::command::{Answer, KeyRef, Progress, SessionId};
use crate::duration_lists::DurationList;
use crate::effects::Effects;
use crate::engine::Engine;
use crate::time::Instant;
use crate::waiters::Attempt;

/// What ends at an instant.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The lease of this key.
    Lease(u32),
    /// The recovery.
    Recovery,
    /// The wait of this waiter.
    Wait(u32),
}

impl Engine {
    /// Takes the time and lets happen what is due, in time order, at most `budget` events of it: of equal instants
    /// lease ends and the recovery end before wait ends, each kind in the order armed. An event that comes late acts
    /// now: what it grants counts from `now` (docs/protocol.md, *Order* and *Time*).
    pub fn advance(&mut self, now: Instant, budget: usize, effects: &mut impl Effects) -> Progress {
        self.set_now(now);
        for _ in 0..budget {
            let Some(due) = self.next_due() else { return Progress::Done };
            self.end(due, effects);
        }
        if self.is_due() { Progress::More } else { Progress::Done }
    }

    /// The instant at which something becomes due next, if nothing else happens before. It may have passed already.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let [leases, waits] = [self.keys.leases.next_end(), self.waiters.timers.next_end()];
        [leases, self.recovery_ends, waits].into_iter().flatten().min()
    }

    /// Whether something is due that [`Engine::advance`] has not processed.
    pub(crate) fn is_due(&self) -> bool {
        self.next_deadline().is_some_and(|at| at <= self.now)
    }

    /// What is due and ends first. Of equal ends a lease's comes first, then that of the recovery, which counts as armed
    /// after the leases that were restored with it.
    fn next_due(&self) -> Option<Due> {
        let at = self.next_deadline().filter(|&at| at <= self.now)?;
        if self.keys.leases.next_end() == Some(at) {
            self.keys.leases.earliest().map(Due::Lease)
        } else if self.recovery_ends == Some(at) {
            Some(Due::Recovery)
        } else {
            self.waiters.timers.earliest().map(Due::Wait)
        }
    }

    fn end(&mut self, due: Due, effects: &mut impl Effects) {
        match due {
            Due::Lease(key) => self.free(key, effects),
            Due::Recovery => self.end_recovery(effects),
            Due::Wait(waiter) => {
                let Attempt { session, owner, .. } = self.leave(waiter);
                effects.answer(SessionId(session), Answer::Timeout { owner });
            }
        }
    }

    /// One step of the end of the recovery: the key that has been parked for longest grants to its first waiter; when
    /// none is left, the recovery is over. It stays the first event until then.
    fn end_recovery(&mut self, effects: &mut impl Effects) {
        match self.keys.parked.first() {
            Some(key) => {
                self.keys.unpark(key);
                self.grant_first(key, effects);
            }
            None => self.recovery_ends = None,
        }
    }

    /// Frees a held key, whatever its token.
    pub(crate) fn free(&mut self, key: u32, effects: &mut impl Effects) {
        effects.freed(self.keys.text(key), self.keys.slab[key].token);
        self.void(key, effects);
    }

    /// Voids the token of a held key, of which the effects know already; its first waiter is granted, or waits on while
    /// recovering. Without waiters the key takes no room any more.
    pub(crate) fn void(&mut self, key: u32, effects: &mut impl Effects) {
        self.keys.void(key);
        if !self.keys.slab[key].has_waiters() {
            self.keys.remove(key);
        } else if self.recovery_ends.is_some() {
            self.keys.park(key);
        } else {
            self.grant_first(key, effects);
        }
    }

    /// Grants a key that is neither held nor parked to the attempt, from now on. `text` is the key's, if it was named.
    pub(crate) fn grant(&mut self, attempt: Attempt, text: Option<&str>, effects: &mut impl Effects) {
        let Attempt { session, key, owner, asked, lease_s, .. } = attempt;
        let lease_s = self.kept_lease_s(lease_s);
        let token = self.tokens.take();
        let ends = self.now.end_after(lease_s);
        self.keys.hold(key, token, ends, DurationList::of(lease_s));
        effects.granted(text.unwrap_or_else(|| self.keys.text(key)), token, ends);
        let waited_ms = self.now.waited_ms(asked);
        let answer = Answer::Acquired { owner, token, lease_s, waited_ms, key: KeyRef(key) };
        effects.answer(SessionId(session), answer);
    }

    fn grant_first(&mut self, key: u32, effects: &mut impl Effects) {
        let first = self.keys.slab[key].queue.first().expect("the key has waiters");
        let attempt = self.unqueue(first);
        self.grant(attempt, None, effects);
    }

    /// Queues an attempt on its key.
    pub(crate) fn queue(&mut self, attempt: Attempt) {
        let key = &mut self.keys.slab[attempt.key];
        let session = &mut self.sessions[attempt.session];
        key.waiters += 1;
        session.waiters += 1;
        self.waiters.join(attempt, &mut key.queue, &mut session.queue);
    }

    /// Takes a waiter out of its queue. A free key that has no other takes no room any more.
    pub(crate) fn leave(&mut self, waiter: u32) -> Attempt {
        let attempt = self.unqueue(waiter);
        let key = &self.keys.slab[attempt.key];
        if !key.is_held() && !key.has_waiters() {
            self.keys.unpark(attempt.key);
            self.keys.remove(attempt.key);
        }
        attempt
    }

    fn unqueue(&mut self, waiter: u32) -> Attempt {
        let attempt = self.waiters.slab[waiter].attempt();
        let key = &mut self.keys.slab[attempt.key];
        let session = &mut self.sessions[attempt.session];
        key.waiters -= 1;
        session.waiters -= 1;
        self.waiters.leave(waiter, &mut key.queue, &mut session.queue);
        attempt
    }

    /// The lease that is kept of a wish: none is above the limit.
    pub(crate) fn kept_lease_s(&self, lease_s: u8) -> u8 {
        lease_s.min(self.limits.max_lease_s)
    }
}
