//! From the options of a client command to a client. It does not wait for the network: that is part of the call.

use std::fs;

use anyhow::Context as _;
use lockstead_client::Client;
use tokio::runtime::{Builder, Runtime};

use crate::args::ClientArgs;
use crate::logs;

/// The runtime of a client command: one thread, the main one.
pub fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot start the runtime")
}

/// A client for the servers of `args`, which operators see under the name of the command. Needs a runtime.
pub fn connect(args: &ClientArgs, command: &str) -> anyhow::Result<Client> {
    logs::start(&args.log, tracing::Level::WARN).context("cannot start logging")?;
    let servers = args.server.iter().map(ToString::to_string);
    let mut builder =
        Client::builder().servers(servers)?.name(format!("lockstead-{command}/{}", std::process::id()));
    if let Some(token) = auth_token(args)? {
        builder = builder.auth_token(token);
    }
    Ok(builder.connect()?)
}

/// The API token to show to the server, if there is one.
pub fn auth_token(args: &ClientArgs) -> anyhow::Result<Option<String>> {
    let Some(path) = &args.auth_token_file else { return Ok(None) };
    let token = fs::read_to_string(path)
        .with_context(|| format!("cannot read the API token from {}", path.display()))?;
    Ok(Some(token.trim_ascii().to_owned()))
}
