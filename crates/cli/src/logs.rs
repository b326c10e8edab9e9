//! Logs: always to stderr.
//!
//! A stderr can be stuck: a terminal after ctrl-S, a pipe whose reader sleeps. Nobody here may wait for it, least of all
//! `run`, which has a command to end before its lock can be somebody else's. So a thread of its own writes.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::args::{LogArgs, LogFormat};
use crate::run::sys;

/// How many lines are kept for a stderr that is stuck; what comes then is dropped.
const KEPT: usize = 64;

/// How long a line is waited for, so that it is written before what comes after it is done.
const PATIENCE: Duration = Duration::from_millis(50);

/// Starts logging; `level` is used unless the user asked for another. An error: the system gave no thread.
pub fn start(args: &LogArgs, level: tracing::Level) -> io::Result<()> {
    let level = args.log_level.map_or(Some(level), Into::into);
    let logs = tracing_subscriber::fmt()
        .with_writer(Mutex::new(Aside::to(io::stderr())?))
        .with_max_level(tracing_subscriber::filter::LevelFilter::from(level))
        // With a stderr that cannot be written to, complaining on stderr would be a panic.
        .log_internal_errors(false)
        .with_target(false);
    match args.log_format {
        LogFormat::Text => logs.with_ansi(coloured()).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Writes in a thread of its own.
struct Aside {
    lines: SyncSender<Vec<u8>>,
    written: Receiver<()>,
    /// How many lines are on their way.
    open: usize,
}

impl Aside {
    fn to(mut writer: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, to_write) = sync_channel::<Vec<u8>>(KEPT);
        let (done, written) = channel();
        thread::Builder::new().name("logs".to_owned()).spawn(move || {
            // Whoever writes to the terminal from the background is stopped, and the whole program with it.
            sys::block(Signal::TTOU);
            for line in to_write {
                // A stderr that nobody reads is not worth dying for.
                let _ = writer.write_all(&line).and_then(|()| writer.flush());
                let _ = done.send(());
            }
        })?;
        Ok(Self { lines, written, open: 0 })
    }
}

impl Write for Aside {
    /// Takes a whole line, or drops it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.open -= self.written.try_iter().count();
        if self.lines.try_send(line.to_vec()).is_ok() {
            self.open += 1;
            // Behind a line that is stuck nothing is waited for.
            if self.open == 1 && self.written.recv_timeout(PATIENCE).is_ok() {
                self.open = 0;
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Colours are for terminals whose user has not said no (no-color.org).
fn coloured() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, Read as _, pipe};
    use std::time::Instant;

    fn aside() -> (Aside, PipeReader) {
        let (reader, writer) = pipe().unwrap();
        (Aside::to(writer).unwrap(), reader)
    }

    #[test]
    fn a_line_is_there_when_its_write_returns() {
        let (mut aside, mut reader) = aside();
        for line in ["one\n", "two\n"] {
            aside.write_all(line.as_bytes()).unwrap();
            let mut read = [0; 4];
            reader.read_exact(&mut read).unwrap();
            assert_eq!(read, line.as_bytes());
        }
        assert_eq!(aside.open, 0);
    }

    #[test]
    fn a_stuck_reader_holds_nobody_up_and_gets_the_first_lines_in_the_end() {
        let (mut aside, mut reader) = aside();
        let start = Instant::now();
        // The first fills the pipe for good; then as many as are kept; the rest is dropped.
        aside.write_all(&vec![b'.'; 1 << 20]).unwrap();
        for _ in 0..2 * KEPT {
            aside.write_all(b"!").unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        drop(aside);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        let kept = read.iter().filter(|&&byte| byte == b'!').count();
        assert_eq!(read.len() - kept, 1 << 20);
        // One less if the thread had not begun with the first.
        assert!((KEPT - 1..=KEPT).contains(&kept), "{kept}");
    }
}
