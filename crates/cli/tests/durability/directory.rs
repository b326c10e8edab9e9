//! Which directory a server takes, and that it has it for itself.

use crate::support::{BOTH, Place, is_active, refused};
use lockstead_testkit::data_dir::Snapshot;
use lockstead_testkit::{Server, Witness};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// docs/guarantees.md: a second server on a directory says so and stops; the first notices nothing; the lock file is
/// never deleted.
#[test]
fn a_second_server_on_a_directory_says_so_and_stops() {
    for mode in BOTH {
        let place = Place::new();
        let mut first = place.serve(mode).start();
        let witness = Witness::start(first.address());
        let grant = first.connect().hold(60, 1, "k");
        let lock = place.data().join("lock");
        let before = inode(&lock);
        for second in BOTH {
            let said = refused(place.serve(second), &["another server"]);
            assert!(said.contains(place.data().to_str().unwrap()), "it does not name the directory: {said}");
        }
        assert!(is_active(&mut first.connect(), "k", grant.token));
        witness.finish("a second server on the directory");
        first.kill();
        assert_eq!(inode(&lock), before, "the lock file of a killed server is another one");
        let mut next = place.serve(mode).start();
        assert!(is_active(&mut next.connect(), "k", grant.token));
        next.terminate();
        next.wait_exit(5 * crate::support::SECOND, "a clean stop");
        assert_eq!(inode(&lock), before, "the lock file of a stopped server is another one");
        assert_eq!(fs::metadata(&lock).unwrap().len(), 0);
    }
}

/// docs/guarantees.md: whoever requires data is not served an empty directory, which may be a volume that is not
/// mounted.
#[test]
fn an_empty_directory_is_refused_where_data_is_required() {
    let place = Place::new();
    let data = place.data();
    refused(place.serve("process").args(&["--require-data"]), &["data"]);
    assert!(!data.exists(), "a directory was made where one is required");
    fs::create_dir(&data).unwrap();
    refused(place.serve("process").args(&["--require-data"]), &["journal"]);
    let left: Vec<String> = Snapshot::of(&data).names().map(str::to_owned).collect();
    assert!(left.iter().all(|name| name == "lock"), "a refused start left {left:?}");
    // Once there is a journal, it starts.
    let mut server = place.serve("process").start();
    let grant = server.connect().hold(60, 1, "k");
    server.kill();
    let server: Server = place.serve("process").args(&["--require-data"]).start();
    assert!(is_active(&mut server.connect(), "k", grant.token));
}

/// docs/guarantees.md: the directory is made for its owner alone.
#[test]
fn the_directory_is_made_for_its_owner_alone() {
    let place = Place::new();
    let server = place.serve("process").start();
    server.connect().hold(60, 1, "k");
    let mode = fs::metadata(place.data()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "the directory has mode {mode:o}");
}

/// A data directory that is none, or that cannot be written to, is an error that names it.
#[test]
fn what_is_no_directory_is_refused() {
    let place = Place::new();
    fs::write(place.data(), "a file").unwrap();
    let said = refused(place.serve("process"), &["data"]);
    assert!(said.contains(place.data().to_str().unwrap()), "{said}");
    assert_eq!(fs::read(place.data()).unwrap(), b"a file");
}

/// docs/journal-format.md, *Log*: a first start that was killed before its segment had its name is followed by
/// another first start.
#[test]
fn a_first_start_that_was_cut_short_is_followed_by_a_first_start() {
    let place = Place::new();
    fs::create_dir(place.data()).unwrap();
    fs::write(place.data().join("0000000000000001.new"), b"LOCKJRNL").unwrap();
    let server = place.serve_on_boot("process", "any").start();
    server.connect().hold(60, 1, "k");
    drop(server);
    let log = place.log();
    assert_eq!((log.run().number, log.run().recovery_end_ms), (1, 0), "{:?}", log.run());
}
