//! Hello and ping over real sockets (docs/protocol.md, *Hello*).

use lockstead_testkit::{Answer, Raw, Server, frame};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

fn welcome(session: &mut Raw, id: u64, text: impl AsRef<[u8]>) -> HashMap<String, String> {
    match session.ask(&frame::hello(1, id, text)) {
        Answer::Welcome { version: 1, id: i, text } if i == id => text
            .split(' ')
            .map(|pair| pair.split_once('=').unwrap_or_else(|| panic!("no pair: `{pair}` in `{text}`")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        other => panic!("a welcome with id {id} expected, got {other:?}"),
    }
}

#[test]
fn a_welcome_names_server_id_session_and_limits() {
    let server = Server::start_on_both(PROGRAM, &["--max-lease", "77s"]);
    let mut ids = HashSet::new();
    let mut sessions = HashSet::new();
    for round in 0..6 {
        let mut session = Raw::connect(&server.addresses()[round % 2]);
        let pairs = welcome(&mut session, 1 << 63 | 0x0a0a, "name=checker");
        let version = pairs["server"].strip_prefix("lockstead/").expect("server=lockstead/<version>");
        assert!(!version.is_empty());
        assert_eq!(pairs["max_key"], "1024");
        assert_eq!(pairs["max_lease"], "77");
        let id = pairs["id"].clone();
        assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "id={id}");
        ids.insert(id);
        let number: u64 = pairs["session"].parse().expect("session=<n>");
        assert!(sessions.insert(number), "session number {number} was used before");
    }
    assert_eq!(ids.len(), 1, "one server, one id");
    // Without a data directory the id is drawn at each start.
    let other = Server::start(PROGRAM, &[]);
    let pairs = welcome(&mut other.connect(), 1, "");
    assert!(!ids.contains(&pairs["id"]), "two starts have the same id");
    assert_eq!(pairs["max_lease"], "255");
}

#[test]
fn a_hello_is_optional_and_may_come_late_and_again() {
    let server = Server::start(PROGRAM, &[]);
    let mut session = server.connect();
    let grant = session.hold(30, 1, "k");
    let first = welcome(&mut session, 2, "name=late");
    session.ping();
    let second = welcome(&mut session, 3, "name=late");
    assert_eq!(first, second, "a second hello changes nothing");
    session.release(grant.token, "k");
}

#[test]
fn names_that_nobody_knows_are_ignored() {
    let server = Server::start(PROGRAM, &[]);
    let long = format!("name={}", "n".repeat(64));
    let full = format!("x={}", "y".repeat(1022));
    let texts = ["", "name=n", "future=1 name=n other=", "name=a=b", "namex=y", &long, &full];
    for (id, text) in texts.iter().enumerate() {
        let mut session = server.connect();
        welcome(&mut session, id as u64, text);
        session.ping();
    }
}

#[test]
fn another_version_is_refused_and_closes() {
    let server = Server::start_on_both(PROGRAM, &[]);
    for (round, version) in [0, 2, 10, 255].into_iter().enumerate() {
        let mut session = Raw::connect(&server.addresses()[round % 2]);
        let id = 0x0a00_0000_0000_000a;
        session.send(&[frame::hello(version, id, "name=n"), frame::acquire(0, 60, 1, "k")].concat());
        session.expect_error(7, id, "an unsupported version");
        session.expect_end(2 * SECOND, "the end after an unsupported version");
    }
    assert_eq!(server.connect().query("k"), (0, 0, 0));
}

#[test]
fn a_hello_that_breaks_the_rules_is_malformed_and_closes() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let long_name = format!("name={}", "n".repeat(65));
    let oversize = format!("x={}", "y".repeat(1023));
    let texts: [&[u8]; 5] =
        [b"name=", long_name.as_bytes(), oversize.as_bytes(), b"name=\xff", b"other=\xc0\x80"];
    for (round, text) in texts.into_iter().enumerate() {
        let mut session = Raw::connect(&server.addresses()[round % 2]);
        session.send(&[frame::hello(1, 5, text), frame::acquire(0, 60, 1, "k")].concat());
        session.expect_error(8, 5, &format!("a malformed hello {:?}", String::from_utf8_lossy(text)));
        session.expect_end(2 * SECOND, "the end after a malformed hello");
    }
    assert_eq!(server.connect().query("k"), (0, 0, 0));
}

#[test]
fn pings_are_answered_in_any_number_and_with_their_ids() {
    let server = Server::start_on_both(PROGRAM, &[]);
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        let ids = [0, 1, 10, 0x0a0a_0a0a_0a0a_0a0a, u64::MAX];
        session.send(&ids.iter().flat_map(|&id| frame::ping(id)).collect::<Vec<u8>>());
        for id in ids {
            session.expect_bytes(&[b"P", &id.to_be_bytes()[..], b"\n"].concat(), "a pong");
        }
        session.ping();
    }
}
