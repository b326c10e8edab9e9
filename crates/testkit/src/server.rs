//! A real server in a process of its own.

use crate::{Address, Raw};
use crate::{process, sys};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to start listening.
const START: Duration = Duration::from_secs(20);

/// How a server is to be started.
#[derive(Debug)]
pub struct Builder {
    command: Command,
    listeners: usize,
    dir: tempfile::TempDir,
}

impl Builder {
    /// `PROGRAM serve` with no listener yet, without a journal and without an admin interface.
    ///
    /// # Panics
    /// When no temporary directory can be made.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut builder = Self::bare(program);
        builder.command.args(["--durability", "none", "--admin", "off"]);
        builder
    }

    /// `PROGRAM serve` and nothing more. Its default data directory is `lockstead` in [`Builder::dir`].
    ///
    /// # Panics
    /// When no temporary directory can be made.
    pub fn bare(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.arg("serve");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_option(name)) {
            command.env_remove(name);
        }
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", dir.path());
        Self { command, listeners: 0, dir }
    }

    /// One more `--listen`.
    pub fn listen(mut self, address: &str) -> Self {
        self.command.args(["--listen", address]);
        self.listeners += 1;
        self
    }

    /// More arguments.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    /// An environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The listeners come from elsewhere (the environment, a default): so many `listening on` lines are
    /// awaited.
    pub fn expect_listeners(mut self, count: usize) -> Self {
        self.listeners = count;
        self
    }

    /// Limits the file handles of the server, as `ulimit -n` does.
    pub fn open_files(mut self, limit: u64) -> Self {
        // SAFETY: the closure makes one system call and touches no memory of the parent, so it may run after
        // fork.
        unsafe { self.command.pre_exec(move || sys::limit_open_files(limit)) };
        self
    }

    /// Starts it on a full disk: see [`Server::fill_disk`].
    pub fn full_disk(mut self) -> Self {
        // SAFETY: the closure makes two system calls and touches no memory of the parent, so it may run after
        // fork.
        unsafe { self.command.pre_exec(|| sys::limit_file_size_of(0, Some(0))) };
        self
    }

    /// A directory that lives as long as the server, for its sockets and its data.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts the server and waits until it listens.
    ///
    /// # Panics
    /// When it does not; the message has what it wrote to stderr.
    pub fn start(self) -> Server {
        let listeners = self.listeners;
        let mut server = self.spawn();
        let deadline = sys::deadline(START);
        while server.addresses.len() < listeners {
            let left = deadline.saturating_duration_since(Instant::now());
            match server.lines.next(left) {
                Ok(line) => server.take_line(line),
                Err(_) => {
                    let (ended, stderr) = (server.child.try_wait(), server.stderr());
                    panic!("the server does not listen ({ended:?}); its stderr:\n{stderr}");
                }
            }
        }
        server
    }

    /// Runs a server that is expected to refuse to start: its exit status, stdout and stderr.
    ///
    /// # Panics
    /// When it still runs after a while.
    pub fn refused(self) -> (ExitStatus, String, String) {
        let mut server = self.spawn();
        let status = server.wait_exit(START, "a server that refuses to start");
        while let Ok(line) = server.lines.next(START) {
            server.stdout.push(line);
        }
        (status, server.stdout.join("\n"), server.stderr())
    }

    fn spawn(mut self) -> Server {
        let log = self.dir.path().join("stderr.log");
        let file = File::create(&log).expect("a log file can be made");
        let spawned = Instant::now();
        let command = self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start {:?}: {error}", self.command));
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let listening = Instant::now();
        let lines = Lines(Mutex::new(lines));
        Server {
            child,
            lines,
            stdout: Vec::new(),
            addresses: Vec::new(),
            log,
            spawned,
            listening,
            _dir: self.dir,
        }
    }
}

fn is_option(name: &OsString) -> bool {
    name.as_encoded_bytes().starts_with(b"LOCKSTEAD_")
}

/// What a server writes to stdout, line by line. (Behind a mutex, so that threads can share the server.)
#[derive(Debug)]
struct Lines(Mutex<Receiver<String>>);

impl Lines {
    fn next(&mut self, within: Duration) -> Result<String, RecvTimeoutError> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(within)
    }
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    lines: Lines,
    stdout: Vec<String>,
    addresses: Vec<Address>,
    log: PathBuf,
    spawned: Instant,
    listening: Instant,
    _dir: tempfile::TempDir,
}

impl Server {
    /// A server on one free TCP port of the loopback interface, with these further arguments.
    pub fn start(program: impl AsRef<OsStr>, args: &[&str]) -> Self {
        Builder::new(program).listen("127.0.0.1:0").args(args).start()
    }

    /// A server on a TCP port and on a Unix-domain socket, with these further arguments.
    pub fn start_on_both(program: impl AsRef<OsStr>, args: &[&str]) -> Self {
        let builder = Builder::new(program).listen("127.0.0.1:0");
        let socket = format!("unix:{}", builder.dir().join("socket").display());
        builder.listen(&socket).args(args).start()
    }

    fn take_line(&mut self, line: String) {
        self.listening = Instant::now();
        if let Some(address) = line.strip_prefix("listening on ") {
            self.addresses.push(Address::parse(address));
        }
        self.stdout.push(line);
    }

    /// Where it listens, in the order in which it said so.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Its first address.
    pub fn address(&self) -> &Address {
        &self.addresses[0]
    }

    /// A new connection to its first address.
    pub fn connect(&self) -> Raw {
        Raw::connect(self.address())
    }

    /// Its start, for [`crate::Ends::judge`]: before it was spawned, and when it listened.
    pub fn started(&self) -> (Instant, Instant) {
        (self.spawned, self.listening)
    }

    /// What it has written to stdout until it listened.
    pub fn stdout(&self) -> &[String] {
        &self.stdout
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its resident memory in KiB.
    pub fn rss_kib(&self) -> u64 {
        process::rss_kib(self.pid())
    }

    /// The processor time it has used so far.
    pub fn cpu_time(&self) -> Duration {
        process::cpu_time(self.pid())
    }

    /// How many file handles it has open.
    pub fn open_files(&self) -> usize {
        process::open_files(self.pid())
    }

    /// Takes file handles away from it: from now on it may have so many open.
    ///
    /// # Panics
    /// When the operating system refuses.
    pub fn limit_open_files(&self, limit: usize) {
        sys::limit_open_files_of(self.pid(), limit as u64).expect("a child's limit may be lowered");
    }

    /// Lets its files grow no further, as a full disk would; its log too, so it is silent until
    /// [`Server::free_disk`].
    ///
    /// # Panics
    /// When the operating system refuses.
    pub fn fill_disk(&self) {
        sys::limit_file_size_of(self.pid(), Some(0)).expect("a child's limit may be lowered");
    }

    /// Ends what [`Server::fill_disk`] began.
    ///
    /// # Panics
    /// When the operating system refuses.
    pub fn free_disk(&self) {
        sys::limit_file_size_of(self.pid(), None).expect("a soft limit may be raised");
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it has already been waited for.
    pub fn signal(&self, signal: i32) {
        sys::kill(self.pid(), signal).unwrap_or_else(|error| panic!("signal {signal}: {error}"));
    }

    /// Stops the process (SIGSTOP) and waits until it stands still.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn pause(&self) {
        self.signal(libc::SIGSTOP);
        sys::wait_stopped(self.pid()).unwrap_or_else(|error| panic!("SIGSTOP: {error}"));
    }

    /// Lets a stopped process go on (SIGCONT).
    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Asks it to stop (SIGTERM).
    pub fn terminate(&self) {
        self.signal(libc::SIGTERM);
    }

    /// Whether it still runs.
    ///
    /// # Panics
    /// When the operating system does not know it.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// When it still runs after `within`; the message names what was `awaited`.
    pub fn wait_exit(&mut self, within: Duration, awaited: &str) -> ExitStatus {
        let deadline = sys::deadline(within);
        let pidfd = sys::pidfd(self.pid()).expect("a child that was not waited for has a pidfd");
        let ended = sys::wait_ready(pidfd.as_fd(), libc::POLLIN, deadline).expect("a pidfd can be polled");
        assert!(ended, "the server still runs after {within:?}; awaited: {awaited}\n{}", self.stderr());
        self.child.wait().expect("a child can be waited for")
    }

    /// Kills it as a crash would (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        self.wait_exit(START, "a killed server");
    }

    /// Whether stdout has been closed without another line.
    ///
    /// # Panics
    /// When there is another line, or none within a while.
    pub fn expect_stdout_end(&mut self) {
        match self.lines.next(START) {
            Err(RecvTimeoutError::Disconnected) => {}
            other => panic!("end of stdout expected, got {other:?}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let stderr = self.stderr();
            let tail: Vec<&str> = stderr.lines().rev().take(20).collect();
            eprintln!("last lines of the server's stderr:");
            tail.iter().rev().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// Raises the limit of open files of the test itself, and returns it: some tests need thousands of
/// connections.
///
/// # Panics
/// When the operating system refuses.
pub fn raise_open_files() -> u64 {
    sys::raise_open_files().expect("the soft limit may be raised to the hard one")
}
