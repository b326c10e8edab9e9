//! `lockstead bench`: a load generator. It speaks the protocol's frames over plain sockets, all on one thread, so that
//! it costs little beside the server that it measures.

mod contended;
mod drive;
mod live;
mod names;
mod plan;
mod plot;
mod report;
mod session;
mod slots;
mod tally;
mod wire;

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use anyhow::Context as _;
use lockstead_client::Address;
use serde_json::json;
use tokio::task::LocalSet;

use self::contended::Contended;
use self::drive::{Drive, End};
use self::plan::Plan;
use self::report::Report;
use self::tally::Tally;
use crate::args::BenchArgs;
use crate::connect::{auth_token, runtime};
use crate::exit::Status;
use crate::failed::Failed;
use crate::output::{Output, complain};
use crate::{logs, values};

/// What all connections share.
struct Run {
    plan: Plan,
    servers: Vec<Address>,
    auth: Option<String>,
    tally: Tally,
    contended: RefCell<Contended>,
    /// Where the milliseconds of the run begin.
    begun: Instant,
}

impl Run {
    fn new(args: &BenchArgs, plan: Plan) -> anyhow::Result<Self> {
        Ok(Self {
            contended: RefCell::new(Contended::new(if plan.is_contended() { plan.keys } else { 0 })),
            servers: args.client.server.clone(),
            auth: auth_token(&args.client)?,
            tally: Tally::new(),
            begun: Instant::now(),
            plan,
        })
    }

    /// An instant in milliseconds of the run, rounded down; 49 days fit.
    fn ms(&self, instant: Instant) -> u32 {
        u32::try_from(values::millis(instant.saturating_duration_since(self.begun))).unwrap_or(u32::MAX)
    }
}

/// Makes load, and says how the server took it.
pub fn bench(args: &BenchArgs) -> anyhow::Result<Status> {
    logs::start(&args.client.log, tracing::Level::WARN).context("cannot start logging")?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).context("cannot read random numbers")?;
    let run = Rc::new(Run::new(args, Plan::new(args, u64::from_ne_bytes(random))?)?);
    if let Some(path) = &args.plot {
        // Before the work, so that nobody waits for a plot that cannot be written; what is there stays until then.
        let is_new = fs::symlink_metadata(path).is_err();
        OpenOptions::new().append(true).create(true).open(path).with_context(|| cannot_plot(path))?;
        if is_new {
            // An empty file is no plot, whatever becomes of the run. If it stays, it does no harm.
            let _ = fs::remove_file(path);
        }
    }

    let output = Output::new(args.output.json);
    let end = runtime()?.block_on(LocalSet::new().run_until(async {
        let mut drive = Drive::new(run.clone())?;
        anyhow::Ok(drive.run().await)
    }))?;
    let report = match end {
        End::Measured(measured) => Report::new(&run, &measured),
        End::Unreached(error) => {
            let json = json!({ "outcome": "unsent", "cause": error.to_string() });
            let sentence = format!("cannot open a connection: {error}");
            return output.failed(&Failed::new(Status::UNSENT, json, sentence));
        }
        End::Killed(signal) => {
            complain(&format!(
                "stopped at once; locks that it holds (they begin with {}) end by themselves within 255 s",
                run.plan.names.prefix()
            ));
            return Ok(Status::of_signal(signal.as_raw()));
        }
    };
    output.result(&report.text(), &report.json())?;
    if let Some(path) = &args.plot {
        fs::write(path, plot::svg(&report)).with_context(|| cannot_plot(path))?;
    }
    Ok(if report.is_clean() { Status::DONE } else { Status::NO })
}

fn cannot_plot(path: &Path) -> String {
    format!("cannot write the plot to {}", path.display())
}
