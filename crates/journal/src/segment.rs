//! A segment: one file of the journal, its name, its head, and the batches in it.

use crate::batch::{self, Batch, NotGood, Place};
use crate::bytes::Bytes;
use crate::record::{Record, Run};

/// The version of the format that is written.
pub(crate) const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"LOCKJRNL";
/// The bytes before the first batch.
pub(crate) const HEAD: usize = 24;

/// What a file in the directory is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// A segment.
    Journal(u64),
    /// One that is being made.
    New(u64),
}

impl Name {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (digits, kind) = name.split_once('.')?;
        // There is always a number above.
        let number = u64::from_str_radix(digits, 16).ok().filter(|&number| number < u64::MAX)?;
        let parsed = match kind {
            "journal" => Self::Journal(number),
            "new" => Self::New(number),
            _ => return None,
        };
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal(number) => write!(f, "{number:016x}.journal"),
            Self::New(number) => write!(f, "{number:016x}.new"),
        }
    }
}

/// The first bytes of a segment.
pub(crate) fn head(tag: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_be_bytes());
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(&tag.to_be_bytes());
    out
}

/// A tag that no other segment has, from bytes drawn at the start and the segment's number.
pub(crate) fn tag(random: &[u8; 16], number: u64) -> u64 {
    let [a, b] = [&random[..8], &random[8..]]
        .map(|half| u64::from_be_bytes(half.try_into().expect("half of sixteen bytes are eight")));
    let mixed = (a ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_add(b.rotate_left(17)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Why a file is not a segment that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// A later version of the format.
    Newer(u32),
    /// No head, or no run record behind it, at this offset.
    NoRun(usize),
}

/// Where the good batches of a segment end before the file does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bad {
    /// The offset of the first bad batch.
    pub(crate) offset: usize,
    pub(crate) why: NotGood,
}

/// A good batch in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Where its header begins.
    pub(crate) offset: usize,
    /// Where its records end.
    pub(crate) end: usize,
    pub(crate) stamp_ms: u64,
}

impl Found {
    fn at(offset: usize, batch: &Batch<'_>) -> Self {
        Self { offset, end: offset + batch.length(), stamp_ms: batch.stamp_ms }
    }
}

/// A segment, taken apart.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) run: Run,
    /// The good batches from the first on, which begins with the run record.
    pub(crate) batches: Vec<Found>,
    pub(crate) bad: Option<Bad>,
    /// Good batches behind the first bad one.
    pub(crate) behind: Vec<Found>,
    pub(crate) is_complete: bool,
}

impl Segment {
    pub(crate) fn read(number: u64, bytes: Vec<u8>) -> Result<Self, Unreadable> {
        let tag = read_head(&bytes)?;
        let (batches, bad) = good_batches(&bytes, tag);
        let first = batches.first().and_then(|first| records(&bytes, first).next());
        let Some(Record::Run(run)) = first else {
            return Err(Unreadable::NoRun(HEAD));
        };
        let place = Place { tag, number: batches.len() as u64 };
        let behind = bad.map(|bad| good_batches_behind(&bytes, bad.offset, place)).unwrap_or_default();
        let is_complete = batches.iter().any(|batch| records(&bytes, batch).any(|r| r == Record::EndMark));
        Ok(Self { number, bytes, run, batches, bad, behind, is_complete })
    }

    pub(crate) fn name(&self) -> String {
        Name::Journal(self.number).to_string()
    }

    /// How many bytes are good, from the first on.
    pub(crate) fn good_bytes(&self) -> usize {
        self.bad.map_or(self.bytes.len(), |bad| bad.offset)
    }

    /// The records of a batch.
    pub(crate) fn records(&self, batch: &Found) -> impl Iterator<Item = Record<'_>> {
        records(&self.bytes, batch)
    }

    /// Leaves out everything from an offset on.
    pub(crate) fn cut(&mut self, offset: u64) {
        self.batches.retain(|batch| batch.end as u64 <= offset);
        self.behind.clear();
        self.bad = self.bad.filter(|bad| (bad.offset as u64) < offset);
    }

    /// Whether anything but the run record was written.
    pub(crate) fn is_begun(&self) -> bool {
        let records = self.batches.iter().chain(&self.behind).flat_map(|batch| self.records(batch));
        records.take(2).count() > 1
    }
}

fn records<'a>(bytes: &'a [u8], batch: &Found) -> impl Iterator<Item = Record<'a>> + use<'a> {
    Record::all(&bytes[batch.offset + batch::HEADER..batch.end])
}

fn read_head(bytes: &[u8]) -> Result<u64, Unreadable> {
    let mut head = Bytes(bytes);
    let mut read = || Some((head.array::<8>()?, head.u32()?, head.u32()?));
    let (magic, version, checksum) = read().ok_or(Unreadable::NoRun(0))?;
    if &magic != MAGIC || checksum != crc32c::crc32c(&bytes[..12]) {
        return Err(Unreadable::NoRun(0));
    }
    if version > VERSION {
        return Err(Unreadable::Newer(version));
    }
    head.u64().ok_or(Unreadable::NoRun(0))
}

/// The good batches from the head on, and where and why they end before the file does.
fn good_batches(bytes: &[u8], tag: u64) -> (Vec<Found>, Option<Bad>) {
    let mut batches = Vec::new();
    let mut offset = HEAD;
    while offset < bytes.len() {
        let place = Place { tag, number: batches.len() as u64 };
        match batch::read(&bytes[offset..], place) {
            // A run record makes a segment: it stands at its beginning and nowhere else.
            Ok(batch) if begins_with_run(&batch) != batches.is_empty() => {
                return (batches, Some(Bad { offset, why: NotGood::Damaged }));
            }
            Ok(batch) => {
                batches.push(Found::at(offset, &batch));
                offset += batch.length();
            }
            Err(why) => return (batches, Some(Bad { offset, why })),
        }
    }
    (batches, None)
}

fn good_batches_behind(bytes: &[u8], from: usize, mut place: Place) -> Vec<Found> {
    let mut behind = Vec::new();
    let mut from = from;
    while let Some((offset, batch)) = batch::find(bytes, from, place) {
        behind.push(Found::at(offset, &batch));
        place.number = batch.number + 1;
        from = offset + batch.length();
    }
    behind
}

fn begins_with_run(batch: &Batch<'_>) -> bool {
    matches!(Record::all(batch.records).next(), Some(Record::Run(_)))
}
