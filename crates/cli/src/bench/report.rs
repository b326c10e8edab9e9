//! What is printed in the end.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::Run;
use super::drive::Measured;
use super::tally::Operation;
use crate::args::Workload;

/// The percentiles of a result: name in text, name in JSON, quantile.
const PERCENTILES: [(&str, &str, f64); 4] =
    [("p50", "p50", 0.5), ("p90", "p90", 0.9), ("p99", "p99", 0.99), ("p99.9", "p99_9", 0.999)];

/// The result of a run.
pub struct Report {
    workload: Workload,
    server: String,
    connections: u32,
    pipeline: u32,
    keys: u32,
    key_size: usize,
    key_prefix: String,
    seconds: f64,
    filled: Option<(u64, f64)>,
    is_interrupted: bool,
    left_held: u64,
    ended_leases: u64,
    /// Each kind with its count and its first case in a sentence.
    faults: Vec<(String, u64, String)>,
    /// Latencies in nanoseconds.
    pub operations: Vec<(Operation, Histogram<u64>)>,
}

impl Report {
    /// Everything that is to be said of a run.
    pub fn new(run: &Run, measured: &Measured) -> Self {
        let servers: Vec<String> = run.servers.iter().map(ToString::to_string).collect();
        Self {
            workload: run.plan.workload,
            server: servers.join(","),
            connections: run.plan.connections,
            pipeline: run.plan.pipeline,
            keys: run.plan.keys,
            key_size: run.plan.names.size(),
            key_prefix: run.plan.names.prefix().to_owned(),
            seconds: measured.took.as_secs_f64(),
            filled: measured.filled.map(|(locks, took)| (locks, took.as_secs_f64())),
            is_interrupted: measured.is_interrupted,
            left_held: measured.left_held,
            ended_leases: run.tally.ended_leases(),
            faults: run.tally.faults(),
            operations: run.tally.operations(),
        }
    }

    /// Whether every answer was one that belongs to the workload.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// What was asked for, in a line.
    pub fn title(&self) -> String {
        let plural = |count: u32, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!(
            "{} on {}: {}, {} in flight on each, {} of {} bytes, {:.1} s{}",
            self.workload.as_str(),
            self.server,
            plural(self.connections, "connection"),
            plural(self.pipeline, "request"),
            plural(self.keys, "key"),
            self.key_size,
            self.seconds,
            if self.is_interrupted { ", interrupted" } else { "" }
        )
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = self.title();
        if let Some((locks, seconds)) = self.filled {
            let _ = write!(text, "\n{locks} locks taken before, in {seconds:.1} s");
        }
        let _ = write!(text, "\n{:<10}{:>12}", "", "per second");
        for (name, _, _) in PERCENTILES {
            let _ = write!(text, "{name:>11}");
        }
        let _ = write!(text, "{:>11}", "max");
        for (operation, latency) in &self.operations {
            let _ = write!(text, "\n{:<10}{:>12.1}", operation.as_str(), self.per_second(latency));
            for (_, _, quantile) in PERCENTILES {
                let _ = write!(text, "{:>11}", duration(latency.value_at_quantile(quantile)));
            }
            let _ = write!(text, "{:>11}", duration(latency.max()));
        }
        if self.operations.is_empty() {
            text.push_str("\nnothing was measured");
        }
        for (kind, count, first) in &self.faults {
            let _ = write!(text, "\n{count} errors {kind}: {first}");
        }
        if self.ended_leases > 0 {
            let ended = self.ended_leases;
            let _ = write!(
                text,
                "\n{ended} leases ended before their turn came: use fewer keys, or more connections"
            );
        }
        if self.left_held > 0 {
            let (left, prefix) = (self.left_held, &self.key_prefix);
            let _ = write!(
                text,
                "\n{left} locks may still be held, until their leases end; they begin with {prefix}"
            );
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let faults: Map<String, Value> =
            self.faults.iter().map(|(kind, count, _)| (kind.clone(), (*count).into())).collect();
        let operations: Vec<Value> =
            self.operations.iter().map(|(o, latency)| self.row(*o, latency)).collect();
        let mut json = json!({
            "workload": self.workload.as_str(),
            "server": self.server,
            "connections": self.connections,
            "pipeline": self.pipeline,
            "keys": self.keys,
            "key_bytes": self.key_size,
            "key_prefix": self.key_prefix,
            "seconds": rounded(self.seconds, 3),
            "interrupted": self.is_interrupted,
            "operations": operations,
            "errors": faults,
            "ended_leases": self.ended_leases,
            "left_held": self.left_held,
        });
        if let Some((locks, seconds)) = self.filled {
            json["filled"] = json!({ "locks": locks, "seconds": rounded(seconds, 3) });
        }
        json
    }

    fn row(&self, operation: Operation, latency: &Histogram<u64>) -> Value {
        let us = |ns: u64| rounded(ns as f64 / 1e3, 1);
        let mut percentiles: Map<String, Value> = PERCENTILES
            .into_iter()
            .map(|(_, name, quantile)| (name.to_owned(), us(latency.value_at_quantile(quantile)).into()))
            .collect();
        percentiles.insert("max".to_owned(), us(latency.max()).into());
        json!({
            "operation": operation.as_str(),
            "count": latency.len(),
            "per_second": rounded(self.per_second(latency), 1),
            "latency_us": percentiles,
        })
    }

    fn per_second(&self, latency: &Histogram<u64>) -> f64 {
        latency.len() as f64 / self.seconds.max(0.001)
    }
}

/// A latency in nanoseconds, for people: three digits and a unit.
pub fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        ..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = match value {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_three_digits_and_a_unit() {
        let shown: Vec<String> =
            [999, 1_500, 23_940, 999_400, 1_234_567, 45_600_000, 2_500_000_000].map(duration).into();
        assert_eq!(shown, ["999 ns", "1.50 µs", "23.9 µs", "999 µs", "1.23 ms", "45.6 ms", "2.50 s"]);
    }
}
