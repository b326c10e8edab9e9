//! What the tests share: random numbers, a disk, and a server's few calls in a handful of lines.

use std::sync::Arc;

use crate::*;

/// The longest lease there is, in milliseconds, with the millisecond that rounding costs.
pub(super) const LONGEST_MS: u64 = 255_001;

/// Repeatable random numbers (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// An opened journal over a disk in memory, whose jobs are done when told.
pub(super) struct Bench {
    pub(super) storage: Arc<MemoryStorage>,
    pub(super) manual: Manual,
    pub(super) journal: Journal,
    pub(super) leases: Vec<Lease>,
    pub(super) recovery_ends_ms: Option<u64>,
    pub(super) warnings: Vec<Warning>,
    pub(super) run: u64,
    pub(super) server_id: [u8; 16],
    pub(super) another_boot: bool,
    pub(super) first_token: u64,
}

pub(super) fn options(mode: Mode, boot: &str, now_ms: u64) -> OpenOptions {
    let mut random = [0; 16];
    let mut rng = Rng(now_ms);
    random.fill_with(|| rng.draw() as u8);
    OpenOptions { boot: BootIdentity::new(boot), ..OpenOptions::new(mode, now_ms, 0, random) }
}

impl Bench {
    pub(super) fn try_open(disk: Disk, options: &OpenOptions) -> Result<Self, OpenError> {
        Self::open_in(Arc::new(MemoryStorage::new(disk)), options)
    }

    pub(super) fn open_in(storage: Arc<MemoryStorage>, options: &OpenOptions) -> Result<Self, OpenError> {
        let shared: Arc<dyn Storage> = Arc::clone(&storage) as Arc<dyn Storage>;
        let manual = Manual::new(Arc::clone(&shared));
        let opened = Journal::open_with(shared, options, Box::new(manual.clone()))?;
        let mut journal = opened.journal;
        let first_token = journal.take_tokens(0).map_or(0, |block| block.first);
        Ok(Self {
            storage,
            manual,
            journal,
            leases: opened.leases,
            recovery_ends_ms: opened.recovery_ends_ms,
            warnings: opened.warnings,
            run: opened.run,
            server_id: opened.server_id,
            another_boot: opened.another_boot,
            first_token,
        })
    }

    pub(super) fn open(disk: Disk, options: &OpenOptions) -> Self {
        match Self::try_open(disk, options) {
            Ok(bench) => bench,
            Err(error) => panic!("{error}"),
        }
    }

    /// A turn in which `decide` happens, and everything is done that follows from it.
    pub(super) fn turn<T>(&mut self, now_ms: u64, decide: impl FnOnce(&mut Journal) -> T) -> T {
        self.journal.turn(now_ms);
        let result = decide(&mut self.journal);
        self.journal.flush();
        self.work(now_ms);
        result
    }

    /// Does all jobs, and those that follow.
    pub(super) fn work(&mut self, now_ms: u64) {
        while self.manual.step() {
            self.journal.turn(now_ms);
            self.journal.flush();
        }
    }

    pub(super) fn changes(&mut self) -> Vec<Change> {
        std::iter::from_fn(|| self.journal.next_change()).collect()
    }

    pub(super) fn held(&self) -> Vec<(&str, u64, u64)> {
        held(&self.leases)
    }

    /// The disk as a process that is killed now leaves it.
    pub(super) fn killed(self) -> Disk {
        self.storage.disk()
    }

    /// The disk as a power loss leaves it that keeps nothing that was not synced.
    pub(super) fn cut_off(self) -> Disk {
        self.storage.disk().after_power_loss(&mut || 0)
    }
}

pub(super) fn held(leases: &[Lease]) -> Vec<(&str, u64, u64)> {
    leases.iter().map(|lease| (&*lease.key, lease.token, lease.ends_ms)).collect()
}

/// An end on a clock at which `lease_s` was given.
pub(super) fn end(now_ms: u64, lease_s: u64) -> u64 {
    now_ms + lease_s * 1_000 + 1
}

/// Decides so much that means nothing that a checkpoint is due if it is at so many bytes.
pub(super) fn outgrow(journal: &mut Journal, bytes: u64) {
    let nobody = "n".repeat(100);
    for _ in 0..bytes / 200 {
        journal.granted(&nobody, 1, 0);
        journal.freed(&nobody, 1);
    }
}

/// The newest segment of a disk, and its bytes.
pub(super) fn newest(disk: &Disk) -> (String, Vec<u8>) {
    let name = disk.names().filter(|name| name.ends_with(".journal")).last().expect("there is a segment");
    (name.to_owned(), disk.content(name).expect("it is there").to_vec())
}
