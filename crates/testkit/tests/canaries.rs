//! The checker's own canaries: servers that are wrong, each of which it must find.

use lockstead_testkit::{Address, Answer, Builder, Event, Raw, Witness, frame};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// A server that serves one connection by what `serve` does.
fn fake(serve: impl FnOnce(UnixStream) + Send + 'static) -> (tempfile::TempDir, Address) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket can be bound");
    thread::spawn(move || serve(listener.accept().expect("a connection").0));
    (dir, Address::Unix(path))
}

/// The message of the panic that `check` must end in.
fn found(check: impl FnOnce()) -> String {
    let fault = catch_unwind(AssertUnwindSafe(check)).expect_err("the fault was not found");
    match fault.downcast::<String>() {
        Ok(message) => *message,
        Err(fault) => (*fault.downcast::<&str>().expect("a panic has a message")).to_owned(),
    }
}

/// Reads one request of this length.
fn request(stream: &mut UnixStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).expect("a request");
    bytes
}

fn pong(request: &[u8]) -> Vec<u8> {
    let id = request[1..9].try_into().expect("eight bytes");
    Answer::Pong { id: u64::from_be_bytes(id) }.to_bytes()
}

#[test]
fn an_answer_that_nobody_asked_for_is_found() {
    let (_dir, address) = fake(|mut stream| {
        let ping = request(&mut stream, 10);
        let both = [Answer::TimedOut { owner: 1 }.to_bytes(), pong(&ping)].concat();
        stream.write_all(&both).expect("the client reads");
    });
    let message = found(|| {
        Raw::connect(&address).ping();
    });
    assert!(message.contains("a pong and nothing before it"), "{message}");
}

#[test]
fn another_id_is_found() {
    let (_dir, address) = fake(|mut stream| {
        request(&mut stream, 10);
        stream.write_all(&Answer::Pong { id: 1 }.to_bytes()).expect("the client reads");
    });
    found(|| {
        Raw::connect(&address).ping();
    });
}

#[test]
fn a_wait_that_is_overstated_is_found() {
    let (_dir, address) = fake(|mut stream| {
        request(&mut stream, 13);
        let grant = Answer::Acquired { owner: 1, token: 1, lease_s: 5, waited_ms: 900 };
        stream.write_all(&grant.to_bytes()).expect("the client reads");
    });
    let message = found(|| {
        Raw::connect(&address).hold(5, 1, "k");
    });
    assert!(message.contains("waited"), "{message}");
}

#[test]
fn silence_an_end_and_a_cut_answer_are_told_apart_and_name_what_was_awaited() {
    let (_dir, address) = fake(|mut stream| {
        request(&mut stream, 10);
        // Says nothing until the client has seen that.
        request(&mut stream, 10);
        stream.write_all(b"P\0\0").expect("the client reads");
    });
    let mut session = Raw::connect(&address);
    session.send(&frame::ping(1));
    let message = found(|| {
        session.next_within(SECOND / 20, "what never comes");
    });
    assert!(message.contains("what never comes"), "{message}");
    session.send(&frame::ping(2));
    assert_eq!(session.event(5 * SECOND), Event::Cut(b"P\0\0".to_vec()));

    let (_dir, address) = fake(|_| {});
    let message = found(|| Raw::connect(&address).expect_bytes(b"P", "a single byte"));
    assert!(message.contains("a single byte"), "{message}");
    let (_dir, address) = fake(|_| {});
    Raw::connect(&address).expect_end(5 * SECOND, "an end");
}

#[test]
fn bytes_that_are_no_answer_are_found() {
    let (_dir, address) = fake(|mut stream| stream.write_all(b"OK\r\n").expect("the client reads"));
    let message = found(|| {
        Raw::connect(&address).event(5 * SECOND);
    });
    assert!(message.contains("breaks the protocol"), "{message}");
}

/// A server that forgets the witness's key: it answers everything, and says of each key that it is free.
#[test]
fn a_witness_finds_a_lock_that_was_lost() {
    let (_dir, address) = fake(|mut stream| {
        let acquire = request(&mut stream, 12 + "the witness's own key".len());
        let owner = u64::from_be_bytes(acquire[3..11].try_into().expect("eight bytes"));
        let grant = Answer::Acquired { owner, token: 7, lease_s: 255, waited_ms: 0 };
        stream.write_all(&grant.to_bytes()).expect("the client reads");
        request(&mut stream, 12 + "the witness's own key".len());
        loop {
            let op = request(&mut stream, 1)[0];
            let mut rest = request(&mut stream, 9);
            rest.insert(0, op);
            let answer = match op {
                b'P' => pong(&rest),
                _ => {
                    request(&mut stream, "the witness's own key".len());
                    let id = u64::from_be_bytes(rest[1..9].try_into().expect("eight bytes"));
                    Answer::State { id, state: 0, remaining_ms: 0, waiters: 0 }.to_bytes()
                }
            };
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    });
    let message = found(|| {
        let witness = Witness::start(&address);
        thread::sleep(SECOND / 20);
        witness.finish("a server that forgets");
    });
    assert!(message.contains("noticed something"), "{message}");
}

#[test]
fn a_program_that_does_not_listen_is_found() {
    let message = found(|| {
        Builder::new("false").listen("127.0.0.1:0").start();
    });
    assert!(message.contains("does not listen"), "{message}");
}

#[test]
fn a_server_that_does_not_stop_is_found() {
    // `sleep serve …` ends at once with an error; a shell that ignores the arguments does not.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let script = dir.path().join("server");
    // Written by another process: a file that is open for writing here may be so in a child that another test is just
    // starting, and then nobody can run it.
    let write =
        r#"printf '#!/bin/sh\necho listening on 127.0.0.1:1\nexec sleep 60\n' > "$0" && chmod 755 "$0""#;
    let written = Command::new("sh").args(["-c", write]).arg(&script).status().expect("a shell");
    assert!(written.success());
    let mut server = Builder::new(&script).listen("127.0.0.1:1").start();
    let begun = Instant::now();
    let message = found(|| {
        server.wait_exit(SECOND / 20, "an end that does not come");
    });
    assert!(message.contains("an end that does not come"), "{message}");
    assert!(begun.elapsed() < 10 * SECOND);
    server.pause();
    server.go_on();
    server.terminate();
    assert!(!server.wait_exit(10 * SECOND, "a terminated sleep").success());
}
