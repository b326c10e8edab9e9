//! The peer of a scenario, or a faulty proxy, as a program: for the tests of clients in any language.
//!
//! `lockstead-peer run FILE` plays the peer of a scenario and talks in lines of text. On stdout, one JSON object a
//! line: first `{"servers": {"a": "127.0.0.1:40000"}}`, then `{"signal": NAME}` for each `signal` step, and
//! at the end `{"verdict": "passed" or "failed", "faults": [..], "log": [..]}`. On stdin: `signal NAME` for what an
//! `await` step waits for; its end says that the client has ended. Exit status 0: passed; 1: failed; 2: usage.
//!
//! `lockstead-peer proxy --to ADDRESS [--listen ADDRESS]` relays connections. It prints `{"listening": ADDRESS}`, then
//! reads commands from stdin and answers each with `{"ok": true}` or `{"error": REASON}`; the end of its stdin ends it.
//! docs/scenarios.md has the commands.

use lockstead_testkit::peer::{Peer, Signals};
use lockstead_testkit::proxy::{Command, Proxy};
use lockstead_testkit::scenario::Scenario;
use serde_json::{Value, json};
use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: lockstead-peer run FILE | proxy --to ADDRESS [--listen ADDRESS]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["run", file] => run(Path::new(file)),
        ["proxy", "--to", to] => proxy(to, None),
        ["proxy", "--to", to, "--listen", listen] | ["proxy", "--listen", listen, "--to", to] => {
            proxy(to, Some(listen))
        }
        _ => Err(io::Error::other(USAGE)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("lockstead-peer: {error}");
        ExitCode::from(2)
    })
}

/// One line of output, at once.
fn say(line: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn run(file: &Path) -> io::Result<ExitCode> {
    let scenario = Scenario::read(file)?;
    let peer = Peer::play(&scenario.servers, scenario.peer)?;
    let servers: serde_json::Map<String, Value> =
        peer.addresses().iter().map(|(name, socket)| (name.clone(), json!(socket.to_string()))).collect();
    say(&json!({ "servers": servers }))?;
    let (out, input) = (peer.signals(), peer.signals());
    let saying = std::thread::spawn(move || {
        let mut signals = (0..).map_while(|index| out.nth(index));
        signals.try_for_each(|name| say(&json!({ "signal": name })))
    });
    std::thread::spawn(move || listen(&input));
    let verdict = peer.wait();
    saying.join().map_err(|_| io::Error::other("the output broke"))??;
    let word = if verdict.passed() { "passed" } else { "failed" };
    say(&json!({ "verdict": word, "faults": verdict.faults, "log": verdict.log }))?;
    Ok(if verdict.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn listen(signals: &Signals) {
    for line in io::stdin().lines().map_while(Result::ok) {
        if let Some(name) = line.strip_prefix("signal ") {
            signals.signal(name.trim());
        }
    }
    signals.client_has_ended();
}

fn proxy(to: &str, listen: Option<&str>) -> io::Result<ExitCode> {
    let parse =
        |text: &str| text.parse::<SocketAddr>().map_err(|error| io::Error::other(format!("{text}: {error}")));
    let listen = listen.map_or(Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))), parse)?;
    let proxy = Proxy::listen(listen, parse(to)?)?;
    say(&json!({ "listening": proxy.address().to_string() }))?;
    for line in io::stdin().lock().lines() {
        let reply = match line?.parse::<Command>() {
            Ok(command) => {
                proxy.apply(command);
                json!({ "ok": true })
            }
            Err(reason) => json!({ "error": reason }),
        };
        say(&reply)?;
    }
    Ok(ExitCode::SUCCESS)
}
