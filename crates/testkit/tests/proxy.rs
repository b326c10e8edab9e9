//! The faulty proxy between two plain sockets: each fault does what it says, and ends when it is healed.

use lockstead_testkit::proxy::{Command, Direction, Proxy};
use lockstead_testkit::{Address, Answer, Event, Raw, frame};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_millis(150);

/// A proxy, and both ends of one connection through it.
struct Ends {
    proxy: Proxy,
    listener: TcpListener,
    client: Raw,
    server: TcpStream,
}

fn ends() -> Ends {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket can be opened");
    let proxy = Proxy::start(listener.local_addr().expect("it has an address")).expect("a proxy starts");
    let client = Raw::connect(&Address::Tcp(proxy.address()));
    let server = listener.accept().expect("the proxy connects").0;
    server.set_read_timeout(Some(SOON)).expect("a time limit can be set");
    Ends { proxy, listener, client, server }
}

impl Ends {
    fn apply(&self, line: &str) {
        self.proxy.apply(line.parse().expect("a command"));
    }

    fn server_reads(&mut self, expected: &[u8]) {
        let mut bytes = vec![0; expected.len()];
        self.server.read_exact(&mut bytes).expect("the bytes come");
        assert_eq!(bytes, expected);
    }

    fn answer(&mut self, answer: &Answer) {
        self.server.write_all(&answer.to_bytes()).expect("the proxy reads");
    }
}

#[test]
fn bytes_and_ends_are_relayed() {
    let mut ends = ends();
    ends.client.send(&frame::ping(1));
    ends.server_reads(&frame::ping(1));
    ends.answer(&Answer::Pong { id: 1 });
    ends.client.expect(Answer::Pong { id: 1 }, "the pong");
    ends.client.end_output();
    assert_eq!(ends.server.read(&mut [0]).expect("the end comes"), 0);
    ends.answer(&Answer::Pong { id: 2 });
    ends.client.expect(Answer::Pong { id: 2 }, "the other direction goes on");
}

#[test]
fn a_reset_of_one_side_reaches_the_other() {
    let mut ends = ends();
    ends.client.send(&frame::ping(1));
    ends.server_reads(&frame::ping(1));
    ends.client.reset();
    assert_eq!(ends.server.read(&mut [0]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_delay_holds_each_way_by_itself() {
    let mut ends = ends();
    ends.apply("delay up 300");
    let began = Instant::now();
    ends.client.send(&frame::ping(1));
    ends.server_reads(&frame::ping(1));
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    let began = Instant::now();
    ends.answer(&Answer::Pong { id: 1 });
    ends.client.expect(Answer::Pong { id: 1 }, "the pong");
    assert!(began.elapsed() < Duration::from_millis(300), "{:?}", began.elapsed());
}

#[test]
fn a_blackhole_holds_bytes_and_ends_until_it_is_healed() {
    let mut ends = ends();
    ends.apply("blackhole down");
    ends.answer(&Answer::Pong { id: 1 });
    assert_eq!(ends.client.event(QUIET), Event::Quiet);
    ends.client.send(&frame::ping(1));
    ends.server_reads(&frame::ping(1));
    drop(ends.server);
    assert_eq!(ends.client.event(QUIET), Event::Quiet);
    ends.proxy.apply(Command::Heal);
    assert!(
        matches!(ends.client.event(SOON), Event::Answer(arrival) if arrival.answer == Answer::Pong { id: 1 })
    );
    assert_eq!(ends.client.event(SOON), Event::End);
}

#[test]
fn a_blackhole_keeps_new_connections_from_the_server() {
    let ends = ends();
    ends.apply("blackhole up");
    let mut client = Raw::connect(&Address::Tcp(ends.proxy.address()));
    client.send(&frame::ping(1));
    ends.listener.set_nonblocking(true).expect("it can be polled");
    std::thread::sleep(QUIET);
    assert_eq!(ends.listener.accept().expect_err("no connection").kind(), ErrorKind::WouldBlock);
    ends.apply("heal");
    ends.listener.set_nonblocking(false).expect("it can block");
    let mut bytes = [0; 10];
    ends.listener.accept().expect("it comes now").0.read_exact(&mut bytes).expect("with its bytes");
    assert_eq!(bytes[..], frame::ping(1));
}

#[test]
fn bytes_are_split() {
    let mut ends = ends();
    ends.apply("split up");
    ends.client.send(&frame::ping(1));
    ends.server_reads(&frame::ping(1));
    ends.apply("split down");
    ends.answer(&Answer::Pong { id: 1 });
    ends.client.expect(Answer::Pong { id: 1 }, "the pong");
}

#[test]
fn a_cut_comes_after_the_byte_that_was_named() {
    for bytes in 0..=10 {
        let mut ends = ends();
        ends.apply(&format!("cut down {bytes} close"));
        ends.answer(&Answer::Pong { id: 1 });
        let pong = Answer::Pong { id: 1 }.to_bytes();
        let expected = match bytes {
            0 => Event::End,
            10 => Event::Answer(lockstead_testkit::Arrival {
                answer: Answer::Pong { id: 1 },
                at: Instant::now(),
            }),
            _ => Event::Cut(pong[..bytes].to_vec()),
        };
        match (ends.client.event(SOON), expected) {
            (Event::Answer(came), Event::Answer(expected)) => assert_eq!(came.answer, expected.answer),
            (came, expected) => assert_eq!(came, expected),
        }
        assert!(matches!(ends.server.read(&mut [0]), Ok(0) | Err(_)), "the server's side ends too");
    }
    let mut ends = ends();
    ends.apply("cut up 3 reset");
    ends.client.send(&frame::ping(1));
    ends.server_reads(b"P\0\0");
    assert_eq!(ends.server.read(&mut [0]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    assert_eq!(ends.client.event(SOON), Event::Reset);
}

#[test]
fn one_answer_vanishes() {
    let mut ends = ends();
    ends.apply("drop E");
    for answer in [
        Answer::Pong { id: 1 },
        Answer::Extended { token: 7, lease_s: 3 },
        Answer::Pong { id: 2 },
        Answer::Extended { token: 7, lease_s: 4 },
    ] {
        ends.answer(&answer);
    }
    ends.client.expect(Answer::Pong { id: 1 }, "before");
    ends.client.expect(Answer::Pong { id: 2 }, "after");
    ends.client.expect(Answer::Extended { token: 7, lease_s: 4 }, "only one vanishes");
}

#[test]
fn what_is_no_answer_passes_too() {
    let mut ends = ends();
    ends.server.write_all(b"Zzz").expect("the proxy reads");
    ends.client.expect_bytes(b"Zzz", "bytes that are no answer");
    ends.server.write_all(b"T\0").expect("the proxy reads");
    ends.client.expect_bytes(b"T\0", "and all after them");
}

#[test]
fn half_an_answer_passes_with_the_end() {
    let mut ends = ends();
    ends.server.write_all(b"T\0\0").expect("the proxy reads");
    drop(ends.server);
    assert_eq!(ends.client.event(SOON), Event::Cut(b"T\0\0".to_vec()));
}

#[test]
fn connections_are_reset_and_refused() {
    let mut ends = ends();
    ends.apply("reset");
    assert_eq!(ends.client.event(SOON), Event::Reset);
    assert_eq!(ends.server.read(&mut [0]).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    ends.apply("refuse");
    // The reset may come while the connection is still being made.
    match Raw::try_connect(&Address::Tcp(ends.proxy.address())) {
        Ok(mut refused) => assert_eq!(refused.event(SOON), Event::Reset),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    ends.apply("heal");
    let mut client = Raw::connect(&Address::Tcp(ends.proxy.address()));
    ends.server = ends.listener.accept().expect("it is relayed").0;
    ends.answer(&Answer::Pong { id: 1 });
    client.expect(Answer::Pong { id: 1 }, "the pong");
}

#[test]
fn the_end_of_the_proxy_is_a_reset() {
    let mut ends = ends();
    drop(ends.proxy);
    assert_eq!(ends.client.event(SOON), Event::Reset);
}

#[test]
fn commands_are_lines() {
    let cut = Command::Cut { direction: Direction::Up, bytes: 12, reset: true };
    let good = [
        ("delay up 200", Command::Delay(Direction::Up, Duration::from_millis(200))),
        ("split down", Command::Split(Direction::Down)),
        ("blackhole up", Command::Blackhole(Direction::Up)),
        ("cut up 12 reset", cut),
        ("drop E", Command::DropAnswer(b'E')),
        ("reset", Command::Reset),
        ("refuse", Command::Refuse),
        ("heal", Command::Heal),
    ];
    for (line, command) in good {
        assert_eq!(line.parse(), Ok(command));
    }
    for line in [
        "",
        "delay up",
        "delay sideways 1",
        "delay up x",
        "cut up 1",
        "cut up 1 softly",
        "drop EE",
        "heal now",
    ] {
        assert!(line.parse::<Command>().is_err(), "accepted `{line}`");
    }
}
