//! Field reports on the protocol and on keys, against a real server.

use lockstead_testkit::{Answer, Raw, Server, Witness, frame};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn p18_a_waiting_acquire_does_not_block_the_release_behind_it() {
    let server = Server::start_on_both(PROGRAM, &[]);
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        for round in 0..100u64 {
            let grant = session.hold(60, round, "k");
            let sent = Instant::now();
            let both = [frame::acquire(10, 5, round + 1, "k"), frame::release(grant.token, "k")];
            if round % 2 == 0 {
                session.send(&both.concat());
            } else {
                both.iter().for_each(|frame| session.send(frame));
            }
            let mut answers = [session.next("the release"), session.next("the grant")];
            answers.sort_by_key(|arrival| matches!(arrival.answer, Answer::Acquired { .. }));
            assert_eq!(answers[0].answer, Answer::Released { token: grant.token });
            let Answer::Acquired { owner, token, .. } = answers[1].answer else { panic!("{answers:?}") };
            assert_eq!(owner, round + 1);
            assert!(answers[1].at - sent < SECOND, "the second acquire was not answered at once");
            session.release(token, "k");
        }
    }
}

#[test]
fn p19_answers_keep_to_their_requests_behind_an_error() {
    let server = Server::start_on_both(PROGRAM, &[]);
    for address in server.addresses() {
        // An error that closes: what came before it is answered or undone, what is behind it is not done.
        for round in 0..50 {
            let (first, third) = (format!("1/{address}/{round}"), format!("3/{address}/{round}"));
            let mut session = Raw::connect(address);
            let requests = [
                frame::acquire(0, 60, 1, &first),
                frame::acquire(0, 60, 2, vec![b'k'; 1025 + round]),
                frame::acquire(0, 60, 3, &third),
            ];
            session.send(&requests.concat());
            let (answers, cut) = session.read_to_end(10 * SECOND, "the end after an over-long key");
            assert_eq!(cut, b"");
            let (last, before) = answers.split_last().expect("the error");
            assert!(last.is_error(2, 2), "{answers:?}");
            let granted = match before {
                [] => false,
                [Answer::Acquired { owner: 1, .. }] => true,
                other => panic!("{other:?}"),
            };
            let mut observer = Raw::connect(address);
            assert_eq!(observer.query(&first).0, u8::from(granted));
            assert_eq!(observer.query(&third), (0, 0, 0));
        }
        // An error that does not close: each answer names its own request.
        let mut session = Raw::connect(address);
        let requests = [
            frame::acquire(0, 60, 11, format!("11/{address}")),
            frame::acquire(0, 60, 12, ""),
            frame::acquire(0, 60, 13, format!("13/{address}")),
            frame::acquire(0, 0, 14, format!("14/{address}")),
            frame::acquire(0, 60, 15, b"\xff"),
            frame::query(16, b"\xff"),
            frame::ping(17),
        ];
        session.send(&requests.concat());
        assert!(matches!(session.next("11").answer, Answer::Acquired { owner: 11, .. }));
        session.expect_error(2, 12, "12");
        assert!(matches!(session.next("13").answer, Answer::Acquired { owner: 13, .. }));
        session.expect_error(3, 14, "14");
        session.expect_error(2, 15, "15");
        session.expect_error(2, 16, "16");
        session.expect(Answer::Pong { id: 17 }, "17");
    }
}

const NEWLINES: u64 = 0x0a0a_0a0a_0a0a_0a0a;

/// A conversation in which every header has newline bytes, and what it is answered (tokens left out).
fn conversation(key: &str) -> Vec<u8> {
    [
        frame::acquire(10, 10, NEWLINES, key),
        frame::acquire(0, 10, 10, key),
        frame::acquire(10, 10, 11, key),
        frame::acquire(0, 10, 12, ""),
        frame::release(NEWLINES, key),
        frame::extend(10, 10, key),
        frame::cancel(11, key),
        frame::ping(NEWLINES),
    ]
    .concat()
}

fn expect_conversation(session: &mut Raw, key: &str) {
    let sent = Instant::now() - 10 * SECOND;
    let grant = session.granted(NEWLINES, sent, 5 * SECOND, "the acquire");
    assert_eq!((grant.lease_s, grant.waited_ms), (10, 0));
    session.expect(Answer::TimedOut { owner: 10 }, "the try");
    session.expect_error(2, 12, "the empty key");
    session.expect(Answer::NotHeld { token: NEWLINES }, "the release");
    session.expect(Answer::NotHeld { token: 10 }, "the extend");
    session.expect(Answer::TimedOut { owner: 11 }, "the cancelled waiter");
    session.expect(Answer::Pong { id: NEWLINES }, "the ping");
    session.release(grant.token, key);
}

#[test]
fn p21_split_frames_give_the_same_answers() {
    let server = Server::start_on_both(PROGRAM, &[]);
    thread::scope(|scope| {
        for address in server.addresses() {
            let key = format!("k/{address}");
            // One byte every 10 ms.
            scope.spawn(move || {
                let key = format!("slow/{address}");
                let mut session = Raw::connect(address);
                for byte in conversation(&key) {
                    session.send(&[byte]);
                    thread::sleep(Duration::from_millis(10));
                }
                expect_conversation(&mut session, &key);
            });
            scope.spawn(move || {
                let mut session = Raw::connect(address);
                let bytes = conversation(&key);
                session.send(&bytes);
                expect_conversation(&mut session, &key);
                // One byte at a time without a pause, and cut once at every place.
                bytes.iter().for_each(|byte| session.send(&[*byte]));
                expect_conversation(&mut session, &key);
                for cut in 1..bytes.len() {
                    session.send(&bytes[..cut]);
                    if cut % 8 == 0 {
                        // Long enough that the server has read the first part by itself.
                        thread::sleep(Duration::from_millis(2));
                    }
                    session.send(&bytes[cut..]);
                    expect_conversation(&mut session, &key);
                }
            });
        }
    });
}

#[test]
fn p21_a_thousand_frames_in_one_write() {
    const FRAMES: u64 = 1_000;
    let server = Server::start_on_both(PROGRAM, &[]);
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        let key = |n: u64| format!("{address}/{n}");
        session.send(&(0..FRAMES).flat_map(|n| frame::acquire(10, 10, n, key(n))).collect::<Vec<u8>>());
        let tokens: Vec<u64> = (0..FRAMES)
            .map(|n| match session.next("one of a thousand grants").answer {
                Answer::Acquired { owner, token, lease_s: 10, waited_ms: 0 } if owner == n => token,
                other => panic!("the grant to {n} expected, got {other:?}"),
            })
            .collect();
        assert!(tokens.is_sorted_by(|a, b| a < b), "tokens do not rise");
        let releases = tokens.iter().enumerate().flat_map(|(n, &token)| frame::release(token, key(n as u64)));
        session.send(&releases.collect::<Vec<u8>>());
        tokens.iter().for_each(|&token| {
            session.expect(Answer::Released { token }, "one of a thousand releases");
        });
        // One key, a thousand waiters and their cancels, in one write.
        let mut bytes = frame::acquire(0, 60, FRAMES, "k");
        (0..FRAMES).for_each(|n| bytes.extend(frame::acquire(10, 10, n, "k")));
        (0..FRAMES).for_each(|n| bytes.extend(frame::cancel(n, "k")));
        session.send(&bytes);
        let Answer::Acquired { token, .. } = session.next("the grant").answer else { panic!("no grant") };
        (0..FRAMES).for_each(|owner| {
            session.expect(Answer::TimedOut { owner }, "one of a thousand cancels");
        });
        session.release(token, "k");
        session.ping();
    }
}

#[test]
fn p22_bytes_that_look_like_control_are_part_of_the_key() {
    let server = Server::start_on_both(PROGRAM, &[]);
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        let keys = [
            "x",
            "x\r",
            "\rx",
            "\r",
            "x\0",
            "\0x",
            "\0",
            "x ",
            " x",
            "x\t",
            "\u{1b}[2J",
            "\u{85}",
            "\u{2028}",
        ];
        let held: Vec<_> = keys.iter().map(|key| (key, session.hold(60, 1, key))).collect();
        for (key, grant) in held {
            session.send(&frame::acquire(0, 5, 2, key));
            session.expect(Answer::TimedOut { owner: 2 }, "each key is held by itself");
            session.release(grant.token, key);
            assert_eq!(session.query(key), (0, 0, 0));
        }
        session.send(&frame::acquire(0, 5, 3, ""));
        session.expect_error(2, 3, "an empty key");
        // A newline ends the frame; what is behind it is a frame of its own and nothing else.
        session.send(b"A\0\x3c\0\0\0\0\0\0\0\x0ax\nP\0\0\0\0\0\0\0\x0a\n");
        let grant = session.granted(10, Instant::now() - SECOND, SECOND, "the key up to the newline");
        session.expect(Answer::Pong { id: 10 }, "the frame behind the newline");
        session.release(grant.token, "x");
    }
}

#[test]
fn p23_bytes_that_are_not_utf_8_disturb_nobody() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let witness = Witness::start(server.address());
    let bad: [&[u8]; 6] =
        [b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82", b"key\xf0\x9f", b"\xff\xfe\xfd\xfc\xfb\xfa"];
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        let held = session.hold(60, 1, format!("held/{address}"));
        for key in bad {
            session.send(&frame::acquire(0, 5, 9, key));
            session.expect_error(2, 9, "a key that is not UTF-8");
            session.send(&frame::release(held.token, key));
            session.expect_error(2, held.token, "a release of a key that is not UTF-8");
            session.ping();
        }
        let mut hello = Raw::connect(address);
        hello.send(&frame::hello(1, 4, b"name=\xff\xfe"));
        hello.expect_error(8, 4, "a hello that is not UTF-8");
        hello.expect_end(2 * SECOND, "the end after a malformed hello");
        session.release(held.token, format!("held/{address}"));
    }
    witness.finish("P23: bytes that are not UTF-8");
}

#[test]
fn p24_keys_that_look_alike_are_separate_locks() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let keys = [
        "a/b",
        "a//b",
        "/a/b",
        "a/b/",
        "a%2Fb",
        "a%2fb",
        "A",
        "a",
        "\u{e9}",
        "e\u{301}",
        "a ",
        " a",
        "a\0",
        "\0a",
        "\u{430}",
        "a\u{200b}",
        "ａ",
        "ß",
        "ss",
        "./a",
        "1",
        "01",
        "+1",
        "\u{feff}a",
    ];
    for address in server.addresses() {
        let mut session = Raw::connect(address);
        let grants: Vec<_> = keys.iter().map(|key| session.hold(60, 1, key)).collect();
        // No key's token opens another's lock.
        for (n, key) in keys.iter().enumerate() {
            let other = grants[(n + 1) % keys.len()].token;
            session.send(&frame::release(other, key));
            session.expect(Answer::NotHeld { token: other }, "the token of another key");
        }
        for (key, grant) in keys.iter().zip(&grants) {
            assert_eq!(session.query(key).0, 1, "{key:?}");
            session.release(grant.token, key);
            assert_eq!(session.query(key), (0, 0, 0), "{key:?}");
        }
    }
}
