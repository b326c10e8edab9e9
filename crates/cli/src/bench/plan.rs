//! What is asked of the server, worked out from the options.

use std::ops::Range;
use std::time::Duration;

use anyhow::bail;

use super::names::Names;
use crate::args::{BenchArgs, Workload};

/// Requests in flight for each key of [`Workload::Wait`], unless the user says how many keys there are.
const WAITERS_PER_KEY: u32 = 20;

/// The most requests in flight on all connections together.
const MOST_IN_FLIGHT: u32 = 1_000_000;

/// Keys of the workloads that hold many, unless the user says how many.
const HELD_KEYS: u32 = 100_000;
const EXTENDED_KEYS: u32 = 10_000;

/// One run, as all its connections see it.
#[derive(Debug)]
pub struct Plan {
    /// The kind of load.
    pub workload: Workload,
    /// How many connections there are.
    pub connections: u32,
    /// How many requests each has in flight.
    pub pipeline: u32,
    /// How many different keys there are.
    pub keys: u32,
    /// What the keys are called.
    pub names: Names,
    /// How long it is measured.
    pub duration: Duration,
}

impl Plan {
    /// The plan of these options. `random` makes the names of its keys its own.
    pub fn new(args: &BenchArgs, random: u64) -> anyhow::Result<Self> {
        let in_flight = args.connections * args.pipeline;
        let keys = args.keys.unwrap_or(match args.workload {
            Workload::Pairs => in_flight,
            Workload::Handoff => 1,
            Workload::Wait => (in_flight / WAITERS_PER_KEY).max(1),
            Workload::Keys => HELD_KEYS.max(in_flight),
            Workload::KeepAlive => EXTENDED_KEYS.max(in_flight),
        });
        let plan = Self {
            workload: args.workload,
            connections: args.connections,
            pipeline: args.pipeline,
            keys,
            names: Names::new(random, args.key_size.into()),
            duration: args.duration,
        };
        let workload = plan.workload.as_str();
        if plan.is_contended() && keys > in_flight / 2 {
            bail!(
                "{workload} wants two contenders for each key: {keys} keys need --connections x --pipeline of at \
                 least {}, not {in_flight}",
                u64::from(keys) * 2
            );
        }
        if !plan.is_contended() && keys < in_flight {
            bail!(
                "{workload} wants a key for each request in flight: --keys must be at least {in_flight}, which is \
                 --connections x --pipeline"
            );
        }
        if in_flight > MOST_IN_FLIGHT {
            bail!(
                "{in_flight} requests in flight, which is --connections x --pipeline: at most {MOST_IN_FLIGHT}"
            );
        }
        if plan.duration.is_zero() {
            bail!("a --duration of 0s measures nothing");
        }
        Ok(plan)
    }

    /// Whether the requests in flight share their keys.
    pub fn is_contended(&self) -> bool {
        matches!(self.workload, Workload::Handoff | Workload::Wait)
    }

    /// Whether all keys are taken before it is measured.
    pub fn fills(&self) -> bool {
        matches!(self.workload, Workload::Keys | Workload::KeepAlive)
    }

    /// How long an acquire may wait, in seconds.
    pub fn wait_s(&self) -> u8 {
        match self.workload {
            Workload::Handoff => u8::MAX,
            Workload::Wait => 1,
            Workload::Pairs | Workload::Keys | Workload::KeepAlive => 0,
        }
    }

    /// The lease of an acquire or an extend, in seconds: the longest where it must last through the run.
    pub fn lease_s(&self) -> u8 {
        if self.fills() { u8::MAX } else { 30 }
    }

    /// How long a lock is held before it is released.
    pub fn hold(&self) -> Option<Duration> {
        (self.workload == Workload::Wait).then_some(Duration::from_millis(100))
    }

    /// The keys of a connection, by number. Where keys are contended, the numbers go round.
    pub fn share(&self, connection: u32) -> Range<u64> {
        let connection = u64::from(connection);
        if self.is_contended() {
            let pipeline = u64::from(self.pipeline);
            return connection * pipeline..(connection + 1) * pipeline;
        }
        let (keys, connections) = (u64::from(self.keys), u64::from(self.connections));
        connection * keys / connections..(connection + 1) * keys / connections
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn plan(options: &[&str]) -> anyhow::Result<Plan> {
        let args = Typed::try_parse_from([&["bench"], options].concat()).unwrap().args;
        Plan::new(&args, 1)
    }

    #[test]
    fn keys_that_are_not_contended_are_shared_out_whole() {
        let plan = plan(&["pairs", "--connections", "7", "--pipeline", "3", "--keys", "100"]).unwrap();
        let shares: Vec<Range<u64>> = (0..7).map(|connection| plan.share(connection)).collect();
        assert_eq!((shares[0].start, shares[6].end), (0, 100));
        for (share, next) in shares.iter().zip(&shares[1..]) {
            assert_eq!(share.end, next.start);
        }
        assert!(shares.iter().all(|share| share.end - share.start >= 3), "{shares:?}");
    }

    #[test]
    fn contenders_have_one_place_each() {
        let plan = plan(&["handoff", "--connections", "4", "--pipeline", "2", "--keys", "3"]).unwrap();
        assert_eq!(plan.share(3), 6..8);
    }

    #[test]
    fn a_workload_that_cannot_be_is_refused() {
        let refused = |options: &[&str]| plan(options).unwrap_err().to_string();
        assert!(refused(&["handoff", "--connections", "1"]).contains("at least 2, not 1"));
        assert!(refused(&["wait", "--connections", "9", "--keys", "5"]).contains("at least 10, not 9"));
        assert!(refused(&["keys", "--keys", "49"]).contains("at least 50"));
        assert!(refused(&["--connections", "60000", "--pipeline", "17"]).contains("at most 1000000"));
        assert!(refused(&["--duration", "0s"]).contains("measures nothing"));
    }

    #[test]
    fn each_workload_runs_with_its_defaults() {
        for (workload, keys) in
            [("pairs", 50), ("handoff", 1), ("wait", 2), ("keys", 100_000), ("keep-alive", 10_000)]
        {
            assert_eq!(plan(&[workload]).unwrap().keys, keys, "{workload}");
        }
    }
}
