//! What the server does with requests and ends when its clock advances between poll, read and stamp: the
//! process is stopped (SIGSTOP) around its deadlines, at some random point of its turn, with sessions that it
//! is about to read.

use lockstead_testkit::rng::Rng;
use lockstead_testkit::{Answer, Arrival, Ends, Event, Grant, Raw, Server, frame};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// Sessions that the server has to read in one turn: the more, the longer is the time between its first read
/// and its last.
const SESSIONS: usize = 16;

fn sleep_until(instant: Instant) {
    thread::sleep(instant.saturating_duration_since(Instant::now()));
}

/// Stops the server while all these sessions keep it reading. What is sent to them next is read in the turn
/// that was interrupted (where a session's read was still to come), or in the next.
fn pause_while_reading(server: &Server, sessions: &mut [Raw], until: Instant) {
    let ping = frame::ping(0);
    loop {
        for session in sessions.iter_mut() {
            session.send(&ping);
        }
        if Instant::now() >= until {
            break;
        }
    }
    server.pause();
}

/// Tells everything that comes on a session, pongs left out, until the session or the listener ends.
fn listen(mut session: Raw, told: Sender<Arrival>) {
    while let Event::Answer(arrival) = session.event(20 * SECOND) {
        let pong = matches!(arrival.answer, Answer::Pong { .. });
        if !pong && told.send(arrival).is_err() {
            return;
        }
    }
}

/// Everything that was told so far, by the owner or token that it names.
struct Told {
    channel: Receiver<Arrival>,
    by_id: HashMap<u64, Arrival>,
}

impl Told {
    /// Waits for what names this owner or token.
    fn take(&mut self, id: u64, awaited: &str) -> Arrival {
        let deadline = Instant::now() + 15 * SECOND;
        loop {
            if let Some(arrival) = self.by_id.remove(&id) {
                return arrival;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let arrival =
                self.channel.recv_timeout(left).unwrap_or_else(|_| panic!("nothing came for {awaited}"));
            let id = match arrival.answer {
                Answer::Acquired { owner, .. } | Answer::TimedOut { owner } => owner,
                Answer::Extended { token, .. } | Answer::NotHeld { token } | Answer::Released { token } => {
                    token
                }
                ref other => panic!("{other:?}"),
            };
            let earlier = self.by_id.insert(id, arrival);
            assert!(earlier.is_none(), "a second answer to one request: {earlier:?}");
        }
    }
}

/// What one session asks for in one round: unique owners of its four attempts.
#[derive(Clone, Copy)]
enum Role {
    /// Holds a key of 1 s that is extended by 1 s in the pause.
    ToExtend,
    /// Acquires a key of 1 s in the pause.
    Lease,
    /// Queues for 1 s on a held key in the pause.
    Wait,
    /// Waits for the end of the extended lease.
    AfterExtend,
    /// Waits for the end of the lease.
    AfterLease,
}

fn owner(round: u64, session: usize, role: Role) -> u64 {
    (round << 16) | ((session as u64) << 8) | role as u64
}

/// A request that is sent while the process stands still is read, and so stamped, after it: nothing may be
/// counted from an earlier instant.
#[test]
fn a_request_read_after_a_pause_is_stamped_after_it() {
    const ROUNDS: u64 = 100;
    let server = Server::start(PROGRAM, &[]);
    let mut rng = Rng::new(1);
    let (sender, channel) = mpsc::channel();
    let mut told = Told { channel, by_id: HashMap::new() };
    let mut holder = server.connect();
    holder.hold(255, 1, "blocked");
    // Of each session this is the writing half; what comes back is told by a thread.
    let mut writers: Vec<Raw> = (0..=SESSIONS)
        .map(|_| {
            let session = server.connect();
            let writer = session.second_handle();
            let sender = sender.clone();
            thread::spawn(move || listen(session, sender));
            writer
        })
        .collect();
    let mut queue = writers.pop().expect("one more than the sessions");
    let mut begun = BTreeMap::new();
    for round in 0..ROUNDS {
        let key = |session: usize, what| format!("{what}/{round}/{session}");
        let mut tokens = Vec::new();
        for (n, writer) in writers.iter_mut().enumerate() {
            writer.send(&frame::acquire(0, 1, owner(round, n, Role::ToExtend), key(n, "extend")));
        }
        for n in 0..SESSIONS {
            let arrival = told.take(owner(round, n, Role::ToExtend), "a key to be extended");
            let Answer::Acquired { token, .. } = arrival.answer else { panic!("{arrival:?}") };
            tokens.push(token);
            queue.send(&frame::acquire(60, 1, owner(round, n, Role::AfterExtend), key(n, "extend")));
        }
        let until = Instant::now() + Duration::from_micros(rng.below(600));
        pause_while_reading(&server, &mut writers, until);
        for (n, writer) in writers.iter_mut().enumerate() {
            let mut bytes = frame::acquire(0, 1, owner(round, n, Role::Lease), key(n, "lease"));
            bytes.extend(frame::acquire(1, 1, owner(round, n, Role::Wait), "blocked"));
            bytes.extend(frame::extend(1, tokens[n], key(n, "extend")));
            writer.send(&bytes);
        }
        thread::sleep(Duration::from_millis(6 + rng.below(6)));
        let resumed = Instant::now();
        server.go_on();
        for (n, &token) in tokens.iter().enumerate() {
            let lease = told.take(owner(round, n, Role::Lease), "an acquire that was sent in a pause");
            assert!(matches!(lease.answer, Answer::Acquired { waited_ms: 0, .. }), "{lease:?}");
            let extended = told.take(token, "an extend that was sent in a pause");
            assert_eq!(extended.answer, Answer::Extended { token, lease_s: 1 });
            // The wait's request lay between these two.
            begun.insert((round, n), (resumed, extended.at));
            queue.send(&frame::acquire(60, 1, owner(round, n, Role::AfterLease), key(n, "lease")));
        }
    }
    judge(&mut told, &begun);
}

/// Nothing of what was asked for in a pause has ended early.
fn judge(told: &mut Told, begun: &BTreeMap<(u64, usize), (Instant, Instant)>) {
    let mut extends = Ends::of("extend by 1 s that was sent in a pause");
    let mut waits = Ends::of("wait of 1 s that was sent in a pause");
    let mut leases = Ends::of("lease of 1 s that was sent in a pause");
    for (&(round, n), &begun) in begun {
        let extended = told.take(owner(round, n, Role::AfterExtend), "the end of an extended lease");
        assert!(matches!(extended.answer, Answer::Acquired { .. }), "{extended:?}");
        extends.judge(begun, SECOND, extended.at);
        let wait = told.take(owner(round, n, Role::Wait), "the end of a wait");
        assert!(matches!(wait.answer, Answer::TimedOut { .. }), "{wait:?}");
        waits.judge(begun, SECOND, wait.at);
        let lease = told.take(owner(round, n, Role::AfterLease), "the end of a lease");
        assert!(matches!(lease.answer, Answer::Acquired { .. }), "{lease:?}");
        leases.judge(begun, SECOND, lease.at);
    }
    extends.finish();
    waits.finish();
    leases.finish();
}

/// What is held in one round.
struct Batch {
    round: u64,
    /// One key of each session, nobody waits for it.
    alone: Vec<Grant>,
    /// Three keys of the first session with a waiter each: one that is granted at the end of the lease; one
    /// whose wait ends a little after the lease; one whose lease (extended) ends a little after the wait.
    queued: [Grant; 3],
    extended: Instant,
}

fn alone(round: u64, session: usize) -> String {
    format!("alone/{round}/{session}")
}

fn queued(round: u64, n: usize) -> String {
    format!("queued/{round}/{n}")
}

fn arm(sessions: &mut [Raw], queue: &mut Raw, round: u64) -> Batch {
    let alone =
        sessions.iter_mut().enumerate().map(|(n, session)| session.hold(1, round, alone(round, n))).collect();
    let session = &mut sessions[0];
    let held = [0, 1, 2].map(|n| session.hold(1, round, queued(round, n)));
    sleep_until(held[2].at + 3 * MILLI);
    for (n, wait_s) in [60, 1, 1].into_iter().enumerate() {
        queue.send(&frame::acquire(wait_s, 60, 4 * round + n as u64, queued(round, n)));
    }
    queue.ping();
    sleep_until(Instant::now() + 3 * MILLI);
    let token = held[2].token;
    session.send(&frame::extend(1, token, queued(round, 2)));
    let extended = session.expect(Answer::Extended { token, lease_s: 1 }, "the extend of the third key");
    Batch { round, alone, queued: held, extended }
}

/// The next answer that is not a pong.
fn next(session: &mut Raw, awaited: &str) -> Answer {
    loop {
        match session.next(awaited).answer {
            Answer::Pong { .. } => {}
            answer => return answer,
        }
    }
}

/// Everything ends while the process stands still; requests for it are sent before or in the pause, and are
/// read after the ends.
fn end_in_a_pause(server: &Server, sessions: &mut [Raw], queue: &mut Raw, batch: &Batch, rng: &mut Rng) {
    let round = batch.round;
    let until = batch.alone[0].sent + SECOND - MILLI - Duration::from_micros(rng.below(1_000));
    sleep_until(until - MILLI);
    pause_while_reading(server, sessions, until);
    for (n, session) in sessions.iter_mut().enumerate() {
        session.send(&frame::release(batch.alone[n].token, alone(round, n)));
    }
    let session = &mut sessions[0];
    session.send(&frame::extend(255, batch.queued[0].token, queued(round, 0)));
    session.send(&frame::release(batch.queued[1].token, queued(round, 1)));
    session.send(&frame::release(batch.queued[2].token, queued(round, 2)));
    session.send(&frame::acquire(0, 60, 10, queued(round, 1)));
    session.send(&frame::acquire(0, 60, 11, queued(round, 2)));
    // The wait has ended when this is read: nothing is left to cancel.
    queue.send(&frame::cancel(4 * round + 2, queued(round, 2)));
    sleep_until(batch.extended + SECOND + 3 * MILLI);
    server.go_on();
    for (n, session) in sessions.iter_mut().enumerate() {
        let answer = next(session, "a release that is read after the lease's end");
        assert_eq!(answer, Answer::NotHeld { token: batch.alone[n].token }, "the lease has ended before");
    }
    let session = &mut sessions[0];
    for grant in batch.queued {
        let answer = next(session, "a request that is read after the lease's end");
        assert_eq!(answer, Answer::NotHeld { token: grant.token }, "the lease has ended before");
    }
    let answer = next(session, "a newcomer after a waiter that was granted");
    assert_eq!(answer, Answer::TimedOut { owner: 10 });
    let answer = next(session, "a newcomer on a key that has become free");
    let Answer::Acquired { owner: 11, waited_ms: 0, token, .. } = answer else { panic!("{answer:?}") };
    session.release(token, queued(round, 2));
    let mut got: Vec<Answer> = (0..3).map(|_| queue.next("what became of the waiters").answer).collect();
    got.sort_by_key(|answer| match answer {
        Answer::Acquired { owner, .. } | Answer::TimedOut { owner } => *owner,
        other => panic!("{other:?}"),
    });
    let [
        Answer::Acquired { owner: a, waited_ms, .. },
        Answer::Acquired { owner: b, .. },
        Answer::TimedOut { owner: c },
    ] = got[..]
    else {
        panic!("lease ends and wait ends were not run in the order of their instants: {got:?}");
    };
    assert_eq!([a, b, c], [0, 1, 2].map(|n| 4 * round + n));
    assert!(Duration::from_millis(waited_ms.into()) <= batch.queued[0].sent.elapsed(), "waited overstated");
    // Nothing else is said: each attempt is answered once.
    queue.ping();
    sessions.iter_mut().for_each(|session| {
        session.ping();
    });
}

#[test]
fn what_is_read_after_an_end_finds_it_ended_and_ends_run_in_their_order() {
    const ROUNDS: u64 = 40;
    const PERIOD: Duration = Duration::from_millis(60);
    /// Periods until a lease of 1 s ends: 16 × 60 ms, and 40 ms into the next.
    const AHEAD: u64 = 16;
    let server = Server::start(PROGRAM, &[]);
    let mut rng = Rng::new(2);
    let mut sessions: Vec<Raw> = (0..SESSIONS).map(|_| server.connect()).collect();
    let mut queue = server.connect();
    let begun = Instant::now();
    let mut batches = VecDeque::new();
    for period in 0..ROUNDS + AHEAD {
        sleep_until(begun + PERIOD * period as u32);
        if period < ROUNDS {
            batches.push_back(arm(&mut sessions, &mut queue, period));
        }
        if period >= AHEAD {
            let batch = batches.pop_front().expect("one batch for each period");
            end_in_a_pause(&server, &mut sessions, &mut queue, &batch, &mut rng);
        }
    }
}
