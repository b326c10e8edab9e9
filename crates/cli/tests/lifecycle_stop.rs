//! How a server stops (docs of `lockstead serve`, *Stopping*).

use lockstead_testkit::{Answer, Builder, Event, Raw, Server, frame};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn with_nothing_held_it_stops_at_once_by_either_signal() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut server = Server::start_on_both(PROGRAM, &["--drain-grace", "60s"]);
        let mut sessions: Vec<Raw> = server.addresses().iter().map(Raw::connect).collect();
        let past = sessions[0].hold(60, 1, "k");
        sessions[0].release(past.token, "k");
        sessions[1].ping();
        let asked = Instant::now();
        server.signal(signal);
        for session in &mut sessions {
            session.expect_end(5 * SECOND, "the end of an idle session");
        }
        assert_eq!(server.wait_exit(5 * SECOND, "a server with nothing held").code(), Some(0));
        assert!(asked.elapsed() < 2 * SECOND, "it took {:?}", asked.elapsed());
        server.expect_stdout_end();
        assert!(Raw::try_connect(server.address()).is_err(), "somebody still listens");
    }
}

#[test]
fn it_stops_when_the_last_lease_has_ended() {
    let mut server = Server::start(PROGRAM, &["--drain-grace", "60s"]);
    let mut session = server.connect();
    let short = session.hold(1, 1, "short");
    let longer = session.hold(2, 2, "longer");
    server.terminate();
    session.expect_end(10 * SECOND, "the end of the last lease");
    let ended = Instant::now();
    assert_eq!(server.wait_exit(5 * SECOND, "a server with nothing held").code(), Some(0));
    assert!(ended >= longer.begun().0 + 2 * SECOND, "it did not wait for the last lease");
    assert!(ended < longer.at + 4 * SECOND, "it did not stop with the last lease");
    assert!(short.token < longer.token);
}

#[test]
fn the_grace_is_five_seconds_when_nothing_else_is_said() {
    let mut server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    session.hold(255, 1, "k");
    session.hold(255, 1, "l");
    let asked = Instant::now();
    server.terminate();
    // Served until the grace is over, by new connections too.
    while asked.elapsed() < 4 * SECOND {
        let mut newcomer = server.connect();
        assert_eq!(newcomer.query("k").0, 1);
        newcomer.send(&frame::acquire(0, 1, 1, "free"));
        newcomer.expect(Answer::Busy { owner: 1, reason: 5 }, "a newcomer while draining");
        session.ping();
    }
    session.expect_end(5 * SECOND, "the end of the grace");
    let ended = asked.elapsed();
    assert_eq!(server.wait_exit(5 * SECOND, "a server whose grace is over").code(), Some(0));
    println!("the grace of 5 s was over after {ended:?}");
    assert!(ended >= 5 * SECOND, "the grace was cut short");
    assert!(ended < 7 * SECOND, "the grace was exceeded");
    // How many leases are forgotten is logged.
    assert!(server.stderr().contains('2'), "{}", server.stderr());
}

#[test]
fn a_grace_of_nothing_stops_at_once_and_still_tells_the_waiters() {
    let mut server = Server::start(PROGRAM, &["--drain-grace", "0s"]);
    let (mut holder, mut waiter) = (server.connect(), server.connect());
    holder.hold(255, 1, "k");
    waiter.send(&frame::acquire(255, 1, 2, "k"));
    waiter.ping();
    server.terminate();
    waiter.expect(Answer::Busy { owner: 2, reason: 5 }, "a waiter when draining starts");
    waiter.expect_end(3 * SECOND, "the end");
    holder.expect_end(3 * SECOND, "the end");
    assert_eq!(server.wait_exit(3 * SECOND, "a server without a grace").code(), Some(0));
}

#[test]
fn a_second_signal_stops_at_once() {
    for signals in
        [[libc::SIGTERM, libc::SIGTERM], [libc::SIGINT, libc::SIGINT], [libc::SIGTERM, libc::SIGINT]]
    {
        let mut server = Server::start(PROGRAM, &["--drain-grace", "60s"]);
        let mut session = server.connect();
        session.hold(255, 1, "k");
        session.send(&frame::acquire(255, 255, 2, "k"));
        server.signal(signals[0]);
        // The first has arrived.
        session.expect(Answer::Busy { owner: 2, reason: 5 }, "a waiter when draining starts");
        assert!(server.runs());
        let again = Instant::now();
        server.signal(signals[1]);
        let status = server.wait_exit(5 * SECOND, "a server that was told twice");
        println!("{signals:?}: {status} after {:?}", again.elapsed());
        assert!(again.elapsed() < SECOND, "the second signal took {:?}", again.elapsed());
        assert!(matches!(session.event(5 * SECOND), Event::End | Event::Reset));
    }
}

#[test]
fn answers_already_made_are_written_before_the_end() {
    const WAITERS: u64 = 5_000;
    let mut server = Server::start(PROGRAM, &["--drain-grace", "0s"]);
    let (mut holder, mut waiter) = (server.connect(), server.connect());
    holder.hold(255, 1, "k");
    waiter.send(&(0..WAITERS).flat_map(|owner| frame::acquire(255, 1, owner, "k")).collect::<Vec<u8>>());
    waiter.ping();
    server.terminate();
    let (answers, cut) = waiter.read_to_end(10 * SECOND, "the end of a server without a grace");
    assert_eq!(cut, b"");
    let mut owners: Vec<u64> = answers
        .into_iter()
        .map(|answer| match answer {
            Answer::Busy { owner, reason: 5 } => owner,
            other => panic!("{other:?}"),
        })
        .collect();
    owners.sort_unstable();
    assert_eq!(owners, (0..WAITERS).collect::<Vec<_>>(), "each waiter is told once");
    assert_eq!(server.wait_exit(5 * SECOND, "a server without a grace").code(), Some(0));
}

/// A client that reads nothing may not hold the stop up.
#[test]
fn a_deaf_client_does_not_hold_the_stop_up() {
    let mut server = Server::start_on_both(PROGRAM, &["--drain-grace", "0s"]);
    let mut deaf: Vec<Raw> = server.addresses().iter().map(Raw::connect).collect();
    let pings: Vec<u8> = (0..1_000).flat_map(frame::ping).collect();
    for session in &mut deaf {
        session.shrink_receive_buffer();
        while session.try_send(&pings, Duration::from_millis(300)).is_ok() {}
    }
    let mut late = server.connect();
    late.ping();
    let (asked, cpu) = (Instant::now(), server.cpu_time());
    server.terminate();
    // What is requested while the last answers are written is not answered, and must not keep the server busy either.
    thread::sleep(SECOND / 10);
    late.send(&frame::ping(1));
    assert_eq!(late.event(SECOND / 2), Event::Quiet);
    let used = server.cpu_time() - cpu;
    assert!(used < SECOND / 10, "{used:?} of CPU while it waits for deaf clients");
    assert_eq!(server.wait_exit(10 * SECOND, "a server with deaf clients").code(), Some(0));
    println!("stopped {:?} after it was asked to, with deaf clients", asked.elapsed());
    assert!(asked.elapsed() < 3 * SECOND, "it took {:?}", asked.elapsed());
}

#[test]
fn in_mode_none_a_restart_has_forgotten_everything_and_grants_at_once() {
    let mut first = Server::start(PROGRAM, &[]);
    let held = first.connect().hold(255, 1, "k");
    first.kill();
    let mut second = Builder::new(PROGRAM).listen("127.0.0.1:0").start();
    let mut session = second.connect();
    session.send(&[frame::release(held.token, "k"), frame::extend(9, held.token, "k")].concat());
    session.expect(Answer::NotHeld { token: held.token }, "a release of a forgotten lease");
    session.expect(Answer::NotHeld { token: held.token }, "an extend of a forgotten lease");
    let next = session.hold(60, 2, "k");
    assert!(next.token > held.token, "a token went back across a restart");
    assert!(second.runs());
}
