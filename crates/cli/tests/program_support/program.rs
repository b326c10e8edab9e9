//! A program in pipes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a program ended.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end.
pub fn outcome(mut command: Command) -> Outcome {
    let shown = format!("{command:?}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = within(&shown, move || child.wait_with_output().unwrap());
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Does something that blocks, and fails if that takes too long.
pub fn within<T: Send + 'static>(awaited: &str, what: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(what()));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("awaited: {awaited}: {error}"))
}

/// A running program. Killed when dropped.
pub struct Program {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
}

impl Program {
    pub fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.map(|line| sender.send(line)).all(|sent| sent.is_ok())
        });
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, lines, stderr: Some(stderr) }
    }

    /// The next line that it, or what it started, writes to stdout.
    pub fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line on stdout")
    }

    /// What is still written, until nobody is left who could write.
    pub fn last_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => lines.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => return lines,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("stdout is still open; so far: {lines:?}"),
            }
        }
    }

    /// Writes a line to its stdin.
    pub fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).unwrap();
    }

    pub fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until it is stopped.
    pub fn await_stop(&self) {
        let id = self.id();
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = within("a stopped program", move || waitid(WaitId::Pid(id), options).unwrap().unwrap());
        assert!(status.stopped(), "it ended instead: {status:?}");
    }

    /// Waits until it has ended. What its command left running may still write.
    pub fn end(&mut self) -> Option<i32> {
        let id = self.id();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        within("the end of the program", move || waitid(WaitId::Pid(id), options).unwrap());
        // Not `wait`, which would close its stdin, that its command may still read.
        self.child.try_wait().unwrap().unwrap().code()
    }

    /// What it has written to stderr; to be asked after its end.
    pub fn stderr(&mut self) -> String {
        let stderr = self.stderr.take().unwrap();
        within("the end of stderr", move || stderr.join().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
