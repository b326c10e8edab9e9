//! A scripted peer: a listener that plays the server's part of a scenario, and judges what a client says to it.
//!
//! It knows the wire from docs/protocol.md alone and plays one step after the other ([`Step`]); docs/scenarios.md
//! describes each. Whatever the script does, it finds fault with these:
//!
//! - a frame that the script did not expect, on any connection, until the client has ended;
//! - one owner in two acquires, wherever they arrive;
//! - a connection that is still open when the client has ended.

mod address;
mod connection;
mod control;
mod notation;
mod player;
mod ready;
mod step;
mod steps;

pub use control::Signals;
pub use step::{Ending, Serve, Step, Timing};

use address::Address;
use player::Player;
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;

/// A peer that is playing its script on a thread of its own.
#[derive(Debug)]
pub struct Peer {
    addresses: Vec<(String, SocketAddr)>,
    signals: Signals,
    thread: JoinHandle<Verdict>,
}

/// What the peer thinks of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What the client did wrong; empty when it passed.
    pub faults: Vec<String>,
    /// What happened, one line each.
    pub log: Vec<String>,
}

impl Verdict {
    /// Whether nothing was wrong.
    pub fn passed(&self) -> bool {
        self.faults.is_empty()
    }
}

impl Peer {
    /// Listens at one address for each name and begins to play. `refuse` and `small_buffers` at the very beginning of
    /// the script have been played when this returns.
    ///
    /// # Errors
    /// When no socket can be opened.
    pub fn play(servers: &[String], script: Vec<Step>) -> io::Result<Self> {
        let addresses = servers.iter().map(|name| Address::open(name)).collect::<io::Result<Vec<_>>>()?;
        let shown = addresses.iter().map(|address| (address.name.clone(), address.socket)).collect();
        let (signals, inbox) = control::pair()?;
        let mut player = Player::new(addresses, inbox);
        let set_up = script.iter().take_while(|step| step.sets_up()).count();
        let mut script = script;
        let rest = script.split_off(set_up);
        let ready = player.play(&script);
        let thread = std::thread::spawn(move || {
            let played = ready.and_then(|()| player.play(&rest));
            player.finish(played)
        });
        Ok(Self { addresses: shown, signals, thread })
    }

    /// The name of each address and where it is, in the order in which they were named.
    pub fn addresses(&self) -> &[(String, SocketAddr)] {
        &self.addresses
    }

    /// The way to talk to the script, and to hear from it.
    pub fn signals(&self) -> Signals {
        self.signals.clone()
    }

    /// Says that the client has ended, lets the script come to its end, and gives the verdict.
    pub fn finish(self) -> Verdict {
        self.signals.client_has_ended();
        self.wait()
    }

    /// Like [`finish`](Self::finish), when somebody else says that the client has ended.
    ///
    /// # Panics
    /// When the script's thread did.
    pub fn wait(self) -> Verdict {
        self.thread.join().expect("the peer does not panic")
    }
}
