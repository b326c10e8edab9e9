//! The bytes, as docs/journal-format.md has them, and what reading makes of any others.

use proptest::prelude::*;

use crate::batch::{self, Place};
use crate::bytes::Bytes;
use crate::core::begin;
use crate::record::{Cause, Ceilings, End, Kind, LeaseRecord, Record, RepairCause, Run};
use crate::segment::{Name, Segment};
use crate::tests::bench::{Bench, options};
use crate::*;

fn run() -> Run {
    Run {
        number: 3,
        mode: Mode::Machine,
        kind: Kind::Continuing,
        server_id: *b"0123456789abcdef",
        ceilings: Ceilings { lease_ms: 30_001, token: 0x0102_0304_0506_0708 },
        recovery: Some(End { at_ms: 500_000, left_ms: 255_001 }),
        boot: BootIdentity::new("id/0 0"),
    }
}

fn lease(cause: Cause) -> Record<'static> {
    Record::Lease(LeaseRecord { cause, token: 5, end: End { at_ms: 31_001, left_ms: 30_001 }, key: "é" })
}

fn hex(record: &Record<'_>) -> String {
    let mut out = Vec::new();
    record.encode(&mut out);
    assert_eq!(Record::decode(&mut Bytes(&out)).as_ref(), Some(record));
    out.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_record_is_written_as_the_page_says() {
    let rest = "0000000000000005".to_owned() + "0000000000007919" + "00007531" + "0002c3a9";
    assert_eq!(hex(&lease(Cause::Granted)), "02".to_owned() + &rest);
    assert_eq!(hex(&lease(Cause::Extended)), "03".to_owned() + &rest);
    assert_eq!(hex(&lease(Cause::Copy)), "04".to_owned() + &rest);
    assert_eq!(hex(&Record::Freed { token: 5, key: "k" }), "05000000000000000500016b");
    assert_eq!(hex(&Record::LeaseCeiling(30_001)), "0600007531");
    assert_eq!(hex(&Record::TokenCeiling(9)), "070000000000000009");
    assert_eq!(hex(&Record::EndMark), "08");
    assert_eq!(hex(&Record::Stop), "09");
    assert_eq!(hex(&Record::RepairMark(RepairCause::Cut)), "0a01");
    assert_eq!(hex(&Record::RepairMark(RepairCause::Restored)), "0a02");
    let expected = [
        "01",
        "0000000000000003",
        "02",
        "02",
        "30313233343536373839616263646566",
        "00007531",
        "0102030405060708",
        "000000000007a120",
        "0003e419",
        "06",
        "69642f302030",
    ];
    assert_eq!(hex(&Record::Run(run())), expected.concat());
}

#[test]
fn a_segment_and_its_first_batch_are_written_as_the_page_says() {
    let bytes = begin(0x1122_3344_5566_7788, &Record::Run(run()), 77);
    let hex: String = bytes[..60].iter().map(|byte| format!("{byte:02x}")).collect();
    let crc = |bytes: &[u8]| format!("{:08x}", crc32c::crc32c(bytes));
    let expected = [
        "4c4f434b4a524e4c",
        "00000001",
        &crc(&bytes[..12]),
        "1122334455667788",
        &format!("{:08x}", bytes.len() - 60),
        "1122334455667788",
        "0000000000000000",
        "000000000000004d",
        &crc(&bytes[60..]),
        &crc(&bytes[24..56]),
    ];
    assert_eq!(hex, expected.concat());
    // CRC-32C is the one with this check value.
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn names_are_read_as_they_are_written_and_no_others() {
    for name in [Name::Journal(0x1f), Name::New(u64::MAX - 1)] {
        assert_eq!(Name::parse(&name.to_string()), Some(name));
    }
    assert_eq!(Name::Journal(0x1f).to_string(), "000000000000001f.journal");
    for other in
        ["lock", "1f.journal", "000000000000001F.journal", "+00000000000001f.new", "000000000000001f.old"]
    {
        assert_eq!(Name::parse(other), None, "{other}");
    }
}

#[test]
fn records_that_cannot_be_are_not_read() {
    let bad: [&[u8]; 9] = [
        b"",
        b"\x00",
        b"\x0b",
        b"\x0a\x03",
        b"\x05\0\0\0\0\0\0\0\x05\0\0",
        b"\x05\0\0\0\0\0\0\0\0\0\x01k",
        b"\x05\x80\0\0\0\0\0\0\0\0\x01k",
        b"\x05\0\0\0\0\0\0\0\x05\0\x01\xff",
        b"\x05\0\0\0\0\0\0\0\x05\0\x02k",
    ];
    for bytes in bad {
        assert_eq!(Record::decode(&mut Bytes(bytes)), None, "{bytes:?}");
        assert!(!Record::are_readable(bytes), "{bytes:?}");
    }
    let long = [&b"\x05\0\0\0\0\0\0\0\x05\x04\x01"[..], &[b'k'; 1025]].concat();
    assert_eq!(Record::decode(&mut Bytes(&long)), None);
    let mut late = Vec::new();
    Record::EndMark.encode(&mut late);
    Record::Run(run()).encode(&mut late);
    assert!(!Record::are_readable(&late), "a run record stands first");
}

/// A segment of `batches` batches, the n-th of which frees token n + 1.
fn segment(batches: u64) -> Vec<u8> {
    let tag = 0x0102_0304_0506_0708;
    let mut bytes = begin(tag, &Record::Run(run()), 1);
    for number in 1..=batches {
        let mut buffer = batch::empty();
        Record::Freed { token: number + 1, key: "key" }.encode(&mut buffer);
        if number == 1 {
            Record::EndMark.encode(&mut buffer);
        }
        batch::seal(&mut buffer, Place { tag, number }, number);
        bytes.extend_from_slice(&buffer);
    }
    bytes
}

fn tokens(segment: &Segment, batches: &[crate::segment::Found]) -> Vec<u64> {
    let records = batches.iter().flat_map(|batch| segment.records(batch));
    records
        .filter_map(|record| if let Record::Freed { token, .. } = record { Some(token) } else { None })
        .collect()
}

#[test]
fn a_run_record_stands_at_the_beginning_and_nowhere_else() {
    let mut bytes = segment(1);
    let good = bytes.len();
    let mut buffer = batch::empty();
    Record::Run(run()).encode(&mut buffer);
    batch::seal(&mut buffer, Place { tag: 0x0102_0304_0506_0708, number: 2 }, 1);
    bytes.append(&mut buffer);
    let segment = Segment::read(1, bytes).unwrap();
    assert_eq!((segment.batches.len(), segment.good_bytes()), (2, good));
}

/// Opens a directory with these bytes in its only segment; whatever they are, that ends.
fn open(bytes: &[u8]) {
    let mut disk = Disk::default();
    disk.put("0000000000000001.journal", bytes.to_vec());
    let storage = MemoryStorage::new(disk.clone());
    let _ = report(&storage, None, 1_000);
    dump(&storage, &mut Vec::new()).unwrap();
    for (mode, boot) in [(Mode::Process, "id/0 0"), (Mode::Machine, "other")] {
        let _ = Bench::try_open(disk.clone(), &options(mode, boot, 1_000)).map(drop);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Record::are_readable(&bytes);
        open(&bytes);
        // The same behind a good beginning.
        open(&[&segment(1)[..], &bytes[..]].concat());
        let mut sealed = batch::empty();
        sealed.extend_from_slice(&bytes);
        batch::seal(&mut sealed, Place { tag: 0x0102_0304_0506_0708, number: 2 }, 3);
        open(&[&segment(1)[..], &sealed[..]].concat());
    }

    #[test]
    fn a_change_anywhere_is_noticed(at in any::<prop::sample::Index>(), change in 1_u8..=255, batches in 2_u64..8) {
        let whole = segment(batches);
        let mut bytes = whole.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        open(&bytes);
        if let Ok(segment) = Segment::read(1, bytes) {
            let (good, behind) = (tokens(&segment, &segment.batches), tokens(&segment, &segment.behind));
            let expected: Vec<u64> = (2..=batches + 1).collect();
            prop_assert!(expected.starts_with(&good) && good.len() < expected.len());
            prop_assert!(expected.ends_with(&behind) && good.len() + behind.len() == expected.len() - 1);
            prop_assert_eq!(segment.bad.is_some(), true);
        }
    }

    #[test]
    fn a_cut_anywhere_leaves_a_beginning(at in any::<prop::sample::Index>(), batches in 1_u64..8) {
        let mut bytes = segment(batches);
        bytes.truncate(at.index(bytes.len()));
        open(&bytes);
        if let Ok(segment) = Segment::read(1, bytes) {
            let good = tokens(&segment, &segment.batches);
            let expected: Vec<u64> = (2..=batches + 1).collect();
            prop_assert!(expected.starts_with(&good) && good.len() < expected.len());
            prop_assert!(segment.behind.is_empty());
        }
    }
}
