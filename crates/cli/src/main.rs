//! The `lockstead` program. One file holds one command; this one only finds out which was asked for, and turns how it
//! ended into an exit status.
//!
//! The way of every command is the same: what was typed ([`args`]), what that means, doing it, and one of the exit
//! statuses of [`exit`].

mod acquire;
mod advice;
mod args;
mod bench;
mod connect;
mod data_dir;
mod exit;
mod extend;
mod failed;
mod journal;
mod logs;
mod output;
mod ping;
mod query;
mod release;
mod repair;
mod run;
mod serve;
mod values;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use args::{Cli, Command, JournalCommand};
use exit::Status;

fn main() -> ExitCode {
    let status = match Cli::try_parse() {
        Ok(cli) => dispatch(cli.command).unwrap_or_else(|error| {
            output::complain(&output::with_causes(&error));
            Status::FAILURE
        }),
        Err(message) => {
            // A reader that has gone away is no reason to fail: there is nobody to tell.
            let _ = message.print();
            match message.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Status::DONE,
                _ => Status::FAILURE,
            }
        }
    };
    status.into()
}

/// Runs one command. An error is this program's own failure, or its user's: the status of both is the same.
fn dispatch(command: Command) -> anyhow::Result<Status> {
    match command {
        Command::Serve(args) => serve::serve(&args),
        Command::Run(args) => run::run(&args),
        Command::Acquire(args) => acquire::acquire(&args),
        Command::Release(args) => release::release(&args),
        Command::Extend(args) => extend::extend(&args),
        Command::Query(args) => query::query(&args),
        Command::Ping(args) => ping::ping(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Repair(args) => repair::repair(&args),
        Command::Journal(args) => match args.command {
            JournalCommand::Dump(args) => journal::dump(&args),
        },
    }
}
