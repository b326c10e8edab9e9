//! Damage after the machine was started anew.

use crate::damage::Specimen;
use crate::support::{RECOVERING, expect_warning, on_boot, refused, serve};
use lockstead_testkit::Builder;
use lockstead_testkit::data_dir::Snapshot;
use std::path::Path;

fn second_boot(mode: &str, dir: &Path) -> Builder {
    on_boot(serve(mode, dir), &dir.with_extension("boot"), "second")
}

/// docs/journal-format.md, *Reading*: in mode `process` nothing is sure to be on the disk when the machine stops.
/// From the first bad batch on everything is dropped, and the start recovers anyway; but lease and token ceilings
/// count wherever they stand.
#[test]
fn mode_process_drops_everything_from_the_first_bad_batch_on() {
    let mut specimen = Specimen::new(|place| place.serve_on_boot("process", "first").start());
    let batches = specimen.segment.batches.clone();
    let last_token = specimen.grants.iter().map(|&(_, token)| token).max().unwrap();
    let ceiling_ms = specimen.place.log().lease_ceiling_ms();
    assert!(ceiling_ms > 200_000);
    let middle = batches.len() / 2;
    for (index, batch) in [1, 2, middle, batches.len() - 1].map(|index| (index, &batches[index])) {
        let mut dirs = vec![
            (specimen.with(|bytes| bytes[batch.offset + 40] ^= 1), true),
            (specimen.with(|bytes| bytes[batch.offset..batch.end].fill(0)), true),
        ];
        // What stood before the first grant was synced, so no crash cuts it off.
        if index >= middle {
            dirs.push((specimen.with(|bytes| bytes.truncate(batch.end - 1)), false));
        }
        for (dir, keeps_ceilings) in dirs {
            let server = second_boot("process", &dir).start();
            expect_warning(&server, &[&specimen.name, &batch.offset.to_string()]);
            let mut session = server.connect();
            let (state, remaining_ms, _) = session.query("free");
            assert_eq!(state, RECOVERING);
            if keeps_ceilings && index < batches.len() - 1 {
                let left_ms = u64::from(remaining_ms);
                assert!(left_ms + 15_000 > ceiling_ms, "{left_ms} of {ceiling_ms} ms are left");
            }
            specimen.judge_leases(batch.offset, &mut session, RECOVERING);
            drop(server);
            // Tokens go on above all that may have been used.
            let ceiling = crate::support::log_of(&dir).token_ceiling();
            assert!(!keeps_ceilings || ceiling > last_token, "the ceiling is {ceiling} after {last_token}");
        }
    }
}

/// docs/journal-format.md, *Reading*: in mode `machine` everything that was answered was on the disk, so the rules
/// are those of the same boot.
#[test]
fn mode_machine_is_as_strict_as_on_the_same_boot() {
    let mut specimen = Specimen::new(|place| place.serve_on_boot("machine", "first").start());
    let batches = specimen.segment.batches.clone();
    let middle = batches[batches.len() / 2].clone();
    let dir = specimen.flipped(middle.offset + 40);
    let before = Snapshot::of(&dir);
    refused(second_boot("machine", &dir), &[&specimen.name, &middle.offset.to_string()]);
    assert!(before == Snapshot::of(&dir), "a refused start changed {before:?}");

    let last = specimen.segment.last().clone();
    let dir = specimen.with(|bytes| bytes.truncate(last.end - 1));
    let server = second_boot("machine", &dir).start();
    expect_warning(&server, &[&specimen.name, &last.offset.to_string()]);
    specimen.judge_leases(last.offset, &mut server.connect(), crate::support::FREE);

    let dir = specimen.flipped(last.end - 1);
    let server = second_boot("machine", &dir).start();
    expect_warning(&server, &[&specimen.name, &last.offset.to_string()]);
    crate::damage::expect_long_recovery(&mut server.connect());
}
