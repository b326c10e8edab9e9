//! Controlled syncs, shown on a program that syncs a file.

use lockstead_testkit::syncs::Syncs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// `sync FILE` of the coreutils calls fsync(2) on it.
fn sync(syncs: &Syncs, dir: &std::path::Path) -> Child {
    Command::new("sync").arg(dir).envs(syncs.env()).spawn().expect("sync(1) runs")
}

#[test]
fn the_syncs_of_a_preloaded_program_wait_fail_and_are_counted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let syncs = Syncs::new(dir.path());
    assert!(sync(&syncs, dir.path()).wait().expect("it ends").success());
    assert_eq!(syncs.count(), 1);
    syncs.fail();
    assert!(!sync(&syncs, dir.path()).wait().expect("it ends").success());
    syncs.work();
    syncs.hold();
    let mut held = sync(&syncs, dir.path());
    let begun = Instant::now();
    while syncs.count() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(10), "it never begins");
        std::thread::yield_now();
    }
    assert!(held.try_wait().expect("it can be asked").is_none(), "it did not wait");
    syncs.work();
    assert!(held.wait().expect("it ends").success());
}
