//! The requests: one function for each, one line of docs/protocol.md, *Request × key state*, after the other.

use crate::command::{Answer, Command, SessionId};
use crate::duration_lists::{DurationList, Timed};
use crate::effects::Effects;
use crate::engine::Engine;
use crate::keys::Named;
use crate::limits::Limits;
use crate::time::Instant;
use crate::waiters::Attempt;
use lockstead_proto::{BusyReason, KeyState};

impl Engine {
    /// Runs a command of an open session, at `now`.
    ///
    /// Precondition: [`Engine::advance`] said [`Progress::Done`](crate::Progress::Done) at this very instant, because
    /// what is due comes before any request (docs/protocol.md, *Order*).
    pub fn run(
        &mut self,
        now: Instant,
        session: SessionId,
        command: Command<'_>,
        effects: &mut impl Effects,
    ) {
        self.set_now(now);
        debug_assert!(!self.is_due(), "what is due comes before any request");
        let answer = match command {
            Command::Acquire { wait_s, lease_s, owner, key } => {
                let wish = Attempt { session: session.0, key: 0, owner, asked: now, wait_s, lease_s };
                return self.acquire(wish, key, effects);
            }
            Command::Release { token, key } => return self.release(session, token, key, effects),
            Command::Extend { lease_s, token, key } => Some(self.extend(lease_s, token, key, effects)),
            Command::Cancel { owner, key } => self.cancel(session, owner, key),
            Command::Query { id, key } => Some(self.query(id, key)),
        };
        if let Some(answer) = answer {
            effects.answer(session, answer);
        }
    }

    /// `wish` names no key yet, as there may be no place for it.
    fn acquire(&mut self, wish: Attempt, text: &str, effects: &mut impl Effects) {
        let named = self.keys.named(text);
        let found = self.keys.find(named);
        let must_wait = found.is_some() || self.recovery_ends.is_some();
        let busy = |reason| Answer::Busy { owner: wish.owner, reason };
        let refusal = if self.draining {
            Some(busy(BusyReason::Draining))
        } else if self.storage_failing {
            Some(busy(BusyReason::NotDurable))
        } else if must_wait && wish.wait_s == 0 {
            Some(Answer::Timeout { owner: wish.owner })
        } else {
            self.no_room(wish.session, found, must_wait).map(busy)
        };
        match refusal {
            Some(answer) => effects.answer(SessionId(wish.session), answer),
            None if must_wait => {
                let key = found.unwrap_or_else(|| self.insert_parked(named));
                self.queue(Attempt { key, ..wish });
            }
            None => {
                let key = self.keys.insert(named);
                self.grant(Attempt { key, ..wish }, Some(text), effects);
            }
        }
    }

    /// The limit that is in the way of one more attempt on a key, in the order of docs/protocol.md.
    fn no_room(&self, session: u32, found: Option<u32>, must_wait: bool) -> Option<BusyReason> {
        let Limits { max_keys, max_waiters, max_waiters_per_key, max_waiters_per_session, .. } = self.limits;
        let in_queue = found.map_or(0, |key| self.keys.slab[key].waiters);
        if must_wait && self.sessions[session].waiters >= max_waiters_per_session {
            Some(BusyReason::SessionWaitersFull)
        } else if must_wait && in_queue >= max_waiters_per_key {
            Some(BusyReason::KeyQueueFull)
        } else if must_wait && self.waiters.slab.len() >= max_waiters {
            Some(BusyReason::WaitersFull)
        } else if found.is_none() && self.keys.slab.len() >= max_keys {
            Some(BusyReason::KeysFull)
        } else {
            None
        }
    }

    /// Room for a free key whose waiters wait for the end of the recovery.
    fn insert_parked(&mut self, key: Named<'_>) -> u32 {
        let key = self.keys.insert(key);
        self.keys.park(key);
        key
    }

    fn release(&mut self, session: SessionId, token: u64, text: &str, effects: &mut impl Effects) {
        let held = self.held_by(text, token);
        let answer = if held.is_some() { Answer::Released { token } } else { Answer::NotHeld { token } };
        effects.answer(session, answer);
        if let Some(key) = held {
            effects.freed(text, token);
            self.void(key, effects);
        }
    }

    fn extend(&mut self, lease_s: u8, token: u64, text: &str, effects: &mut impl Effects) -> Answer {
        let Some(key) = self.held_by(text, token) else {
            return Answer::NotHeld { token };
        };
        if self.storage_failing {
            return Answer::NotDurable { token };
        }
        let lease_s = self.kept_lease_s(lease_s);
        let ends = self.now.end_after(lease_s);
        // An end that does not move keeps its place among the timers.
        if ends > self.keys.slab[key].ends() {
            self.keys.extend(key, ends, DurationList::of(lease_s));
            effects.extended(text, token, ends);
        }
        Answer::Extended { token, lease_s }
    }

    fn cancel(&mut self, session: SessionId, owner: u64, key: &str) -> Option<Answer> {
        let key = self.keys.find(self.keys.named(key))?;
        let waiter = self.waiters.oldest(session.0, owner, key)?;
        self.leave(waiter);
        Some(Answer::Timeout { owner })
    }

    fn query(&self, id: u64, key: &str) -> Answer {
        let found = self.keys.find(self.keys.named(key)).map(|key| &self.keys.slab[key]);
        let waiters = found.map_or(0, |key| key.waiters);
        let held = found.filter(|key| key.is_held());
        let (state, ends) = match (held, self.recovery_ends) {
            (Some(key), _) => (KeyState::Held, key.ends()),
            (None, Some(ends)) => (KeyState::Recovering, ends),
            (None, None) => (KeyState::Free, self.now),
        };
        Answer::State { id, state, remaining_ms: self.now.ms_until(ends), waiters }
    }

    /// Where a key is, if this is its active token.
    fn held_by(&self, key: &str, token: u64) -> Option<u32> {
        self.keys.find(self.keys.named(key)).filter(|&key| self.keys.slab[key].has_token(token))
    }
}
