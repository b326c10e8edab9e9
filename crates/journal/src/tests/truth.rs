//! What holders were told, and what must therefore hold after any crash.

use std::collections::BTreeMap;

use crate::tests::bench::LONGEST_MS;

/// No lease and no recovery is longer: each restart on another boot may add a millisecond for rounding.
const MOST_US: u64 = (LONGEST_MS + 100) * 1_000;

/// An answered lease whose holder may still be at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) token: u64,
    /// The holder relies on it until then.
    pub(super) until_us: u64,
    /// The server that runs knows it.
    pub(super) is_known: bool,
    /// A power loss must not take it away.
    pub(super) is_safe: bool,
    is_restored: bool,
}

/// Something that happened in the world.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Time passed.
    Time(u64),
    /// An `A` or `E` went out.
    Answered { key: String, token: u64, until_us: u64 },
    /// The server took a release: its holder relies on nothing any more.
    Released { key: String, token: u64 },
    /// The server took a token for a grant, answered or not, that ends at the latest then.
    Granted { key: String, token: u64, ends_us: u64 },
    /// The start is over, and this is what it found; its checkpoint may have failed.
    Started { found: Found, is_failing: bool },
    /// A checkpoint succeeded after a failure.
    Recovered,
    /// A clean stop is over.
    Stopped,
}

/// The world at an instant.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) now_us: u64,
    pub(super) claims: BTreeMap<String, Vec<Claim>>,
    pub(super) greatest_token: u64,
    /// Every token that was given, with its key and the latest end that any record of it may have.
    pub(super) granted: BTreeMap<u64, (String, u64)>,
    pub(super) is_machine: bool,
    pub(super) is_started: bool,
    pub(super) is_stopped: bool,
    pub(super) recovery_us: Option<u64>,
}

impl Truth {
    /// A process in one of the modes begins.
    pub(super) fn begin(&mut self, is_machine: bool) {
        self.is_machine = is_machine;
        self.is_started = false;
        self.is_stopped = false;
    }

    pub(super) fn happen(&mut self, event: &Event) {
        match event {
            Event::Time(now_us) => {
                self.now_us = *now_us;
                for claims in self.claims.values_mut() {
                    claims.retain(|claim| claim.until_us > *now_us);
                }
            }
            Event::Answered { key, token, until_us } => {
                let claims = self.claims.entry(key.clone()).or_default();
                let ours = |claim: &&Claim| claim.token == *token && claim.is_known;
                let known_us = claims.iter().filter(ours).map(|claim| claim.until_us).max();
                let until_us = (*until_us).max(known_us.unwrap_or(0));
                // An end that was lost and is later than this one is a claim of its own.
                claims.retain(|claim| claim.token != *token || claim.until_us > until_us);
                claims.push(Claim {
                    token: *token,
                    until_us,
                    is_known: true,
                    is_safe: self.is_machine,
                    is_restored: false,
                });
            }
            Event::Released { key, token } => {
                if let Some(claims) = self.claims.get_mut(key) {
                    claims.retain(|claim| claim.token != *token);
                }
            }
            Event::Granted { key, token, ends_us } => {
                self.greatest_token = self.greatest_token.max(*token);
                let granted = self.granted.entry(*token).or_insert_with(|| (key.clone(), 0));
                granted.1 = granted.1.max(*ends_us);
            }
            Event::Started { found, is_failing } => {
                self.is_started = !is_failing;
                self.recovery_us = found.recovery_us;
                for (key, token, ends_us) in &found.held {
                    if let Some(granted) = self.granted.get_mut(token) {
                        granted.1 = granted.1.max(*ends_us);
                    }
                    for claim in self.claims.get_mut(key).into_iter().flatten() {
                        // An extend may have been lost while the grant was not.
                        claim.is_restored |= claim.token == *token && *ends_us >= claim.until_us;
                    }
                }
                for claim in self.claims.values_mut().flatten() {
                    // What a start made of an end that it could not write down is no more than it was before.
                    let is_restored = std::mem::take(&mut claim.is_restored);
                    claim.is_known = is_restored && (claim.is_known || !is_failing);
                    claim.is_safe = claim.is_known && (claim.is_safe || !is_failing);
                }
            }
            Event::Recovered => {
                self.is_started = true;
                self.known_claims_are_safe();
            }
            Event::Stopped => {
                self.is_stopped = true;
                self.known_claims_are_safe();
            }
        }
    }

    fn known_claims_are_safe(&mut self) {
        for claim in self.claims.values_mut().flatten() {
            claim.is_safe = claim.is_known;
        }
    }

    /// The machine stopped: what was not safe may be lost, and nobody knows it for certain.
    pub(super) fn lose_power(&mut self) {
        for claim in self.claims.values_mut().flatten() {
            claim.is_known &= claim.is_safe;
        }
    }

    /// Whether anybody could be at work with another token of the key than `token`.
    pub(super) fn is_claimed_by_another(&self, key: &str, token: u64, now_us: u64) -> bool {
        self.claims
            .get(key)
            .is_some_and(|claims| claims.iter().any(|claim| claim.token != token && claim.until_us > now_us))
    }
}

/// What a start found, in the time of the world.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) held: Vec<(String, u64, u64)>,
    pub(super) recovery_us: Option<u64>,
    pub(super) first_token: u64,
    pub(super) is_damaged: bool,
}

/// How the process before came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crash {
    /// The machine stopped, and lost what was not synced.
    pub(super) power_loss: bool,
    /// The start takes this for another boot.
    pub(super) another_boot: bool,
}

impl Truth {
    /// Holds what a start found against the world at the crash.
    pub(super) fn check(&self, found: &Found, crash: Crash, restart_us: u64) -> Result<(), String> {
        if found.first_token <= self.greatest_token {
            return Err(format!("token {} after {}", found.first_token, self.greatest_token));
        }
        for (key, claims) in &self.claims {
            for claim in claims.iter().filter(|claim| claim.until_us > restart_us) {
                self.check_claim(key, claim, found, crash)?;
            }
        }
        for (key, token, ends_us) in &found.held {
            match self.granted.get(token) {
                Some((granted, latest_us)) if granted == key => {
                    if !crash.another_boot && self.is_started && ends_us > latest_us {
                        return Err(format!("{key} {token} ends at {ends_us}, later than ever given"));
                    }
                }
                _ => return Err(format!("{key} was never granted to {token}")),
            }
            if *ends_us > restart_us + MOST_US {
                return Err(format!("{key} {token} ends after any lease"));
            }
        }
        self.check_recovery(found, crash, restart_us)
    }

    fn check_claim(&self, key: &str, claim: &Claim, found: &Found, crash: Crash) -> Result<(), String> {
        let is_restored =
            |held: &&(String, u64, u64)| held.0 == *key && held.1 == claim.token && held.2 >= claim.until_us;
        if found.held.iter().any(|held| is_restored(&held)) {
            return Ok(());
        }
        if claim.is_known && (claim.is_safe || !crash.power_loss) {
            return Err(format!("{key} is lost: {claim:?}, found {found:?}"));
        }
        if found.recovery_us.is_none_or(|recovery_us| recovery_us < claim.until_us) {
            return Err(format!("{key} could be granted: {claim:?}, found {found:?}"));
        }
        Ok(())
    }

    /// Nobody waits for a recovery without a reason.
    fn check_recovery(&self, found: &Found, crash: Crash, restart_us: u64) -> Result<(), String> {
        let has_reason = found.is_damaged
            || !self.is_started
            || (crash.another_boot && !self.is_machine && !self.is_stopped);
        let older_us = self.recovery_us.filter(|&older_us| older_us > restart_us);
        // After another boot, what was left when it was written last runs from the start.
        let is_late =
            |found_us: u64| !crash.another_boot && older_us.is_none_or(|older_us| found_us > older_us);
        match found.recovery_us {
            Some(found_us) if found_us > restart_us + MOST_US => {
                Err(format!("recovering until {found_us}, longer than any lease"))
            }
            Some(found_us) if !has_reason && (is_late(found_us) || self.recovery_us.is_none()) => {
                Err(format!("recovering until {found_us} without a reason, {crash:?} {self:?}"))
            }
            _ => Ok(()),
        }
    }
}
