//! One file of a journal, by docs/journal-format.md, *Segment* and *Batch*.

use super::crc::crc32c;
use super::record::{self, Record, Run, number};

/// Bytes before the first batch.
pub const HEAD: usize = 24;
/// Bytes of a batch before its records.
pub const BATCH_HEAD: usize = 36;
const MAGIC: &[u8] = b"LOCKJRNL";
const VERSION: u64 = 1;

/// A file, taken apart.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its name.
    pub name: String,
    /// Its number, which is its name.
    pub number: u64,
    /// Its length in bytes.
    pub length: usize,
    /// Who wrote it.
    pub run: Run,
    /// The good batches from the first on.
    pub batches: Vec<Batch>,
    /// What is behind them, if the file goes on.
    pub bad: Option<Bad>,
}

/// A good batch.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Where it begins.
    pub offset: usize,
    /// Where it ends.
    pub end: usize,
    /// When it was written, milliseconds of CLOCK_BOOTTIME.
    pub stamp_ms: u64,
    /// Its records.
    pub records: Vec<Record>,
}

/// The first place without a good batch, and what is behind it.
#[derive(Clone, Debug)]
pub struct Bad {
    /// Where.
    pub offset: usize,
    /// The file ends inside the bad batch.
    pub ends_inside: bool,
    /// Good batches behind it.
    pub behind: Vec<Batch>,
}

/// Why there is no good batch at a place.
enum NotGood {
    EndsInside,
    Damaged,
}

impl Segment {
    /// Takes a file apart.
    ///
    /// # Errors
    /// What makes it no segment: its head, its version, its run record.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, String> {
        let number = segment_number(name).ok_or_else(|| format!("{name}: no name of a segment"))?;
        let tag = read_head(bytes).map_err(|fault| format!("{name}: {fault}"))?;
        let (mut batches, mut bad) = (Vec::new(), None);
        let mut offset = HEAD;
        while offset < bytes.len() {
            match read_batch(bytes, offset, tag, batches.len() as u64) {
                Ok(batch) => {
                    offset = batch.end;
                    batches.push(batch);
                }
                Err(why) => {
                    let behind = batches_behind(bytes, offset, tag, batches.len() as u64);
                    bad = Some(Bad { offset, ends_inside: matches!(why, NotGood::EndsInside), behind });
                    break;
                }
            }
        }
        let Some(Record::Run(run)) = batches.first().and_then(|first| first.records.first()) else {
            return Err(format!("{name}: offset {HEAD}: there is no readable run record"));
        };
        let run = run.clone();
        Ok(Self { name: name.to_owned(), number, length: bytes.len(), run, batches, bad })
    }

    /// Whether a checkpoint has been finished in it.
    pub fn is_complete(&self) -> bool {
        self.batches.iter().any(|batch| batch.records.contains(&Record::EndMark))
    }

    /// Whether it has more than its run record.
    pub fn is_begun(&self) -> bool {
        let behind = self.bad.as_ref().is_some_and(|bad| !bad.behind.is_empty());
        behind || self.batches.iter().map(|batch| batch.records.len()).sum::<usize>() > 1
    }

    /// The last good batch.
    pub fn last(&self) -> &Batch {
        self.batches.last().expect("a segment has the batch with its run record")
    }
}

/// The number of a segment of this name, if it is one.
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".journal")?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (format!("{number:016x}") == digits).then_some(number)
}

fn read_head(bytes: &[u8]) -> Result<u64, String> {
    let head = bytes.get(..HEAD).ok_or("offset 0: shorter than a head")?;
    if &head[..8] != MAGIC || number(&head[12..16]) != u64::from(crc32c(&head[..12])) {
        return Err("offset 0: the head is damaged".to_owned());
    }
    match number(&head[8..12]) {
        VERSION => Ok(number(&head[16..])),
        version => Err(format!("format version {version}")),
    }
}

/// The batch at `offset`, if it is the good one with that number.
fn read_batch(bytes: &[u8], offset: usize, tag: u64, expected: u64) -> Result<Batch, NotGood> {
    let rest = &bytes[offset..];
    let head = rest.get(..BATCH_HEAD).ok_or(NotGood::EndsInside)?;
    let length = number(&head[..4]) as usize;
    let fits = number(&head[4..12]) == tag && number(&head[12..20]) == expected;
    if !fits || length == 0 || number(&head[32..]) != u64::from(crc32c(&head[..32])) {
        return Err(NotGood::Damaged);
    }
    let records = rest[BATCH_HEAD..].get(..length).ok_or(NotGood::EndsInside)?;
    if number(&head[28..32]) != u64::from(crc32c(records)) {
        return Err(NotGood::Damaged);
    }
    let records = record::parse_all(records).map_err(|_| NotGood::Damaged)?;
    let runs = records.iter().enumerate().filter(|(_, record)| matches!(record, Record::Run(_)));
    if runs.clone().any(|(at, _)| at > 0) || (runs.count() > 0) != (expected == 0) {
        return Err(NotGood::Damaged);
    }
    let end = offset + BATCH_HEAD + length;
    Ok(Batch { offset, end, stamp_ms: number(&head[20..28]), records })
}

fn batches_behind(bytes: &[u8], bad: usize, tag: u64, mut least: u64) -> Vec<Batch> {
    let mut behind = Vec::new();
    let mut offset = bad + 1;
    while let Some(head) = bytes.get(offset..offset + BATCH_HEAD) {
        let batch = number(&head[12..20]);
        let may_be = number(&head[4..12]) == tag && batch >= least;
        match may_be.then(|| read_batch(bytes, offset, tag, batch)) {
            Some(Ok(good)) => {
                offset = good.end;
                least = batch + 1;
                behind.push(good);
            }
            _ => offset += 1,
        }
    }
    behind
}

/// Writes another version into the head of a segment, with the checksum that fits.
///
/// # Panics
/// When the bytes are shorter than a head.
pub fn set_version(bytes: &mut [u8], version: u32) {
    bytes[8..12].copy_from_slice(&version.to_be_bytes());
    let checksum = crc32c(&bytes[..12]);
    bytes[12..16].copy_from_slice(&checksum.to_be_bytes());
}

/// Writes another instant into the batch at `offset`, with the checksum that fits.
///
/// # Panics
/// When the bytes end before the header does.
pub fn set_stamp(bytes: &mut [u8], offset: usize, stamp_ms: u64) {
    let head = &mut bytes[offset..offset + BATCH_HEAD];
    head[20..28].copy_from_slice(&stamp_ms.to_be_bytes());
    let checksum = crc32c(&head[..32]);
    head[32..].copy_from_slice(&checksum.to_be_bytes());
}
