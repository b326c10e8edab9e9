//! `lockstead query`.

use lockstead_client::{KeyInfo, KeyState};
use serde_json::json;

use crate::args::QueryArgs;
use crate::connect::{connect, runtime};
use crate::exit::Status;
use crate::failed::Failed;
use crate::output::Output;
use crate::values;

/// Asks whether the key is held.
pub fn query(args: &QueryArgs) -> anyhow::Result<Status> {
    let output = Output::new(args.output.json);
    let outcome = runtime()?.block_on(async {
        let client = connect(&args.client, "query")?;
        let outcome = client.query(&args.key).await;
        client.shutdown().await;
        anyhow::Ok(outcome)
    })?;
    match outcome {
        Ok(info) => say(info, output),
        Err(error) => output.failed(&Failed::try_from(error)?),
    }
}

fn say(info: KeyInfo, output: Output) -> anyhow::Result<Status> {
    let (state, status) = match info.state {
        KeyState::Free => ("free", Status::NO),
        KeyState::Held => ("held", Status::DONE),
        KeyState::Recovering => ("recovering", Status::DONE),
        KeyState::Other(code) => {
            anyhow::bail!("the server names a state that this program does not know: {code}")
        }
    };
    let text = match info.state {
        KeyState::Free => state.to_owned(),
        _ => format!("{state}\nremaining {}\nwaiters {}", values::seconds(info.remaining), info.waiters),
    };
    let json = json!({
        "outcome": "state",
        "state": state,
        "remaining_ms": values::millis(info.remaining),
        "waiters": info.waiters,
    });
    output.result(&text, &json)?;
    Ok(status)
}
