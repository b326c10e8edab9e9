//! Directories that released versions wrote: each must open for ever, and come to the same.
//!
//! `tests/fixtures/vN/CASE` holds the files of a directory; `CASE.expected` what is in it: what a start on the boot
//! `fixture boot` at 60,000 ms finds, and the dump. `JOURNAL_FIXTURES=1` writes those of the current version anew,
//! which is right only before its release.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tests::bench::{Bench, end, newest, options};
use crate::*;

const BOOT: &str = "fixture boot";

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A server with a bit of everything in its journal.
fn busy(mode: Mode) -> Bench {
    let mut bench = Bench::open(Disk::default(), &options(mode, BOOT, 10_000));
    let token = bench.first_token;
    bench.turn(10_000, |journal| {
        journal.granted("jobs/nightly", token, end(10_000, 200));
        journal.granted("schlüssel", token + 1, end(10_000, 60));
        journal.granted("over", token + 2, end(10_000, 5));
    });
    bench.turn(11_000, |journal| {
        journal.extended("schlüssel", token + 1, end(11_000, 90));
        journal.freed("over", token + 2);
    });
    bench.turn(12_500, |_| ());
    bench
}

fn cases() -> Vec<(&'static str, Disk)> {
    let stopped = |Bench { journal, storage, .. }: Bench| {
        journal.stop().expect("the disk works");
        storage.disk()
    };
    let continued = || {
        let small = OpenOptions { checkpoint_bytes: 200, ..options(Mode::Process, BOOT, 13_000) };
        let mut bench = Bench::open(busy(Mode::Process).killed(), &small);
        let token = bench.first_token;
        bench.turn(13_000, |journal| journal.granted("before", token, end(13_000, 100)));
        bench.turn(13_001, |_| ());
        bench.turn(13_002, |journal| journal.granted("after", token + 1, end(13_002, 100)));
        bench.killed()
    };
    let torn = || {
        let mut disk = busy(Mode::Machine).killed();
        let (name, mut bytes) = newest(&disk);
        bytes.truncate(bytes.len() - 9);
        disk.put(&name, bytes);
        disk
    };
    let recovering = || {
        let mut bench = Bench::open(busy(Mode::Process).cut_off(), &options(Mode::Process, BOOT, 5_000));
        bench.turn(5_000, |_| ());
        bench.killed()
    };
    let restored = || {
        let storage = MemoryStorage::new(stopped(busy(Mode::Process)));
        mark_restored(&storage, &[5; 16]).expect("the disk works");
        storage.disk()
    };
    vec![
        ("killed", busy(Mode::Process).killed()),
        ("stopped", stopped(busy(Mode::Machine))),
        ("continued", continued()),
        ("torn", torn()),
        ("recovering", recovering()),
        ("restored", restored()),
    ]
}

fn expectation(disk: &Disk) -> String {
    let bench = Bench::open(disk.clone(), &options(Mode::Process, BOOT, 60_000));
    let mut text = format!("run {}\nrecovery {:?}\n", bench.run, bench.recovery_ends_ms);
    for warning in &bench.warnings {
        writeln!(text, "warning {warning}").expect("a string takes it");
    }
    for (key, token, ends_ms) in bench.held() {
        writeln!(text, "lease {key} {token} {ends_ms}").expect("a string takes it");
    }
    let mut out = Vec::new();
    dump(&MemoryStorage::new(disk.clone()), &mut out).expect("it is readable");
    text + str::from_utf8(&out).expect("JSON is text")
}

fn write_anew(version: &Path) {
    for (name, disk) in cases() {
        let case = version.join(name);
        fs::create_dir_all(&case).unwrap();
        for file in disk.names() {
            fs::write(case.join(file), disk.content(file).unwrap()).unwrap();
        }
        fs::write(version.join(format!("{name}.expected")), expectation(&disk)).unwrap();
    }
}

fn read(case: &Path) -> Disk {
    let mut disk = Disk::default();
    for file in fs::read_dir(case).unwrap() {
        let file = file.unwrap();
        disk.put(file.file_name().to_str().unwrap(), fs::read(file.path()).unwrap());
    }
    disk
}

#[test]
fn directories_of_every_released_version_open_and_come_to_the_same() {
    if std::env::var_os("JOURNAL_FIXTURES").is_some() {
        write_anew(&directory().join(format!("v{}", crate::segment::VERSION)));
    }
    let mut read_cases = 0;
    for version in 1..=crate::segment::VERSION {
        let version = directory().join(format!("v{version}"));
        for entry in fs::read_dir(&version).unwrap() {
            let case = entry.unwrap().path();
            if !case.is_dir() {
                continue;
            }
            let expected = fs::read_to_string(case.with_extension("expected")).unwrap();
            assert_eq!(expectation(&read(&case)), expected, "{}", case.display());
            read_cases += 1;
        }
    }
    assert!(read_cases >= cases().len());
}
