//! A small disk of a test's own, and other things that it mounts.
//!
//! The disk is a file system in memory. Mounting it takes the rights of root, or a user namespace (`unshare -Urm`);
//! where neither is to be had, the tests say so and judge nothing.

use crate::support::{Place, serve};
use lockstead_testkit::{Server, mounts};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

/// Set in a process that `unshare` has started.
const INSIDE: &str = "DURABILITY_IN_NAMESPACE";

/// A small disk that can be filled.
pub struct Disk {
    dir: PathBuf,
}

impl Disk {
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub fn serve(&self) -> Server {
        serve("process", &self.data()).start()
    }

    /// Takes all room that is left.
    pub fn fill(&self) {
        let mut file = File::options().append(true).create(true).open(self.dir.join("filler")).unwrap();
        loop {
            match file.write(&[0; 4096]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("fill the disk: {error}"),
            }
        }
    }

    /// No process may have a file of it open for writing.
    pub fn make_read_only(&self) {
        mounts::make_read_only(&self.dir).unwrap();
    }

    pub fn make_room(&self) {
        fs::remove_file(self.dir.join("filler")).unwrap();
    }
}

/// Runs the body of the test `name` with a disk of its own.
pub fn with_disk(name: &str, body: impl FnOnce(&Disk) + Send + 'static) {
    let place = Place::new();
    let dir = place.beside("disk");
    fs::create_dir(&dir).unwrap();
    // The mount is this thread's and its servers' alone, and is gone with them.
    let thread = thread::spawn(move || {
        mounts::make_private()?;
        mounts::mount_tmpfs(&dir, 1 << 20)?;
        body(&Disk { dir });
        std::io::Result::Ok(())
    });
    match thread.join() {
        Ok(Ok(())) => {}
        Ok(Err(_)) if std::env::var_os(INSIDE).is_none() => run_inside(name),
        Ok(Err(error)) => panic!("mount a disk in a user namespace: {error}"),
        Err(fault) => std::panic::resume_unwind(fault),
    }
}

/// Runs the test once more, as root of a user namespace.
fn run_inside(name: &str) {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.arg("-Urm");
        command
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED {name}: this user may not mount, and `unshare -Urm` does not work here");
        return;
    }
    let mut command = unshare();
    command.arg(std::env::current_exe().unwrap()).args([name, "--exact", "--nocapture"]).env(INSIDE, "1");
    assert!(command.status().unwrap().success(), "{name} failed in a user namespace");
}
