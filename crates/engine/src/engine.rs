//! The engine itself: what it consists of, and what is not a request and not due by time.

use crate::command::{Answer, Counts, Held, KeyRef, SessionId, UnsentGrant};
use crate::duration_lists::DurationList;
use crate::effects::Effects;
use crate::hash::KeyedHash;
use crate::keys::Keys;
use crate::limits::Limits;
use crate::ring::Ring;
use crate::slab::Slab;
use crate::time::Instant;
use crate::tokens::Tokens;
use crate::waiters::{SessionQueue, Waiters};
use lockstead_proto::BusyReason;

/// What the engine knows of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    /// Its waiters, oldest first.
    pub(crate) queue: SessionQueue,
    /// How many they are.
    pub(crate) waiters: u32,
}

/// The lock table of one server.
///
/// Nothing here waits, allocates for a request (beyond a chunk of memory now and then) or depends on the order of a
/// hash table. Effects go to the caller in the order in which they happen.
#[derive(Debug)]
pub struct Engine {
    pub(crate) limits: Limits,
    pub(crate) now: Instant,
    pub(crate) keys: Keys,
    pub(crate) waiters: Waiters,
    pub(crate) sessions: Slab<Session>,
    pub(crate) tokens: Tokens,
    /// While there is an end to come, the engine is *recovering*.
    pub(crate) recovery_ends: Option<Instant>,
    pub(crate) draining: bool,
    /// While nothing can be made durable, nothing is granted.
    pub(crate) storage_failing: bool,
}

impl Engine {
    /// An empty engine. `hash_seed` is drawn at random by the caller, so that nobody can make keys that collide.
    ///
    /// With `recovery_ends` the engine starts *recovering* until then: it grants nothing, because a grant that it
    /// does not know could still be running (docs/protocol.md, *Request × key state*).
    #[must_use]
    pub fn new(limits: Limits, hash_seed: [u64; 2], now: Instant, recovery_ends: Option<Instant>) -> Self {
        let hash = KeyedHash::new(hash_seed);
        Self {
            limits,
            now,
            keys: Keys::new(hash),
            waiters: Waiters::new(hash),
            sessions: Slab::new(),
            tokens: Tokens::default(),
            recovery_ends,
            draining: false,
            storage_failing: false,
        }
    }

    /// Makes `key` held by `token` until `ends`, as an earlier process granted it. Before serving and before the
    /// first tokens are supplied, in the order of the ends; the limits do not apply.
    ///
    /// # Panics
    /// If the key is restored already, or tokens have been supplied.
    pub fn restore(&mut self, key: &str, token: u64, ends: Instant) {
        let key = self.keys.named(key);
        assert!(self.keys.find(key).is_none(), "a key is restored once");
        self.tokens.restore(token);
        let slot = self.keys.insert(key);
        self.keys.hold(slot, token, ends, DurationList::RESTORED);
    }

    /// Hands in the tokens `first..first + count` for the next grants; what was left of the block before is never
    /// given. A call of [`Engine::run`] takes at most one token, [`Engine::advance`] at most one for each event of
    /// its budget, [`Engine::close_session`] at most one for each unsent grant.
    ///
    /// # Panics
    /// If `first` is not above every earlier token, 0 included: tokens rise strictly (docs/protocol.md, *Meaning of
    /// acquire*). A call that needs a token when [`Engine::tokens_left`] is 0 panics too.
    pub fn supply_tokens(&mut self, first: u64, count: u64) {
        self.tokens.supply(first, count);
    }

    /// Tokens left of the block that was supplied last.
    #[must_use]
    pub fn tokens_left(&self) -> u64 {
        self.tokens.left()
    }

    /// The greatest token that was given or restored, 0 if there was none.
    #[must_use]
    pub fn last_token(&self) -> u64 {
        self.tokens.last()
    }

    /// How much the engine holds.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { held: self.keys.held, keys: self.keys.slab.len(), waiters: self.waiters.slab.len() }
    }

    /// The key at a place, if there is one; its text is that of the grant only as long as the token still holds.
    #[must_use]
    pub fn key(&self, key: KeyRef) -> Option<&str> {
        self.keys.slab.get(key.0)?;
        Some(self.keys.text(key.0))
    }

    /// The first held key at a place from `from` on. A key keeps its place as long as it is held, so whoever goes
    /// through all places finds every lease that lives throughout.
    #[must_use]
    pub fn held_from(&self, from: u32) -> Option<Held<'_>> {
        let place = self.keys.slab.slots_from(from).find(|&slot| self.keys.slab[slot].is_held())?;
        let record = &self.keys.slab[place];
        let key = self.key(KeyRef(place)).expect("the place is taken");
        Some(Held { place, key, token: record.token, ends: record.ends })
    }

    /// Opens a session. Its slot may have belonged to one that was closed.
    pub fn open_session(&mut self) -> SessionId {
        SessionId(self.sessions.insert(Session { queue: Ring::EMPTY, waiters: 0 }))
    }

    /// Closes a session, in one step: its waiters leave without an answer, then each grant that it never learnt of is
    /// freed, if the key still has this very token, and the key's next waiter is granted. Every other grant lives on
    /// until it is released or its lease ends (docs/protocol.md, *Session close*).
    ///
    /// # Panics
    /// If the session is not open.
    pub fn close_session(
        &mut self,
        now: Instant,
        session: SessionId,
        unsent: impl IntoIterator<Item = UnsentGrant>,
        effects: &mut impl Effects,
    ) {
        self.set_now(now);
        assert!(self.sessions.get(session.0).is_some(), "the session is open");
        while let Some(waiter) = self.sessions[session.0].queue.first() {
            self.leave(waiter);
        }
        self.sessions.remove(session.0);
        self.take_back(unsent, effects);
    }

    /// Frees each grant, if its key still has this very token.
    fn take_back(&mut self, grants: impl IntoIterator<Item = UnsentGrant>, effects: &mut impl Effects) {
        for UnsentGrant { key, token } in grants {
            if self.keys.slab.get(key.0).is_some_and(|record| record.has_token(token)) {
                self.free(key.0, effects);
            }
        }
    }

    /// Starts *draining*: every waiter is answered `B` 5, in the order in which the waits would have ended; from now
    /// on every acquire is too (docs/protocol.md, *Request × key state*). There is no way back.
    pub fn drain(&mut self, effects: &mut impl Effects) {
        self.draining = true;
        self.dismiss(BusyReason::Draining, effects);
    }

    /// Starts *storage failing*: every waiter is answered `B` 6, and from now on every acquire is too; a grant that
    /// could not be made durable is taken back by its exact token (docs/protocol.md, *Request × key state*). Does no
    /// harm if it is so already.
    pub fn storage_fails(&mut self, lost: impl IntoIterator<Item = UnsentGrant>, effects: &mut impl Effects) {
        self.storage_failing = true;
        self.dismiss(BusyReason::NotDurable, effects);
        // Nobody waits any more, so nothing is granted.
        self.take_back(lost, effects);
    }

    /// Ends *storage failing*: grants go on.
    pub fn storage_works(&mut self) {
        self.storage_failing = false;
    }

    /// Whether nothing is granted because a grant that is not known could still be running.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.recovery_ends.is_some()
    }

    /// Whether nothing is granted because it could not be made durable.
    #[must_use]
    pub fn is_storage_failing(&self) -> bool {
        self.storage_failing
    }

    /// Answers every waiter, in the order in which the waits would have ended.
    fn dismiss(&mut self, reason: BusyReason, effects: &mut impl Effects) {
        while let Some(waiter) = self.waiters.timers.earliest() {
            let attempt = self.leave(waiter);
            effects.answer(SessionId(attempt.session), Answer::Busy { owner: attempt.owner, reason });
        }
    }

    /// Takes the time from the caller.
    pub(crate) fn set_now(&mut self, now: Instant) {
        debug_assert!(now >= self.now, "time never goes back");
        debug_assert!(now < Instant::LIMIT, "an instant is below 2^48");
        self.now = now;
    }
}
