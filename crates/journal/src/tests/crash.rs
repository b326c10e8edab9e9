//! Random runs, and a crash at every place in each.
//!
//! A run is a chain of processes on one disk. For every write, sync and change of a name that a process made, the disk
//! is taken as it was before it (and in the middle of a write); then the process is killed, or the machine loses its
//! power; then a server is started, and what it finds is held against what the holders were told.

use std::sync::Arc;
use std::thread;

use crate::canary::{self, Canary};
use crate::tests::bench::Rng;
use crate::tests::model::{Boot, Habits, Model, Setting, found};
use crate::tests::truth::{Crash, Event, Truth};
use crate::*;

/// Operations of a run that decide something: grants, extends and releases.
const OPERATIONS: usize = 200;
/// Runs of each kind without `JOURNAL_CRASH_RUNS`.
const RUNS: u64 = 300;

/// What a run does, but for chance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    pub(super) habits: Habits,
    pub(super) faults: bool,
}

/// What the runs went through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Places at which a process was killed and the power taken.
    boundaries: u64,
    /// Starts after that; how many of them recovered, and how many because of a damaged end.
    starts: u64,
    recovering: u64,
    damaged: u64,
    /// Segments that got their names: one for each start, the others are checkpoints while serving.
    processes: u64,
    segments: u64,
    /// Times that a checkpoint ended a failure.
    recovered: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.boundaries += other.boundaries;
        self.starts += other.starts;
        self.recovering += other.recovering;
        self.damaged += other.damaged;
        self.processes += other.processes;
        self.segments += other.segments;
        self.recovered += other.recovered;
    }
}

/// A process that has come to its end: what happened, when it ended, and how much it decided.
struct Ended {
    events: Vec<(usize, Event)>,
    now_us: u64,
    decided: usize,
}

/// One run from a seed.
pub(super) struct Run {
    rng: Rng,
    plan: Plan,
    boots: u64,
    tally: Tally,
}

impl Run {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        Self { rng: Rng(seed), plan, boots: 0, tally: Tally::default() }
    }

    fn new_boot(&mut self, now_us: u64) -> Boot {
        self.boots += 1;
        // The machine has been up for a while, or just came up; its clock has nothing to do with the last one.
        let up_us = if self.rng.one_in(2) { self.rng.below(5_000_000) } else { self.rng.below(900_000_000) };
        Boot { zero_us: now_us - up_us.min(now_us), identity: self.boots }
    }

    fn setting(&mut self, boot: Boot) -> Setting {
        Setting {
            mode: if self.rng.one_in(2) { Mode::Process } else { Mode::Machine },
            boot,
            knows_boot: !self.rng.one_in(12),
            max_lease_s: [3, 10, 30, 255][self.rng.below(4) as usize],
            checkpoint_bytes: 300 << self.rng.below(5),
            habits: self.plan.habits,
        }
    }

    /// The whole run.
    pub(super) fn go(&mut self) -> Result<(), String> {
        let mut disk = Disk::default();
        let mut truth = Truth { now_us: 1_000_000_000_000, ..Truth::default() };
        let mut boot = self.new_boot(truth.now_us);
        let mut left = OPERATIONS;
        while left > 0 {
            let setting = self.setting(boot);
            let turns = 10 + self.rng.below(300);
            let storage = Arc::new(MemoryStorage::new(disk.clone()));
            let Ended { events, now_us, decided } = self.process(&storage, setting, &truth, turns)?;
            left = left.saturating_sub(decided);
            self.crash_everywhere(&disk, &storage.log(), &events, setting, &mut truth)?;
            truth.now_us = now_us;
            disk = storage.disk();
            if self.rng.one_in(3) {
                disk = disk.after_power_loss(&mut || self.rng.draw());
                truth.lose_power();
                boot = self.new_boot(now_us);
            }
            let longest_us = if self.rng.one_in(3) { 60_000_000 } else { 4_000_000 };
            let pause_us = self.rng.below(longest_us);
            truth.happen(&Event::Time(now_us + pause_us));
        }
        Ok(())
    }

    /// One process, to its end.
    fn process(
        &mut self,
        storage: &Arc<MemoryStorage>,
        setting: Setting,
        truth: &Truth,
        turns: u64,
    ) -> Result<Ended, String> {
        let mut truth = truth.clone();
        truth.begin(setting.mode == Mode::Machine);
        if self.plan.faults && self.rng.one_in(6) {
            self.make_faulty(storage);
        }
        let mut model = match Model::start(storage, setting, truth.now_us) {
            Ok(model) => model,
            // An empty directory that cannot be written is an error.
            Err(OpenError::Storage { .. }) if self.plan.faults => {
                return Ok(Ended { events: Vec::new(), now_us: truth.now_us, decided: 0 });
            }
            Err(error) => return Err(format!("start: {error}")),
        };
        let mut heard = 0;
        for _ in 0..turns {
            for (_, event) in &model.events[heard..] {
                truth.happen(event);
            }
            heard = model.events.len();
            match self.rng.below(if self.plan.faults { 40 } else { 1_000_000 }) {
                0 => self.make_faulty(storage),
                1..10 => storage.heal(),
                _ => {}
            }
            model.step(&mut self.rng, &truth)?;
        }
        storage.heal();
        if self.rng.one_in(4) {
            model.stop();
        }
        Ok(Ended { events: model.events, now_us: model.now_us, decided: model.decided })
    }

    fn make_faulty(&mut self, storage: &MemoryStorage) {
        use Fault::{Append, Create, Rename, Sync, SyncDirectory, Unlink};
        let faults = [Append, Append, Append, Sync, Sync, Create, Rename, SyncDirectory, Unlink];
        let fault = faults[self.rng.below(faults.len() as u64) as usize];
        storage.fail(fault, 1 + self.rng.below(3) as u32);
    }

    /// Crashes a process at every place. Leaves the truth as it was at its end.
    fn crash_everywhere(
        &mut self,
        before: &Disk,
        log: &[Op],
        events: &[(usize, Event)],
        setting: Setting,
        truth: &mut Truth,
    ) -> Result<(), String> {
        truth.begin(setting.mode == Mode::Machine);
        self.tally.processes += 1;
        self.tally.segments += log.iter().filter(|op| matches!(op, Op::Rename { .. })).count() as u64;
        let is_recovered = |(_, event): &&(usize, Event)| matches!(event, Event::Recovered);
        self.tally.recovered += events.iter().filter(is_recovered).count() as u64;
        let mut disk = before.clone();
        let mut events = events.iter().peekable();
        for place in 0..=log.len() {
            while let Some((_, event)) = events.next_if(|(at, _)| *at <= place) {
                truth.happen(event);
            }
            let at = |error| format!("place {place} of {}: {error}", log.len());
            self.tally.boundaries += 1;
            self.crash(&disk, setting, truth).map_err(at)?;
            let Some(op) = log.get(place) else { break };
            if let Op::Append { file, bytes } = op
                && bytes.len() > 1
            {
                let torn = 1 + self.rng.below(bytes.len() as u64 - 1) as usize;
                let mut disk = disk.clone();
                disk.apply(&Op::Append { file: *file, bytes: bytes[..torn].to_vec() });
                self.crash(&disk, setting, truth)
                    .map_err(|error| format!("torn at {torn}, {}", at(error)))?;
            }
            disk.apply(op);
        }
        Ok(())
    }

    /// Kills the process, and takes the power from the machine; starts a server after each.
    fn crash(&mut self, disk: &Disk, setting: Setting, truth: &Truth) -> Result<(), String> {
        let killed = |error| format!("killed, {error}");
        self.restart(disk.clone(), setting, truth, false).map_err(killed)?;
        let disk = disk.after_power_loss(&mut || self.rng.draw());
        self.restart(disk, setting, truth, true).map_err(|error| format!("cut off, {error}"))
    }

    fn restart(&mut self, disk: Disk, last: Setting, truth: &Truth, power_loss: bool) -> Result<(), String> {
        let restart_us = truth.now_us + self.rng.below(2_000_000);
        let boot = if power_loss { self.new_boot(restart_us) } else { last.boot };
        let setting = self.setting(boot);
        let another_boot = power_loss || !setting.knows_boot || !last.knows_boot;
        let crash = Crash { power_loss, another_boot };
        let mut started = disk.clone();
        let log = self.start_and_check(disk, setting, truth, crash, restart_us)?;
        if !self.rng.one_in(4) {
            return Ok(());
        }
        // Another crash in the middle of the start or right after it, with nothing said in between.
        let place = if self.rng.one_in(2) { log.len() } else { self.rng.below(log.len() as u64) as usize };
        log[..place].iter().for_each(|op| started.apply(op));
        let mut truth = truth.clone();
        truth.is_started = false;
        let again_us = restart_us + self.rng.below(2_000_000);
        let disk = started.after_power_loss(&mut || self.rng.draw());
        let setting = {
            let boot = self.new_boot(again_us);
            self.setting(boot)
        };
        // What the start found is on stable storage with its checkpoint.
        let crash = Crash { power_loss: power_loss || place < log.len(), another_boot: true };
        self.start_and_check(disk, setting, &truth, crash, again_us)
            .map(drop)
            .map_err(|error| format!("cut off again at {place} of {} of the start: {error}", log.len()))
    }

    /// Starts a server, and gives back what that did to the disk.
    fn start_and_check(
        &mut self,
        disk: Disk,
        setting: Setting,
        truth: &Truth,
        crash: Crash,
        restart_us: u64,
    ) -> Result<Vec<Op>, String> {
        self.tally.starts += 1;
        let storage = Arc::new(MemoryStorage::new(disk));
        let shared: Arc<dyn Storage> = Arc::clone(&storage) as Arc<dyn Storage>;
        let manual = Box::new(Manual::new(Arc::clone(&shared)));
        let mut opened = Journal::open_with(shared, &setting.options(restart_us), manual)
            .map_err(|error| format!("start: {error}"))?;
        let found = found(&mut opened, setting.boot);
        self.tally.recovering += u64::from(found.recovery_us.is_some());
        self.tally.damaged += u64::from(found.is_damaged);
        truth.check(&found, crash, restart_us)?;
        Ok(storage.log())
    }
}

/// Runs from the first seed on; the first failure, with its seed.
pub(super) fn runs(first: u64, runs: u64, plan: Plan, canary: Option<Canary>) -> Result<Tally, String> {
    canary::plant(canary);
    let mut tally = Tally::default();
    let result = (first..first + runs).try_for_each(|seed| {
        let mut run = Run::new(seed, plan);
        let result = run.go().map_err(|error| format!("seed {seed}: {error}"));
        tally.add(run.tally);
        result
    });
    canary::plant(None);
    result.map(|()| tally)
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// The runs of both kinds on all cores. `JOURNAL_CRASH_RUNS` says how many, `JOURNAL_CRASH_SEED` from which seed on.
fn on_all_cores(plan: Plan) -> Tally {
    let (all, seed) = (number("JOURNAL_CRASH_RUNS", RUNS), number("JOURNAL_CRASH_SEED", 1));
    let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = all.div_ceil(cores);
    let tallies: Vec<Result<Tally, String>> = thread::scope(|scope| {
        let start = |core| scope.spawn(move || runs(seed + core * share, share, plan, None));
        let threads: Vec<_> = (0..cores).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut sum = Tally::default();
    for tally in tallies {
        sum.add(tally.unwrap_or_else(|error| panic!("{error}")));
    }
    println!("{} runs of {OPERATIONS} operations: {sum:?}", cores * share);
    sum
}

#[test]
fn nothing_is_lost_wherever_a_run_crashes() {
    let tally = on_all_cores(Plan::default());
    assert!(tally.segments > 2 * tally.processes && tally.recovering > 0 && tally.damaged > 0, "{tally:?}");
}

#[test]
fn nothing_is_lost_wherever_a_run_crashes_on_a_disk_that_fails() {
    let tally = on_all_cores(Plan { faults: true, ..Plan::default() });
    assert!(tally.recovered > 0 && tally.segments > tally.processes, "{tally:?}");
}
