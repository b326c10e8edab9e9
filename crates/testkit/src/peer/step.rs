//! The steps of a script, as they stand in a scenario (docs/scenarios.md, *The peer*).

use serde::Deserialize;
use std::time::Duration;

/// When something must happen, in milliseconds from an instant that the field's own page names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(u64, u64)")]
pub struct Timing {
    /// Not before this.
    pub earliest: Duration,
    /// Not after this.
    pub latest: Duration,
}

impl From<(u64, u64)> for Timing {
    fn from((earliest_ms, latest_ms): (u64, u64)) -> Self {
        Self { earliest: Duration::from_millis(earliest_ms), latest: Duration::from_millis(latest_ms) }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::from((0, 3_000))
    }
}

/// How the client ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// End of stream.
    Close,
    /// A reset.
    Reset,
    /// One of the two.
    Either,
}

/// How the peer answers acquires while it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Serve {
    /// With `A`, a token greater than all before.
    Grant,
    /// With `T`.
    Timeout,
}

/// One step of the peer. `on` names a connection, `at` an address; `after_ms` counts from the end of the step before.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Connections from now on hold few unread bytes.
    SmallBuffers {
        /// The address.
        #[serde(default = "first_address")]
        at: String,
    },
    /// Nobody listens any more.
    Refuse {
        /// The address.
        #[serde(default = "first_address")]
        at: String,
    },
    /// Listens again, at the same port.
    Listen {
        /// The address.
        #[serde(default = "first_address")]
        at: String,
    },
    /// Takes the next connection that the client has not ended yet.
    Accept {
        /// Its name from now on.
        on: String,
        /// The address.
        #[serde(default = "first_address")]
        at: String,
        /// When it must be there.
        #[serde(default)]
        after_ms: Timing,
    },
    /// Accepts, expects a hello, welcomes.
    Welcome {
        /// The connection's name from now on.
        on: String,
        /// The address.
        #[serde(default = "first_address")]
        at: String,
        /// The server's id as a number; 0 names none.
        #[serde(default = "usual_id")]
        id: u64,
        /// When the connection must be there.
        #[serde(default)]
        after_ms: Timing,
    },
    /// The next frames on a connection must be these.
    Expect {
        /// The connection.
        on: String,
        /// Frames, as docs/scenarios.md writes them.
        frames: Vec<String>,
        /// The order does not matter.
        #[serde(default)]
        any_order: bool,
        /// When the last of them must be there.
        #[serde(default)]
        after_ms: Timing,
    },
    /// Writes these frames in one go, or cut.
    Answer {
        /// The connection.
        on: String,
        /// Frames, as docs/scenarios.md writes them.
        frames: Vec<String>,
        /// Only so many bytes of them, from the beginning.
        #[serde(default)]
        first_bytes: Option<usize>,
        /// A pause of 5 ms before each of these positions.
        #[serde(default)]
        cuts: Vec<usize>,
    },
    /// Answers each request in the plainest way, until the program's signal.
    Serve {
        /// The connection.
        on: String,
        /// What acquires get.
        acquires: Serve,
        /// The waits that may stand in them, in seconds; empty: any.
        #[serde(default)]
        waits: Vec<u64>,
        /// The signal.
        until: String,
    },
    /// Ends the stream towards the client and reads on.
    Close {
        /// The connection.
        on: String,
    },
    /// Resets.
    Reset {
        /// The connection.
        on: String,
    },
    /// The client must end a connection; whatever it said before is expected by other steps.
    ExpectClose {
        /// The connection.
        on: String,
        /// How.
        by: Ending,
        /// When.
        #[serde(default)]
        after_ms: Timing,
    },
    /// No frame, no end and no new connection.
    ExpectNothing {
        /// For so long.
        ms: u64,
    },
    /// Reads nothing from a connection, so that the client can send no more than the kernel takes.
    StopReading {
        /// The connection.
        on: String,
    },
    /// Reads again.
    ReadOn {
        /// The connection.
        on: String,
    },
    /// Does nothing.
    Pause {
        /// For so long.
        ms: u64,
    },
    /// Tells the program something.
    Signal {
        /// What.
        name: String,
    },
    /// Waits until the program has said something.
    Await {
        /// What.
        name: String,
    },
}

impl Step {
    /// Whether the step belongs before the client's start when it stands at the beginning.
    pub(super) fn sets_up(&self) -> bool {
        matches!(self, Step::SmallBuffers { .. } | Step::Refuse { .. })
    }
}

fn first_address() -> String {
    "a".to_owned()
}

fn usual_id() -> u64 {
    1
}
