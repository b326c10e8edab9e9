//! Bad input over real sockets, frame by frame: each gets what docs/protocol.md says, and other sessions
//! notice nothing.

use lockstead_testkit::{Address, Answer, Raw, Server, Witness, frame};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);
const NEWLINES: u64 = 0x0a0a_0a0a_0a0a_0a0a;
const LONGEST: usize = 1024;

/// Runs `check` against both kinds of socket of a fresh server while a witness looks.
fn on_both(what: &str, check: impl Fn(&Server, &Address)) {
    let server = Server::start_on_both(PROGRAM, &[]);
    let witness = Witness::start(server.address());
    let before = server.rss_kib();
    for address in server.addresses() {
        check(&server, address);
    }
    let grown = server.rss_kib().saturating_sub(before);
    assert!(grown < 16 * 1024, "{what}: the server has grown by {grown} KiB");
    witness.finish(what);
}

/// Sends a frame that closes: its `X`, then the end of the stream, and nothing behind it is done.
fn closes(server: &Server, address: &Address, bytes: &[u8], code: u8, id: u64) {
    let mut session = Raw::connect(address);
    session.send(&[bytes, &frame::acquire(0, 60, 1, "behind")].concat());
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
    session.expect_error(code, id, &format!("the error that closes, of {shown:?}"));
    session.expect_end(2 * SECOND, "the end after an error that closes");
    assert_eq!(server.connect().query("behind"), (0, 0, 0), "something behind {shown:?} was done");
}

/// Sends a frame that is wrong and does not close: its `X`, and the next frame is served.
fn goes_on(session: &mut Raw, bytes: &[u8], code: u8, id: u64) {
    session.send(&[bytes, &frame::ping(77)].concat());
    session.expect_error(code, id, &format!("the error of {bytes:?}"));
    session.expect(Answer::Pong { id: 77 }, "the frame after an error");
}

#[test]
fn newline_bytes_inside_every_header() {
    on_both("newlines in headers", |_, address| {
        let mut session = Raw::connect(address);
        let grant = session.hold(10, 10, "held");
        // Wait, lease and owner are made of newlines.
        session.send(&frame::acquire(10, 10, NEWLINES, "held"));
        session.ping();
        session.send(&frame::acquire(10, 10, NEWLINES, "free"));
        let sent = Instant::now() - SECOND;
        let free = session.granted(NEWLINES, sent, SECOND, "an acquire made of newlines");
        assert_eq!(free.lease_s, 10);
        for token in [10, NEWLINES, 0x0a << 56] {
            session.send(&[frame::release(token, "held"), frame::extend(10, token, "held")].concat());
            session.expect(Answer::NotHeld { token }, "a release whose token is made of newlines");
            session.expect(Answer::NotHeld { token }, "an extend made of newlines");
        }
        session.send(&frame::extend(10, free.token, "free"));
        session.expect(Answer::Extended { token: free.token, lease_s: 10 }, "an extend by ten seconds");
        let answer = session.ask(&frame::query(NEWLINES, "held"));
        assert!(matches!(answer, Answer::State { id: NEWLINES, state: 1, waiters: 1, .. }), "{answer:?}");
        session.send(&frame::ping(NEWLINES));
        session.expect(Answer::Pong { id: NEWLINES }, "a ping made of newlines");
        session.send(&frame::cancel(NEWLINES, "held"));
        session.expect(Answer::TimedOut { owner: NEWLINES }, "a cancel made of newlines");
        let answer = session.ask(&frame::hello(1, NEWLINES, "name=n"));
        assert!(matches!(answer, Answer::Welcome { id: NEWLINES, .. }), "{answer:?}");
        session.send(&frame::acquire(10, 0, NEWLINES, "held"));
        session.expect_error(3, NEWLINES, "a lease of 0");
        session.release(free.token, "free");
        session.release(grant.token, "held");
    });
}

#[test]
fn a_lease_of_zero() {
    on_both("a lease of 0", |_, address| {
        let mut session = Raw::connect(address);
        let grant = session.hold(60, 1, "held");
        for wait_s in [0, 10] {
            goes_on(&mut session, &frame::acquire(wait_s, 0, 5, "free"), 3, 5);
            goes_on(&mut session, &frame::acquire(wait_s, 0, u64::MAX, "held"), 3, u64::MAX);
        }
        for token in [grant.token, 0, 9] {
            goes_on(&mut session, &frame::extend(0, token, "held"), 3, token);
        }
        // It keeps its place among the answers to releases and extends.
        let requests = [
            frame::release(1, "held"),
            frame::extend(0, 2, "held"),
            frame::release(3, ""),
            frame::extend(9, 4, "held"),
        ];
        session.send(&requests.concat());
        session.expect(Answer::NotHeld { token: 1 }, "the first");
        session.expect_error(3, 2, "the second");
        session.expect_error(2, 3, "the third");
        session.expect(Answer::NotHeld { token: 4 }, "the fourth");
        assert_eq!(session.query("free"), (0, 0, 0));
        assert!(session.query("held").1 > 50_000, "a refused extend has changed the lease");
        session.release(grant.token, "held");
    });
}

#[test]
fn keys_that_are_empty_or_not_utf_8() {
    let bad: [&[u8]; 11] = [
        b"",
        b"\xff\xfe",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xe2\x82",
        b"\x80",
        b"ok\xf0\x9f\x92",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xc1\xbf",
        b"a\xffb",
    ];
    on_both("keys that are no keys", |_, address| {
        let mut session = Raw::connect(address);
        for key in bad {
            for wait_s in [0, 9] {
                goes_on(&mut session, &frame::acquire(wait_s, 9, 5, key), 2, 5);
                // The key is judged before the lease.
                goes_on(&mut session, &frame::acquire(wait_s, 0, 6, key), 2, 6);
            }
            goes_on(&mut session, &frame::release(7, key), 2, 7);
            goes_on(&mut session, &frame::extend(9, 8, key), 2, 8);
            goes_on(&mut session, &frame::extend(0, 9, key), 2, 9);
            goes_on(&mut session, &frame::query(10, key), 2, 10);
            // A cancel has no answer of its own, not even this.
            session.send(&frame::cancel(11, key));
            session.ping();
        }
    });
}

#[test]
fn a_key_of_the_greatest_length_is_good_and_a_longer_one_closes() {
    on_both("long keys", |server, address| {
        let mut session = Raw::connect(address);
        let longest = "k".repeat(LONGEST);
        let two_bytes_each = "é".repeat(LONGEST / 2);
        for key in [&longest, &two_bytes_each] {
            let grant = session.hold(60, 1, key);
            session.send(&frame::extend(60, grant.token, key));
            session.expect(Answer::Extended { token: grant.token, lease_s: 60 }, "an extend of a long key");
            session.send(&[frame::acquire(60, 60, 2, key), frame::cancel(2, key)].concat());
            session.expect(Answer::TimedOut { owner: 2 }, "a cancel of a long key");
            assert_eq!(session.query(key).0, 1);
            session.release(grant.token, key);
        }
        for length in [LONGEST + 1, LONGEST + 2, 5_000, 300_000] {
            let key = vec![b'k'; length];
            closes(server, address, &frame::acquire(0, 9, 5, &key), 2, 5);
            closes(server, address, &frame::acquire(0, 0, 5, &key), 2, 5);
            closes(server, address, &frame::release(6, &key), 2, 6);
            closes(server, address, &frame::extend(9, 7, &key), 2, 7);
            closes(server, address, &frame::query(8, &key), 2, 8);
            // This one closes, so even a cancel is told.
            closes(server, address, &frame::cancel(9, &key), 2, 9);
        }
        // Known as too long before it ends: the rest need not come.
        let mut endless = Raw::connect(address);
        endless.send(&frame::unfinished(frame::acquire(0, 9, 5, vec![b'k'; LONGEST + 1])));
        endless.expect_error(2, 5, "a key that is too long already");
        endless.expect_end(2 * SECOND, "the end after a key that is too long");
    });
}

#[test]
fn unknown_ops_and_other_protocols() {
    on_both("unknown ops and other protocols", |server, address| {
        for op in (0..=255u8).filter(|op| !b"ARECQPH".contains(op)) {
            closes(server, address, &[op, b'\n'], 1, 0);
        }
        let get = b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: check\r\n\r\n";
        closes(server, address, get, 1, 0);
        // The `P` of POST is a ping's op: its id is what follows, and then comes no newline.
        let post = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
        closes(server, address, post, 8, u64::from_be_bytes(*b"OST / HT"));
        // And the `H` of HEAD is a hello's, of version 69.
        let head = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        closes(server, address, head, 7, u64::from_be_bytes(*b"AD / HTT"));
        let tls = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03random bytes of a hello\x0a\x00\x0a";
        closes(server, address, tls, 1, 0);
        closes(server, address, b"\x80\x2e\x01\x03\x01", 1, 0);
        closes(server, address, b"\0\0\0\0", 1, 0);
        closes(server, address, b"*1\r\n$4\r\nPING\r\n", 1, 0);
    });
}

#[test]
fn a_ping_whose_header_is_not_followed_by_a_newline() {
    on_both("malformed pings", |server, address| {
        for byte in [0, b'\r', b'P', b'x', 0xff] {
            let mut bytes = frame::unfinished(frame::ping(0x0102_0304_0506_0708));
            bytes.push(byte);
            closes(server, address, &bytes, 8, 0x0102_0304_0506_0708);
        }
    });
}

#[test]
fn tokens_that_are_zero_or_unknown() {
    on_both("unknown tokens", |_, address| {
        let mut session = Raw::connect(address);
        let grant = session.hold(60, 1, "held");
        for token in [0, 1, grant.token - 1, grant.token + 1, 1 << 63, u64::MAX] {
            for key in ["held", "free"] {
                session.send(&[frame::release(token, key), frame::extend(255, token, key)].concat());
                session.expect_bytes(&[b"N", &token.to_be_bytes()[..], b"\n"].concat(), "an unknown token");
                session.expect_bytes(&[b"N", &token.to_be_bytes()[..], b"\n"].concat(), "an unknown token");
            }
        }
        assert_eq!(session.query("held").0, 1);
        assert!(session.query("held").1 <= 60_001);
        session.release(grant.token, "held");
        session.send(&frame::release(grant.token, "held"));
        session.expect(Answer::NotHeld { token: grant.token }, "a second release");
    });
}

/// An error that closes the session takes what was not sent with it, and no lock of others.
#[test]
fn an_error_in_the_middle_of_a_batch_closes_only_its_own_session() {
    on_both("errors within batches", |server, address| {
        let mut other = Raw::connect(address);
        for round in 0..50u64 {
            let mut session = Raw::connect(address);
            let key = format!("batch/{address}/{round}");
            let mut bytes = frame::acquire(0, 60, 1, &key);
            bytes.extend(frame::acquire(60, 60, 2, &key));
            bytes.extend(b"!");
            bytes.extend(frame::acquire(0, 60, 3, "behind"));
            session.send(&bytes);
            let (answers, cut) = session.read_to_end(10 * SECOND, "the end after an error");
            assert_eq!(cut, b"");
            let last = answers.last().expect("the error");
            assert!(last.is_error(1, 0), "{answers:?}");
            // The grant was told, or was given back; the waiter has left either way.
            let told = answers.iter().filter(|answer| matches!(answer, Answer::Acquired { .. })).count();
            assert!(told <= 1 && answers.len() == told + 1, "{answers:?}");
            let (state, _, waiters) = other.query(&key);
            assert_eq!((usize::from(state), waiters), (told, 0), "{answers:?}");
            assert_eq!(other.query("behind"), (0, 0, 0));
        }
        server.connect().ping();
    });
}
