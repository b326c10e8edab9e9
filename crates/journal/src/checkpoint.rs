//! A segment that stands alone, written in one go: at a start, and by a repair.

use std::io;

use crate::batch;
use crate::core::{Current, begin};
use crate::job;
use crate::record::{LeaseRecord, Record, Run};
use crate::segment::{self, Name};
use crate::storage::Storage;

/// A batch is written when it has so many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// What the segment is to hold.
pub(crate) struct Alone<'a> {
    pub(crate) number: u64,
    pub(crate) random: &'a [u8; 16],
    pub(crate) run: &'a Run,
    pub(crate) now_ms: u64,
    /// A record behind the end mark.
    pub(crate) last: Option<Record<'a>>,
}

impl Alone<'_> {
    /// Writes it and gives it its name. After an error there may be a file under either name.
    pub(crate) fn write<'a>(
        &self,
        storage: &dyn Storage,
        leases: impl Iterator<Item = LeaseRecord<'a>>,
    ) -> io::Result<Current> {
        let (new, name) = (Name::New(self.number), Name::Journal(self.number));
        let tag = segment::tag(self.random, self.number);
        let first = begin(tag, &Record::Run(self.run.clone()), self.now_ms);
        let file = storage.create(&new.to_string())?;
        file.append(&first)?;
        let mut current =
            Current { number: self.number, file, tag, next_batch: 1, bytes: first.len() as u64 };
        let mut buffer = batch::empty();
        for lease in leases {
            lease.encode(&mut buffer);
            if buffer.len() >= BATCH_BYTES {
                self.append(&mut current, &mut buffer)?;
            }
        }
        Record::LeaseCeiling(self.run.ceilings.lease_ms).encode(&mut buffer);
        Record::TokenCeiling(self.run.ceilings.token).encode(&mut buffer);
        Record::EndMark.encode(&mut buffer);
        if let Some(last) = &self.last {
            last.encode(&mut buffer);
        }
        self.append(&mut current, &mut buffer)?;
        job::publish(storage, &current.file, &new.to_string(), &name.to_string())?;
        current.file.expect_no_reads();
        Ok(current)
    }

    fn append(&self, current: &mut Current, buffer: &mut Vec<u8>) -> io::Result<()> {
        current.seal(buffer, self.now_ms);
        current.file.append(buffer)?;
        batch::clear(buffer);
        Ok(())
    }
}
