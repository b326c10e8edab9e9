//! `lockstead bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{ClientArgs, OutputArgs};
use crate::values;

/// `lockstead bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each connection has --pipeline requests in flight and sends the next when one is answered.

  pairs       acquires and releases keys that nobody else wants
  handoff     all want the same key; who gets it releases it at once and asks again. A hand-off lasts \
from before the release is sent until the next has its grant; those before it ask again meanwhile
  wait        twenty for each key, who hold it for 100 ms and wait for 1 s: about half of the waits end \
without the lock. A timeout's latency is how late it comes
  keys        takes --keys locks, then gives back and takes again one after the other
  keep-alive  takes --keys locks, then extends one after the other

Without --keys: as many as requests are in flight (pairs), 1 (handoff), one for each twenty requests \
in flight (wait), 100000 (keys), 10000 (keep-alive).

Its keys begin with `bench-` and a random number, so it touches no lock of anybody else; but it takes \
all the speed that it can get. What it holds it gives back at the end, and on ctrl-C, which ends it \
early; a second ctrl-C ends it at once and leaves its locks to their leases, at most 255 s. It speaks \
to the server in the clear, as TLS is not built yet. Generator and server share the processors of one \
machine; to measure a server alone, run it elsewhere.

Prints one line for each kind of operation. With --json: {\"workload\": ...} with what was asked for, \
`operations` (each with `operation`, `count`, `per_second`, and `latency_us` with p50, p90, p99, p99_9 \
and max), `errors` by kind, `ended_leases` and `left_held`.

Exit status: 0 every answer was one that belongs to the workload, 1 some were not, 122 no server could \
be reached, 125 any other failure.

Examples:
  lockstead bench
  lockstead bench pairs --connections 16 --pipeline 32 --duration 30s
  lockstead bench handoff --connections 64 --plot handoff.svg
  lockstead bench keys --keys 1000000 --pipeline 16 --json")]
pub struct BenchArgs {
    /// What to do
    #[arg(value_enum, default_value = "pairs", hide_possible_values = true, value_name = "WORKLOAD")]
    pub workload: Workload,
    /// How many connections to open
    #[arg(
        long,
        env = "LOCKSTEAD_CONNECTIONS",
        value_name = "N",
        default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..=60_000)
    )]
    pub connections: u32,
    /// How many requests each connection has in flight
    #[arg(
        long,
        env = "LOCKSTEAD_PIPELINE",
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    pub pipeline: u32,
    /// How many different keys to use [default: by workload, see below]
    #[arg(
        long,
        env = "LOCKSTEAD_KEYS",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100_000_000)
    )]
    pub keys: Option<u32>,
    /// How many bytes a key has, 24 to 1024
    #[arg(
        long,
        env = "LOCKSTEAD_KEY_SIZE",
        value_name = "BYTES",
        default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(24..=1024)
    )]
    pub key_size: u16,
    /// How long to measure
    #[arg(
        long,
        env = "LOCKSTEAD_DURATION",
        value_name = "DURATION",
        default_value = "10s",
        value_parser = values::duration
    )]
    pub duration: Duration,
    /// Draw the distribution of the latencies into this SVG file
    #[arg(long, env = "LOCKSTEAD_PLOT", value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub client: ClientArgs,
}

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Acquire and release, without contention.
    Pairs,
    /// Many want few keys, and hold them for no time.
    Handoff,
    /// Many wait, and many of them in vain.
    Wait,
    /// Many keys are held.
    Keys,
    /// Many keys are held and extended.
    KeepAlive,
}

impl Workload {
    /// The word that is typed for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Handoff => "handoff",
            Self::Wait => "wait",
            Self::Keys => "keys",
            Self::KeepAlive => "keep-alive",
        }
    }
}
