//! A program on a terminal of its own, whose session it leads.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::within;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a person at a terminal sees and does. What is typed is not echoed, so all that is seen was written by a
/// program.
pub struct Terminal {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    child: Child,
}

impl Terminal {
    /// Starts a command on a new terminal.
    pub fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave: File = OpenOptions::new().read(true).write(true).open(name).unwrap();
        let mut modes = tcgetattr(&slave).unwrap();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&slave, OptionalActions::Now, &modes).unwrap();

        command.stdin(slave.try_clone().unwrap());
        command.stdout(slave.try_clone().unwrap());
        command.stderr(slave);
        // SAFETY: two system calls, nothing else; they may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                Ok(ioctl_tiocsctty(std::io::stdin().as_fd())?)
            });
        }
        let child = command.spawn().unwrap();
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone().unwrap();
        let (sender, screen) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The terminal ends with an error when nobody has it open any more.
            while let Ok(len @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { keyboard, screen, seen: String::new(), child }
    }

    /// A shell with job control.
    pub fn shell(command: &Command) -> Self {
        let mut shell = Command::new("sh");
        shell.arg("-i").env("PS1", "").env_remove("ENV");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        Self::start(shell)
    }

    /// Types something.
    pub fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until `text` is seen; what was seen before it, since the last call.
    pub fn sees(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(text) {
                let before = self.seen[..at].to_owned();
                self.seen.drain(..at + text.len());
                return before;
            }
            match self.screen.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("awaited on the terminal: {text:?} ({error}); seen: {:?}", self.seen),
            }
        }
    }

    /// Waits until the program has ended; its exit code.
    pub fn end(mut self) -> Option<i32> {
        within("the end of the program on the terminal", move || self.child.wait().unwrap().code())
    }
}
