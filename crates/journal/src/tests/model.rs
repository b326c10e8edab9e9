//! A small lock server: a table in the place of the engine, the journal's calls in the order in which a server makes
//! them, and a record of what it told whom.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::tests::bench::{Rng, options};
use crate::tests::truth::{Event, Found, Truth};
use crate::*;

/// What a model does wrong, so that the checks find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Habits {
    /// Answers before the write returns.
    pub(super) answers_early: bool,
    /// Its disk forgets to sync the directory.
    pub(super) forgets_names: bool,
}

/// One boot of the machine: the clock's zero in the time of the world, and its identity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boot {
    pub(super) zero_us: u64,
    pub(super) identity: u64,
}

impl Boot {
    pub(super) fn clock_ms(self, now_us: u64) -> u64 {
        (now_us - self.zero_us) / 1_000
    }

    pub(super) fn world_us(self, clock_ms: u64) -> u64 {
        self.zero_us + clock_ms * 1_000
    }
}

struct Held {
    token: u64,
    ends_ms: u64,
    is_answered: bool,
}

struct Pending {
    position: Position,
    key: String,
    token: u64,
    until_us: u64,
}

/// A process of the server.
pub(super) struct Model {
    pub(super) storage: Arc<MemoryStorage>,
    manual: Manual,
    journal: Option<Journal>,
    boot: Boot,
    max_lease_s: u64,
    habits: Habits,
    pub(super) now_us: u64,
    held: BTreeMap<String, Held>,
    pending: Vec<Pending>,
    recovery_ends_ms: Option<u64>,
    tokens: std::ops::Range<u64>,
    copied: Option<(u64, Option<String>)>,
    /// Operations that decided something.
    pub(super) decided: usize,
    /// What happened, each with the length of the disk's log at that time.
    pub(super) events: Vec<(usize, Event)>,
}

/// A disk that forgets to sync its names.
struct Forgetful(Arc<MemoryStorage>);

impl Storage for Forgetful {
    fn lock(&self) -> std::io::Result<bool> {
        self.0.lock()
    }
    fn is_taken(&self) -> std::io::Result<bool> {
        self.0.is_taken()
    }
    fn is_volatile(&self) -> std::io::Result<bool> {
        self.0.is_volatile()
    }
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.0.list()
    }
    fn read(&self, name: &str) -> std::io::Result<Vec<u8>> {
        self.0.read(name)
    }
    fn create(&self, name: &str) -> std::io::Result<Arc<dyn AppendFile>> {
        self.0.create(name)
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(from, to)
    }
    fn unlink(&self, name: &str) -> std::io::Result<()> {
        self.0.unlink(name)
    }
    fn sync_directory(&self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How a process is started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) mode: Mode,
    pub(super) boot: Boot,
    pub(super) knows_boot: bool,
    pub(super) max_lease_s: u64,
    pub(super) checkpoint_bytes: u64,
    pub(super) habits: Habits,
}

impl Setting {
    pub(super) fn options(&self, now_us: u64) -> OpenOptions {
        let now_ms = self.boot.clock_ms(now_us);
        let identity = self.boot.identity.to_string();
        let mut options = options(self.mode, &identity, now_ms);
        options.checkpoint_bytes = self.checkpoint_bytes;
        options.boot = options.boot.filter(|_| self.knows_boot);
        options
    }
}

/// What a start found, in the time of the world.
pub(super) fn found(opened: &mut Opened, boot: Boot) -> Found {
    let held = opened.leases.iter();
    let is_damaged =
        |warning: &Warning| matches!(warning, Warning::Dropped { why, .. } if why.contains("255 s"));
    Found {
        held: held.map(|lease| (lease.key.to_string(), lease.token, boot.world_us(lease.ends_ms))).collect(),
        recovery_us: opened.recovery_ends_ms.map(|ends_ms| boot.world_us(ends_ms)),
        first_token: opened.journal.take_tokens(0).map_or(u64::MAX, |block| block.first),
        is_damaged: opened.warnings.iter().any(is_damaged),
    }
}

impl Model {
    pub(super) fn start(
        storage: &Arc<MemoryStorage>,
        setting: Setting,
        now_us: u64,
    ) -> Result<Self, OpenError> {
        let shared: Arc<dyn Storage> = if setting.habits.forgets_names {
            Arc::new(Forgetful(Arc::clone(storage)))
        } else {
            Arc::clone(storage) as Arc<dyn Storage>
        };
        let manual = Manual::new(Arc::clone(&shared));
        let mut opened = Journal::open_with(shared, &setting.options(now_us), Box::new(manual.clone()))?;
        let found = found(&mut opened, setting.boot);
        let is_failing = opened.journal.is_failing();
        let first = if is_failing { 0 } else { found.first_token };
        let held = opened.leases.iter().map(|lease| {
            (lease.key.to_string(), Held { token: lease.token, ends_ms: lease.ends_ms, is_answered: true })
        });
        let started = Event::Started { found, is_failing };
        Ok(Self {
            storage: Arc::clone(storage),
            manual,
            held: held.collect(),
            journal: Some(opened.journal),
            boot: setting.boot,
            max_lease_s: setting.max_lease_s,
            habits: setting.habits,
            now_us,
            pending: Vec::new(),
            recovery_ends_ms: opened.recovery_ends_ms,
            tokens: first..if is_failing { 0 } else { first + (1 << 18) },
            copied: None,
            decided: 0,
            events: vec![(storage.log_len(), started)],
        })
    }

    fn journal(&mut self) -> &mut Journal {
        self.journal.as_mut().expect("it has not been stopped")
    }

    fn now_ms(&self) -> u64 {
        self.boot.clock_ms(self.now_us)
    }

    fn tell(&mut self, event: Event) {
        self.events.push((self.storage.log_len(), event));
    }

    /// A turn with one operation, drawn by chance.
    pub(super) fn step(&mut self, rng: &mut Rng, truth: &Truth) -> Result<(), String> {
        self.now_us += match rng.below(8) {
            0 => 0,
            1 => rng.below(3_000_000),
            2 => rng.below(300_000),
            _ => rng.below(30_000),
        };
        self.tell(Event::Time(self.now_us));
        let now_ms = self.now_ms();
        self.journal().turn(now_ms);
        self.take_changes();
        self.answer();
        if rng.one_in(2) {
            self.do_jobs(rng.below(3));
        }
        self.expire();
        self.operate(rng, truth)?;
        self.copy(rng.below(3));
        if self.habits.answers_early {
            self.answer();
        }
        self.journal().flush();
        if let Some(at_ms) = self.journal().deadline_ms().filter(|&at_ms| at_ms <= now_ms) {
            return Err(format!(
                "at {now_ms} a turn is due at {at_ms}: the server would turn without a pause"
            ));
        }
        self.take_changes();
        self.answer();
        if rng.one_in(3) {
            self.do_jobs(1 + rng.below(3));
        }
        Ok(())
    }

    /// Lets the disk work; what becomes of it is heard in the next turn.
    fn do_jobs(&mut self, jobs: u64) {
        for _ in 0..jobs {
            self.manual.step();
        }
    }

    fn expire(&mut self) {
        let now_ms = self.now_ms();
        let due = self.held.iter().filter(|(_, held)| held.ends_ms <= now_ms);
        let due: Vec<(String, u64)> = due.map(|(key, held)| (key.clone(), held.token)).collect();
        for (key, token) in due {
            self.held.remove(&key);
            self.journal().freed(&key, token);
        }
    }

    fn operate(&mut self, rng: &mut Rng, truth: &Truth) -> Result<(), String> {
        let key = format!("k{}", rng.below(6));
        let longest_s = if rng.one_in(16) { self.max_lease_s } else { 3 };
        let lease_s = 1 + rng.below(longest_s);
        match rng.below(10) {
            0..=4 => self.acquire(&key, lease_s, truth)?,
            5..=6 => self.release(&key),
            7..=8 => self.extend(&key, lease_s),
            _ if rng.one_in(3) => {
                // As if the block were used up.
                if let Some(block) = self.journal().take_tokens(0) {
                    self.tokens = block.first..block.first + block.count;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn acquire(&mut self, key: &str, lease_s: u64, truth: &Truth) -> Result<(), String> {
        let now_ms = self.now_ms();
        let is_recovering = self.recovery_ends_ms.is_some_and(|ends_ms| now_ms < ends_ms);
        if is_recovering || self.held.contains_key(key) || self.journal().is_failing() {
            return Ok(());
        }
        if self.tokens.is_empty() {
            let Some(block) = self.journal().take_tokens(0) else { return Ok(()) };
            self.tokens = block.first..block.first + block.count;
        }
        let token = self.tokens.next().expect("there are some");
        if truth.is_claimed_by_another(key, token, self.now_us) {
            return Err(format!("{key} is granted to {token}, but {:?}", truth.claims[key]));
        }
        if token <= truth.greatest_token {
            return Err(format!("token {token} after {}", truth.greatest_token));
        }
        let ends_ms = now_ms + lease_s * 1_000 + 1;
        self.tell(Event::Granted { key: key.to_owned(), token, ends_us: self.boot.world_us(ends_ms) });
        self.held.insert(key.to_owned(), Held { token, ends_ms, is_answered: false });
        self.decided += 1;
        let position = self.journal().granted(key, token, ends_ms);
        self.owe(position, key, token, lease_s);
        Ok(())
    }

    fn owe(&mut self, position: Position, key: &str, token: u64, lease_s: u64) {
        let until_us = self.now_us + lease_s * 1_000_000;
        self.pending.push(Pending { position, key: key.to_owned(), token, until_us });
    }

    fn release(&mut self, key: &str) {
        let Some(held) = self.held.get(key).filter(|held| held.is_answered) else { return };
        let token = held.token;
        self.held.remove(key);
        self.decided += 1;
        self.journal().freed(key, token);
        self.tell(Event::Released { key: key.to_owned(), token });
    }

    fn extend(&mut self, key: &str, lease_s: u64) {
        let ends_ms = self.now_ms() + lease_s * 1_000 + 1;
        let world_us = self.boot.world_us(ends_ms);
        if self.journal().is_failing() {
            return;
        }
        let Some(held) = self.held.get_mut(key).filter(|held| held.is_answered) else { return };
        let token = held.token;
        let moves = ends_ms > held.ends_ms;
        held.ends_ms = held.ends_ms.max(ends_ms);
        let position = if moves {
            self.tell(Event::Granted { key: key.to_owned(), token, ends_us: world_us });
            self.decided += 1;
            self.journal().extended(key, token, ends_ms)
        } else {
            self.journal().position()
        };
        self.owe(position, key, token, lease_s);
    }

    /// Hands in a few copies, if they are wanted.
    fn copy(&mut self, copies: u64) {
        for _ in 0..copies {
            let Some(checkpoint) = self.journal().checkpoint() else { return };
            if !self.journal().wants_copy() {
                return;
            }
            let after = self.copied.take().filter(|(of, _)| *of == checkpoint).and_then(|(_, after)| after);
            let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.held.range::<String, _>((from, Bound::Unbounded)).next();
            let next = next.map(|(key, held)| (key.clone(), held.token, held.ends_ms));
            match next {
                Some((key, token, ends_ms)) => {
                    self.journal().copy(&key, token, ends_ms);
                    self.copied = Some((checkpoint, Some(key)));
                }
                None => return self.journal().end_copies(),
            }
        }
    }

    fn take_changes(&mut self) {
        while let Some(change) = self.journal().next_change() {
            match change {
                Change::Failed { after, .. } => {
                    let is_lost = |pending: &Pending| pending.position > after;
                    let lost: Vec<Pending> =
                        self.pending.extract_if(.., |pending| is_lost(pending)).collect();
                    for Pending { key, token, .. } in lost {
                        let is_grant = |held: &&Held| held.token == token && !held.is_answered;
                        if self.held.get(&key).filter(is_grant).is_some() {
                            self.held.remove(&key);
                            self.journal().freed(&key, token);
                        }
                    }
                }
                Change::Recovered => self.tell(Event::Recovered),
                Change::NotDeleted { .. } => {}
            }
        }
    }

    fn answer(&mut self) {
        let early = self.habits.answers_early;
        let reached = if early { self.journal().position() } else { self.journal().reached() };
        let out: Vec<Pending> = self.pending.extract_if(.., |pending| pending.position <= reached).collect();
        for Pending { key, token, until_us, .. } in out {
            if let Some(held) = self.held.get_mut(&key).filter(|held| held.token == token) {
                held.is_answered = true;
                self.tell(Event::Answered { key, token, until_us });
            }
        }
    }

    /// The clean stop: what was decided is written, and what waits for it is answered.
    pub(super) fn stop(&mut self) {
        let journal = self.journal.take().expect("it is stopped once");
        if journal.stop().is_ok() {
            self.tell(Event::Stopped);
        }
    }
}
