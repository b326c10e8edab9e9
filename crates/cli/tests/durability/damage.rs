//! Directories that are cut, flipped and forged, and started on the same boot of the machine.

use crate::support::{
    FREE, HELD, LONGEST_MS, Place, RECOVERING, expect_warning, extend, is_active, refused, serve,
};
use lockstead_testkit::Raw;
use lockstead_testkit::data_dir::Snapshot;
use lockstead_testkit::journal::{BATCH_HEAD, HEAD, Log, Segment, set_version};
use std::path::PathBuf;

/// A directory that a killed run left: one segment, in which each answered request has a batch of its own.
pub struct Specimen {
    pub place: Place,
    pub snapshot: Snapshot,
    pub name: String,
    pub segment: Segment,
    /// Every key that was ever held, with each token.
    pub grants: Vec<(String, u64)>,
    copies: u32,
}

impl Specimen {
    /// Made by `start`, which is given the place.
    pub fn new(start: impl FnOnce(&Place) -> lockstead_testkit::Server) -> Self {
        let place = Place::new();
        let mut server = start(&place);
        let mut session = server.connect();
        let mut grants = Vec::new();
        for owner in 0..6 {
            let key = format!("k{owner}");
            let grant = session.hold(200, owner, &key);
            grants.push((key, grant.token));
            match owner {
                2 => session.release(grants[1].1, "k1"),
                3 => extend(&mut session, 250, "k0", grants[0].1),
                _ => {}
            }
        }
        server.kill();
        let log = place.log();
        let segment = log.last_segment().clone();
        assert!(log.segments().len() == 1 && segment.batches.len() > 8, "{segment:?}");
        let snapshot = Snapshot::of(&place.data());
        Self { place, snapshot, name: segment.name.clone(), segment, grants, copies: 0 }
    }

    pub fn of_mode(mode: &str) -> Self {
        Self::new(|place| place.serve(mode).start())
    }

    /// A directory that differs in the bytes of its one segment.
    pub fn with(&mut self, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
        self.copies += 1;
        let dir = self.place.beside(&format!("copy{}", self.copies));
        let mut snapshot = self.snapshot.clone();
        change(snapshot.bytes_mut(&self.name));
        snapshot.write_to(&dir);
        dir
    }

    /// A directory in which one byte of the segment is another.
    pub fn flipped(&mut self, at: usize) -> PathBuf {
        self.with(|bytes| bytes[at] ^= 0x10)
    }

    /// What is held after these first bytes of the segment, and nothing else, is held in the server.
    pub fn judge_leases(&self, good: usize, session: &mut Raw, otherwise: u8) {
        let bytes = &self.snapshot.bytes(&self.name)[..good];
        let segment = Segment::parse(&self.name, bytes).unwrap();
        let leases = Log::of(vec![segment]).unwrap().leases();
        for (key, token) in &self.grants {
            let is_held = leases.get(key).is_some_and(|lease| lease.token == *token);
            assert_eq!(
                session.query(key).0,
                if is_held { HELD } else { otherwise },
                "{key} after {good} bytes"
            );
            assert_eq!(is_active(session, key, *token), is_held, "{key} after {good} bytes");
        }
    }
}

/// Offsets of one byte of each field of a batch.
fn fields(batch: &lockstead_testkit::journal::Batch) -> Vec<usize> {
    let mut fields: Vec<usize> =
        [2, 7, 15, 24, 29, 33, BATCH_HEAD].map(|field| batch.offset + field).to_vec();
    fields.push(batch.end - 1);
    fields
}

/// docs/journal-format.md, *Reading*: a file that ends inside its last batch is good up to there. The write never
/// returned, so nobody was told of it; everything before is kept, and nothing has to be waited for.
#[test]
fn a_segment_that_is_cut_goes_on_from_its_last_whole_batch() {
    for mode in ["process", "machine"] {
        let mut specimen = Specimen::of_mode(mode);
        let batches = specimen.segment.batches.clone();
        for batch in &batches[batches.len() - if mode == "process" { 6 } else { 2 }..] {
            let inside = [1, BATCH_HEAD - 1, BATCH_HEAD, BATCH_HEAD + 1, batch.end - batch.offset - 1];
            for length in std::iter::once(0).chain(inside) {
                let dir = specimen.with(|bytes| bytes.truncate(batch.offset + length));
                let server = serve(mode, &dir).start();
                if length > 0 {
                    expect_warning(&server, &[&specimen.name, &batch.offset.to_string()]);
                }
                specimen.judge_leases(batch.offset, &mut server.connect(), FREE);
                server.connect().hold(1, 1, "free");
            }
        }
    }
}

/// docs/journal-format.md, *Reading*: a bad batch with a good one behind it is corruption. The start stops, names
/// file and offset, and changes nothing.
#[test]
fn a_flipped_byte_in_the_middle_stops_the_start() {
    for mode in ["process", "machine"] {
        let mut specimen = Specimen::of_mode(mode);
        let batches = specimen.segment.batches.clone();
        // The checkpoint of the start, and one that was answered.
        for batch in [&batches[1], &batches[batches.len() / 2]] {
            for at in fields(batch) {
                let dir = specimen.flipped(at);
                expect_corruption(mode, &dir, &specimen.name, batch.offset);
            }
        }
        // A batch that is missing as a whole, and two that have changed places.
        let [first, second] = [batches[4].clone(), batches[5].clone()];
        let dir = specimen.with(|bytes| _ = bytes.drain(first.offset..first.end));
        expect_corruption(mode, &dir, &specimen.name, first.offset);
        let dir = specimen.with(|bytes| {
            bytes[first.offset..second.end].rotate_left(first.end - first.offset);
        });
        expect_corruption(mode, &dir, &specimen.name, first.offset);
    }
}

fn expect_corruption(mode: &str, dir: &std::path::Path, file: &str, offset: usize) {
    let before = Snapshot::of(dir);
    refused(serve(mode, dir), &[file, &offset.to_string()]);
    assert!(before == Snapshot::of(dir), "a refused start changed {before:?} to {:?}", Snapshot::of(dir));
}

/// docs/journal-format.md, *Reading*: if the bytes of the last batch are there but bad, somebody may have been told
/// of it. It is dropped with a warning, and nothing is granted for as long as any lease can last.
#[test]
fn a_last_batch_that_is_bad_is_dropped_and_recovered_from() {
    for mode in ["process", "machine"] {
        let mut specimen = Specimen::of_mode(mode);
        let last = specimen.segment.last().clone();
        let end = last.end;
        let mut cases: Vec<(PathBuf, usize)> =
            fields(&last).into_iter().map(|at| (specimen.flipped(at), last.offset)).collect();
        // Bytes of nowhere behind it.
        cases.push((specimen.with(|bytes| bytes.extend_from_slice(&[0; 100])), end));
        cases.push((specimen.with(|bytes| bytes.extend_from_within(last.offset..)), end));
        for (dir, good) in cases {
            let mut server = serve(mode, &dir).start();
            expect_warning(&server, &[&specimen.name, &good.to_string()]);
            expect_long_recovery(&mut server.connect());
            specimen.judge_leases(good, &mut server.connect(), RECOVERING);
            // A restart does not shorten it.
            server.kill();
            expect_long_recovery(&mut serve(mode, &dir).start().connect());
        }
    }
}

/// The server grants nothing for 255 s.
pub fn expect_long_recovery(session: &mut Raw) {
    let (state, remaining_ms, _) = session.query("free");
    assert_eq!(state, RECOVERING);
    let range = LONGEST_MS - 15_000..=LONGEST_MS + 2;
    assert!(range.contains(&remaining_ms), "{remaining_ms} ms are left of the recovery");
}

/// docs/journal-format.md, *The directory*: a segment has a readable run record from its first moment on, so one
/// without was damaged, on whatever boot.
#[test]
fn a_segment_without_a_run_record_stops_the_start() {
    let mut specimen = Specimen::of_mode("process");
    let first = specimen.segment.batches[0].clone();
    let second = specimen.segment.batches[1].clone();
    let mut dirs: Vec<PathBuf> = Vec::new();
    for at in [0, 9, 13, 17, HEAD + 1, HEAD + BATCH_HEAD, first.end - 1] {
        dirs.push(specimen.flipped(at));
    }
    for length in [0, 10, HEAD, HEAD + 10, first.end - 1] {
        dirs.push(specimen.with(|bytes| bytes.truncate(length)));
    }
    // A newer one that is empty, beside one that is whole.
    let newer = specimen.with(|_| {});
    let newer_name = format!("{:016x}.journal", specimen.segment.number + 1);
    std::fs::write(newer.join(&newer_name), b"").unwrap();
    for dir in &dirs {
        for boot in ["same", "other"] {
            refuses_unchanged(dir, boot, &[&specimen.name]);
        }
    }
    refuses_unchanged(&newer, "same", &[&newer_name]);
    // And a log that does not begin with a whole checkpoint.
    for length in [second.offset, second.offset + 1, second.end - 1] {
        let dir = specimen.with(|bytes| bytes.truncate(length));
        refuses_unchanged(&dir, "same", &[&specimen.name, &second.offset.to_string()]);
    }
}

fn refuses_unchanged(dir: &std::path::Path, boot: &str, words: &[&str]) {
    let before = Snapshot::of(dir);
    let builder = match boot {
        "same" => serve("process", dir),
        other => crate::support::on_boot(serve("process", dir), &dir.with_extension("boot"), other),
    };
    refused(builder, words);
    assert!(before == Snapshot::of(dir), "a refused start changed {before:?} to {:?}", Snapshot::of(dir));
}

/// docs/journal-format.md, *Segment*: a reader that meets a version above its own stops and changes nothing.
#[test]
fn a_newer_format_stops_the_start() {
    let mut specimen = Specimen::of_mode("process");
    let dir = specimen.with(|bytes| set_version(bytes, 2));
    for boot in ["same", "other"] {
        refuses_unchanged(&dir, boot, &[&specimen.name, "version 2", "newer"]);
    }
    // Whatever else a later version may have in it.
    let dir = specimen.with(|bytes| {
        set_version(bytes, 77);
        bytes.truncate(17);
    });
    refuses_unchanged(&dir, "same", &[&specimen.name, "version 77"]);
}

/// docs/journal-format.md, *The directory* and *Log*: what is being made means nothing, what is older than a
/// checkpoint is never read, and other names are left alone.
#[test]
fn what_is_not_part_of_the_log_does_no_harm() {
    let mut specimen = Specimen::of_mode("process");
    let dir = specimen.with(|_| {});
    let (unfinished, void) = ("00000000000000ff.new", "0000000000000000.journal");
    for name in [unfinished, void, "README", "00000000000000AA.journal", "12.journal"] {
        std::fs::write(dir.join(name), "no journal").unwrap();
    }
    let server = serve("process", &dir).start();
    let mut session = server.connect();
    specimen.judge_leases(specimen.segment.length, &mut session, FREE);
    let begun = std::time::Instant::now();
    while [unfinished, void].iter().any(|name| dir.join(name).exists()) {
        assert!(begun.elapsed() < 5 * crate::support::SECOND, "what means nothing is not deleted");
        session.ping();
    }
    drop(server);
    let after = Snapshot::of(&dir);
    for name in ["README", "00000000000000AA.journal", "12.journal"] {
        assert_eq!(after.bytes(name), b"no journal");
    }
    let newest = crate::support::log_of(&dir).last_segment().number;
    assert!(newest > 0xff, "segment {newest:#x} was made beside {unfinished}");
}
