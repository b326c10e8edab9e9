//! Logs: always to stderr.

use std::io::{self, IsTerminal as _};

use crate::args::{LogArgs, LogFormat};

/// Starts logging; `level` is used unless the user asked for another.
pub fn start(args: &LogArgs, level: tracing::Level) {
    let level = args.log_level.map_or(Some(level), Into::into);
    let logs = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(tracing_subscriber::filter::LevelFilter::from(level))
        // With a stderr that cannot be written to, complaining on stderr would be a panic.
        .log_internal_errors(false)
        .with_target(false);
    match args.log_format {
        LogFormat::Text => logs.with_ansi(coloured()).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
}

/// Colours are for terminals whose user has not said no (no-color.org).
fn coloured() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
