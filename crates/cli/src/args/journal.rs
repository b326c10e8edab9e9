//! The commands for a data directory: `lockstead repair` and `lockstead journal`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Subcommand};
use lockstead_journal::Cut;

/// Where a journal is.
#[derive(Debug, Args)]
pub struct DataDirArgs {
    /// The server's data directory [default: the one that serve takes]
    #[arg(long, env = "LOCKSTEAD_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// `lockstead repair`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --cut and --restored it only looks: it says what is in each file of the journal, what a start \
would warn of or why it would refuse, and where to cut then. It changes nothing, so a server may be \
running.

--cut writes what the journal says before that place into the new directory NEWDIR, and leaves the \
old one as it is. --restored is for a directory that was put back from a copy. Both mark the \
directory: as there may be grants that it does not know, the next start grants nothing for 255 s. No \
server may be running.

Exit status: 0 a start would go on, or it is done; 1 a start would refuse the directory; 125 any \
failure.

Examples:
  lockstead repair --data-dir /var/lib/lockstead
  lockstead repair --data-dir old --cut 0000000000000007.journal:4711 --to new
  lockstead repair --data-dir /var/lib/lockstead --restored")]
pub struct RepairArgs {
    #[command(flatten)]
    pub data: DataDirArgs,
    /// Leave out everything from this place on; needs --to
    #[arg(long, env = "LOCKSTEAD_CUT", value_name = "FILE:OFFSET", requires = "to")]
    pub cut: Option<Cut>,
    /// The new directory for --cut
    #[arg(long, env = "LOCKSTEAD_TO", value_name = "NEWDIR", requires = "cut")]
    pub to: Option<PathBuf>,
    /// Mark a directory that was put back from a copy
    #[arg(
        long,
        env = "LOCKSTEAD_RESTORED",
        action = ArgAction::SetTrue,
        value_parser = BoolishValueParser::new(),
        conflicts_with = "cut"
    )]
    pub restored: bool,
    /// File that names the boot in the kernel's place, if serve is given one
    #[arg(long, env = "LOCKSTEAD_BOOT_ID_FILE", value_name = "FILE")]
    pub boot_id_file: Option<PathBuf>,
}

/// `lockstead journal`.
#[derive(Debug, Args)]
pub struct JournalArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: JournalCommand,
}

/// The commands of `lockstead journal`.
#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Prints the journal, one JSON object a record
    Dump(DumpArgs),
}

/// `lockstead journal dump`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints every record of every file, oldest first, and a line for what cannot be read. Each object has \
`file`, `offset` and `record`: run, granted, extended, copy, freed, lease_ceiling, token_ceiling, \
end_mark, stop, repair_mark, bad, unreadable or newer_format. `at_ms` is when it was written; instants \
are milliseconds of the boot's clock. It changes nothing, so a server may be running.

Exit status: 0 done, also if something is damaged; 125 any failure.

Examples:
  lockstead journal dump --data-dir /var/lib/lockstead
  lockstead journal dump | jq -c 'select(.key == \"nightly-backup\")'")]
pub struct DumpArgs {
    #[command(flatten)]
    pub data: DataDirArgs,
}
