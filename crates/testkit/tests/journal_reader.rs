//! The reader of journals, against directories that were written by released versions and what is known of them, and
//! against damage.

use lockstead_testkit::data_dir::Snapshot;
use lockstead_testkit::journal::{self, Log, Segment, set_stamp, set_version};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../journal/tests/fixtures/v1")
}

/// A directory, its segments, and what it should come to: the lines of its dump, and `key token` of its leases.
struct Fixture {
    name: String,
    segments: Vec<Segment>,
    lines: Vec<Value>,
    leases: Vec<String>,
}

fn all() -> Vec<Fixture> {
    let entries = fs::read_dir(fixtures()).expect("the fixtures are there");
    let mut dirs: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    dirs.retain(|path| path.is_dir());
    dirs.sort();
    dirs.iter().map(|dir| fixture(dir)).collect()
}

fn fixture(dir: &Path) -> Fixture {
    let name = dir.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let expected = fs::read_to_string(dir.with_extension("expected")).expect("what is expected");
    let is_line = |line: &&str| line.starts_with('{');
    let lines = expected.lines().filter(is_line).map(|line| serde_json::from_str(line).expect("JSON"));
    let leases = expected.lines().filter_map(|line| line.strip_prefix("lease "));
    let mut leases: Vec<String> =
        leases.map(|line| line.rsplit_once(' ').expect("an end").0.to_owned()).collect();
    leases.sort();
    let segments = journal::segments(dir).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    Fixture { lines: lines.collect(), leases, segments, name }
}

#[test]
fn released_directories_are_read_record_by_record() {
    let fixtures = all();
    assert!(fixtures.len() >= 6, "the fixtures are missing");
    for Fixture { name, segments, lines, .. } in fixtures {
        let read: Vec<Value> = segments.iter().flat_map(Segment::lines).collect();
        assert_eq!(read.len(), lines.len(), "{name}");
        for (read, expected) in read.iter().zip(&lines) {
            assert_eq!(read, expected, "{name}");
        }
    }
}

#[test]
fn released_directories_come_to_their_leases_and_have_no_faults() {
    for Fixture { name, segments, leases, .. } in all() {
        let log = Log::of(segments).expect("a log");
        let found: Vec<String> =
            log.leases().values().map(|lease| format!("{} {}", lease.key, lease.token)).collect();
        // A start leaves out those whose end has come.
        for lease in &leases {
            assert!(found.contains(lease), "{name}: `{lease}` is not in {found:?}");
        }
        assert!(found.len() <= leases.len() + 1, "{name}: {found:?} instead of {leases:?}");
        assert_eq!(log.faults(), Vec::<String>::new(), "{name}");
        assert_eq!(log.is_stopped(), name == "stopped", "{name}");
        assert_eq!(log.is_marked(), name == "restored", "{name}");
        let open = log.tenures().into_iter().filter(|tenure| tenure.over_ms.is_none());
        let mut open: Vec<String> = open.map(|tenure| format!("{} {}", tenure.key, tenure.token)).collect();
        open.sort();
        let mut found = found;
        found.sort();
        assert_eq!(open, found, "{name}: tenures and leases differ");
    }
}

const KILLED: &str = "0000000000000001.journal";

fn killed() -> Vec<u8> {
    Snapshot::of(&fixtures().join("killed")).bytes(KILLED).to_vec()
}

fn parse(bytes: &[u8]) -> Result<Segment, String> {
    Segment::parse(KILLED, bytes)
}

/// The canary: not one bit of a segment may be wrong without being noticed.
#[test]
fn every_flipped_bit_is_found() {
    let bytes = killed();
    let good = parse(&bytes).expect("a good segment");
    assert!(good.bad.is_none() && good.batches.len() == 4);
    let first_end = good.batches[0].end;
    for at in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        let place = at / 8;
        match parse(&flipped) {
            Err(_) => assert!(place < first_end, "bit {at}: unreadable"),
            Ok(segment) => {
                let bad = segment.bad.as_ref().unwrap_or_else(|| panic!("bit {at} was not noticed"));
                assert!((bad.offset..bytes.len()).contains(&place), "bit {at}: {bad:?}");
                let is_last = bad.offset == good.last().offset;
                assert_eq!(bad.behind.is_empty(), is_last, "bit {at}: {bad:?}");
                assert!(!bad.ends_inside, "bit {at}: {bad:?}");
                let log = Log::of(vec![segment]).expect("it stands alone");
                assert!(!log.faults().is_empty(), "bit {at}");
            }
        }
    }
}

#[test]
fn a_file_that_ends_inside_a_batch_is_told_from_one_that_is_damaged() {
    let bytes = killed();
    let good = parse(&bytes).expect("a good segment");
    for length in good.batches[0].end..bytes.len() {
        let segment = parse(&bytes[..length]).expect("its run record is whole");
        let whole = good.batches.iter().filter(|batch| batch.end <= length).count();
        assert_eq!(segment.batches.len(), whole, "cut to {length}");
        let is_edge = good.batches.iter().any(|batch| batch.end == length);
        assert_eq!(segment.bad.is_none(), is_edge, "cut to {length}");
        assert!(segment.bad.is_none_or(|bad| bad.ends_inside), "cut to {length}");
    }
    for length in 0..good.batches[0].end {
        assert!(parse(&bytes[..length]).is_err(), "cut to {length}");
    }
}

#[test]
fn batches_of_another_place_are_not_taken() {
    let bytes = killed();
    let good = parse(&bytes).expect("a good segment");
    // The last batch once more.
    let mut doubled = bytes.clone();
    doubled.extend_from_slice(&bytes[good.last().offset..]);
    let bad = parse(&doubled).expect("a segment").bad.expect("a bad batch");
    assert!(bad.offset == bytes.len() && bad.behind.is_empty() && !bad.ends_inside, "{bad:?}");
    // The same batches under the head of another segment: what makes it another one is its tag.
    let mut other = bytes.clone();
    other[16..24].copy_from_slice(b"othertag");
    assert!(parse(&other).is_err());
    other[24 + 4..24 + 12].copy_from_slice(b"othertag");
    assert!(parse(&other).is_err(), "the checksum of the header covers the tag");
}

#[test]
fn what_tests_forge_has_the_right_checksums() {
    let mut bytes = killed();
    let last = parse(&bytes).expect("a good segment").last().offset;
    set_stamp(&mut bytes, last, 77_777);
    let segment = parse(&bytes).expect("a good segment");
    assert!(segment.bad.is_none() && segment.last().stamp_ms == 77_777);
    set_stamp(&mut bytes, last, 1);
    let log = Log::of(vec![parse(&bytes).expect("a good segment")]).expect("a log");
    assert!(log.faults().iter().any(|fault| fault.contains("behind one of")), "{:?}", log.faults());
    set_version(&mut bytes, 2);
    assert_eq!(parse(&bytes).err().as_deref(), Some("0000000000000001.journal: format version 2"));
}
