//! `lockstead ping`.

use std::time::Duration;

use lockstead_client::CallError;
use serde_json::json;

use crate::args::PingArgs;
use crate::connect::{connect, runtime};
use crate::exit::Status;
use crate::failed::Failed;
use crate::output::Output;

/// Asks the server for a sign of life, and says how long each took. The first that fails ends it.
pub fn ping(args: &PingArgs) -> anyhow::Result<Status> {
    let output = Output::new(args.output.json);
    runtime()?.block_on(async {
        let client = connect(&args.client, "ping")?;
        let mut status = Status::DONE;
        for _ in 0..args.count {
            match client.ping().await {
                Ok(round_trip) => say(round_trip, output)?,
                Err(error) => {
                    status = output.failed(&no_answer(error)?)?;
                    break;
                }
            }
        }
        client.shutdown().await;
        Ok(status)
    })
}

fn say(round_trip: Duration, output: Output) -> anyhow::Result<()> {
    let us = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX);
    let text = format!("pong after {}.{:03} ms", us / 1_000, us % 1_000);
    output.result(&text, &json!({ "outcome": "pong", "round_trip_us": us }))
}

/// Of a ping nothing is left unknown: either an answer came, or none.
fn no_answer(error: CallError) -> anyhow::Result<Failed> {
    Ok(match error {
        CallError::Unknown => Failed::new(Status::NO, json!({ "outcome": "no_answer" }), error),
        error => Failed::try_from(error)?,
    })
}
