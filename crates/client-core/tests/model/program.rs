//! What the program does with the client, and that what it hears is true.

use std::time::Duration;

use lockstead_client_core::{AcquireError, ExtendError, Lost, OpResult, ReleaseOutcome, UnsentCause};

use crate::canary::Planted;
use crate::steps::Deed;
use crate::world::World;

impl World {
    pub fn program(&mut self, deed: &Deed) {
        let now = self.now;
        match *deed {
            Deed::Acquire { key, wait_ms, lease_s } => self.acquire(key, wait_ms, lease_s),
            Deed::Take(at) => self.with_call(at, Self::take),
            Deed::Cancel(at) => self.with_call(at, |world, owner| {
                world.core.cancel(now, owner);
                world.reference.calls.get_mut(&owner).unwrap().over = true;
            }),
            Deed::Release(at) => self.with_ticket(at, |world, ticket, token| {
                world.in_use.remove(&ticket);
                let release = world.core.release_ticket(now, ticket).unwrap();
                world.asked.insert(release, Some(token));
            }),
            Deed::Drop(at) => self.with_ticket(at, |world, ticket, _| {
                world.in_use.remove(&ticket);
                world.core.drop_ticket(now, ticket);
            }),
            Deed::Leave(at) => self.with_ticket(at, Self::leave),
            Deed::Extend { ticket, lease_s } => self.with_ticket(ticket, |world, ticket, token| {
                let lease = Duration::from_secs(lease_s.into());
                match world.core.extend_ticket(now, ticket, lease) {
                    Ok(extend) => drop(world.asked.insert(extend, Some(token))),
                    Err(ExtendError::Lost(_) | ExtendError::Unsent(UnsentCause::QueueFull)) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }),
            Deed::KeepAlive { ticket, max_s } => self.with_ticket(ticket, |world, ticket, _| {
                world.core.keep_alive(now, ticket, max_s.map(|s| Duration::from_secs(s.into())));
            }),
            Deed::Ping => {
                let ping = self.core.ping(now);
                self.asked.insert(ping, None);
            }
            Deed::Query(key) => {
                let query = self.core.query(now, &name(key)).unwrap();
                self.asked.insert(query, None);
            }
            Deed::ReleaseLeft(at) => self.release_left(at),
            Deed::Forget(at) => {
                let asked: Vec<u64> = self.asked.keys().copied().collect();
                if let Some(&id) = asked.get(usize::from(at) % asked.len().max(1)) {
                    self.asked.remove(&id);
                    self.core.forget(now, id);
                }
            }
            Deed::Shutdown => {
                self.core.shutdown(now);
                self.reference.shut_down.get_or_insert(now);
            }
        }
    }

    fn acquire(&mut self, key: u8, wait_ms: u16, lease_s: u8) {
        let (wait, lease) = (Duration::from_millis(wait_ms.into()), Duration::from_secs(lease_s.into()));
        match self.core.acquire(self.now, &name(key), wait, lease) {
            Ok(owner) => self.reference.call(self.now, owner, wait_ms, lease_s),
            Err(AcquireError::Unsent(UnsentCause::ShutDown)) => assert!(self.reference.shut_down.is_some()),
            Err(AcquireError::Unsent(UnsentCause::QueueFull)) => {
                assert!(self.core.counts().calls >= self.setup.max_open)
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    pub fn take(&mut self, owner: u64) {
        let now = match self.planted {
            Some(Planted::TakesLate) => self.reference.calls[&owner].start,
            _ => self.now,
        };
        let Some(outcome) = self.core.take(now, owner) else {
            return;
        };
        let call = self.reference.calls.get_mut(&owner).unwrap();
        assert!(!call.over && call.ready, "every call ends exactly once, and the program is told");
        match outcome {
            Ok(ticket) => {
                let token = self.core.ticket_facts(ticket).unwrap().token;
                let valid_until = self.core.ticket(now, ticket).unwrap().valid_until;
                let server = self.servers.iter().find(|s| s.grants.contains_key(&token)).unwrap();
                self.reference.delivered(self.now, server, owner, token, valid_until);
                self.in_use.insert(ticket, token);
            }
            Err(error) => self.reference.outcome(self.now, &self.wires, owner, &error),
        }
        self.reference.calls.get_mut(&owner).unwrap().over = true;
        assert_eq!(self.core.take(now, owner), None, "an outcome is taken once");
    }

    fn leave(&mut self, ticket: u64, token: u64) {
        self.in_use.remove(&ticket);
        self.lost.remove(&ticket);
        // A ticket that was lost before has been released then.
        let lost = self.core.ticket(self.now, ticket).unwrap().lost.is_some();
        self.core.leave_ticket(self.now, ticket);
        self.reference.tokens.get_mut(&token).unwrap().left = true;
        if !lost {
            self.left.push(token);
        }
    }

    /// The program releases, by its token, a lock that it has left.
    fn release_left(&mut self, at: u8) {
        let known = |token: &&u64| !self.reference.tokens[*token].void;
        let left: Vec<u64> = self.left.iter().filter(known).copied().collect();
        let Some(&token) = left.get(usize::from(at) % left.len().max(1)) else {
            return;
        };
        let key = self.grant(token).key.clone();
        let release = self.core.release(self.now, &key, token).unwrap();
        self.asked.insert(release, Some(token));
    }

    /// What the program hears of a token is true.
    pub fn result(&mut self, id: u64) {
        let Some(token) = self.asked.remove(&id) else {
            // Said at once, before the id was known.
            assert!(self.reference.shut_down.is_some() || self.core.counts().requests >= self.setup.max_open);
            return;
        };
        let result = self.core.take_result(id).unwrap();
        let Some(token) = token else { return };
        let grant = self.grant(token);
        match result {
            OpResult::Release(ReleaseOutcome::Released) => assert!(grant.released),
            OpResult::Release(ReleaseOutcome::NotHeld)
            | OpResult::Extend(Err(ExtendError::Lost(Lost::NotHeld))) => {
                assert!(grant.released || grant.ends <= self.now)
            }
            OpResult::Extend(Ok(extended)) => assert!(grant.released || extended.valid_until < grant.ends),
            _ => {}
        }
    }

    fn with_call(&mut self, at: u8, then: impl FnOnce(&mut Self, u64)) {
        let open = self.reference.calls.iter().filter(|(_, call)| !call.over);
        let open: Vec<u64> = open.map(|(&owner, _)| owner).collect();
        if !open.is_empty() {
            then(self, open[usize::from(at) % open.len()]);
        }
    }

    fn with_ticket(&mut self, at: u8, then: impl FnOnce(&mut Self, u64, u64)) {
        let tickets: Vec<(u64, u64)> = self.in_use.iter().map(|(&ticket, &token)| (ticket, token)).collect();
        if !tickets.is_empty() {
            let (ticket, token) = tickets[usize::from(at) % tickets.len()];
            then(self, ticket, token);
        }
    }
}

fn name(key: u8) -> String {
    format!("key{key}")
}
