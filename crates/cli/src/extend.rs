//! `lockstead extend`.

use lockstead_client::now;
use serde_json::json;

use crate::args::ExtendArgs;
use crate::connect::{connect, runtime};
use crate::exit::Status;
use crate::failed::Failed;
use crate::output::Output;
use crate::values;

/// Gives the lock a later end.
pub fn extend(args: &ExtendArgs) -> anyhow::Result<Status> {
    let output = Output::new(args.output.json);
    let outcome = runtime()?.block_on(async {
        let client = connect(&args.client, "extend")?;
        let outcome = client.extend(&args.key, args.token, args.lease).await;
        client.shutdown().await;
        anyhow::Ok(outcome)
    })?;
    match outcome {
        Ok(extended) => {
            let valid_for = extended.valid_until.since(now());
            let json = json!({
                "outcome": "extended",
                "lease_ms": values::millis(extended.lease),
                "valid_for_ms": values::millis(valid_for),
            });
            output.result(&format!("extended\nvalid for {}", values::seconds(valid_for)), &json)?;
            Ok(Status::DONE)
        }
        Err(error) => output.failed(&Failed::try_from(error)?),
    }
}
