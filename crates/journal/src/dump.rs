//! A journal as text: one JSON object a line for each record, in the order in which they were written.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::record::{Cause, Record, RepairCause, Run};
use crate::replay::{Directory, read_if_there};
use crate::segment::{Bad, Name, Segment, Unreadable};
use crate::storage::Storage;

/// Why a journal could not be dumped to its end.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The reader's: nothing to dump.
    #[error("there is no journal in the data directory")]
    NoData,
    /// The disk's.
    #[error("cannot read the journal: {0}")]
    Read(io::Error),
    /// The reader's of what is written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

/// Writes every record of every segment, oldest first; bad bytes and unreadable segments have a line, too. Takes no
/// lock and changes nothing.
///
/// # Errors
/// If there is no journal, a segment cannot be read, or `out` takes no more.
pub fn dump(storage: &dyn Storage, out: &mut dyn Write) -> Result<(), DumpError> {
    let directory = Directory::list(storage).map_err(DumpError::Read)?;
    if directory.segments.is_empty() {
        return Err(DumpError::NoData);
    }
    for number in directory.segments {
        let file = Name::Journal(number).to_string();
        let Some(bytes) = read_if_there(storage, &file).map_err(DumpError::Read)? else { continue };
        match Segment::read(number, bytes) {
            Ok(segment) => dump_segment(&file, &segment, out)?,
            Err(Unreadable::Newer(version)) => {
                line(out, &file, 0, json!({"record": "newer_format", "version": version}))?;
            }
            Err(Unreadable::NoRun(offset)) => {
                line(out, &file, offset, json!({"record": "unreadable"}))?;
            }
        }
    }
    Ok(())
}

fn dump_segment(file: &str, segment: &Segment, out: &mut dyn Write) -> io::Result<()> {
    let good = segment.batches.iter().map(|batch| (batch, false));
    let behind = segment.behind.iter().map(|batch| (batch, true));
    let mut bad = segment.bad;
    for (batch, is_behind) in good.chain(behind) {
        if let Some(bad) = bad.take_if(|_| is_behind) {
            dump_bad(out, file, bad, batch.offset)?;
        }
        for record in segment.records(batch) {
            let mut fields = describe(&record);
            fields["at_ms"] = json!(batch.stamp_ms);
            if is_behind {
                fields["behind_bad"] = json!(true);
            }
            line(out, file, batch.offset, fields)?;
        }
    }
    bad.map_or(Ok(()), |bad| dump_bad(out, file, bad, segment.bytes.len()))
}

fn dump_bad(out: &mut dyn Write, file: &str, bad: Bad, end: usize) -> io::Result<()> {
    line(out, file, bad.offset, json!({"record": "bad", "bytes": end - bad.offset}))
}

fn line(out: &mut dyn Write, file: &str, offset: usize, fields: Value) -> io::Result<()> {
    let mut object = Map::new();
    object.insert("file".to_owned(), json!(file));
    object.insert("offset".to_owned(), json!(offset));
    if let Value::Object(fields) = fields {
        object.extend(fields);
    }
    writeln!(out, "{}", Value::Object(object))
}

fn describe(record: &Record<'_>) -> Value {
    match record {
        Record::Run(run) => describe_run(run),
        Record::Lease(lease) => json!({
            "record": match lease.cause {
                Cause::Granted => "granted",
                Cause::Extended => "extended",
                Cause::Copy => "copy",
            },
            "key": lease.key,
            "token": lease.token,
            "ends_ms": lease.end.at_ms,
            "left_ms": lease.end.left_ms,
        }),
        Record::Freed { token, key } => json!({"record": "freed", "key": key, "token": token}),
        Record::LeaseCeiling(ms) => json!({"record": "lease_ceiling", "lease_ms": ms}),
        Record::TokenCeiling(token) => json!({"record": "token_ceiling", "token": token}),
        Record::EndMark => json!({"record": "end_mark"}),
        Record::Stop => json!({"record": "stop"}),
        Record::RepairMark(cause) => json!({
            "record": "repair_mark",
            "cause": match cause {
                RepairCause::Cut => "cut",
                RepairCause::Restored => "restored",
            },
        }),
    }
}

fn describe_run(run: &Run) -> Value {
    json!({
        "record": "run",
        "run": run.number,
        "mode": run.mode.as_str(),
        "kind": run.kind.as_str(),
        "server_id": run.server_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        "lease_ceiling_ms": run.ceilings.lease_ms,
        "token_ceiling": run.ceilings.token,
        "recovery_ends_ms": run.recovery.map(|end| end.at_ms),
        "recovery_left_ms": run.recovery.map(|end| end.left_ms),
        "boot": run.boot.as_ref().map(|boot| boot.as_str()),
    })
}
