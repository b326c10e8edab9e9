//! A core with a clock, a network and a server that the test plays by hand.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lockstead_client_core::{
    AcquireError, Config, Core, Counts, Fault, Instant, Lost, Margin, OpResult, Output, SessionId, Transmit,
};
use lockstead_proto::{
    Acquired, Answer, BusyReason, ErrorAnswer, ErrorCode, Extended, NotHeld, Pong, Released, Request,
    Timeout, Welcome, decode_request,
};

pub const SECOND: Duration = Duration::from_secs(1);

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// No input of a test makes the core do more than this.
const ENOUGH: u32 = 1_000;

pub const SERVER: &str = "server=lockstead/1 id=aa session=1 max_key=1024 max_lease=255";
pub const OTHER_SERVER: &str = "id=bb";

/// What the system says of a connection that the test cuts.
pub const CUT: &str = "cut by the test";

/// Addresses as people write them.
pub fn addresses(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("a{at}")).collect()
}

/// A request as the server read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Req {
    Acquire { wait_s: u8, lease_s: u8, owner: u64 },
    Release { token: u64 },
    Extend { lease_s: u8, token: u64 },
    Cancel { owner: u64 },
    Query { id: u64 },
    Ping { id: u64 },
    Hello { id: u64, text: String },
}

/// The network's and the server's side of one session.
#[derive(Debug, Default)]
pub struct Wire {
    pub address: usize,
    hello: u64,
    /// How many more bytes the kernel accepts.
    pub room: usize,
    bytes: Vec<u8>,
    requests: VecDeque<Req>,
    /// Received by the kernel, not read yet.
    unread: Vec<u8>,
    /// Closed by the client, and whether by reset.
    pub closed: Option<bool>,
}

/// All of it.
pub struct World {
    pub core: Core,
    pub now: Instant,
    pub wires: BTreeMap<SessionId, Wire>,
    pub ready: Vec<u64>,
    pub lost: Vec<u64>,
    pub faults: Vec<Fault>,
    pub stopped: bool,
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            addresses: addresses(1),
            hello_text: "name=test".into(),
            answer_allowance: Config::ANSWER_ALLOWANCE,
            margin: Margin::DEFAULT,
            max_open: Config::MAX_OPEN,
            seeds: [7, 11],
        };
        change(&mut config);
        Self {
            core: Core::new(config),
            now: Instant::from_nanos(1_000_000_000_000),
            wires: BTreeMap::new(),
            ready: Vec::new(),
            lost: Vec::new(),
            faults: Vec::new(),
            stopped: false,
        }
    }

    /// A world with one session that is welcomed.
    pub fn welcomed() -> (Self, SessionId) {
        let mut world = Self::new();
        let owner = world.acquire(SECOND, SECOND);
        let session = world.session();
        world.welcome(session);
        world.take_requests(session);
        world.timeout(session, owner);
        assert_eq!(world.take(owner), Some(Err(AcquireError::Timeout)));
        world.ready.clear();
        (world, session)
    }

    /// Does what the core asks for, until it asks for nothing more.
    pub fn run(&mut self) {
        for _ in 0..ENOUGH {
            let mut moved = false;
            while let Some(output) = self.core.poll_output() {
                moved = true;
                self.output(output);
            }
            for id in self.open_sessions() {
                moved |= self.transmit(id);
            }
            if !moved {
                assert!(!self.core.has_output());
                return;
            }
        }
        panic!("the core never comes to rest");
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Connect { session, address } => {
                let wire = Wire { address, room: usize::MAX, ..Wire::default() };
                assert!(self.wires.insert(session, wire).is_none());
            }
            Output::Close { session, reset } => self.wire(session).closed = Some(reset),
            Output::Look { session } => {
                self.read(session);
                self.core.looked(self.now, session);
            }
            Output::Ready(id) => self.ready.push(id),
            Output::Lost(ticket) => self.lost.push(ticket),
            Output::Fault(fault) => self.faults.push(fault),
            Output::Stopped => self.stopped = true,
        }
    }

    fn transmit(&mut self, id: SessionId) -> bool {
        let Some(wire) = self.wires.get_mut(&id) else {
            return false;
        };
        let result = self.core.transmit(self.now, id, |bytes| {
            let accepted = bytes.len().min(wire.room);
            wire.room -= accepted;
            wire.bytes.extend_from_slice(&bytes[..accepted]);
            accepted
        });
        while let Some((request, used)) = decode_request(&wire.bytes).unwrap() {
            wire.requests.push_back(owned(request));
            wire.bytes.drain(..used);
        }
        result == Transmit::Taken
    }

    /// Lets time pass, doing everything that is due on the way at its own instant.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        let mut wakeups = 0;
        while let Some(due) = self.core.next_wakeup().filter(|&due| due <= end) {
            wakeups = if due > self.now { 0 } else { wakeups + 1 };
            assert!(wakeups < ENOUGH, "the same instant is due again and again");
            self.now = self.now.max(due);
            self.core.tick(self.now);
            self.run();
        }
        self.now = end;
    }

    /// Time passes without anybody looking, as when the machine is suspended; then what is due happens at once.
    pub fn sleep(&mut self, span: Duration) {
        self.now = self.now + span;
        self.pass(Duration::ZERO);
    }

    pub fn pass_until(&mut self, instant: Instant) {
        self.pass(instant.since(self.now));
    }

    pub fn wire(&mut self, session: SessionId) -> &mut Wire {
        self.wires.get_mut(&session).unwrap()
    }

    pub fn open_sessions(&self) -> Vec<SessionId> {
        self.wires.iter().filter(|(_, wire)| wire.closed.is_none()).map(|(&id, _)| id).collect()
    }

    /// The newest session.
    pub fn session(&self) -> SessionId {
        *self.wires.keys().last().expect("a session was opened")
    }

    pub fn closed(&self, session: SessionId) -> Option<bool> {
        self.wires[&session].closed
    }

    /// Opens the connection and answers the hello.
    pub fn welcome(&mut self, session: SessionId) {
        self.welcome_as(session, SERVER);
    }

    pub fn welcome_as(&mut self, session: SessionId, text: &str) {
        let id = self.connect(session);
        let welcome = Welcome { version: 1, id, text };
        self.answer(session, Answer::Welcome(welcome));
    }

    /// Opens the connection; the id of the hello.
    pub fn connect(&mut self, session: SessionId) -> u64 {
        self.core.connected(self.now, session);
        self.run();
        let id = match self.take_requests(session).as_slice() {
            [Req::Hello { id, text }] if text == "name=test" => *id,
            other => panic!("{other:?} before the welcome"),
        };
        self.wire(session).hello = id;
        id
    }

    /// The id of the hello of a session.
    pub fn hello(&self, session: SessionId) -> u64 {
        self.wires[&session].hello
    }

    /// Everything that the server has read since the last time.
    pub fn take_requests(&mut self, session: SessionId) -> Vec<Req> {
        self.wire(session).requests.drain(..).collect()
    }

    /// The only request that the server has read since the last time.
    pub fn take_request(&mut self, session: SessionId) -> Req {
        let mut requests = self.take_requests(session);
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    pub fn answer(&mut self, session: SessionId, answer: Answer<'_>) {
        self.send(session, answer);
        self.read(session);
        self.run();
    }

    /// The bytes reach the client's kernel; the client has not read them yet.
    pub fn send(&mut self, session: SessionId, answer: Answer<'_>) {
        answer.encode(&mut self.wire(session).unread);
    }

    pub fn send_bytes(&mut self, session: SessionId, bytes: &[u8]) {
        self.core.received(self.now, session, bytes);
        self.run();
    }

    pub fn read(&mut self, session: SessionId) {
        let bytes = std::mem::take(&mut self.wire(session).unread);
        if !bytes.is_empty() {
            self.core.received(self.now, session, &bytes);
        }
    }

    /// The connection breaks.
    pub fn cut(&mut self, session: SessionId) {
        self.wire(session).closed = Some(false);
        self.core.closed(self.now, session, CUT);
        self.run();
    }

    pub fn acquire(&mut self, wait: Duration, lease: Duration) -> u64 {
        let owner = self.core.acquire(self.now, "k", wait, lease).unwrap();
        self.run();
        owner
    }

    pub fn take(&mut self, owner: u64) -> Option<Result<u64, AcquireError>> {
        let outcome = self.core.take(self.now, owner);
        self.run();
        outcome
    }

    /// The outcome of a call, which must have ended.
    pub fn outcome(&mut self, owner: u64) -> Result<u64, AcquireError> {
        assert!(self.ready.contains(&owner), "nobody said that the call has ended");
        self.take(owner).expect("the call has ended")
    }

    pub fn result(&mut self, id: u64) -> OpResult {
        assert!(self.ready.contains(&id), "nobody said that the request has ended");
        self.core.take_result(id).expect("the request has ended")
    }

    pub fn grant(&mut self, session: SessionId, owner: u64, token: u64, lease_s: u8) {
        self.grant_after(session, owner, token, lease_s, 0);
    }

    pub fn grant_after(&mut self, session: SessionId, owner: u64, token: u64, lease_s: u8, waited_ms: u32) {
        self.answer(session, acquired(owner, token, lease_s, waited_ms));
    }

    pub fn timeout(&mut self, session: SessionId, owner: u64) {
        self.answer(session, Answer::Timeout(Timeout { owner }));
    }

    pub fn busy(&mut self, session: SessionId, owner: u64, reason: BusyReason) {
        self.answer(session, Answer::Busy(lockstead_proto::Busy { owner, reason }));
    }

    pub fn released(&mut self, session: SessionId, token: u64) {
        self.answer(session, Answer::Released(Released { token }));
    }

    pub fn extended(&mut self, session: SessionId, token: u64, lease_s: u8) {
        self.answer(session, Answer::Extended(Extended { token, lease_s }));
    }

    pub fn not_held(&mut self, session: SessionId, token: u64) {
        self.answer(session, Answer::NotHeld(NotHeld { token }));
    }

    pub fn pong(&mut self, session: SessionId, id: u64) {
        self.answer(session, Answer::Pong(Pong { id }));
    }

    pub fn error(&mut self, session: SessionId, code: ErrorCode, id: u64) {
        self.answer(session, Answer::Error(ErrorAnswer { code, id, text: "no" }));
    }

    /// The connection breaks, and the next one is welcomed by the same server.
    pub fn reconnect(&mut self, session: SessionId) -> SessionId {
        self.cut(session);
        self.pass(ms(51));
        let next = self.session();
        assert_ne!(session, next);
        self.welcome(next);
        next
    }

    /// A ticket with token 5 on `session`.
    pub fn ticket(&mut self, session: SessionId, lease_s: u8) -> u64 {
        self.ticket_with_token(session, lease_s, 5)
    }

    pub fn ticket_with_token(&mut self, session: SessionId, lease_s: u8, token: u64) -> u64 {
        let owner = self.acquire(SECOND, SECOND * u32::from(lease_s));
        self.take_requests(session);
        self.grant(session, owner, token, lease_s);
        self.outcome(owner).unwrap()
    }

    pub fn valid_until(&mut self, ticket: u64) -> Instant {
        self.core.ticket(self.now, ticket).unwrap().valid_until
    }

    pub fn lost_reason(&mut self, ticket: u64) -> Option<Lost> {
        self.core.ticket(self.now, ticket).unwrap().lost
    }

    pub fn assert_counts(&self, counts: Counts) {
        assert_eq!(self.core.counts(), counts);
    }
}

pub fn acquired(owner: u64, token: u64, lease_s: u8, waited_ms: u32) -> Answer<'static> {
    Answer::Acquired(Acquired { owner, token, lease_s, waited_ms })
}

fn owned(request: Request<'_>) -> Req {
    match request {
        Request::Acquire(r) => Req::Acquire { wait_s: r.wait_s, lease_s: r.lease_s, owner: r.owner },
        Request::Release(r) => Req::Release { token: r.token },
        Request::Extend(r) => Req::Extend { lease_s: r.lease_s, token: r.token },
        Request::Cancel(r) => Req::Cancel { owner: r.owner },
        Request::Query(r) => Req::Query { id: r.id },
        Request::Ping(r) => Req::Ping { id: r.id },
        Request::Hello(r) => Req::Hello { id: r.id, text: r.text.into() },
    }
}
