//! The project's own checks: `cargo xtask tidy`, `cargo xtask instructions` and `cargo xtask gate`.

mod gate;
mod instructions;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy                        the style rules that no compiler knows (see xtask/src/tidy/)
  instructions                counts what each request costs, against the record (see bench/micro/)
  instructions record <why>   counts and moves the record
  gate                        everything that must hold before a change lands: fmt, clippy, tidy, deny,
                              instructions, tests";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(),
        ["instructions"] => instructions::check(root()).map(|()| ExitCode::SUCCESS),
        ["instructions", "record", why] => instructions::move_record(root(), why).map(|()| ExitCode::SUCCESS),
        ["gate"] => gate::run(root()).map(|()| ExitCode::SUCCESS),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}

fn tidy() -> anyhow::Result<ExitCode> {
    let findings = tidy::check(&tidy::Repo::read(root())?);
    for finding in &findings {
        eprintln!("{finding}");
    }
    eprintln!("tidy: {} finding(s)", findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The directory of the workspace's Cargo.toml.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies one level below the workspace")
}
