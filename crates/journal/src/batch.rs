//! A batch: what one write appends. Its header ties it to its segment and its place there.

use crate::bytes::Bytes;
use crate::record::Record;

/// The bytes of a header.
pub(crate) const HEADER: usize = 36;
/// What the header's own checksum covers.
const CHECKED: usize = 32;

/// Where a batch may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) tag: u64,
    pub(crate) number: u64,
}

/// A buffer for records, with room for the header before them.
pub(crate) fn empty() -> Vec<u8> {
    vec![0; HEADER]
}

/// Empties a buffer for the next batch.
pub(crate) fn clear(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.resize(HEADER, 0);
}

/// Writes the header into its room; the batch is whole then.
pub(crate) fn seal(buffer: &mut [u8], place: Place, stamp_ms: u64) {
    let (header, records) = buffer.split_at_mut(HEADER);
    let length = u32::try_from(records.len()).expect("a batch is flushed long before 4 GiB");
    header[..4].copy_from_slice(&length.to_be_bytes());
    header[4..12].copy_from_slice(&place.tag.to_be_bytes());
    header[12..20].copy_from_slice(&place.number.to_be_bytes());
    header[20..28].copy_from_slice(&stamp_ms.to_be_bytes());
    header[28..32].copy_from_slice(&crc32c::crc32c(records).to_be_bytes());
    let checksum = crc32c::crc32c(&header[..CHECKED]);
    header[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
}

/// A good batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) number: u64,
    pub(crate) stamp_ms: u64,
    pub(crate) records: &'a [u8],
}

impl Batch<'_> {
    /// Its length with the header, in bytes.
    pub(crate) fn length(&self) -> usize {
        HEADER + self.records.len()
    }
}

/// Why there is no good batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotGood {
    /// The bytes end before the batch does.
    EndsInside,
    /// They are there, and are no batch of this place.
    Damaged,
}

struct Header {
    length: usize,
    place: Place,
    stamp_ms: u64,
    records_checksum: u32,
}

fn header(bytes: &mut Bytes<'_>) -> Option<Header> {
    let checked = bytes.0.get(..CHECKED)?;
    let header = Header {
        length: bytes.u32()? as usize,
        place: Place { tag: bytes.u64()?, number: bytes.u64()? },
        stamp_ms: bytes.u64()?,
        records_checksum: bytes.u32()?,
    };
    (bytes.u32()? == crc32c::crc32c(checked)).then_some(header)
}

/// The batch at the front of `bytes`, if it is the one that belongs there.
pub(crate) fn read(bytes: &[u8], place: Place) -> Result<Batch<'_>, NotGood> {
    if bytes.len() < HEADER {
        return Err(NotGood::EndsInside);
    }
    let batch = read_any(bytes, place.tag)?;
    if batch.number == place.number { Ok(batch) } else { Err(NotGood::Damaged) }
}

fn read_any(bytes: &[u8], tag: u64) -> Result<Batch<'_>, NotGood> {
    let mut bytes = Bytes(bytes);
    let header = header(&mut bytes).filter(|header| header.place.tag == tag).ok_or(NotGood::Damaged)?;
    let records = bytes.slice(header.length).ok_or(NotGood::EndsInside)?;
    if header.records_checksum != crc32c::crc32c(records) || !Record::are_readable(records) {
        return Err(NotGood::Damaged);
    }
    Ok(Batch { number: header.place.number, stamp_ms: header.stamp_ms, records })
}

/// The first good batch from offset `from` on, wherever it stands, whose number is not below that of `place`.
pub(crate) fn find(bytes: &[u8], from: usize, place: Place) -> Option<(usize, Batch<'_>)> {
    let tag = place.tag.to_be_bytes();
    let mut at = from;
    while at + HEADER <= bytes.len() {
        if bytes[at + 4..at + 12] == tag
            && let Ok(batch) = read_any(&bytes[at..], place.tag)
            && batch.number >= place.number
        {
            return Some((at, batch));
        }
        at += 1;
    }
    None
}
