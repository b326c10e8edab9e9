//! The core, the program that uses it, the servers and the network between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lockstead_client_core::{Config, Core, Counts, Instant, Margin, Output, SessionId, Transmit};
use lockstead_proto::{Request, decode_request};

use crate::canary::Planted;
use crate::reference::{Reference, Then};
use crate::server::{Pace, Server};
use crate::steps::Step;
use crate::wire::Wire;

/// No input makes the core do more than this.
const ENOUGH: u32 = 200;

/// What differs from history to history.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The transport takes all of an offer or nothing, as a layer such as TLS does.
    pub whole_writes: bool,
    pub pace: Pace,
    pub seeds: [u64; 2],
    pub max_open: usize,
}

pub struct World {
    pub core: Core,
    pub now: Instant,
    pub setup: Setup,
    pub planted: Option<Planted>,
    pub servers: Vec<Server>,
    /// Where each address leads to.
    pub leads_to: [usize; 2],
    pub wires: BTreeMap<SessionId, Wire>,
    pub reference: Reference,
    /// Tickets that the program has, by their name in the core, with their token.
    pub in_use: BTreeMap<u64, u64>,
    /// Tickets whose loss was told.
    pub lost: BTreeSet<u64>,
    /// Requests whose result the program waits for, with the token that they name.
    pub asked: BTreeMap<u64, Option<u64>>,
    pub left: Vec<u64>,
    /// What the core wants done.
    outputs: VecDeque<Output>,
}

impl World {
    pub fn new(setup: Setup, planted: Option<Planted>) -> Self {
        let config = Config {
            addresses: vec!["a0".into(), "a1".into()],
            hello_text: "name=model".into(),
            answer_allowance: Config::ANSWER_ALLOWANCE,
            // Nothing is added to what the contract takes off for the clocks alone.
            margin: Margin { percent: 0, least: Duration::ZERO },
            max_open: setup.max_open,
            seeds: setup.seeds,
        };
        let server = |number, named| Server::new(number, named, setup.pace);
        Self {
            core: Core::new(config),
            now: Instant::from_nanos(5_000_000_000),
            setup,
            planted,
            servers: vec![server(1, "id=a"), server(2, "id=b"), server(3, "server=unnamed")],
            leads_to: [0, 0],
            wires: BTreeMap::new(),
            reference: Reference::default(),
            in_use: BTreeMap::new(),
            lost: BTreeSet::new(),
            asked: BTreeMap::new(),
            left: Vec::new(),
            outputs: VecDeque::new(),
        }
    }

    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Program(deed) => self.program(deed),
            Step::Network(event) => self.network(event),
            Step::Server(whim) => self.whim(*whim),
            Step::Flow => self.flow(),
            Step::Pass(ms) => self.pass(Duration::from_millis((*ms).into())),
            Step::Sleep(ms) => self.now = self.now + Duration::from_millis((*ms).into()),
            Step::ToNextDue => self.now = self.now.max(self.core.next_wakeup().unwrap_or(self.now)),
        }
        self.advance_servers();
        if !matches!(step, Step::Sleep(_) | Step::ToNextDue) {
            self.pass(Duration::ZERO);
            self.check();
        }
    }

    /// Everything moves, and what is ready is taken.
    pub fn flow(&mut self) {
        for _ in 0..4 {
            for id in self.open() {
                self.wire(id).room += 10_000;
                self.connect(id);
                self.run();
                self.serve(id, usize::MAX);
                if !self.wires[&id].closed {
                    self.deliver(id, usize::MAX);
                }
                self.run();
            }
        }
        let ready = self.reference.calls.iter().filter(|(_, call)| call.ready && !call.over);
        for owner in ready.map(|(&owner, _)| owner).collect::<Vec<_>>() {
            self.take(owner);
        }
    }

    /// Lets time pass, and everything that is due happen at its own instant.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        let mut wakeups = 0;
        self.run();
        while let Some(due) = self.core.next_wakeup().filter(|&due| due <= end) {
            wakeups = if due > self.now { 0 } else { wakeups + 1 };
            assert!(wakeups < ENOUGH, "the same instant is due again and again");
            self.now = self.now.max(due);
            self.advance_servers();
            if self.planted == Some(Planted::NeverTicks) {
                break;
            }
            self.core.tick(self.now);
            self.run();
        }
        self.now = end;
        self.advance_servers();
        self.check();
    }

    fn advance_servers(&mut self) {
        let now = self.now;
        for server in &mut self.servers {
            server.advance(now);
        }
        self.collect();
    }

    /// Does what the core asks for, and offers each connection what is to be sent, until nothing moves.
    pub fn run(&mut self) {
        for _ in 0..ENOUGH {
            let mut moved = false;
            while let Some(output) = self.next_output() {
                moved = true;
                self.output(output);
            }
            for id in self.open() {
                moved |= self.transmit(id);
            }
            if !moved {
                assert!(!self.core.has_output());
                return;
            }
        }
        panic!("the core never comes to rest");
    }

    fn next_output(&mut self) -> Option<Output> {
        self.outputs.extend(std::iter::from_fn(|| self.core.poll_output()));
        self.outputs.pop_front()
    }

    /// Whether the core has closed a session already, so that what is read from it makes no difference any more.
    fn closing(&self, session: SessionId) -> bool {
        let closes = |output: &Output| matches!(output, Output::Close { session: id, .. } if *id == session);
        self.wires[&session].closed || self.outputs.iter().any(closes)
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Connect { session, address } => {
                self.wires.insert(session, Wire { address, ..Wire::default() });
                assert!(self.open().len() <= 4, "at most four sessions");
            }
            Output::Close { session, .. } => self.close(session),
            Output::Look { session } => {
                if !self.closing(session) {
                    self.deliver(session, usize::MAX);
                }
                self.core.looked(self.now, session);
            }
            Output::Ready(id) => match self.reference.calls.get_mut(&id) {
                Some(call) => {
                    assert!(!call.over, "nobody waits for a call that is over");
                    call.ready = true;
                }
                None => self.result(id),
            },
            Output::Lost(ticket) => drop(self.lost.insert(ticket)),
            Output::Fault(_) => self.reference.faults += 1,
            Output::Stopped => self.reference.stopped = true,
        }
    }

    fn transmit(&mut self, id: SessionId) -> bool {
        let whole = self.setup.whole_writes;
        let Some(wire) = self.wires.get_mut(&id).filter(|wire| wire.server.is_some()) else {
            return false;
        };
        let before = wire.accepted.len();
        let mut offered = Vec::new();
        let room = if whole && wire.room > 0 { usize::MAX } else { wire.room };
        let result = self.core.transmit(self.now, id, |bytes| {
            offered.extend_from_slice(bytes);
            bytes.len().min(room)
        });
        if let Some(planted) = self.planted {
            planted.spoil(&mut offered, before);
        }
        let accepted = offered.len().min(room);
        wire.room = wire.room.saturating_sub(accepted);
        wire.accepted.extend_from_slice(&offered[..accepted]);
        self.check_sent(id, before, &offered);
        result == Transmit::Taken
    }

    /// Looks at the frames whose first byte was accepted from `before` on. What was offered behind the accepted bytes
    /// completes the last one.
    fn check_sent(&mut self, id: SessionId, before: usize, offered: &[u8]) {
        let wire = &self.wires[&id];
        let accepted = wire.accepted.len();
        let mut stream = wire.accepted[..before].to_vec();
        stream.extend_from_slice(offered);
        let (mut at, mut hello) = (0, wire.hello);
        while let Some((request, used)) = decode_request(&stream[at..]).unwrap() {
            if at >= before && at < accepted {
                if let Request::Hello(frame) = request {
                    hello = Some(frame.id);
                }
                self.reference.sent(self.now, id, wire, request, at == 0);
            }
            at += used;
        }
        self.wire(id).hello = hello;
    }

    pub fn connect(&mut self, id: SessionId) {
        let (now, leads_to) = (self.now, self.leads_to);
        let wire = self.wire(id);
        if wire.server.is_none() {
            wire.server = Some(leads_to[wire.address]);
            self.core.connected(now, id);
        }
    }

    /// The server reads up to `bytes` more.
    pub fn serve(&mut self, id: SessionId, bytes: usize) {
        let wire = self.wires.get_mut(&id).unwrap();
        let end = wire.read.saturating_add(bytes).min(wire.accepted.len());
        let Some(server) = wire.server.filter(|_| !wire.muted && !wire.dead) else {
            return;
        };
        while let Some((request, used)) = decode_request(&wire.accepted[wire.read..end]).unwrap() {
            wire.read += used;
            self.servers[server].request(self.now, id, request);
        }
        self.collect();
    }

    /// What the servers have sent is on its way; what they send to a session that is over goes nowhere.
    pub fn collect(&mut self) {
        for server in &mut self.servers {
            for (session, bytes) in std::mem::take(&mut server.output) {
                let wire = self.wires.get_mut(&session).unwrap();
                if !wire.dead {
                    wire.answers.extend(bytes);
                }
            }
        }
    }

    /// Up to `bytes` more reach the client.
    pub fn deliver(&mut self, id: SessionId, bytes: usize) {
        let wire = self.wires.get_mut(&id).unwrap();
        assert!(!wire.closed, "a closed connection is not read");
        if wire.muted {
            return;
        }
        let bytes = wire.deliver(bytes);
        let mut handed_in = wire.delivered - bytes.len();
        while !self.wires[&id].closed && handed_in < self.wires[&id].delivered {
            let then = self.read(id);
            let wire = &self.wires[&id];
            let end = if then == Then::Welcomed { wire.parsed } else { wire.delivered };
            let bytes = wire.answers[handed_in..end].to_vec();
            handed_in = end;
            self.core.received(self.now, id, &bytes);
            if then != Then::Open {
                self.run();
            }
            assert!(then != Then::Closed || self.wires[&id].closed, "the session is of no use any more");
        }
    }

    /// The whole answers among what has reached the client, up to the first that changes the session.
    fn read(&mut self, id: SessionId) -> Then {
        let wire = self.wires.get_mut(&id).unwrap();
        let bytes = wire.answers[..wire.delivered].to_vec();
        loop {
            match lockstead_proto::decode_answer(&bytes[wire.parsed..]) {
                Err(_) => return Then::Closed,
                Ok(None) => return Then::Open,
                Ok(Some((answer, used))) => {
                    wire.parsed += used;
                    let server = &self.servers[wire.server.unwrap()];
                    let then = self.reference.read(self.now, id, wire, server, answer);
                    if then != Then::Open {
                        return then;
                    }
                }
            }
        }
    }

    /// The server notices at once; whether it does makes no difference to the client.
    pub fn close(&mut self, id: SessionId) {
        let now = self.now;
        let wire = self.wire(id);
        wire.closed = true;
        if let Some(server) = wire.server {
            self.servers[server].close(now, id);
            self.collect();
        }
    }

    /// Looks at everything that must always be true.
    fn check(&mut self) {
        let waiting = self.core.counts().requests > 0;
        self.reference.check_deadlines(self.now);
        self.reference.check_grants(self.now, waiting);
        self.check_tickets();
    }

    /// A ticket that is not lost is held at its server, and its `valid_until` is never after the server's own end of
    /// that token. What is lost was told.
    fn check_tickets(&mut self) {
        for (ticket, token) in self.in_use.clone() {
            let mut view = self.core.ticket(self.now, ticket).unwrap();
            self.run();
            if self.planted == Some(Planted::ValidForLonger) {
                view.valid_until = view.valid_until + Duration::from_millis(20);
            }
            let grant = self.grant(token);
            assert!(grant.released || view.valid_until < grant.ends, "{view:?} {grant:?}");
            assert_eq!(view.lost.is_some(), self.lost.contains(&ticket), "valid and lost agree");
            if view.lost.is_none() {
                assert!(self.now < view.valid_until && !grant.released, "{view:?} {grant:?}");
                assert!(!self.reference.tokens[&token].void, "another server has taken over");
            }
        }
    }

    /// Lets everything come to rest and checks what must be true then.
    pub fn finish(&mut self) {
        self.heal();
        let rest = self.now;
        for _ in 0..30 {
            self.flow();
            self.pass(Duration::from_millis(300));
        }
        self.flow();
        let in_use = self.in_use.keys().copied().collect();
        self.reference.check_rest(rest, self.now, &self.servers, &in_use);
        for _ in 0..45 {
            for (ticket, _) in std::mem::take(&mut self.in_use) {
                self.core.drop_ticket(self.now, ticket);
            }
            self.flow();
            self.pass(Duration::from_secs(1));
        }
        assert!(self.asked.is_empty(), "every request has its result");
        let (faults, expected) = (self.reference.faults, self.reference.expected_faults);
        assert_eq!(faults, expected, "every fault of a server is told, and nothing else");
        let Counts { calls, tickets, requests, .. } = self.core.counts();
        assert_eq!((calls, tickets, requests), (0, 0, 0), "the tables are empty");
        assert_eq!(self.core.next_wakeup(), None, "no timer is left");
        assert!(self.reference.calls.values().all(|call| call.over), "every call has ended");
    }

    pub fn grant(&self, token: u64) -> &crate::server::Grant {
        self.servers.iter().find_map(|server| server.grants.get(&token)).unwrap()
    }

    pub fn wire(&mut self, id: SessionId) -> &mut Wire {
        self.wires.get_mut(&id).unwrap()
    }

    pub fn open(&self) -> Vec<SessionId> {
        self.wires.iter().filter(|(_, wire)| !wire.closed).map(|(&id, _)| id).collect()
    }

    pub fn with_wire(&mut self, at: u8, then: impl FnOnce(&mut Self, SessionId)) {
        let open = self.open();
        if !open.is_empty() {
            then(self, open[usize::from(at) % open.len()]);
        }
    }
}
