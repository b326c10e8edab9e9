//! The core, the network and the assertions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockstead_client_core::{
    AcquireError, Config, Core, Counts, Fault, Instant, Margin, Output, SessionId, Transmit,
};
use lockstead_proto::{Answer, Request, Timeout, decode_answer, decode_request};

use crate::server::Server;
use crate::steps::Step;

/// One connection and what is under way on it.
#[derive(Debug, Default)]
struct Wire {
    connected: bool,
    welcomed: bool,
    room: usize,
    /// Everything that the kernel accepted.
    accepted: Vec<u8>,
    /// How much of it the server has read.
    read: usize,
    /// Everything that the server sent.
    answers: Vec<u8>,
    /// How much of it has reached the client.
    delivered: usize,
    /// How much of that is whole answers.
    parsed: usize,
    /// The client has closed it, or it broke.
    closed: bool,
}

/// What the reference knows of a call.
#[derive(Debug)]
struct Call {
    wait_ms: u16,
    start: Instant,
    deadline: Instant,
    lease_s: u8,
    /// The session on which a byte of it may have left.
    sent: Option<SessionId>,
    ready: bool,
    over: bool,
}

pub struct World {
    core: Core,
    now: Instant,
    whole_writes: bool,
    server: Server,
    wires: BTreeMap<SessionId, Wire>,
    calls: BTreeMap<u64, Call>,
    /// Token of each ticket that was delivered, by its name in the core.
    tickets: BTreeMap<u64, u64>,
    /// Tickets that the program still has.
    in_use: BTreeSet<u64>,
    delivered: BTreeSet<u64>,
    released: BTreeSet<u64>,
    /// The tokens whose grant has reached the client.
    read: BTreeSet<u64>,
    asked: BTreeSet<u64>,
    strays: usize,
    faults: usize,
}

impl World {
    pub fn new(whole_writes: bool) -> Self {
        let config = Config {
            addresses: 2,
            hello_text: String::new(),
            answer_allowance: Config::ANSWER_ALLOWANCE,
            margin: Margin::DEFAULT,
            max_open: 1_000,
            seeds: [1, 2],
        };
        Self {
            core: Core::new(config),
            now: Instant::from_nanos(5_000_000_000),
            whole_writes,
            server: Server::default(),
            wires: BTreeMap::new(),
            calls: BTreeMap::new(),
            tickets: BTreeMap::new(),
            in_use: BTreeSet::new(),
            delivered: BTreeSet::new(),
            released: BTreeSet::new(),
            read: BTreeSet::new(),
            asked: BTreeSet::new(),
            strays: 0,
            faults: 0,
        }
    }

    pub fn step(&mut self, step: &Step) {
        match *step {
            Step::Acquire { key, wait_ms, lease_s } => self.acquire(key, wait_ms, lease_s),
            Step::Take(at) => self.with_call(at, Self::take),
            Step::Cancel(at) => self.with_call(at, Self::cancel),
            Step::Release(at) => self.with_ticket(at, |world, ticket| {
                world.in_use.remove(&ticket);
                world.asked.extend(world.core.release_ticket(world.now, ticket));
            }),
            Step::Drop(at) => self.with_ticket(at, |world, ticket| {
                world.in_use.remove(&ticket);
                world.core.drop_ticket(world.now, ticket);
            }),
            Step::Leave(at) => self.with_ticket(at, |world, ticket| {
                world.in_use.remove(&ticket);
                world.core.leave_ticket(world.now, ticket);
            }),
            Step::Extend { ticket, lease_s } => self.with_ticket(ticket, |world, ticket| {
                let lease = Duration::from_secs(lease_s.into());
                world.asked.extend(world.core.extend_ticket(world.now, ticket, lease));
            }),
            Step::KeepAlive { ticket, max_s } => self.with_ticket(ticket, |world, ticket| {
                world.core.keep_alive(world.now, ticket, max_s.map(|s| Duration::from_secs(s.into())));
            }),
            Step::Ping => {
                self.asked.insert(self.core.ping(self.now));
            }
            Step::Query(key) => self.asked.extend(self.core.query(self.now, &name(key))),
            Step::Connect(at) => self.with_wire(at, Self::connect),
            Step::Room { session, bytes } => {
                self.with_wire(session, |world, id| world.wire(id).room += usize::from(bytes))
            }
            Step::ToServer { session, bytes } => {
                self.with_wire(session, |world, id| world.serve(id, bytes.into()))
            }
            Step::ToClient { session, bytes } => {
                self.with_wire(session, |world, id| world.deliver(id, bytes.into()))
            }
            Step::Cut(at) => self.with_wire(at, Self::cut),
            Step::Stray { session, call } => self.with_wire(session, |world, id| world.stray(id, call)),
            Step::Flow => self.flow(),
            Step::Pass(ms) => self.pass(Duration::from_millis(ms.into())),
        }
        self.run();
        self.check_tickets();
        self.check_grants();
    }

    fn acquire(&mut self, key: u8, wait_ms: u16, lease_s: u8) {
        let (wait, lease) = (Duration::from_millis(wait_ms.into()), Duration::from_secs(lease_s.into()));
        let owner = self.core.acquire(self.now, &name(key), wait, lease).unwrap();
        let seconds = u64::from(wait_ms).div_ceil(1_000);
        let allowed = if wait_ms == 0 { 5 } else { seconds + 2 };
        let call = Call {
            wait_ms,
            start: self.now,
            deadline: self.now + Duration::from_secs(allowed),
            lease_s,
            sent: None,
            ready: false,
            over: false,
        };
        assert!(self.calls.insert(owner, call).is_none(), "a fresh owner for each call");
    }

    fn take(&mut self, owner: u64) {
        let Some(outcome) = self.core.take(self.now, owner) else {
            return;
        };
        let sent = self.calls[&owner].sent;
        let call = self.calls.get_mut(&owner).unwrap();
        assert!(!call.over, "every call ends exactly once");
        call.over = true;
        match outcome {
            Ok(ticket) => {
                assert!(self.now < call.deadline, "no ticket after the deadline");
                let facts = self.core.ticket_facts(ticket).unwrap();
                assert_eq!(self.server.grants[&facts.token].owner, owner, "no cross-talk");
                assert!(self.delivered.insert(facts.token), "a token is delivered once");
                let until = self.core.ticket(self.now, ticket).unwrap().valid_until;
                assert!(self.now < until, "no ticket past its lease");
                let lease = Duration::from_secs(self.calls[&owner].lease_s.into());
                assert!(until < self.now + lease);
                self.tickets.insert(ticket, facts.token);
                self.in_use.insert(ticket);
            }
            Err(AcquireError::Unsent(_)) => assert_eq!(sent, None, "unsent means that no byte has left"),
            Err(AcquireError::Timeout) => assert_eq!(self.server.refused.get(&owner), Some(&"timeout")),
            Err(AcquireError::Busy(_)) => assert_eq!(self.server.refused.get(&owner), Some(&"busy")),
            Err(AcquireError::Indeterminate(_)) => assert!(sent.is_some(), "indeterminate means sent"),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn cancel(&mut self, owner: u64) {
        self.core.cancel(self.now, owner);
        self.calls.get_mut(&owner).unwrap().over = true;
    }

    fn connect(&mut self, id: SessionId) {
        if !self.wires[&id].connected {
            self.wire(id).connected = true;
            self.core.connected(self.now, id);
        }
    }

    fn serve(&mut self, id: SessionId, bytes: usize) {
        let wire = self.wires.get_mut(&id).unwrap();
        let end = (wire.read + bytes).min(wire.accepted.len());
        while let Some((request, used)) = decode_request(&wire.accepted[wire.read..end]).unwrap() {
            wire.read += used;
            self.server.request(self.now, id, request);
        }
        self.collect();
    }

    /// What the server sent is on its way; what it sends to a closed session goes nowhere.
    fn collect(&mut self) {
        for (session, bytes) in std::mem::take(&mut self.server.output) {
            self.wire(session).answers.extend(bytes);
        }
    }

    fn deliver(&mut self, id: SessionId, bytes: usize) {
        let wire = self.wires.get_mut(&id).unwrap();
        assert!(!wire.closed, "a closed connection is not read");
        let end = (wire.delivered + bytes).min(wire.answers.len());
        let bytes = wire.answers[wire.delivered..end].to_vec();
        wire.delivered = end;
        if !bytes.is_empty() {
            wire.welcomed = true;
            while let Some((answer, used)) = decode_answer(&wire.answers[wire.parsed..end]).unwrap() {
                wire.parsed += used;
                if let Answer::Acquired(acquired) = answer {
                    self.read.insert(acquired.token);
                }
            }
            self.core.received(self.now, id, &bytes);
        }
    }

    fn cut(&mut self, id: SessionId) {
        self.close(id);
        self.core.closed(self.now, id);
    }

    /// The server notices at once; whether it does makes no difference to the client.
    fn close(&mut self, id: SessionId) {
        self.wire(id).closed = true;
        self.server.close(self.now, id);
        self.collect();
    }

    fn stray(&mut self, id: SessionId, call: u8) {
        let wire = &self.wires[&id];
        let whole = wire.delivered == wire.answers.len();
        let owners: Vec<u64> = self.calls.keys().copied().collect();
        let Some(&owner) = owners.get(usize::from(call) % owners.len().max(1)) else {
            return;
        };
        if whole && wire.welcomed && self.calls[&owner].sent != Some(id) {
            Answer::Timeout(Timeout { owner }).encode(&mut self.wire(id).answers);
            self.strays += 1;
            self.deliver(id, usize::MAX / 2);
        }
    }

    /// Everything moves, and what is ready is taken.
    fn flow(&mut self) {
        for _ in 0..4 {
            for id in self.open() {
                self.wire(id).room += 10_000;
                self.connect(id);
                self.run();
                self.serve(id, 100_000);
                if !self.wires[&id].closed {
                    self.deliver(id, 100_000);
                }
                self.run();
            }
        }
        let ready: Vec<u64> =
            self.calls.iter().filter(|(_, c)| c.ready && !c.over).map(|(&o, _)| o).collect();
        for owner in ready {
            self.take(owner);
        }
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(due) = self.core.next_wakeup().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.server.advance(self.now);
            self.collect();
            self.core.tick(self.now);
            self.run();
            self.check_deadlines();
            self.check_grants();
        }
        self.now = end;
        self.server.advance(end);
        self.collect();
        self.check_deadlines();
    }

    fn run(&mut self) {
        loop {
            while let Some(output) = self.core.poll_output() {
                self.output(output);
            }
            let moved = self.open().into_iter().any(|id| self.transmit(id));
            if !moved && !self.core.has_output() {
                return;
            }
        }
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Connect { session, .. } => {
                self.wires.insert(session, Wire::default());
                assert!(self.open().len() <= 4, "at most four sessions");
            }
            Output::Close { session, .. } => self.close(session),
            Output::Look { session } => {
                self.deliver(session, usize::MAX / 2);
                self.core.looked(self.now, session);
            }
            Output::Ready(id) => {
                if let Some(call) = self.calls.get_mut(&id) {
                    assert!(!call.over, "nobody waits for a call that was given up");
                    call.ready = true;
                } else {
                    assert!(self.asked.contains(&id));
                }
            }
            Output::Lost(ticket) => assert!(self.tickets.contains_key(&ticket)),
            Output::Fault(Fault::Stray { .. }) => self.faults += 1,
            other => panic!("{other:?}"),
        }
    }

    fn transmit(&mut self, id: SessionId) -> bool {
        let wire = self.wires.get_mut(&id).unwrap();
        if !wire.connected {
            return false;
        }
        let before = wire.accepted.len();
        let mut offered = Vec::new();
        let room = if self.whole_writes && wire.room > 0 { usize::MAX } else { wire.room };
        let result = self.core.transmit(self.now, id, |bytes| {
            offered.extend_from_slice(bytes);
            bytes.len().min(room)
        });
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
        let mut at = 0;
        while let Some((request, used)) = decode_request(&stream[at..]).unwrap() {
            let fresh = at >= before && at < accepted;
            at += used;
            if fresh {
                let hello = matches!(request, Request::Hello(_));
                assert!(hello != (at > used), "hello is the first frame and only that");
                assert!(hello || wire.welcomed, "nothing before the welcome");
                check_request(&mut self.calls, &mut self.released, self.now, id, request);
            }
        }
    }

    /// `valid_until` is never after the server's own end of that token.
    fn check_tickets(&mut self) {
        for &ticket in &self.in_use {
            let view = self.core.ticket(self.now, ticket).unwrap();
            let grant = &self.server.grants[&self.tickets[&ticket]];
            assert!(grant.released || view.valid_until < grant.ends, "{view:?} {grant:?}");
            assert_eq!(view.lost.is_none(), self.now < view.valid_until && view.lost.is_none());
        }
    }

    /// Every call ends at the latest at its deadline.
    fn check_deadlines(&self) {
        for (owner, call) in &self.calls {
            let late = self.now >= call.deadline && !call.ready && !call.over;
            assert!(!late, "{owner} is still open after its deadline");
        }
    }

    /// Lets everything come to rest and checks what must be true then.
    pub fn finish(&mut self) {
        for _ in 0..4 {
            self.flow();
            self.pass(Duration::from_millis(300));
        }
        for ticket in std::mem::take(&mut self.in_use) {
            self.core.drop_ticket(self.now, ticket);
        }
        for _ in 0..40 {
            self.run();
            self.flow();
            self.pass(Duration::from_secs(1));
            for ticket in std::mem::take(&mut self.in_use) {
                self.core.drop_ticket(self.now, ticket);
            }
        }
        for id in std::mem::take(&mut self.asked) {
            self.core.take_result(id);
        }
        self.check_grants();
        assert_eq!(self.faults, self.strays, "every stray is counted, and nothing else");
        let sessions = self.open().len();
        assert_eq!(self.core.counts(), Counts { sessions, ..Counts::default() }, "the tables are empty");
        assert_eq!(self.core.next_wakeup(), None, "no timer is left");
        assert!(self.calls.values().all(|call| call.over));
    }

    /// Every grant is delivered, released by its exact token, or was never read because its session had closed. Only
    /// while its lease runs and no session takes the release may it wait.
    fn check_grants(&self) {
        for token in &self.read {
            let cared_for = self.delivered.contains(token) || self.released.contains(token);
            let over = self.server.grants[token].ends <= self.now;
            let waiting = self.core.counts().requests > 0 || self.at_the_gate(*token);
            assert!(cared_for || over || waiting, "the grant of token {token} is forgotten");
        }
    }

    fn at_the_gate(&self, token: u64) -> bool {
        let call = &self.calls[&self.server.grants[&token].owner];
        !call.over && self.now < call.deadline
    }

    fn wire(&mut self, id: SessionId) -> &mut Wire {
        self.wires.get_mut(&id).unwrap()
    }

    fn open(&self) -> Vec<SessionId> {
        self.wires.iter().filter(|(_, wire)| !wire.closed).map(|(&id, _)| id).collect()
    }

    fn with_wire(&mut self, at: u8, then: impl FnOnce(&mut Self, SessionId)) {
        let open = self.open();
        if !open.is_empty() {
            then(self, open[usize::from(at) % open.len()]);
        }
    }

    fn with_call(&mut self, at: u8, then: impl FnOnce(&mut Self, u64)) {
        let open: Vec<u64> = self.calls.iter().filter(|(_, call)| !call.over).map(|(&o, _)| o).collect();
        if !open.is_empty() {
            then(self, open[usize::from(at) % open.len()]);
        }
    }

    fn with_ticket(&mut self, at: u8, then: impl FnOnce(&mut Self, u64)) {
        let tickets: Vec<u64> = self.in_use.iter().copied().collect();
        if !tickets.is_empty() {
            then(self, tickets[usize::from(at) % tickets.len()]);
        }
    }
}

fn check_request(
    calls: &mut BTreeMap<u64, Call>,
    released: &mut BTreeSet<u64>,
    now: Instant,
    id: SessionId,
    request: Request<'_>,
) {
    match request {
        Request::Acquire(acquire) => {
            let call = calls.get_mut(&acquire.owner).unwrap();
            assert_eq!(call.sent, None, "never two sends of one owner");
            assert!(!call.over, "a call that is over is not sent");
            call.sent = Some(id);
            let budget = Duration::from_secs(u64::from(call.wait_ms).div_ceil(1_000));
            let left = budget.saturating_sub(now.since(call.start));
            let wait_s = left.as_nanos().div_ceil(1_000_000_000);
            assert_eq!(u128::from(acquire.wait_s), wait_s, "the wait is what is left, rounded up");
            assert!(call.wait_ms == 0 || wait_s > 0, "nothing is sent after the budget end");
            assert_eq!(acquire.lease_s, call.lease_s);
        }
        Request::Cancel(cancel) => assert_eq!(calls[&cancel.owner].sent, Some(id)),
        Request::Release(release) => {
            released.insert(release.token);
        }
        Request::Extend(extend) => {
            assert!(!released.contains(&extend.token), "nothing is extended after its release");
        }
        Request::Query(_) | Request::Ping(_) | Request::Hello(_) => {}
    }
}

fn name(key: u8) -> String {
    format!("key{key}")
}
