//! `lockstead release`.

use lockstead_client::ReleaseOutcome;
use serde_json::json;

use crate::args::ReleaseArgs;
use crate::connect::{connect, runtime};
use crate::exit::Status;
use crate::failed::{Failed, NOT_HELD};
use crate::output::Output;

/// Gives the lock back.
pub fn release(args: &ReleaseArgs) -> anyhow::Result<Status> {
    let output = Output::new(args.output.json);
    let outcome = runtime()?.block_on(async {
        let client = connect(&args.client, "release")?;
        let outcome = client.release(&args.key, args.token).await;
        client.shutdown().await;
        anyhow::Ok(outcome?)
    })?;
    let failed = match outcome {
        ReleaseOutcome::Released => {
            output.result("released", &json!({ "outcome": "released" }))?;
            return Ok(Status::DONE);
        }
        ReleaseOutcome::NotHeld => Failed::new(Status::NO, json!({ "outcome": "not_held" }), NOT_HELD),
        ReleaseOutcome::Rejected { code, message } => {
            let sentence = format!("the server refused the request: {message} ({code})");
            Failed::rejected(code, &message, sentence)
        }
        ReleaseOutcome::Unknown => {
            Failed::unknown("no answer came; whether the lock was released is not known")
        }
        ReleaseOutcome::Unsent(cause) => Failed::unsent(&cause, format!("nothing was sent: {cause}")),
    };
    output.failed(&failed)
}
