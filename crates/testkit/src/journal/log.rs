//! What the segments of a directory come to, by docs/journal-format.md, *Log* and *Reading*.

use super::record::{ALONE, Lease, Record, Run};
use super::segment::{Batch, Segment};
use std::collections::{BTreeMap, BTreeSet};

/// The segments that count, oldest first, up to the first bad batch.
#[derive(Clone, Debug)]
pub struct Log {
    segments: Vec<Segment>,
}

/// The time for which one token held a key, as the journal tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The key.
    pub key: String,
    /// The token.
    pub token: u64,
    /// When it was granted at the latest, or when the log begins.
    pub from_ms: u64,
    /// Its end as it was first written.
    pub first_end_ms: u64,
    /// Its end as it was last written.
    pub end_ms: u64,
    /// When it was freed, or followed by another token.
    pub over_ms: Option<u64>,
    /// The log begins with it: it is a copy and was not granted in this log.
    pub is_restored: bool,
}

impl Tenure {
    /// When the token was void at the latest.
    pub fn void_ms(&self) -> u64 {
        self.over_ms.map_or(self.end_ms, |over_ms| over_ms.min(self.end_ms))
    }
}

impl Log {
    /// Picks the segments that count from those of a directory, oldest first. None if there are none.
    pub fn of(mut segments: Vec<Segment>) -> Option<Self> {
        let first = segments.iter().rposition(|s| s.is_complete() || s.run.kind == ALONE)?;
        segments.drain(..first);
        Some(Self { segments })
    }

    /// The segments.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The newest segment.
    pub fn last_segment(&self) -> &Segment {
        self.segments.last().expect("a log has a segment")
    }

    /// The run that wrote it.
    pub fn run(&self) -> &Run {
        &self.segments[0].run
    }

    /// Every good batch, in the order in which they were written.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        let bad = self.segments.iter().position(|segment| segment.bad.is_some());
        let good = bad.map_or(self.segments.len(), |bad| bad + 1);
        self.segments[..good].iter().flat_map(|segment| &segment.batches)
    }

    /// Every record and when it was written.
    pub fn records(&self) -> impl Iterator<Item = (u64, &Record)> {
        self.batches().flat_map(|batch| batch.records.iter().map(|record| (batch.stamp_ms, record)))
    }

    /// Every lease that was not freed, also those whose end has come.
    pub fn leases(&self) -> BTreeMap<String, Lease> {
        let mut leases: BTreeMap<String, Lease> = BTreeMap::new();
        for (_, record) in self.records() {
            match record {
                Record::Granted(lease) | Record::Extended(lease) | Record::Copy(lease) => {
                    leases.insert(lease.key.clone(), lease.clone());
                }
                Record::Freed { token, key } if leases.get(key).is_some_and(|held| held.token <= *token) => {
                    leases.remove(key);
                }
                _ => {}
            }
        }
        leases
    }

    /// Who held what and when, in the order of the first records.
    pub fn tenures(&self) -> Vec<Tenure> {
        let mut tenures: Vec<Tenure> = Vec::new();
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        // A checkpoint stands before what was decided while it was made: such a copy says what is told behind it.
        let behind = self.segments[1..].iter().flat_map(|s| &s.batches).flat_map(|batch| &batch.records);
        let granted_behind: BTreeSet<u64> = behind
            .filter_map(|record| match record {
                Record::Granted(lease) => Some(lease.token),
                _ => None,
            })
            .collect();
        for (at_ms, record) in self.records() {
            match record {
                Record::Copy(lease) if granted_behind.contains(&lease.token) => {}
                Record::Granted(lease) | Record::Extended(lease) | Record::Copy(lease) => {
                    let known = open.get(lease.key.as_str()).map(|&index| &mut tenures[index]);
                    match known {
                        Some(tenure) if tenure.token == lease.token => tenure.end_ms = lease.end_ms,
                        other => {
                            if let Some(before) = other {
                                before.over_ms = Some(at_ms);
                            }
                            open.insert(&lease.key, tenures.len());
                            tenures.push(begin(lease, at_ms, matches!(record, Record::Copy(_))));
                        }
                    }
                }
                Record::Freed { token, key } => {
                    let known = open.get(key.as_str()).map(|&index| &mut tenures[index]);
                    if let Some(tenure) = known.filter(|tenure| tenure.token <= *token) {
                        tenure.over_ms = Some(at_ms);
                        open.remove(key.as_str());
                    }
                }
                _ => {}
            }
        }
        tenures
    }

    /// The longest lease that the run may have given, in milliseconds, by every batch that can be read.
    pub fn lease_ceiling_ms(&self) -> u64 {
        let ceilings = self.all_records().map(|record| match record {
            Record::Run(run) => run.lease_ceiling_ms,
            Record::LeaseCeiling { lease_ms } => *lease_ms,
            Record::Granted(lease) | Record::Extended(lease) | Record::Copy(lease) => lease.left_ms,
            _ => 0,
        });
        ceilings.max().unwrap_or(0).into()
    }

    /// The greatest token that may have been used, by every batch that can be read.
    pub fn token_ceiling(&self) -> u64 {
        let ceilings = self.all_records().map(|record| match record {
            Record::Run(run) => run.token_ceiling,
            Record::TokenCeiling { token } => *token,
            Record::Granted(lease) | Record::Extended(lease) | Record::Copy(lease) => lease.token,
            _ => 0,
        });
        ceilings.max().unwrap_or(0)
    }

    fn all_records(&self) -> impl Iterator<Item = &Record> {
        let behind = self.segments.iter().flat_map(|s| s.bad.iter().flat_map(|bad| &bad.behind));
        self.segments.iter().flat_map(|s| &s.batches).chain(behind).flat_map(|batch| &batch.records)
    }

    /// Whether the log ends with a stop record.
    pub fn is_stopped(&self) -> bool {
        let is_good = self.segments.iter().all(|segment| segment.bad.is_none());
        is_good && self.records().last().is_some_and(|(_, record)| *record == Record::Stop)
    }

    /// Whether an operator's repair has marked it.
    pub fn is_marked(&self) -> bool {
        self.records().any(|(_, record)| matches!(record, Record::RepairMark { .. }))
    }

    /// What no server leaves behind that was killed while its machine lived on, however it was killed. An unfinished
    /// write at the very end is none of it.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.segments[0].is_complete() {
            faults.push(format!("{}: the log begins without a checkpoint", self.segments[0].name));
        }
        self.find_bad(&mut faults);
        self.find_strangers(&mut faults);
        self.find_disorder(&mut faults);
        faults
    }

    fn find_bad(&self, faults: &mut Vec<String>) {
        for (index, segment) in self.segments.iter().enumerate() {
            let Some(bad) = &segment.bad else { continue };
            let goes_on = self.segments[index + 1..].iter().any(Segment::is_begun);
            if !bad.ends_inside || !bad.behind.is_empty() || goes_on {
                faults.push(format!("{}: offset {}: a bad batch", segment.name, bad.offset));
            }
        }
    }

    fn find_strangers(&self, faults: &mut Vec<String>) {
        let identity = |run: &Run| (run.number, run.server_id, run.mode, run.boot.clone());
        for segment in &self.segments[1..] {
            if identity(&segment.run) != identity(self.run()) {
                faults.push(format!("{}: continues a segment of another run", segment.name));
            }
        }
    }

    /// Stamps, tokens and ceilings, in the order of the records.
    fn find_disorder(&self, faults: &mut Vec<String>) {
        let (mut newest_ms, mut last_token) = (0, 0);
        let (mut lease_ms, mut ceiling) = (0, 0);
        for (at_ms, record) in self.records() {
            // A checkpoint may be newer than what stands behind it; within a segment time does not go back.
            if at_ms < newest_ms && !matches!(record, Record::Run(_)) {
                faults.push(format!("a batch of {at_ms} ms behind one of {newest_ms} ms"));
            }
            newest_ms = at_ms;
            match record {
                Record::Run(run) => {
                    lease_ms = lease_ms.max(run.lease_ceiling_ms);
                    ceiling = ceiling.max(run.token_ceiling);
                }
                Record::LeaseCeiling { lease_ms: raised } => lease_ms = lease_ms.max(*raised),
                Record::TokenCeiling { token } => ceiling = ceiling.max(*token),
                Record::Granted(lease) | Record::Extended(lease) => {
                    if lease.left_ms > lease_ms || lease.token > ceiling {
                        faults.push(format!("{lease:?} is above the ceilings, {lease_ms} ms and {ceiling}"));
                    }
                    let is_granted = matches!(record, Record::Granted(_));
                    if is_granted && lease.token <= last_token {
                        faults.push(format!("{lease:?} was granted after token {last_token}"));
                    }
                    last_token = last_token.max(lease.token);
                }
                _ => {}
            }
        }
    }
}

fn begin(lease: &Lease, at_ms: u64, is_restored: bool) -> Tenure {
    // A lease is a number of seconds and a millisecond. What was left of it when it was written is less by the time
    // that the write had to wait, which is far below a second.
    let given_ms = u64::from(lease.left_ms).saturating_sub(1).div_ceil(1000) * 1000 + 1;
    let granted_ms = lease.end_ms.saturating_sub(given_ms);
    Tenure {
        key: lease.key.clone(),
        token: lease.token,
        from_ms: if is_restored { at_ms } else { granted_ms.min(at_ms) },
        first_end_ms: lease.end_ms,
        end_ms: lease.end_ms,
        over_ms: None,
        is_restored,
    }
}
