//! `lockstead acquire`: one acquire, whose lock outlives the program.

use lockstead_client::{Client, Ticket};
use serde_json::json;

use crate::args::AcquireArgs;
use crate::connect::{connect, runtime};
use crate::exit::Status;
use crate::failed::Failed;
use crate::output::Output;
use crate::run::signals::{self, Signals};
use crate::values;

/// Takes the lock and says its token.
pub fn acquire(args: &AcquireArgs) -> anyhow::Result<Status> {
    runtime()?.block_on(async {
        let mut interrupts = Signals::interrupts()?;
        let client = connect(&args.client, "acquire")?;
        let call = client.acquire(&args.key).wait(args.lease.wait).lease(args.lease.lease);
        let status = tokio::select! {
            outcome = call.into_future() => match outcome {
                Ok(ticket) => leave(ticket, &client, Output::new(args.output.json)).await,
                Err(error) => Output::new(args.output.json).failed(&Failed::try_from(error)?),
            },
            signal = interrupts.recv() => {
                // The attempt is withdrawn: nobody is left to use the lock.
                client.shutdown().await;
                signals::end_by(signal);
            }
        };
        client.shutdown().await;
        status
    })
}

/// Says what was got and leaves it held. A lock whose token nobody was told is of no use to anyone, so that one is
/// given back.
async fn leave(ticket: Ticket, client: &Client, output: Output) -> anyhow::Result<Status> {
    let valid_for = ticket.valid_for();
    let text = format!("token {}\nvalid for {}", ticket.token(), values::seconds(valid_for));
    let json = json!({
        "outcome": "acquired",
        "key": ticket.key(),
        "token": ticket.token(),
        "valid_for_ms": values::millis(valid_for),
        "waited_ms": values::millis(ticket.waited()),
    });
    if let Err(error) = output.result(&text, &json) {
        drop(ticket);
        client.shutdown().await;
        return Err(error.context("the lock is given back"));
    }
    ticket.leave();
    Ok(Status::DONE)
}
