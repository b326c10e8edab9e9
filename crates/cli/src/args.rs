//! What can be typed: every command with its options. Each long option can also be set by an environment variable,
//! `LOCKSTEAD_` and the option's name; the command line beats the environment.

mod bench;
mod journal;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use lockstead_client::Address;

pub use self::bench::{BenchArgs, Workload};
pub use self::journal::{DumpArgs, JournalArgs, JournalCommand, RepairArgs};
use crate::values;

const EXIT_HELP: &str = "\
Exit status:
    0  done (query: the key is held, or its server is recovering)
    1  not held (release, extend), free (query), no answer (ping), damaged (repair), an answer that
       should not have come (bench)
  120  run: the lock was lost before the command ended
  121  nobody knows whether it was done
  122  nothing was sent
  123  the server is busy
  124  the lock did not become free in time
  125  wrong usage, refused by the server, or another failure of lockstead itself
  126  run: the command cannot be run
  127  run: there is no such command
  otherwise run exits as the command did (128 + n for signal n)

Every long option can also be set by an environment variable: LOCKSTEAD_ and its name in \
capitals, with _ for -. Durations are written like 10s, 1m30s or 500ms.";

/// Leases on named keys: one small server, and its commands.
#[derive(Debug, Parser)]
#[command(name = "lockstead", version, after_help = EXIT_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serves locks, until SIGTERM or ctrl-C
    Serve(ServeArgs),
    /// Runs a command while holding a lock
    Run(RunArgs),
    /// Takes a lock, prints its token, and leaves it held
    Acquire(AcquireArgs),
    /// Gives a lock back
    Release(ReleaseArgs),
    /// Gives a held lock a later end
    Extend(ExtendArgs),
    /// Says whether a key is held
    Query(QueryArgs),
    /// Says whether a server is there, and how far away
    Ping(PingArgs),
    /// Puts a server under load, and says how fast it answers
    Bench(BenchArgs),
    /// Says what is in a data directory, and mends it
    Repair(RepairArgs),
    /// Shows what a server has written to its data directory
    Journal(JournalArgs),
}

/// How much is logged, and in which form. Logs go to stderr.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// Form of the log, which goes to stderr
    #[arg(long, env = "LOCKSTEAD_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// How much to log [default: info for serve, else warn]
    #[arg(long, env = "LOCKSTEAD_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What went wrong here.
    Error,
    /// And what may be wrong.
    Warn,
    /// And what was done.
    Info,
    /// And how.
    Debug,
    /// And everything else.
    Trace,
}

impl From<LogLevel> for Option<tracing::Level> {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => None,
            LogLevel::Error => Some(tracing::Level::ERROR),
            LogLevel::Warn => Some(tracing::Level::WARN),
            LogLevel::Info => Some(tracing::Level::INFO),
            LogLevel::Debug => Some(tracing::Level::DEBUG),
            LogLevel::Trace => Some(tracing::Level::TRACE),
        }
    }
}

/// What all client commands share.
#[derive(Debug, Args)]
pub struct ClientArgs {
    /// Address of the server, host:port or unix:/path; repeat it for more addresses of the same server
    #[arg(
        long,
        env = "LOCKSTEAD_SERVER",
        value_name = "ADDR",
        value_delimiter = ',',
        default_value = "127.0.0.1:5625",
        value_parser = values::address
    )]
    pub server: Vec<Address>,
    /// File with the API token to show to the server
    #[arg(long, env = "LOCKSTEAD_AUTH_TOKEN_FILE", value_name = "FILE")]
    pub auth_token_file: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArgs,
}

/// How a result is printed.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Print the result as one JSON object a line
    #[arg(long, env = "LOCKSTEAD_JSON", action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    pub json: bool,
}

/// How a lock is asked for.
#[derive(Debug, Args)]
pub struct LeaseArgs {
    /// How long to wait for the lock, at most 255s; 0s asks once and does not queue
    #[arg(
        long,
        env = "LOCKSTEAD_WAIT",
        value_name = "DURATION",
        default_value = "10s",
        value_parser = values::wait
    )]
    pub wait: Duration,
    /// How long the server keeps the lock without hearing more, at most 255s; rounded up to whole seconds
    #[arg(
        long,
        env = "LOCKSTEAD_LEASE",
        value_name = "DURATION",
        default_value = "30s",
        value_parser = values::lease
    )]
    pub lease: Duration,
}

/// `lockstead serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Once it serves, it prints one line `listening on ADDR` for each listener, and tells systemd. \
SIGTERM or ctrl-C drains: nothing new is granted, and holders may still release and extend until \
nothing is held or --drain-grace is over. A second signal stops at once.

What held locks survive, by --durability:
  none     nothing: the next start grants at once, or after --recovery-pause
  process  the end of the server, also by a crash; if the machine crashes, the next start may first \
grant nothing for the longest lease that was given
  machine  the end of the server and of the machine; each grant waits for the disk

The data directory is by default the first of $STATE_DIRECTORY, which systemd sets; \
$XDG_STATE_HOME/lockstead; ~/.local/state/lockstead. With durability none, --data-dir and \
--boot-id-file are ignored with a warning.

Exit status: 0 after a drain, 125 for everything else.

Examples:
  lockstead serve
  lockstead serve --durability machine --data-dir /var/lib/lockstead --require-data
  lockstead serve --listen 127.0.0.1:0 --listen unix:/run/lockstead.sock
  lockstead serve --listen 0.0.0.0:5625 --insecure
  lockstead serve --durability none --recovery-pause 30s")]
pub struct ServeArgs {
    /// Address to listen on, host:port or unix:/path; repeatable; port 0 picks one
    #[arg(
        long,
        env = "LOCKSTEAD_LISTEN",
        value_name = "ADDR",
        value_delimiter = ',',
        default_value = "127.0.0.1:5625",
        value_parser = values::address
    )]
    pub listen: Vec<Address>,
    /// Address of the admin interface; there is none yet, so only `off` is accepted
    #[arg(long, env = "LOCKSTEAD_ADMIN", value_name = "ADDR", default_value = "off")]
    pub admin: String,
    /// What held locks survive: none, process or machine; see below
    #[arg(
        long,
        env = "LOCKSTEAD_DURABILITY",
        value_name = "MODE",
        default_value = "process",
        hide_possible_values = true
    )]
    pub durability: Durability,
    /// Directory of what must survive; made if it is not there [default: see below]
    #[arg(long, env = "LOCKSTEAD_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Do not start with an empty data directory, which has probably not been mounted
    #[arg(
        long,
        env = "LOCKSTEAD_REQUIRE_DATA",
        action = ArgAction::SetTrue,
        value_parser = BoolishValueParser::new()
    )]
    pub require_data: bool,
    /// File that names the boot in the kernel's place; it must not outlive the boot
    #[arg(long, env = "LOCKSTEAD_BOOT_ID_FILE", value_name = "FILE")]
    pub boot_id_file: Option<PathBuf>,
    /// Grant nothing for this long after the start; with durability none only
    #[arg(long, env = "LOCKSTEAD_RECOVERY_PAUSE", value_name = "DURATION", value_parser = values::duration)]
    pub recovery_pause: Option<Duration>,
    /// Longest lease that is granted, 1s to 255s [default: 255s]
    #[arg(long, env = "LOCKSTEAD_MAX_LEASE", value_name = "DURATION", value_parser = values::max_lease_s)]
    pub max_lease: Option<u8>,
    /// Most keys that are held or waited for at once [default: 10000000]
    #[arg(long, env = "LOCKSTEAD_MAX_KEYS", value_name = "N", value_parser = values::count(1))]
    pub max_keys: Option<u32>,
    /// Most waiters in all [default: 1000000]
    #[arg(long, env = "LOCKSTEAD_MAX_WAITERS", value_name = "N", value_parser = values::count(0))]
    pub max_waiters: Option<u32>,
    /// Most waiters for one key [default: 100000]
    #[arg(long, env = "LOCKSTEAD_MAX_WAITERS_PER_KEY", value_name = "N", value_parser = values::count(0))]
    pub max_waiters_per_key: Option<u32>,
    /// Most waiters of one session [default: 32768]
    #[arg(long, env = "LOCKSTEAD_MAX_WAITERS_PER_SESSION", value_name = "N", value_parser = values::count(0))]
    pub max_waiters_per_session: Option<u32>,
    /// Most sessions [default: 65536, or half the limit of open files if that is less]
    #[arg(long, env = "LOCKSTEAD_MAX_SESSIONS", value_name = "N", value_parser = values::count(1))]
    pub max_sessions: Option<u32>,
    /// How long a stop waits for holders to release [default: 0s; with durability none 5s]
    #[arg(long, env = "LOCKSTEAD_DRAIN_GRACE", value_name = "DURATION", value_parser = values::duration)]
    pub drain_grace: Option<Duration>,
    /// Allow listening beyond this machine without encryption
    #[arg(long, env = "LOCKSTEAD_INSECURE", action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    pub insecure: bool,
    #[command(flatten)]
    pub log: LogArgs,
}

/// What held locks survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// Nothing.
    None,
    /// The end of the server process.
    Process,
    /// The end of the machine.
    Machine,
}

/// `lockstead run`.
#[derive(Debug, Args)]
#[command(after_help = "\
The command finds the key in LOCKSTEAD_KEY and the fencing token in LOCKSTEAD_TOKEN. It runs in its \
own process group, which gets every signal that run gets, and TERM, then KILL, before the lock can be \
somebody else's. When the command ends, run gives the lock back and ends too, whatever the command \
left running in the background.

Exit status: that of the command (128 + n for signal n); 120 if the lock was lost, or about to be, \
before the command ended; 121 to 125 as for acquire if the command never ran; 126 if it cannot be \
run, 127 if there is none.

Examples:
  lockstead run nightly-backup -- /usr/local/bin/backup --full
  lockstead run --wait 0s --lease 1m deploy -- sh -c 'make deploy FENCE=$LOCKSTEAD_TOKEN'")]
pub struct RunArgs {
    /// The key to lock
    #[arg(value_parser = values::key)]
    pub key: String,
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// How long the command may take to end after TERM; at most a third of the lease [default: a quarter of it]
    #[arg(long, env = "LOCKSTEAD_KILL_AFTER", value_name = "DURATION", value_parser = values::duration)]
    pub kill_after: Option<Duration>,
    #[command(flatten)]
    pub client: ClientArgs,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `lockstead acquire`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints two lines, `token N` and `valid for 28.4s`. The lock stays held until it is released or its \
lease ends; after that time, counted from when it is printed, it may be somebody else's. If nobody \
reads what is printed, the lock is given back.

With --json: {\"outcome\": ...}, one of acquired (with key, token, valid_for_ms, waited_ms), timeout, \
busy (with reason), unsent and indeterminate (with cause), rejected (with code, message).

Exit status: 0 acquired, 121 indeterminate, 122 unsent, 123 busy, 124 timeout, 125 rejected, wrong \
usage or another failure.

Examples:
  lockstead acquire nightly-backup --wait 30s --lease 1m
  lockstead acquire nightly-backup | sed -n 's/^token //p'")]
pub struct AcquireArgs {
    /// The key to lock
    #[arg(value_parser = values::key)]
    pub key: String,
    #[command(flatten)]
    pub lease: LeaseArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub client: ClientArgs,
}

/// `lockstead release`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 released, 1 not held with this token, 121 unknown, 122 unsent, 125 any other failure.

Example:
  lockstead release nightly-backup 1764512345678901")]
pub struct ReleaseArgs {
    /// The locked key
    #[arg(value_parser = values::key)]
    pub key: String,
    /// The token that its acquire printed
    pub token: u64,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub client: ClientArgs,
}

/// `lockstead extend`.
#[derive(Debug, Args)]
#[command(after_help = "\
The end of the lock becomes the later of its old end and now + lease. Prints `extended` and \
`valid for 28.4s`.

Exit status: 0 extended, 1 not held with this token, 121 unknown, 122 unsent, 125 any other failure.

Example:
  lockstead extend nightly-backup 1764512345678901 --lease 1m")]
pub struct ExtendArgs {
    /// The locked key
    #[arg(value_parser = values::key)]
    pub key: String,
    /// The token that its acquire printed
    pub token: u64,
    /// How long the server keeps the lock from now on, at most 255s; rounded up to whole seconds
    #[arg(
        long,
        env = "LOCKSTEAD_LEASE",
        value_name = "DURATION",
        default_value = "30s",
        value_parser = values::lease
    )]
    pub lease: Duration,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub client: ClientArgs,
}

/// `lockstead query`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints `free`; or `held` or `recovering`, and lines `remaining 12.3s` and `waiters N`.

Exit status: 0 held or recovering, 1 free, 121 unknown, 122 unsent, 125 any other failure.

Example:
  lockstead query nightly-backup --json")]
pub struct QueryArgs {
    /// The key to ask about
    #[arg(value_parser = values::key)]
    pub key: String,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub client: ClientArgs,
}

/// `lockstead ping`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints the round-trip time of each ping.

Exit status: 0 all answered, 1 no answer, 122 no server could be reached, 125 any other failure.

Example:
  lockstead ping --server lock.example:5625 --count 1")]
pub struct PingArgs {
    /// How many pings to send, one after the other
    #[arg(
        long,
        env = "LOCKSTEAD_COUNT",
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub count: u32,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub client: ClientArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_options_are_sound() {
        Cli::command().debug_assert();
    }

    /// Each command that does something, with its whole name.
    fn commands() -> Vec<(String, clap::Command)> {
        let mut done = Vec::new();
        let mut open = vec![("lockstead".to_owned(), Cli::command())];
        while let Some((name, command)) = open.pop() {
            open.extend(
                command.get_subcommands().map(|sub| (format!("{name} {}", sub.get_name()), sub.clone())),
            );
            if !command.has_subcommands() {
                done.push((name, command));
            }
        }
        done
    }

    #[test]
    fn every_long_option_has_its_environment_variable() {
        let mut seen = 0;
        for (_, command) in commands() {
            for option in command.get_arguments() {
                let Some(long) = option.get_long() else { continue };
                let variable = format!("LOCKSTEAD_{}", long.to_uppercase().replace('-', "_"));
                assert_eq!(option.get_env().and_then(|env| env.to_str()), Some(&*variable), "{long}");
                seen += 1;
            }
        }
        assert!(seen > 30, "only {seen} options were looked at");
    }

    #[test]
    fn the_help_of_every_command_has_an_example() {
        let commands = commands();
        assert!(commands.iter().any(|(name, _)| name == "lockstead journal dump"));
        for (name, mut command) in commands {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{name}");
            assert!(help.contains(&format!("\n  {name}")), "{name}");
        }
    }
}
