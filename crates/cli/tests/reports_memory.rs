//! Field reports on memory: keys that are never freed, frames without end.

use lockstead_testkit::{Address, Answer, Event, Raw, Server, Witness, frame, load, server};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

/// Keys of P13; the report's own number when `CHECK_P13_KEYS` says nothing else.
fn keys() -> u64 {
    std::env::var("CHECK_P13_KEYS").ok().and_then(|count| count.parse().ok()).unwrap_or(5_000_000)
}

/// Back within 20 % of `before`.
fn is_back(what: &str, before: u64, after: u64) {
    println!("{what}: resident memory was {before} KiB and is {after} KiB");
    assert!(after <= before + before / 5, "{what}: resident memory was {before} KiB and is {after} KiB");
}

#[test]
fn p13_keys_that_were_released_take_no_memory() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    // The allocator's first blocks and the session's buffers are no keys.
    load::acquire_and_release(&mut session, "warm up ", 0, 20_000, |_| true);
    let before = server.rss_kib();
    let begun = Instant::now();
    let count = load::acquire_and_release(&mut session, "key ", 0, keys(), |_| true);
    println!("P13: {count} keys were acquired and released in {:?}", begun.elapsed());
    is_back("P13, released", before, server.rss_kib());
    session.ping();
}

/// Leases that nobody releases, 100,000 at a time: what they took is given back when they have ended.
#[test]
fn p13_keys_whose_leases_have_ended_take_no_memory() {
    const AT_ONCE: u64 = 100_000;
    const ROUNDS: u64 = 8;
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    load::acquire_and_release(&mut session, "warm up ", 0, 20_000, |_| true);
    let before = server.rss_kib();
    let mut most = before;
    for round in 0..ROUNDS {
        let first = round * AT_ONCE;
        let count = load::acquire_many(&mut session, "key ", first, AT_ONCE, 1).len() as u64;
        most = most.max(server.rss_kib());
        let last = format!("key {}", first + count - 1);
        let granted = Instant::now();
        while session.query(&last).0 != 0 {
            assert!(granted.elapsed() < 10 * SECOND, "the last lease does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
    println!("P13: at most {most} KiB, with {AT_ONCE} keys held at once");
    is_back("P13, lease ended", before, server.rss_kib());
}

/// Waiters that time out leave nothing either: many on one key, again and again.
#[test]
fn p13_waits_that_have_ended_take_no_memory() {
    const WAITERS: u64 = 20_000;
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    session.hold(255, 0, "held");
    load::acquire_and_release(&mut session, "warm up ", 0, 20_000, |_| true);
    let mut before = 0;
    for round in 0..4 {
        let waits: Vec<u8> = (0..WAITERS).flat_map(|owner| frame::acquire(1, 5, owner, "held")).collect();
        session.send(&waits);
        for _ in 0..WAITERS {
            session.next_within(10 * SECOND, "the end of one of many waits");
        }
        assert_eq!(session.query("held").2, 0);
        if round == 0 {
            before = server.rss_kib();
        }
    }
    is_back("P13, wait ended", before, server.rss_kib());
}

/// A header and key bytes without end: refused as soon as the key is too long, whether or not the client
/// reads.
fn endless_key(address: &Address, number: u64) {
    let mut session = Raw::connect(address);
    session.send(&frame::unfinished(frame::acquire(10, 10, number, vec![b'k'; 900])));
    let flood = vec![b'k'; 64 * 1024];
    let begun = Instant::now();
    // The server reads away for a second at most; then it takes no more.
    while session.try_send(&flood, SECOND).is_ok() {
        assert!(begun.elapsed() < 10 * SECOND, "the server takes key bytes without end");
    }
    // What it said can be lost with the reset that our flood brought on; another answer must not come.
    match session.event(5 * SECOND) {
        Event::Answer(arrival) => assert!(arrival.answer.is_error(2, number), "{arrival:?}"),
        other => assert!(matches!(other, Event::Reset | Event::End), "{other:?}"),
    }
}

#[test]
fn p25_a_thousand_peers_with_endless_keys() {
    const PEERS: u64 = 1_000;
    assert!(server::raise_open_files() > 3 * PEERS / 2, "the test itself needs more file handles");
    let server = Server::start_on_both(PROGRAM, &[]);
    let witness = Witness::start(server.address());
    let before = server.rss_kib();
    let mut idle: Vec<Raw> = (0..PEERS).map(|n| Raw::connect(&server.addresses()[n as usize % 2])).collect();
    let begun = Instant::now();
    for (number, session) in idle.iter_mut().enumerate() {
        session.send(&frame::unfinished(frame::acquire(10, 10, number as u64, vec![b'k'; 1000])));
    }
    let grown = server.rss_kib().saturating_sub(before);
    println!("P25: {PEERS} peers with half a frame: {grown} KiB more");
    assert!(grown < 32 * 1024, "half frames take {grown} KiB");
    // Half of them say on: cut at the longest key, and told so.
    let mut most = 0;
    for (number, mut session) in idle.drain(..PEERS as usize / 2).enumerate() {
        session.send(&[b'k'; 2_000]);
        session.expect_error(2, number as u64, "a key without end");
        session.expect_end(5 * SECOND, "the end after a key without end");
        most = most.max(server.rss_kib());
    }
    // Some pour without reading.
    for batch in 0..2 {
        thread::scope(|scope| {
            for number in 0..20 {
                let address = &server.addresses()[number as usize % 2];
                scope.spawn(move || endless_key(address, batch * 100 + number));
            }
            most = most.max(server.rss_kib());
        });
    }
    let grown = most.saturating_sub(before);
    println!("P25: at most {grown} KiB more");
    assert!(grown < 32 * 1024, "endless keys take {grown} KiB");
    // And those that say nothing more are given up ten seconds after they began.
    for session in &mut idle {
        let event = session.event(15 * SECOND);
        match event {
            Event::Answer(arrival) => {
                let answer = arrival.answer;
                assert!(matches!(answer, Answer::Error { code: 8 | 9, .. }), "{answer:?}");
            }
            other => assert!(matches!(other, Event::End | Event::Reset), "{other:?}"),
        }
        assert!(begun.elapsed() >= 10 * SECOND, "given up after {:?}", begun.elapsed());
    }
    assert!(begun.elapsed() < 16 * SECOND, "half frames are kept for {:?}", begun.elapsed());
    witness.finish("P25: a thousand peers with endless keys");
}
