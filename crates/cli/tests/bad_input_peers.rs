//! Peers that misbehave as a whole, over real sockets: slow, greedy, deaf, many. Other sessions notice
//! nothing, memory stays bounded.

use lockstead_testkit::rng::Rng;
use lockstead_testkit::{Address, Answer, Event, Raw, Server, Witness, frame, server};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

/// What an answered request may take away from a frame's 10 s, and what a busy machine may add.
const LATE: Duration = Duration::from_secs(3);

/// How a session ended: when, and with which answers before it.
fn read_end(session: &mut Raw, within: Duration) -> (Instant, Vec<Answer>) {
    let deadline = Instant::now() + within;
    let mut answers = Vec::new();
    loop {
        match session.event(deadline.saturating_duration_since(Instant::now())) {
            Event::Answer(arrival) => answers.push(arrival.answer),
            Event::Quiet => panic!("the session is still open; {} answers so far", answers.len()),
            Event::End | Event::Reset | Event::Cut(_) => return (Instant::now(), answers),
        }
    }
}

/// One that begins a frame and does not finish it in 10 s is closed then; trickling bytes do not buy time.
fn unfinished_frame(address: &Address, bytes: &[u8], trickle: bool) {
    let mut session = Raw::connect(address);
    session.ping();
    let begun = Instant::now();
    let mut writer = session.second_handle();
    thread::scope(|scope| {
        let (first, rest) = bytes.split_at(1);
        writer.send(first);
        if trickle {
            scope.spawn(move || {
                for byte in rest {
                    thread::sleep(SECOND * 14 / rest.len() as u32);
                    if writer.try_send(&[*byte], SECOND).is_err() {
                        return;
                    }
                }
            });
        } else {
            writer.send(rest);
        }
        let (ended, answers) = read_end(&mut session, 30 * SECOND);
        let lasted = ended - begun;
        println!(
            "{address}: an unfinished {:?} was closed after {lasted:?} with {answers:?}",
            bytes[0] as char
        );
        assert!(lasted >= 10 * SECOND, "closed after {lasted:?}");
        assert!(lasted < 10 * SECOND + LATE, "closed only after {lasted:?}");
        let told = matches!(&answers[..], [] | [Answer::Error { code: 8 | 9, .. }]);
        assert!(told, "{answers:?}");
    });
}

#[test]
fn a_frame_that_is_begun_and_not_finished_in_ten_seconds() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let witness = Witness::start(server.address());
    let mut idle = server.connect();
    let mut waiting = server.connect();
    let grant = idle.hold(60, 1, "k");
    let waited = Instant::now();
    waiting.send(&frame::acquire(60, 60, 2, "k"));
    thread::scope(|scope| {
        for address in server.addresses() {
            let whole = [
                frame::acquire(1, 1, 1, "k"),
                frame::release(1, "k"),
                frame::extend(1, 1, "k"),
                frame::cancel(1, "k"),
                frame::query(1, "k"),
                frame::ping(1),
                frame::hello(1, 1, "name=n"),
            ];
            for (number, bytes) in whole.into_iter().enumerate() {
                scope.spawn(move || unfinished_frame(address, &frame::unfinished(bytes), number % 2 == 0));
            }
        }
        // One that finishes its frame within the time is served, byte by byte.
        let slow_but_in_time = server.address();
        scope.spawn(move || {
            let mut session = Raw::connect(slow_but_in_time);
            for byte in frame::acquire(0, 5, 9, "slow") {
                session.send(&[byte]);
                thread::sleep(Duration::from_millis(400));
            }
            let sent = Instant::now() - 10 * SECOND;
            session.granted(9, sent, 5 * SECOND, "a slow acquire");
        });
    });
    // A session with nothing begun may be silent for as long as it likes.
    assert!(waited.elapsed() > 10 * SECOND);
    idle.release(grant.token, "k");
    waiting.granted(2, waited, 5 * SECOND, "a waiter that was silent for more than ten seconds");
    witness.finish("unfinished frames");
}

/// Sends up to a million requests and reads nothing, until the server has closed the session. Returns how
/// many were sent and how long it took from the first that was not taken.
fn deaf(address: &Address, request: impl Fn(u64) -> Vec<u8>) -> (u64, Duration) {
    const MILLION: u64 = 1_000_000;
    const BATCH: u64 = 500;
    let mut session = Raw::connect(address);
    session.shrink_receive_buffer();
    let mut sent = 0;
    let mut stuck = None;
    let begun = Instant::now();
    while sent < MILLION {
        let batch: Vec<u8> = (sent..sent + BATCH).flat_map(&request).collect();
        let before = Instant::now();
        if session.try_send(&batch, 60 * SECOND).is_err() {
            stuck = stuck.or(Some(before));
            break;
        }
        sent += BATCH;
    }
    let stuck = stuck.unwrap_or_else(Instant::now);
    if sent == MILLION {
        // The kernel has taken them all. Nothing is read; the server must close it all the same.
        while session.try_send(&frame::ping(1), SECOND).is_ok() {
            assert!(begun.elapsed() < 60 * SECOND, "a session that reads nothing is never closed");
            thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(begun.elapsed() >= 10 * SECOND, "closed after {:?}", begun.elapsed());
    (sent, stuck.elapsed())
}

#[test]
fn clients_that_send_a_million_requests_and_never_read() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let witness = Witness::start(server.address());
    let mut holder = server.connect();
    let grant = holder.hold(255, 1, "held");
    thread::scope(|scope| {
        let before = server.rss_kib();
        let mut peers = Vec::new();
        for address in server.addresses() {
            peers.push(scope.spawn(|| deaf(address, frame::ping)));
            peers.push(scope.spawn(|| deaf(address, |n| frame::query(n, format!("key {n}")))));
            peers.push(scope.spawn(|| deaf(address, |n| frame::acquire(0, 9, n, "held"))));
            peers.push(scope.spawn(|| deaf(address, |n| frame::acquire(255, 9, n, "held"))));
            peers.push(scope.spawn(|| deaf(address, |n| frame::release(n, "held"))));
        }
        let mut most = 0;
        while peers.iter().any(|peer| !peer.is_finished()) {
            most = most.max(server.rss_kib());
            thread::sleep(Duration::from_millis(20));
        }
        for peer in peers {
            let (sent, closed) = peer.join().expect("the peer has its own message");
            println!("{sent} requests were taken; closed {closed:?} after the last");
            // Ten seconds after the last progress; and a kernel that tidies its buffers takes a little more now and then.
            assert!(closed < 40 * SECOND, "closed only after {closed:?}");
        }
        let grown = most.saturating_sub(before);
        println!("the server grew by {grown} KiB, with ten such clients");
        // 1 MiB of output and 64 KiB of input each, waiters, and the allocator's doubling.
        assert!(grown < 40 * 1024, "the server grew by {grown} KiB");
    });
    assert_eq!((holder.query("held").0, holder.query("held").2), (1, 0));
    holder.release(grant.token, "held");
    witness.finish("deaf clients");
}

/// A client that reads late, but within the ten seconds, gets every answer in order: the server has only
/// stopped reading it.
#[test]
fn a_client_that_reads_late_gets_every_answer() {
    const PINGS: u64 = 1_000_000;
    let server = Server::start_on_both(PROGRAM, &[]);
    let witness = Witness::start(server.address());
    let before = server.rss_kib();
    thread::scope(|scope| {
        for address in server.addresses() {
            let server = &server;
            scope.spawn(move || {
                let mut session = Raw::connect(address);
                let mut writer = session.second_handle();
                let sender = thread::spawn(move || {
                    for first in (0..PINGS).step_by(1_000) {
                        writer.send(&(first..first + 1_000).flat_map(frame::ping).collect::<Vec<u8>>());
                    }
                });
                // Nothing has been read for two seconds: what is not read is not answered, and takes no
                // memory.
                thread::sleep(2 * SECOND);
                let grown = server.rss_kib().saturating_sub(before);
                assert!(grown < 8 * 1024, "{address}: the server has grown by {grown} KiB");
                for id in 0..PINGS {
                    session.expect(Answer::Pong { id }, "every pong, late");
                }
                sender.join().expect("the sender has its own message");
                session.ping();
            });
        }
    });
    witness.finish("clients that read late");
}

#[test]
fn ten_thousand_sessions_opening_and_closing() {
    const SESSIONS: usize = 10_000;
    const AT_ONCE: usize = 1_000;
    assert!(server::raise_open_files() > 3_000);
    let server = Server::start_on_both(PROGRAM, &[]);
    let witness = Witness::start(server.address());
    let mut holder = server.connect();
    let grant = holder.hold(255, 1, "held");
    let open = server.open_files();
    let mut rng = Rng::new(3);
    let mut rss_after_warm_up = 0;
    let begun = Instant::now();
    for round in 0..SESSIONS / AT_ONCE {
        let mut sessions: Vec<Raw> =
            (0..AT_ONCE).map(|n| Raw::connect(&server.addresses()[(n + round) % 2])).collect();
        for session in &mut sessions {
            match rng.below(6) {
                0 => {}
                1 => session.send(&frame::ping(1)),
                2 => session.send(&frame::acquire(255, 255, 2, "held")),
                3 => session.send(b"A\x0a"),
                4 => session.send(b"no such op"),
                _ => session.send(&[frame::hello(1, 1, "name=n"), frame::acquire(0, 1, 1, "free")].concat()),
            }
        }
        for session in sessions {
            match rng.below(3) {
                0 => session.reset(),
                1 => session.end_output(),
                _ => drop(session),
            }
        }
        if round == SESSIONS / AT_ONCE / 4 {
            rss_after_warm_up = server.rss_kib();
        }
    }
    println!("{SESSIONS} sessions in {:?}", begun.elapsed());
    let closed = Instant::now();
    while server.open_files() != open || holder.query("held").2 != 0 {
        assert!(closed.elapsed() < 15 * SECOND, "sessions or waiters are left: {:?}", holder.query("held"));
        thread::sleep(Duration::from_millis(10));
    }
    let (before, after) = (rss_after_warm_up, server.rss_kib());
    assert!(after < before + before / 5 + 2_048, "the server has grown from {before} to {after} KiB");
    holder.release(grant.token, "held");
    witness.finish("sessions that come and go");
}

/// Bytes without sense, split at random: the server answers or closes, and serves on.
#[test]
fn random_bytes_stop_nothing() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let witness = Witness::start(server.address());
    let seed = std::env::var("CHECK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(4);
    let mut rng = Rng::new(seed);
    for round in 0..1_000 {
        let mut session = Raw::connect(&server.addresses()[round % 2]);
        let mut bytes = Vec::new();
        for _ in 0..rng.below(20) {
            match rng.below(4) {
                0 => bytes.extend((0..rng.below(40)).map(|_| rng.draw() as u8)),
                1 => bytes.extend(frame::acquire(0, rng.draw() as u8, rng.draw(), "random")),
                2 => bytes.extend(frame::release(rng.draw(), rng.draw().to_be_bytes())),
                _ => {
                    bytes.push(b"AREQCPH"[rng.below(7) as usize]);
                    bytes.extend((0..rng.below(30)).map(|_| rng.draw() as u8));
                }
            }
        }
        while !bytes.is_empty() {
            let part: Vec<u8> = bytes.drain(..(rng.below(50) as usize + 1).min(bytes.len())).collect();
            // A server that has closed refuses the rest.
            let _ = session.try_send(&part, SECOND);
        }
        session.end_output();
        // Each answer is checked by the parser (seed and round are in the message through the panic's place).
        let _ = read_end(&mut session, 10 * SECOND);
    }
    witness.finish("random bytes");
}
