//! A journal as the program's `journal dump` shows it: one JSON object for each record.

use super::record::{ALONE, Lease, PROCESS, Record, Run};
use super::segment::{Batch, Segment};
use serde_json::{Value, json};

impl Segment {
    /// The lines of this segment.
    pub fn lines(&self) -> Vec<Value> {
        let mut lines: Vec<Value> = self.batches.iter().flat_map(|batch| self.batch(batch)).collect();
        if let Some(bad) = &self.bad {
            let end = bad.behind.first().map_or(self.length, |batch| batch.offset);
            let bytes = end - bad.offset;
            lines.push(json!({"record": "bad", "file": self.name, "offset": bad.offset, "bytes": bytes}));
            for mut line in bad.behind.iter().flat_map(|batch| self.batch(batch)) {
                line["behind_bad"] = json!(true);
                lines.push(line);
            }
        }
        lines
    }

    fn batch(&self, batch: &Batch) -> Vec<Value> {
        let place = |record| {
            let mut line = describe(record);
            line["file"] = json!(self.name);
            line["offset"] = json!(batch.offset);
            line["at_ms"] = json!(batch.stamp_ms);
            line
        };
        batch.records.iter().map(place).collect()
    }
}

fn describe(record: &Record) -> Value {
    match record {
        Record::Run(run) => describe_run(run),
        Record::Granted(lease) => describe_lease("granted", lease),
        Record::Extended(lease) => describe_lease("extended", lease),
        Record::Copy(lease) => describe_lease("copy", lease),
        Record::Freed { token, key } => json!({"record": "freed", "token": token, "key": key}),
        Record::LeaseCeiling { lease_ms } => json!({"record": "lease_ceiling", "lease_ms": lease_ms}),
        Record::TokenCeiling { token } => json!({"record": "token_ceiling", "token": token}),
        Record::EndMark => json!({"record": "end_mark"}),
        Record::Stop => json!({"record": "stop"}),
        Record::RepairMark { cause } => {
            json!({"record": "repair_mark", "cause": if *cause == 1 { "cut" } else { "restored" }})
        }
    }
}

fn describe_lease(record: &str, lease: &Lease) -> Value {
    let Lease { token, end_ms, left_ms, key } = lease;
    json!({"record": record, "token": token, "ends_ms": end_ms, "left_ms": left_ms, "key": key})
}

fn describe_run(run: &Run) -> Value {
    let recovers = run.recovery_end_ms > 0;
    json!({
        "record": "run",
        "run": run.number,
        "mode": if run.mode == PROCESS { "process" } else { "machine" },
        "kind": if run.kind == ALONE { "alone" } else { "continuing" },
        "server_id": run.server_id.map(|byte| format!("{byte:02x}")).concat(),
        "lease_ceiling_ms": run.lease_ceiling_ms,
        "token_ceiling": run.token_ceiling,
        "recovery_ends_ms": recovers.then_some(run.recovery_end_ms),
        "recovery_left_ms": recovers.then_some(run.recovery_left_ms),
        "boot": (!run.boot.is_empty()).then_some(&run.boot),
    })
}
