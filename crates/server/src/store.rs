//! What survives: from the configuration to a journal that is open, and what a start learns from it.

use std::sync::Arc;

use lockstead_engine::{Engine, Instant};
use lockstead_journal::{BootIdentity, FileStorage, Journal, Mode, OpenError, OpenOptions, Opened};

use crate::{Config, Durability, JournalConfig, ServeError, clock, millis_up, random};

/// A failing start shares its run number with the next, so its sessions are numbered from up here and the wall clock.
const FAILING_START: u64 = 1 << 62;
/// A run numbers its sessions in so many bits.
const SESSION_BITS: u32 = 40;

/// What a start begins with.
pub(crate) struct Store {
    pub(crate) engine: Engine,
    pub(crate) journal: Option<Journal>,
    /// 32 hexadecimal digits.
    pub(crate) server_id: String,
    /// The number of the first session: none is ever used again under this server id.
    pub(crate) first_session: u64,
}

impl Store {
    /// Opens what the configuration names. `wake` is called on another thread when the journal needs a turn.
    pub(crate) fn open(config: &Config, wake: impl Fn() + Send + 'static) -> Result<Self, ServeError> {
        match &config.durability {
            Durability::None { recovery_pause } => {
                let now = clock::now();
                let ends = recovery_pause.map(|pause| Instant(now.0 + millis_up(pause) + 1));
                if let Some(pause) = recovery_pause {
                    tracing::info!(?pause, "recovering: nothing is granted until the pause is over");
                }
                let engine = Engine::new(config.limits, hash_seed()?, now, ends);
                let server_id = hex(random_bytes()?);
                Ok(Self { engine, journal: None, server_id, first_session: 1 })
            }
            Durability::Journal(journal) => Self::restore(config, journal, wake),
        }
    }

    fn restore(
        config: &Config,
        journal: &JournalConfig,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, ServeError> {
        let began = clock::now();
        let failed = |source| ServeError::Open { dir: journal.dir.clone(), source };
        tracing::info!(dir = %journal.dir.display(), "reading the journal");
        // A directory that must hold a journal is not made.
        let open = if journal.require_data { FileStorage::open_existing } else { FileStorage::open };
        let storage = open(&journal.dir).map_err(|source| {
            failed(OpenError::Storage { what: "open the data directory".to_owned(), source })
        })?;
        let now = clock::now();
        let options = OpenOptions {
            boot: boot_identity(journal)?,
            require_data: journal.require_data,
            ..OpenOptions::new(journal.mode, now.0, clock::wall_us(), random_bytes()?)
        };
        let opened = Journal::open(Arc::new(storage), &options, wake).map_err(failed)?;
        let mut engine = Engine::new(config.limits, hash_seed()?, now, opened.recovery_ends_ms.map(Instant));
        for lease in &opened.leases {
            engine.restore(&lease.key, lease.token, Instant(lease.ends_ms));
        }
        if opened.journal.is_failing() {
            engine.storage_fails([], &mut Vec::new());
        }
        announce(journal, &opened, now, began);
        let first_session = if opened.journal.is_failing() {
            FAILING_START | clock::wall_us()
        } else {
            opened.run << SESSION_BITS | 1
        };
        Ok(Self { engine, server_id: hex(opened.server_id), first_session, journal: Some(opened.journal) })
    }
}

/// Says what the directory held and what follows from it.
fn announce(config: &JournalConfig, opened: &Opened, now: Instant, began: Instant) {
    for warning in &opened.warnings {
        tracing::warn!(dir = %config.dir.display(), "{warning}");
    }
    let mode = match config.mode {
        Mode::Process => "process",
        Mode::Machine => "machine",
    };
    tracing::info!(
        dir = %config.dir.display(),
        durability = mode,
        new = opened.is_new,
        another_boot = opened.another_boot,
        leases = opened.leases.len(),
        run = opened.run,
        took_ms = clock::now().0 - began.0,
        "the journal is open"
    );
    match opened.recovery_ends_ms {
        Some(ends_ms) => tracing::warn!(
            for_ms = ends_ms.saturating_sub(now.0),
            "recovering: grants that this server does not know may still be running, so nothing is granted until they \
             surely have ended; known leases can be extended and released"
        ),
        None => tracing::info!("no recovery: grants begin at once"),
    }
}

/// Which boot of the machine this is. A file that was named must be readable; the kernel may fail to tell.
fn boot_identity(config: &JournalConfig) -> Result<Option<BootIdentity>, ServeError> {
    match &config.boot_id_file {
        Some(path) => match BootIdentity::from_file(path) {
            Ok(identity) => Ok(Some(identity)),
            Err(source) => Err(ServeError::BootId { path: path.clone(), source }),
        },
        None => Ok(BootIdentity::read()
            .inspect_err(|error| {
                tracing::warn!(%error, "the kernel does not tell its boot id, so another boot is assumed");
            })
            .ok()),
    }
}

fn hash_seed() -> Result<[u64; 2], ServeError> {
    random::hash_seed().map_err(no_random)
}

fn random_bytes() -> Result<[u8; 16], ServeError> {
    random::bytes().map_err(no_random)
}

fn no_random(error: getrandom::Error) -> ServeError {
    ServeError::system("read random numbers")(error.into())
}

fn hex(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}
