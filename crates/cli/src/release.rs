//! `lockstead release`.

use serde_json::json;

use crate::args::ReleaseArgs;
use crate::connect::{connect, runtime};
use crate::exit::Status;
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
    if outcome.is_released() {
        output.result(outcome.as_str(), &json!({ "outcome": outcome.as_str() }))?;
        return Ok(Status::DONE);
    }
    output.failed(&outcome.into())
}
