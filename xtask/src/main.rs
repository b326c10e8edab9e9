//! The project's own checks: `cargo xtask tidy` and `cargo xtask gate`.

mod gate;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy   the style rules that no compiler knows (see xtask/src/tidy/)
  gate   everything that must hold before a change lands: fmt, clippy, tidy, deny, tests";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(),
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
