//! How a server starts, and when it refuses to (docs of `lockstead serve`).

use lockstead_testkit::{Address, Answer, Builder, Raw, Server, frame};
use std::collections::HashSet;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_micros() as u64
}

/// A start that is refused: its message names `reason`, nothing is served.
fn refused(builder: Builder, reasons: &[&str]) {
    let (status, stdout, stderr) = builder.refused();
    assert!(!status.success(), "the server started: {stdout}");
    assert!(!stdout.contains("listening on"), "{stdout}");
    let named = reasons.iter().any(|reason| stderr.to_lowercase().contains(reason));
    assert!(named, "the message names none of {reasons:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn one_line_for_each_listener_and_port_zero_picks_one() {
    let builder = Builder::new(PROGRAM).listen("127.0.0.1:0").listen("127.0.0.1:0").listen("[::1]:0");
    let path = builder.dir().join("a socket");
    let mut server = builder.listen(&format!("unix:{}", path.display())).start();
    assert_eq!(server.addresses().len(), 4);
    let mut ports = HashSet::new();
    for (n, address) in server.addresses().iter().enumerate() {
        match address {
            Address::Tcp(address) => {
                assert!(address.port() != 0 && ports.insert(address.port()), "{address}");
                assert_eq!(address.is_ipv6(), n == 2);
            }
            Address::Unix(at) => assert_eq!(at, &path),
        }
        let mut session = Raw::connect(address);
        session.hold(60, 1, format!("k{n}"));
        // All listeners serve the same locks.
        if n > 0 {
            session.send(&frame::acquire(0, 60, 2, "k0"));
            session.expect(Answer::TimedOut { owner: 2 }, "a key that is held by another listener's session");
        }
    }
    assert!(server.stdout().iter().all(|line| line.starts_with("listening on ")), "{:?}", server.stdout());
    server.kill();
    server.expect_stdout_end();
}

#[test]
fn a_second_server_on_a_port_says_so_and_stops() {
    let first = Server::start(PROGRAM, &[]);
    let mut session = first.connect();
    let grant = session.hold(60, 1, "k");
    let address = first.address().to_string();
    let port = address.rsplit(':').next().expect("an address has a port").to_owned();
    refused(Builder::new(PROGRAM).listen(&address), &["in use", &port]);
    // Together with one that would be free: all or nothing.
    refused(Builder::new(PROGRAM).listen("127.0.0.1:0").listen(&address), &["in use", &port]);
    session.release(grant.token, "k");
}

#[test]
fn a_second_server_on_a_unix_path_says_so_and_stops() {
    let first = Server::start_on_both(PROGRAM, &[]);
    let address = first.addresses()[1].to_string();
    for _ in 0..2 {
        refused(Builder::new(PROGRAM).listen(&address), &["in use", "another server", "already", "lock"]);
        // The first one's socket is still its own.
        let mut session = Raw::connect(&first.addresses()[1]);
        session.ping();
    }
}

#[test]
fn a_socket_left_by_a_crash_is_replaced() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("socket");
    let listen = format!("unix:{}", path.display());
    for round in 0..3 {
        let mut server = Builder::new(PROGRAM).listen(&listen).start();
        let mut session = server.connect();
        session.hold(60, 1, "k");
        if round == 1 {
            server.terminate();
            drop(session);
            assert!(server.wait_exit(10 * SECOND, "the end of the default grace").success());
        } else {
            server.kill();
            assert!(path.exists(), "a killed server cannot have removed its socket");
        }
    }
    assert!(dir.path().join("socket.lock").exists(), "the lock file of a path stays");
    // Something that is no socket is not removed.
    std::fs::remove_file(&path).ok();
    std::fs::write(&path, "precious").expect("a file can be written");
    refused(Builder::new(PROGRAM).listen(&listen), &["socket", "exists", "in use"]);
    assert_eq!(std::fs::read(&path).expect("the file is still there"), b"precious");
}

#[test]
fn what_cannot_be_promised_yet_is_refused_with_the_reason() {
    refused(Builder::bare(PROGRAM).listen("127.0.0.1:0").args(&["--admin", "127.0.0.1:0"]), &["admin"]);
    refused(Builder::new(PROGRAM).listen("0.0.0.0:0"), &["insecure"]);
    refused(Builder::new(PROGRAM).listen("[::]:0"), &["insecure"]);
    refused(Builder::new(PROGRAM).listen("127.0.0.1:0").args(&["--no-such-option"]), &["no-such-option"]);
    refused(Builder::new(PROGRAM).listen("127.0.0.1:0").args(&["--max-lease", "0s"]), &["max-lease"]);
    refused(Builder::new(PROGRAM).listen("127.0.0.1:0").args(&["--max-lease", "256s"]), &["max-lease"]);
    refused(Builder::new(PROGRAM).listen("127.0.0.1:0").args(&["--max-lease", "1500ms"]), &["max-lease"]);
}

#[test]
fn listening_beyond_loopback_needs_insecure() {
    let server = Builder::new(PROGRAM).listen("0.0.0.0:0").args(&["--insecure"]).start();
    let Address::Tcp(address) = server.address() else { panic!("{:?}", server.address()) };
    let mut session = Raw::connect(&Address::Tcp((std::net::Ipv4Addr::LOCALHOST, address.port()).into()));
    session.ping();
}

#[test]
fn a_data_directory_without_a_journal_is_ignored_with_a_warning() {
    let builder = Builder::new(PROGRAM).listen("127.0.0.1:0");
    let data = builder.dir().join("data");
    let data_arg = data.display().to_string();
    let server = builder.args(&["--data-dir", &data_arg]).start();
    server.connect().ping();
    let log = server.stderr().to_lowercase();
    assert!(log.contains("warn") && (log.contains("data-dir") || log.contains("data directory")), "{log}");
    let files = std::fs::read_dir(&data).map_or(0, Iterator::count);
    assert_eq!(files, 0, "an ignored directory was written to");
}

#[test]
fn the_start_says_that_nothing_survives() {
    let server = Server::start(PROGRAM, &[]);
    server.connect().ping();
    let said = format!("{}\n{}", server.stdout().join("\n"), server.stderr()).to_lowercase();
    assert!(said.contains("none") || said.contains("forg"), "the start does not tell its durability: {said}");
}

#[test]
fn options_come_from_the_environment_and_the_command_line_beats_it() {
    let builder =
        Builder::bare(PROGRAM).expect_listeners(2).env("LOCKSTEAD_LISTEN", "127.0.0.1:0,127.0.0.1:0");
    let builder = builder.env("LOCKSTEAD_DURABILITY", "none").env("LOCKSTEAD_ADMIN", "off");
    let server = builder.env("LOCKSTEAD_MAX_LEASE", "3s").env("LOCKSTEAD_NO_SUCH_THING", "1").start();
    assert_eq!(server.addresses().len(), 2);
    assert_eq!(Raw::connect(&server.addresses()[1]).hold(60, 1, "k").lease_s, 3);

    let builder = Builder::new(PROGRAM).listen("127.0.0.1:0").env("LOCKSTEAD_LISTEN", "192.0.2.1:1");
    let server = builder.env("LOCKSTEAD_MAX_LEASE", "3s").args(&["--max-lease", "4s"]).start();
    assert_eq!(server.connect().hold(60, 1, "k").lease_s, 4);
}

/// What systemd is told with `Type=notify`.
#[test]
fn readiness_is_told_to_systemd() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a datagram socket can be bound");
    socket.set_read_timeout(Some(10 * SECOND)).expect("a timeout can be set");
    let server = Builder::new(PROGRAM).listen("127.0.0.1:0").env("NOTIFY_SOCKET", &path).start();
    let mut buffer = [0; 1024];
    let length = socket.recv(&mut buffer).expect("a message within ten seconds");
    let message = String::from_utf8_lossy(&buffer[..length]);
    assert!(message.lines().any(|line| line == "READY=1"), "{message}");
    server.connect().ping();
}

#[test]
fn tokens_begin_at_the_wall_clock_and_rise_across_restarts() {
    let mut last = 0;
    for round in 0..4 {
        let started = now_us();
        let mut server = Server::start(PROGRAM, &[]);
        let mut session = server.connect();
        let mut tokens = Vec::new();
        for n in 0..1_000 {
            let key = format!("k{n}");
            tokens.push(session.hold(1, n, key).token);
        }
        assert!(tokens.is_sorted_by(|a, b| a < b), "tokens do not rise");
        assert!(tokens[0] > last, "token {} after a restart, {last} before", tokens[0]);
        assert!(tokens[0] >= started, "token {} is below the wall clock of its start, {started}", tokens[0]);
        let now = now_us();
        assert!(tokens[0] <= now, "token {} is ahead of the wall clock, {now}", tokens[0]);
        last = tokens[999];
        if round % 2 == 0 {
            server.kill();
        } else {
            server.terminate();
            assert!(server.wait_exit(10 * SECOND, "a drain of leases of 1 s").success());
        }
    }
}
