//! The properties that show only in what was asked and answered.

use super::{Check, holds};
use crate::command::{Answer, Command, Effect, KeyRef, Progress, SessionId, UnsentGrant};
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use lockstead_proto::BusyReason;

/// An acquire that has not been answered.
#[derive(Clone, Debug)]
struct Attempt {
    session: SessionId,
    owner: u64,
    key: String,
    ends: Instant,
}

/// A grant that may be active.
#[derive(Clone, Copy, Debug)]
struct Grant {
    token: u64,
    ends: Instant,
}

/// Watches an engine from outside: told of every step and its effects, it says which property does not hold.
///
/// It is told after the step. `key_of` names the key of a grant, as [`Engine::key`](crate::Engine::key) does.
#[derive(Debug, Default)]
pub struct History {
    /// In the order of asking.
    attempts: Vec<Attempt>,
    grants: BTreeMap<String, Grant>,
    last_token: u64,
    storage_failing: bool,
}

impl History {
    /// A history in which nothing has happened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A lease was restored.
    ///
    /// # Errors
    /// The property that does not hold.
    pub fn restored(&mut self, key: &str, token: u64, ends: Instant) -> Check {
        holds(!self.grants.contains_key(key), || format!("{key} restored twice"))?;
        self.last_token = self.last_token.max(token);
        self.grants.insert(key.to_string(), Grant { token, ends });
        Ok(())
    }

    /// A command was run.
    ///
    /// # Errors
    /// The property that does not hold.
    pub fn ran<'k>(
        &mut self,
        now: Instant,
        session: SessionId,
        command: Command<'_>,
        effects: &[Effect],
        key_of: impl Fn(KeyRef) -> Option<&'k str>,
    ) -> Check {
        match command {
            Command::Acquire { wait_s, owner, key, .. } => {
                // A single try may end in the instant in which it was asked.
                let ends = if wait_s == 0 { now } else { now.end_after(wait_s) };
                self.attempts.push(Attempt { session, owner, key: key.to_string(), ends });
            }
            Command::Release { token, key } => {
                let done = |answer| matches!(answer, Answer::Released { .. });
                active_tokens_hold(self.is_active(key, token, now), effects.first(), done)?;
            }
            Command::Extend { token, key, .. } => {
                let done = |answer| matches!(answer, Answer::Extended { .. } | Answer::NotDurable { .. });
                active_tokens_hold(self.is_active(key, token, now), effects.first(), done)?;
            }
            Command::Cancel { owner, key } => {
                let named = |attempt: &Attempt| {
                    (attempt.session, attempt.owner, attempt.key.as_str()) == (session, owner, key)
                };
                if let Some(attempt) = self.attempts.iter_mut().find(|attempt| named(attempt)) {
                    attempt.ends = now;
                }
            }
            Command::Query { .. } => {}
        }
        self.answered(now, effects, key_of)?;
        nobody_is_forgotten(&self.attempts, now)
    }

    /// The time went on.
    ///
    /// # Errors
    /// The property that does not hold.
    pub fn advanced<'k>(
        &mut self,
        now: Instant,
        progress: Progress,
        effects: &[Effect],
        key_of: impl Fn(KeyRef) -> Option<&'k str>,
    ) -> Check {
        self.answered(now, effects, key_of)?;
        match progress {
            Progress::Done => nobody_is_forgotten(&self.attempts, now),
            Progress::More => Ok(()),
        }
    }

    /// A session was closed.
    ///
    /// # Errors
    /// The property that does not hold.
    pub fn closed<'k>(
        &mut self,
        now: Instant,
        session: SessionId,
        unsent: &[UnsentGrant],
        effects: &[Effect],
        key_of: impl Fn(KeyRef) -> Option<&'k str>,
    ) -> Check {
        self.attempts.retain(|attempt| attempt.session != session);
        self.grants.retain(|_, grant| unsent.iter().all(|unsent| unsent.token != grant.token));
        self.answered(now, effects, key_of)
    }

    /// The storage fails; these grants were taken back.
    ///
    /// # Errors
    /// The property that does not hold.
    pub fn storage_failed(&mut self, now: Instant, lost: &[UnsentGrant], effects: &[Effect]) -> Check {
        self.storage_failing = true;
        self.grants.retain(|_, grant| lost.iter().all(|lost| lost.token != grant.token));
        self.answered(now, effects, |_| None)?;
        holds(self.attempts.is_empty(), || format!("{:?} waits on while storage fails", self.attempts))
    }

    /// The storage works again.
    pub fn storage_worked(&mut self) {
        self.storage_failing = false;
    }

    /// Draining began.
    ///
    /// # Errors
    /// The property that does not hold.
    pub fn drained(&mut self, now: Instant, effects: &[Effect]) -> Check {
        self.answered(now, effects, |_| None)?;
        holds(self.attempts.is_empty(), || format!("{:?} waits on while draining", self.attempts))
    }

    fn answered<'k>(
        &mut self,
        now: Instant,
        effects: &[Effect],
        key_of: impl Fn(KeyRef) -> Option<&'k str>,
    ) -> Check {
        for &Effect { session, answer } in effects {
            failing_storage_refuses(self.storage_failing, answer)?;
            match answer {
                Answer::Acquired { owner, token, lease_s, key, .. } => {
                    let key = key_of(key).unwrap_or_default();
                    let place = self.attempts.iter().position(|attempt| {
                        (attempt.session, attempt.owner, attempt.key.as_str()) == (session, owner, key)
                    });
                    first_in_first_out(&self.attempts, answered_once(place, &answer)?)?;
                    one_active_token(self.active(key, now), token)?;
                    tokens_rise(self.last_token, token)?;
                    self.attempts.remove(answered_once(place, &answer)?);
                    self.last_token = token;
                    self.grants.insert(key.to_string(), Grant { token, ends: now.end_after(lease_s) });
                }
                Answer::Timeout { owner } => {
                    let mine = |attempt: &Attempt| (attempt.session, attempt.owner) == (session, owner);
                    // Of several with this owner the one whose wait ended first was answered first.
                    let places = (0..self.attempts.len()).filter(|&place| mine(&self.attempts[place]));
                    let place = places.min_by_key(|&place| self.attempts[place].ends);
                    let attempt = self.attempts.remove(answered_once(place, &answer)?);
                    no_wait_ends_early(&attempt, now)?;
                }
                Answer::Busy { owner, .. } => {
                    let mine = |attempt: &Attempt| (attempt.session, attempt.owner) == (session, owner);
                    // The one that was just asked; when all are sent away, they are in any order.
                    let place = self.attempts.iter().rposition(mine);
                    self.attempts.remove(answered_once(place, &answer)?);
                }
                Answer::Released { token } => self.grants.retain(|_, grant| grant.token != token),
                Answer::Extended { token, lease_s } => {
                    for grant in self.grants.values_mut().filter(|grant| grant.token == token) {
                        grant.ends = grant.ends.max(now.end_after(lease_s));
                    }
                }
                Answer::NotHeld { .. } | Answer::NotDurable { .. } | Answer::State { .. } => {}
            }
        }
        Ok(())
    }

    fn is_active(&self, key: &str, token: u64, now: Instant) -> bool {
        self.active(key, now).is_some_and(|grant| grant.token == token)
    }

    /// The grant of a key whose lease has not ended.
    fn active(&self, key: &str, now: Instant) -> Option<Grant> {
        self.grants.get(key).copied().filter(|grant| grant.ends > now)
    }
}

/// Every acquire is answered exactly once, and nothing else is: `place` is the unanswered attempt it is for.
fn answered_once(place: Option<usize>, answer: &Answer) -> Result<usize, String> {
    place.ok_or_else(|| format!("{answer:?} answers nothing that is unanswered"))
}

/// A grant goes to the attempt that has waited for its key for longest.
fn first_in_first_out(attempts: &[Attempt], granted: usize) -> Check {
    let key = &attempts[granted].key;
    let overtaken = attempts[..granted].iter().find(|attempt| attempt.key == *key);
    holds(overtaken.is_none(), || format!("{overtaken:?} was overtaken"))
}

/// A key has at most one active token, and no lease ends early: a grant comes after the end of the one before.
fn one_active_token(active: Option<Grant>, token: u64) -> Check {
    holds(active.is_none(), || format!("token {token} was given while {active:?} was active"))
}

/// A token is greater than every earlier one of any key.
fn tokens_rise(last_token: u64, token: u64) -> Check {
    holds(token > last_token, || format!("token {token} came after {last_token}"))
}

/// No wait ends before its time, unless it was cancelled.
fn no_wait_ends_early(attempt: &Attempt, now: Instant) -> Check {
    holds(attempt.ends <= now, || format!("{attempt:?} ended at {now:?}"))
}

/// A release or extend is done, or would be but for the storage, if its token is active, and only then.
fn active_tokens_hold(active: bool, answer: Option<&Effect>, is_done: impl Fn(Answer) -> bool) -> Check {
    let done = answer.is_some_and(|effect| is_done(effect.answer));
    holds(done == active, || format!("{answer:?}, but the token being active is {active}"))
}

/// While the storage fails nothing is granted or extended, and only then is anything refused for that.
fn failing_storage_refuses(failing: bool, answer: Answer) -> Check {
    let fits = match answer {
        Answer::Acquired { .. } | Answer::Extended { .. } => !failing,
        Answer::Busy { reason: BusyReason::NotDurable, .. } | Answer::NotDurable { .. } => failing,
        _ => true,
    };
    holds(fits, || format!("{answer:?}, but that the storage fails is {failing}"))
}

/// When nothing is due any more, everybody whose wait has ended was told so.
fn nobody_is_forgotten(attempts: &[Attempt], now: Instant) -> Check {
    let forgotten = attempts.iter().find(|attempt| attempt.ends <= now);
    holds(forgotten.is_none(), || format!("{forgotten:?} has no answer at {now:?}"))
}
