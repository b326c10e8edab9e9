//! What goes to stdout (results, and nothing else) and to stderr (what went wrong).

use std::io::{self, Write};

use anyhow::Context as _;
use serde_json::Value;

use crate::exit::Status;
use crate::failed::Failed;

/// How results are printed.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    /// One JSON object a line, or text.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints one result, whole: when this returns well, the reader's end of the pipe has it.
    pub fn result(self, text: &str, json: &Value) -> anyhow::Result<()> {
        if self.json { print(&json.to_string()) } else { print(text) }
    }

    /// Prints why there is no result: as an object that programs read, or as a sentence on stderr, so that stdout
    /// stays empty.
    pub fn failed(self, failed: &Failed) -> anyhow::Result<Status> {
        if self.json {
            self.result("", &failed.json)?;
        } else {
            complain(&failed.sentence);
        }
        Ok(failed.status)
    }
}

/// Prints a text and a line break to stdout.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.context("cannot write the result")
}

/// Says on stderr what is wrong. A stderr that nobody reads is not worth dying for.
pub fn complain(sentence: &str) {
    let _ = writeln!(io::stderr(), "lockstead: {sentence}");
}

/// An error with its causes, each of them once: some name their cause themselves.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_each_cause_once() {
        let full = io::Error::other("disk full");
        assert_eq!(with_causes(&anyhow::Error::new(full).context("cannot write")), "cannot write: disk full");
        let full = io::Error::other("disk full");
        assert_eq!(with_causes(&anyhow::Error::new(full).context("write: disk full")), "write: disk full");
    }
}
