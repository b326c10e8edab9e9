//! What the network and the servers do to the client.

use lockstead_client_core::SessionId;
use lockstead_proto::{Acquired, Answer, ErrorAnswer, ErrorCode, Timeout, decode_answer};

use crate::reference::Id;
use crate::steps::{Event, Greeting, Whim};
use crate::world::World;

/// A token that no server has given.
const NO_TOKEN: u64 = 77;

impl World {
    pub fn network(&mut self, event: &Event) {
        match *event {
            Event::Connect(at) => self.with_wire(at, Self::connect),
            Event::Room { wire, bytes } => {
                self.with_wire(wire, |world, id| world.wire(id).room += usize::from(bytes));
            }
            Event::ToServer { wire, bytes } => {
                self.with_wire(wire, |world, id| world.serve(id, bytes.into()));
            }
            Event::ToClient { wire, bytes } => {
                self.with_wire(wire, |world, id| world.deliver(id, bytes.into()));
            }
            Event::Cut(at) => self.with_wire(at, |world, id| {
                world.close(id);
                world.core.closed(world.now, id, "cut");
            }),
            Event::Mute { wire, mute } => self.with_wire(wire, |world, id| world.wire(id).muted = mute),
            Event::Lead { address, server } => self.leads_to[usize::from(address)] = server.into(),
        }
    }

    pub fn whim(&mut self, whim: Whim) {
        match whim {
            Whim::Greet { server, how } => self.servers[usize::from(server)].greeting = how,
            Whim::Fail { server, failing } => self.servers[usize::from(server)].fail(failing),
            Whim::Lie(server) => self.servers[usize::from(server)].lie = true,
            Whim::Reject(server) => self.servers[usize::from(server)].reject = true,
            Whim::Stray { wire, call, granted } => {
                self.with_wire(wire, |world, id| world.stray(id, call, granted));
            }
            Whim::Repeat(at) => self.with_wire(at, Self::repeat),
            Whim::GiveUp { wire, call, closing } => {
                self.with_wire(wire, |world, id| world.give_up(id, call, closing));
            }
            Whim::Garbage(at) => self.with_wire(at, |world, id| world.say(id, b"Zzz", true)),
        }
        self.collect();
    }

    /// The server sends something of its own accord, behind what it has sent before; perhaps the last thing it does.
    fn say(&mut self, id: SessionId, bytes: &[u8], dead: bool) {
        let wire = self.wire(id);
        if wire.server.is_some() && !wire.dead {
            wire.answers.extend_from_slice(bytes);
            wire.dead = dead;
        }
    }

    fn owner(&self, call: u8) -> Option<u64> {
        let owners: Vec<u64> = self.reference.calls.keys().copied().collect();
        owners.get(usize::from(call) % owners.len().max(1)).copied()
    }

    /// An answer to an attempt that another session sent, or nobody.
    fn stray(&mut self, id: SessionId, call: u8, granted: bool) {
        let elsewhere = |owner: &u64| self.reference.calls[owner].sent.is_some_and(|session| session != id);
        let owner = self.owner(call).filter(elsewhere).unwrap_or(7);
        let mut bytes = Vec::new();
        if granted {
            Answer::Acquired(Acquired { owner, token: NO_TOKEN, lease_s: 9, waited_ms: 0 })
                .encode(&mut bytes);
        } else {
            Answer::Timeout(Timeout { owner }).encode(&mut bytes);
        }
        self.say(id, &bytes, false);
    }

    /// The last whole answer that is matched by an owner, or the welcome, once more.
    fn repeat(&mut self, id: SessionId) {
        let wire = &self.wires[&id];
        let mut last = None;
        let mut at = 0;
        while let Ok(Some((answer, used))) = decode_answer(&wire.answers[at..wire.parsed]) {
            let matched = matches!(
                answer,
                Answer::Acquired(_) | Answer::Timeout(_) | Answer::Busy(_) | Answer::Welcome(_)
            );
            last = if matched { Some(wire.answers[at..at + used].to_vec()) } else { last };
            at += used;
        }
        if let Some(bytes) = last.filter(|_| wire.id.is_some()) {
            self.say(id, &bytes, false);
        }
    }

    fn give_up(&mut self, id: SessionId, call: Option<u8>, closing: bool) {
        let about = call.and_then(|call| self.owner(call)).unwrap_or(0);
        let open =
            self.reference.calls.get(&about).is_some_and(|call| call.sent == Some(id) && !call.answered);
        if closing && about != 0 && !open {
            return;
        }
        let (code, about) = if closing { (ErrorCode::OverLimits, about) } else { (ErrorCode::BadLease, 0) };
        let mut bytes = Vec::new();
        Answer::Error(ErrorAnswer { code, id: about, text: "" }).encode(&mut bytes);
        self.say(id, &bytes, true);
        let now = self.now;
        if let Some(server) = self.wires[&id].server {
            self.servers[server].close(now, id);
        }
    }

    /// From now on everything works, and every address leads to the server that the client knows.
    pub fn heal(&mut self) {
        for wire in self.wires.values_mut() {
            wire.muted = false;
        }
        for server in &mut self.servers {
            server.greeting = Greeting::Welcome;
            server.fail(false);
        }
        self.collect();
        let (server, addresses) = match &self.reference.current {
            Some(Id::Named(name)) if name == "b" => (1, [0, 1]),
            Some(Id::Address(address)) => (2, [*address, *address]),
            _ => (0, [0, 1]),
        };
        for address in addresses {
            self.leads_to[address] = server;
        }
    }
}
