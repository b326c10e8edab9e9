//! Field reports on the process as a whole: file handles that run out, a shutdown that hangs.

use lockstead_testkit::{Answer, Builder, Event, Raw, Server, frame, server};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

/// The server's share of one processor while time passes.
fn cpu_share(server: &Server, window: Duration) -> f64 {
    let (begun, before) = (Instant::now(), server.cpu_time());
    thread::sleep(window);
    (server.cpu_time() - before).as_secs_f64() / begun.elapsed().as_secs_f64()
}

/// Two hundred connects to a server that may not open so many files. Held locks go on working, no processor
/// is burnt, and those that found no place are told or are served when handles come free.
fn runs_out(what: &str, server: &Server, limit: usize) -> usize {
    const CONNECTS: usize = 200;
    let mut holder = server.connect();
    let mut waiter = server.connect();
    let grant = holder.hold(255, 1, "held");
    let sent = Instant::now();
    waiter.send(&frame::acquire(255, 255, 2, "held"));
    waiter.ping();
    let mut connects: Vec<Raw> = (0..CONNECTS).map(|_| server.connect()).collect();
    // Held locks go on working, right away.
    assert_eq!((holder.query("held").0, holder.query("held").2), (1, 1));
    let share = cpu_share(server, 2 * SECOND);
    let open = server.open_files();
    println!("P15: {what}: {open} of {limit} files are open, {:.1} % of a processor", share * 100.0);
    assert!(share < 0.2, "the server takes {:.0} % of a processor", share * 100.0);
    // Those that were accepted are served or told; none of the others is lost.
    let (mut served, mut told) = (Vec::new(), 0);
    for session in &mut connects {
        session.send_if_open(&frame::ping(7));
    }
    let mut waiting = Vec::new();
    for mut session in connects {
        match session.event(Duration::from_millis(5)) {
            Event::Answer(arrival) => match arrival.answer {
                Answer::Pong { id: 7 } => served.push(session),
                answer if answer.is_error(9, 0) => told += 1,
                other => panic!("{other:?}"),
            },
            Event::Quiet => waiting.push(session),
            Event::End | Event::Reset => {}
            other => panic!("{other:?}"),
        }
    }
    println!("P15: {what}: {} served, {told} told X 9, {} not accepted yet", served.len(), waiting.len());
    assert!(served.len() >= 20, "only {} were served", served.len());
    holder.release(grant.token, "held");
    let next = waiter.granted(2, sent, 5 * SECOND, "a waiter while handles have run out");
    // Handles come free: those that waited are served, and so are newcomers.
    let (freed, count) = (Instant::now(), served.len());
    drop(served);
    while !waiting.is_empty() {
        assert!(freed.elapsed() < 20 * SECOND, "{} connects are never served", waiting.len());
        let mut session = waiting.remove(0);
        match session.event(20 * SECOND) {
            Event::Answer(arrival) => {
                assert!(
                    arrival.answer == Answer::Pong { id: 7 } || arrival.answer.is_error(9, 0),
                    "{arrival:?}"
                );
            }
            other => panic!("{other:?} of a connect that waited for its accept"),
        }
    }
    loop {
        assert!(freed.elapsed() < 20 * SECOND, "newcomers are never served again");
        let mut newcomer = server.connect();
        if let Some(Answer::Pong { id: 8 }) = newcomer.ask_or_end(&frame::ping(8)) {
            newcomer.release(next.token, "held");
            return count;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// As the report has it: with 64 handles the server's own limit of sessions is 32, so most are told `X` 9.
#[test]
fn p15_accepting_at_the_sessions_limit_takes_no_processor() {
    raise_open_files();
    let server = Builder::new(PROGRAM).listen("127.0.0.1:0").open_files(64).start();
    let served = runs_out("64 handles from the start", &server, 64);
    assert_eq!(served + 2, 32, "half the file handles are for sessions");
}

/// Handles that are taken away from a running server, so that no limit of its own is in the way.
#[test]
fn p15_accepting_without_a_file_handle_takes_no_processor() {
    raise_open_files();
    let server = Server::start(PROGRAM, &[]);
    server.connect().ping();
    let limit = server.open_files() + 30;
    server.limit_open_files(limit);
    runs_out("no handle is left", &server, limit);
}

fn raise_open_files() {
    assert!(server::raise_open_files() > 1_000, "the test itself needs more file handles");
}

/// A server with a holder and a hundred waiters of 255 s, told to stop.
fn stop_with_waiters(grace: &str) -> (Server, Raw, u64) {
    let mut server = Server::start_on_both(PROGRAM, &["--drain-grace", grace]);
    let mut holder = server.connect();
    let grant = holder.hold(255, 1, "k");
    let mut sessions: Vec<Raw> = (0..20).map(|n| Raw::connect(&server.addresses()[n % 2])).collect();
    for (number, session) in sessions.iter_mut().enumerate() {
        for waiter in 0..5 {
            session.send(&frame::acquire(255, 255, (number * 5 + waiter) as u64, "k"));
        }
        session.ping();
    }
    assert_eq!(holder.query("k").2, 100);
    server.terminate();
    let told = Instant::now();
    for (number, session) in sessions.iter_mut().enumerate() {
        let mut owners: Vec<u64> = (0..5)
            .map(|_| match session.next("a definite answer for each waiter").answer {
                Answer::Busy { owner, reason: 5 } => owner,
                other => panic!("{other:?}"),
            })
            .collect();
        owners.sort_unstable();
        assert_eq!(owners, (0..5).map(|waiter| (number * 5 + waiter) as u64).collect::<Vec<_>>());
    }
    assert!(told.elapsed() < SECOND, "the waiters were told after {:?}", told.elapsed());
    assert!(server.runs());
    (server, holder, grant.token)
}

#[test]
fn p16_a_shutdown_answers_every_waiter_and_lets_the_holder_release() {
    let (mut server, mut holder, token) = stop_with_waiters("60s");
    holder.send(&frame::extend(255, token, "k"));
    holder.expect(Answer::Extended { token, lease_s: 255 }, "an extend while draining");
    holder.release(token, "k");
    holder.expect_end(5 * SECOND, "the end: nothing is held");
    let status = server.wait_exit(5 * SECOND, "a shutdown with nothing held");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn p16_a_shutdown_with_a_lock_still_held_ends_with_its_grace() {
    let begun = Instant::now();
    let (mut server, mut holder, _) = stop_with_waiters("2s");
    let asked = Instant::now();
    holder.expect_end(10 * SECOND, "the end of the grace");
    let status = server.wait_exit(5 * SECOND, "a shutdown whose grace is over");
    println!("P16: ended {:?} after it was asked to", asked.elapsed());
    assert_eq!(status.code(), Some(0));
    assert!(begun.elapsed() >= 2 * SECOND, "the grace was cut short");
    assert!(asked.elapsed() < 4 * SECOND, "the grace was exceeded");
}
