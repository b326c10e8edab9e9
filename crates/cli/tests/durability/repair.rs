//! What an operator does to a directory that a start refuses, or that was put back from a copy.

use crate::damage::{Specimen, expect_long_recovery};
use crate::support::{PROGRAM, Place, RECOVERING, expect_warning, is_active, log_of, refused, serve};
use lockstead_testkit::data_dir::Snapshot;
use std::path::Path;
use std::process::{Command, Output};

fn repair(dir: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("repair").arg("--data-dir").arg(dir);
    command
}

fn text(output: &Output) -> String {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{stdout}{stderr}")
}

/// docs/journal-format.md, *Repair*: without more it only reports; a cut writes a new directory, and the start that
/// finds its mark grants nothing for as long as any lease can last.
#[test]
fn a_cut_writes_a_new_directory_that_recovers() {
    let mut specimen = Specimen::of_mode("process");
    let batches = specimen.segment.batches.clone();
    let bad = batches[batches.len() - 3].clone();
    let dir = specimen.flipped(bad.offset + 40);
    let before = Snapshot::of(&dir);
    let report = text(&repair(&dir).output().unwrap());
    for word in [specimen.name.as_str(), &bad.offset.to_string()] {
        assert!(report.contains(word), "the report does not name `{word}`: {report}");
    }
    assert!(before == Snapshot::of(&dir), "a report changed {before:?}");

    let cut = format!("{}:{}", specimen.name, bad.offset);
    let new = specimen.place.beside("repaired");
    let output = repair(&dir).args(["--cut", &cut, "--to"]).arg(&new).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(before == Snapshot::of(&dir), "a cut changed what it was made from: {before:?}");
    let log = log_of(&new);
    assert!(log.is_marked() && log.segments().len() == 1, "{log:?}");

    let mut server = serve("process", &new).start();
    let mut session = server.connect();
    expect_long_recovery(&mut session);
    specimen.judge_leases(bad.offset, &mut session, RECOVERING);
    server.kill();
    expect_long_recovery(&mut serve("machine", &new).start().connect());
    // What is cut is cut into an empty directory only.
    let output = repair(&dir).args(["--cut", &cut, "--to"]).arg(&new).output().unwrap();
    assert!(!output.status.success(), "{}", text(&output));
    refused(serve("process", &dir), &[&specimen.name]);
}

/// docs/journal-format.md, *Repair*: a directory that was put back from a copy is older than what was answered since,
/// so it is marked, and recovers.
#[test]
fn a_directory_that_was_put_back_recovers_once_it_is_marked() {
    let place = Place::new();
    let mut server = place.serve("process").start();
    let grant = server.connect().hold(200, 1, "k");
    server.kill();
    let copy = place.beside("copy");
    Snapshot::of(&place.data()).write_to(&copy);
    let output = repair(&copy).arg("--restored").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(log_of(&copy).is_marked());
    let server = serve("process", &copy).start();
    expect_warning(&server, &["repaired"]);
    let mut session = server.connect();
    expect_long_recovery(&mut session);
    assert!(is_active(&mut session, "k", grant.token));
}

/// Nobody repairs a directory while a server uses it.
#[test]
fn a_directory_that_is_in_use_is_not_repaired() {
    let place = Place::new();
    let server = place.serve("process").start();
    let grant = server.connect().hold(200, 1, "k");
    let before = Snapshot::of(&place.data());
    let output = repair(&place.data()).arg("--restored").output().unwrap();
    assert!(!output.status.success() && text(&output).contains("server"), "{}", text(&output));
    assert!(before == Snapshot::of(&place.data()));
    assert!(is_active(&mut server.connect(), "k", grant.token));
}
