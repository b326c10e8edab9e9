//! A scenario: what a client is told to do, what its peer does meanwhile, and what must come of it.
//!
//! The files are `vectors/scenarios/*.json`, for clients in every language; docs/scenarios.md describes them.

use crate::peer::{Step, Timing};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// One scenario.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The same as the file's name.
    pub name: String,
    /// What it shows, for people.
    pub about: String,
    /// The rules of docs/client-contract.md that it shows.
    pub rules: Vec<u8>,
    /// The rows of docs/field-reports.md that it keeps.
    #[serde(default)]
    pub reports: Vec<String>,
    /// What a client must be able to do for it.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// The names of the peer's addresses, in the order in which the client is told them.
    #[serde(default = "one_server")]
    pub servers: Vec<String>,
    /// The client's options.
    #[serde(default)]
    pub client: Options,
    /// What the peer does.
    pub peer: Vec<Step>,
    /// What the program does.
    pub program: Vec<Do>,
}

/// What not every client can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// It knows how many bytes of a write the kernel has accepted (rule 6).
    ByteExact,
    /// Its outcomes are picked up by the program whenever it likes (rule 9).
    LateTake,
}

/// Options of a client; what is left out has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The answer allowance in milliseconds.
    pub allowance_ms: Option<u64>,
    /// The least margin in milliseconds.
    pub margin_ms: Option<u64>,
    /// Its name in the hello.
    pub name: Option<String>,
    /// Its API token.
    pub auth: Option<String>,
    /// These options must be refused as a usage error; the program is empty then.
    #[serde(default)]
    pub refused: bool,
}

/// One step of the program. `call` names an acquire and the ticket that comes of it. `is` is what must come of a step: a
/// class and its particulars, or as many of these words as matter. `after_ms` counts from the beginning of what is
/// awaited.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Do {
    /// Begins a call and goes on.
    Acquire {
        /// Its name.
        call: String,
        /// The key.
        #[serde(default = "usual_key")]
        key: String,
        /// The key has so many bytes: `key` is repeated.
        #[serde(default)]
        key_bytes: Option<usize>,
        /// How long to wait.
        wait_ms: u64,
        /// The lease.
        lease_ms: u64,
        /// So many calls of the same kind; for `outcomes`.
        #[serde(default = "once")]
        times: usize,
        /// Nobody looks at the outcome before the step that names it.
        #[serde(default)]
        late: bool,
    },
    /// Waits for the outcome of a call, which comes at its deadline at the latest.
    Outcome {
        /// The call.
        call: String,
        /// The outcome.
        is: String,
        /// When, from the beginning of the call.
        #[serde(default)]
        after_ms: Option<Timing>,
    },
    /// Waits for the outcomes of calls that began in one step, and counts them.
    Outcomes {
        /// The calls.
        call: String,
        /// For each outcome the least and the greatest number. There may be no other.
        are: BTreeMap<String, (usize, usize)>,
        /// When the last of them, from the beginning of the calls.
        #[serde(default)]
        after_ms: Option<Timing>,
    },
    /// Gives up a call whose outcome nobody has waited for.
    Cancel {
        /// The call.
        call: String,
    },
    /// Releases a ticket and waits for the result.
    Release {
        /// The call that gave it.
        call: String,
        /// The result.
        is: String,
        /// When.
        #[serde(default)]
        after_ms: Timing,
    },
    /// Extends a ticket and waits for the result.
    Extend {
        /// The call that gave it.
        call: String,
        /// The lease to ask for.
        lease_ms: u64,
        /// The result.
        is: String,
        /// When.
        #[serde(default)]
        after_ms: Timing,
    },
    /// Lets a ticket extend itself from now on.
    KeepAlive {
        /// The call that gave it.
        call: String,
        /// For so long at most.
        #[serde(default)]
        cap_ms: Option<u64>,
    },
    /// Waits until a ticket says that it is lost.
    Lost {
        /// The call that gave it.
        call: String,
        /// Why.
        is: String,
        /// When, from the beginning of the call.
        #[serde(default)]
        after_ms: Timing,
    },
    /// Asks a ticket whether it is valid.
    Valid {
        /// The call that gave it.
        call: String,
        /// What it must say.
        is: bool,
        /// For how long it must say that it still is, in milliseconds.
        #[serde(default)]
        for_ms: Option<Timing>,
    },
    /// Drops a ticket without a word.
    Drop {
        /// The call that gave it.
        call: String,
    },
    /// Ends a ticket and leaves the lock held.
    Leave {
        /// The call that gave it.
        call: String,
    },
    /// Does nothing.
    Pause {
        /// For so long.
        ms: u64,
    },
    /// Tells the peer something.
    Signal {
        /// What.
        name: String,
    },
    /// Waits until the peer has said something.
    Await {
        /// What.
        name: String,
    },
    /// Shuts the client down; every program ends like that, whether or not it says so.
    Shutdown {
        /// When it must be over.
        #[serde(default)]
        after_ms: Timing,
    },
}

impl Scenario {
    /// Reads one file.
    ///
    /// # Errors
    /// When the file cannot be read or is no scenario; the message names it.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let scenario =
            Self::parse(&text).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        if path.file_stem().is_none_or(|stem| stem != scenario.name.as_str()) {
            return Err(io::Error::other(format!("{}: its name is {}", path.display(), scenario.name)));
        }
        Ok(scenario)
    }

    /// Reads the text of one.
    ///
    /// # Errors
    /// When it is no scenario.
    pub fn parse(text: &str) -> io::Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    /// Every scenario of a directory, sorted by name.
    ///
    /// # Errors
    /// When one of the files is no scenario.
    pub fn read_all(dir: &Path) -> io::Result<Vec<Self>> {
        let entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }
}

/// Whether what came, such as `unsent budget_ended`, is what was expected: the same words, or the first of them.
pub fn is_expected(came: &str, expected: &str) -> bool {
    came.strip_prefix(expected).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Where the scenarios of every client are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/scenarios")
}

fn one_server() -> Vec<String> {
    vec!["a".to_owned()]
}

fn usual_key() -> String {
    "k".to_owned()
}

fn once() -> usize {
    1
}
