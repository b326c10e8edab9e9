//! The client commands against a real server: text, JSON, exit statuses.

// What fails in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod program_support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;

use lockstead_testkit::{Answer, Builder, frame};
use program_support::{Outcome, PROGRAM, World, lockstead, outcome, within};
use rustix::process::Signal;
use serde_json::Value;

/// A port on which nobody listens: it was free a moment ago.
fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn json(outcome: &Outcome) -> Value {
    assert_eq!(outcome.stdout.lines().count(), 1, "one object a line: {outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn has(outcome: &Outcome, code: i32, expected: &[(&str, Value)]) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    let json = json(outcome);
    for (name, value) in expected {
        assert_eq!(&json[name], value, "{name} in {json}");
    }
}

#[test]
fn acquire_prints_a_token_that_scripts_can_cut() {
    let world = World::new();
    let got = world.outcome(&["acquire", "job", "--lease", "1m"]);
    assert_eq!((got.code, got.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = got.stdout.lines().collect();
    let [token, valid] = lines[..] else { panic!("two lines: {got:?}") };
    let token: u64 = token.strip_prefix("token ").unwrap().parse().unwrap();
    assert!(token > 0);
    let valid = valid.strip_prefix("valid for ").unwrap().strip_suffix('s').unwrap();
    let valid: f64 = valid.parse().unwrap();
    assert!(valid > 50.0 && valid < 57.0, "60 s less 5 % and a little: {valid}");
}

#[test]
fn p34_the_lock_is_still_held_when_the_program_has_gone() {
    let world = World::new();
    let token = world.hold("job", "30s");
    let query = world.outcome(&["query", "job"]);
    assert_eq!(query.code, Some(0));
    let lines: Vec<&str> = query.stdout.lines().collect();
    assert_eq!(lines[0], "held");
    let remaining = lines[1].strip_prefix("remaining ").unwrap().strip_suffix('s').unwrap();
    assert!(remaining.parse::<f64>().unwrap() > 10.0, "{query:?}");
    assert_eq!(lines[2], "waiters 0");

    let released = world.outcome(&["release", "job", &token]);
    assert_eq!((released.code, released.stdout.as_str()), (Some(0), "released\n"));
    let again = world.outcome(&["release", "job", &token]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(1), ""));
    assert_eq!(again.stderr, "lockstead: the lock is not held with this token\n");
    let free = world.outcome(&["query", "job"]);
    assert_eq!((free.code, free.stdout.as_str()), (Some(1), "free\n"));
}

#[test]
fn the_objects_of_a_lock_from_its_grant_to_its_end() {
    let world = World::new();
    let got = world.outcome(&["acquire", "a \"b\"\t\u{e9}", "--json"]);
    has(&got, 0, &[("outcome", "acquired".into()), ("key", "a \"b\"\t\u{e9}".into())]);
    let json = json(&got);
    assert!(json["valid_for_ms"].as_u64().unwrap() > 25_000, "{json}");
    assert!(json["waited_ms"].as_u64().unwrap() < 5_000, "{json}");
    let token = json["token"].as_u64().unwrap().to_string();
    let on = |command: &str, token: &str| world.outcome(&[command, "a \"b\"\t\u{e9}", token, "--json"]);

    let query = world.outcome(&["query", "a \"b\"\t\u{e9}", "--json"]);
    has(&query, 0, &[("outcome", "state".into()), ("state", "held".into()), ("waiters", 0.into())]);
    has(&on("extend", &token), 0, &[("outcome", "extended".into()), ("lease_ms", 30_000.into())]);
    has(&on("extend", "1"), 1, &[("outcome", "not_held".into())]);
    has(&on("release", "1"), 1, &[("outcome", "not_held".into())]);
    has(&on("release", &token), 0, &[("outcome", "released".into())]);
    let query = world.outcome(&["query", "a \"b\"\t\u{e9}", "--json"]);
    has(&query, 1, &[("state", "free".into()), ("remaining_ms", 0.into())]);
}

#[test]
fn extend_says_how_long_it_is_valid() {
    let world = World::with(&["--max-lease", "20s"]);
    let token = world.hold("job", "5s");
    let extended = world.outcome(&["extend", "job", &token, "--lease", "1m"]);
    assert_eq!(extended.code, Some(0));
    let (first, second) = extended.stdout.trim_end().split_once('\n').unwrap();
    assert_eq!(first, "extended");
    let valid: f64 = second.strip_prefix("valid for ").unwrap().trim_end_matches('s').parse().unwrap();
    assert!(valid > 15.0 && valid < 19.0, "the server gives 20 s at most: {valid}");
}

#[test]
fn a_held_lock_is_a_timeout() {
    let world = World::new();
    world.hold("job", "1m");
    let at_once = world.outcome(&["acquire", "job", "--wait", "0s"]);
    assert_eq!((at_once.code, at_once.stdout.as_str()), (Some(124), ""));
    assert_eq!(at_once.stderr, "lockstead: the lock did not become free in time\n");
    has(&world.outcome(&["acquire", "job", "--wait", "1s", "--json"]), 124, &[("outcome", "timeout".into())]);
    let run = world.outcome(&["run", "job", "--wait", "0s", "--", "echo", "ran"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(124), ""));
}

#[test]
fn a_full_server_is_busy() {
    let world = World::with(&["--max-keys", "1"]);
    world.hold("job", "1m");
    let busy = [("outcome", "busy".into()), ("reason", 3.into())];
    has(&world.outcome(&["acquire", "other", "--json"]), 123, &busy);
    assert_eq!(world.outcome(&["run", "other", "--", "true"]).code, Some(123));
}

#[test]
fn without_a_server_nothing_is_sent() {
    let address = nobody();
    let call = |args: &[&str]| {
        let mut command = lockstead(args);
        command.env("LOCKSTEAD_SERVER", &address);
        outcome(command)
    };
    thread::scope(|scope| {
        for args in [
            &["acquire", "k", "--wait", "1s", "--json"][..],
            &["release", "k", "1", "--json"],
            &["extend", "k", "1", "--json"],
            &["query", "k", "--json"],
            &["ping", "--json"],
        ] {
            scope.spawn(move || has(&call(args), 122, &[("outcome", "unsent".into())]));
        }
        scope.spawn(|| {
            let run = call(&["run", "k", "--wait", "1s", "--", "echo", "ran"]);
            assert_eq!((run.code, run.stdout.as_str()), (Some(122), ""));
            let refused = format!("{address}: Connection refused (os error {})", libc::ECONNREFUSED);
            let sentence = "lockstead: nothing was sent: no server answered in time";
            assert_eq!(run.stderr, format!("{sentence}; {refused}\n"));
        });
    });
}

#[test]
fn a_server_that_dies_meanwhile_leaves_it_indeterminate() {
    let mut world = World::new();
    world.hold("job", "1m");
    let mut acquire = world.start(&["acquire", "job", "--wait", "30s", "--json"]);
    world.await_waiters("job", 1);
    let mut run = world.start(&["run", "job", "--wait", "30s", "--", "echo", "ran"]);
    world.await_waiters("job", 2);
    world.server.kill();
    let line = acquire.line();
    let json: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(json["outcome"], "indeterminate");
    assert_eq!(json["cause"], "session_broke");
    assert_eq!(acquire.end(), Some(121));
    assert_eq!(run.end(), Some(121));
    assert_eq!(run.last_lines(), [""; 0]);
}

/// A server that answers every hello, and then says what `then` says about the first bytes of what follows.
fn odd_server(then: impl Fn(&[u8]) -> Vec<u8> + Send + Copy + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move |mut stream: TcpStream| {
        let mut hello = [0; 10];
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        reader.read_exact(&mut hello).unwrap();
        reader.read_until(b'\n', &mut Vec::new()).unwrap();
        let id = u64::from_be_bytes(hello[2..].try_into().unwrap());
        let text =
            "server=lockstead/odd id=0123456789abcdef0123456789abcdef session=1 max_key=1024 max_lease=255";
        let welcome = Answer::Welcome { version: 1, id, text: text.to_owned() };
        stream.write_all(&welcome.to_bytes()).unwrap();
        loop {
            let request = reader.fill_buf().unwrap().to_vec();
            if request.is_empty() {
                return;
            }
            reader.consume(request.len());
            stream.write_all(&then(&request)).unwrap();
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve(stream));
        }
    });
    address
}

#[test]
fn a_mute_server_leaves_it_unknown() {
    let address = odd_server(|_| Vec::new());
    let call = |args: &[&str]| {
        let mut command = lockstead(args);
        command.env("LOCKSTEAD_SERVER", &address);
        outcome(command)
    };
    thread::scope(|scope| {
        for (args, code, word) in [
            (&["acquire", "k", "--wait", "1s", "--json"][..], 121, "indeterminate"),
            (&["release", "k", "1", "--json"], 121, "unknown"),
            (&["extend", "k", "1", "--json"], 121, "unknown"),
            (&["query", "k", "--json"], 121, "unknown"),
            (&["ping", "--json"], 1, "no_answer"),
        ] {
            scope.spawn(move || has(&call(args), code, &[("outcome", word.into())]));
        }
    });
}

#[test]
fn what_the_server_refuses_is_rejected() {
    // The id of a request is the last eight bytes of its header.
    let address = odd_server(|request| {
        let at = match request[0] {
            b'A' => 3,
            b'E' => 2,
            _ => 1,
        };
        let id = u64::from_be_bytes(request[at..at + 8].try_into().unwrap());
        Answer::Error { code: 5, id, text: "not for you".to_owned() }.to_bytes()
    });
    for args in [&["acquire", "k"][..], &["release", "k", "7"], &["extend", "k", "7"], &["query", "k"]] {
        let mut command = lockstead(args);
        command.args(["--json", "--server", &address]);
        let expected =
            [("outcome", "rejected".into()), ("code", 5.into()), ("message", "not for you".into())];
        has(&outcome(command), 125, &expected);
        let mut command = lockstead(args);
        command.args(["--server", &address]);
        let told = outcome(command);
        assert_eq!((told.code, told.stdout.as_str()), (Some(125), ""));
        assert!(told.stderr.contains("not for you"), "{told:?}");
    }
}

#[test]
fn ping_says_how_far_the_server_is() {
    let world = World::new();
    let ping = world.outcome(&["ping"]);
    assert_eq!(ping.code, Some(0));
    assert_eq!(ping.stdout.lines().count(), 3);
    for line in ping.stdout.lines() {
        let ms = line.strip_prefix("pong after ").unwrap().strip_suffix(" ms").unwrap();
        assert!(ms.parse::<f64>().unwrap() < 5_000.0);
    }
    let ping = world.outcome(&["ping", "--count", "1", "--json"]);
    has(&ping, 0, &[("outcome", "pong".into())]);
    assert!(json(&ping)["round_trip_us"].is_u64());
}

#[test]
fn a_recovering_server_says_so() {
    let world = World::with(&["--recovery-pause", "1m"]);
    let query = world.outcome(&["query", "job", "--json"]);
    has(&query, 0, &[("state", "recovering".into())]);
    assert!(json(&query)["remaining_ms"].as_u64().unwrap() > 30_000);
    assert!(world.outcome(&["query", "job"]).stdout.starts_with("recovering\nremaining "));
    assert_eq!(world.outcome(&["acquire", "job", "--wait", "0s"]).code, Some(124));
}

#[test]
fn a_unix_socket_is_an_address_too() {
    let builder = Builder::new(PROGRAM);
    let address = format!("unix:{}", builder.dir().join("lockstead.sock").display());
    let server = builder.listen(&address).start();
    assert_eq!(server.address().to_string(), address);
    for args in [&["acquire", "k"][..], &["query", "k"], &["ping"], &["run", "other", "--", "true"]] {
        let (command, rest) = args.split_first().unwrap();
        let mut command = lockstead(&[command, "--server", &address]);
        command.args(rest);
        let got = outcome(command);
        assert_eq!(got.code, Some(0), "{got:?}");
    }
}

#[test]
fn the_command_line_beats_the_environment() {
    let world = World::new();
    let mut command = world.command(&["acquire", "a", "--lease", "100s"]);
    command.env("LOCKSTEAD_LEASE", "10s").env("LOCKSTEAD_JSON", "1").env("LOCKSTEAD_UNHEARD_OF", "x");
    let got = outcome(command);
    has(&got, 0, &[("outcome", "acquired".into())]);
    assert!(json(&got)["valid_for_ms"].as_u64().unwrap() > 60_000);
    let mut command = world.command(&["acquire", "b", "--json"]);
    command.env("LOCKSTEAD_LEASE", "10s");
    assert!(json(&outcome(command))["valid_for_ms"].as_u64().unwrap() < 10_000);
    // Two addresses of one server; the first leads nowhere.
    let mut command = lockstead(&["query", "a"]);
    command.env("LOCKSTEAD_SERVER", format!("{},{}", nobody(), world.server.address()));
    assert_eq!(outcome(command).code, Some(0));
}

#[test]
fn wrong_usage_is_125_and_says_what_would_be_right() {
    let long = "k".repeat(1025);
    for (args, hint) in [
        (&[][..], "Usage"),
        (&["frobnicate"], "unrecognized subcommand"),
        (&["acquire"], "<KEY>"),
        (&["acquire", ""], "the key is empty"),
        (&["acquire", "a\nb"], "newline"),
        (&["acquire", &long], "1024"),
        (&["acquire", "k", "--wait", "4m16s"], "at most 255s"),
        (&["acquire", "k", "--wait", "10"], "write it like 10s"),
        (&["acquire", "k", "--lease", "0s"], "more than 0s"),
        (&["acquire", "k", "--lease", "256s"], "at most 255s"),
        (&["acquire", "k", "--server", "localhost"], "write host:port"),
        (&["acquire", "k", "--server", "tls://localhost:1"], "tls:// addresses are not built yet"),
        (&["acquire", "k", "--auth-token-file", "/no/such/file"], "/no/such/file"),
        (&["acquire", "k", "--colour"], "--colour"),
        (&["release", "k"], "<TOKEN>"),
        (&["release", "k", "-1"], "-1"),
        (&["release", "k", "18446744073709551616"], "too large"),
        (&["release", "k", "0"], "token"),
        (&["extend", "k", "9223372036854775808"], "token"),
        (&["ping", "--count", "0"], "0"),
        (&["run", "k"], "<COMMAND>"),
        (&["run", "k", "true"], "true"),
        (&["run", "k", "--lease", "9s", "--kill-after", "3001ms", "--", "true"], "a third"),
        (&["run", "k", "--json", "--", "true"], "--json"),
    ] {
        let got = outcome(lockstead(args));
        assert_eq!((got.code, got.stdout.as_str()), (Some(125), ""), "{args:?}: {got:?}");
        assert!(got.stderr.contains(hint), "{args:?} should say {hint:?}: {}", got.stderr);
    }
    let mut command = lockstead(&["query", "k"]);
    command.env("LOCKSTEAD_JSON", "perhaps");
    assert_eq!(outcome(command).code, Some(125));
}

#[test]
fn help_and_version_are_no_errors() {
    let version = outcome(lockstead(&["--version"]));
    let expected = concat!("lockstead ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!((version.code, version.stdout.as_str()), (Some(0), expected));
    assert_eq!(outcome(lockstead(&["--help"])).code, Some(0));
    for command in ["serve", "run", "acquire", "release", "extend", "query", "ping", "repair", "journal dump"]
    {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = outcome(lockstead(&words));
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
        assert!(help.stdout.contains(&format!("\n  lockstead {command}")), "an example of {command}");
        assert!(!help.stdout.contains('\x1b'), "colours are for terminals");
    }
}

#[test]
fn a_token_that_nobody_reads_is_given_back() {
    let world = World::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = world.command(&["acquire", "job", "--lease", "1m"]);
    let mut child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    let mut stderr = child.stderr.take().unwrap();
    let status = within("acquire into a closed pipe", move || child.wait().unwrap());
    assert_eq!(status.code(), Some(125));
    let mut told = String::new();
    stderr.read_to_string(&mut told).unwrap();
    assert!(told.contains("the lock is given back"), "{told}");
    assert_eq!(world.state("job"), "free");
}

#[test]
fn an_interrupted_acquire_leaves_the_queue() {
    let world = World::new();
    let token = world.hold("job", "1m");
    for command in
        [&["acquire", "job", "--wait", "1m"][..], &["run", "job", "--wait", "1m", "--", "echo", "ran"]]
    {
        let mut waiting = world.start(command);
        world.await_waiters("job", 1);
        waiting.signal(Signal::INT);
        assert_eq!(waiting.end(), None, "ended by the signal, so that a shell's loop ends too");
        assert_eq!(waiting.last_lines(), [""; 0]);
        world.await_waiters("job", 0);
    }
    assert_eq!(world.outcome(&["release", "job", &token]).code, Some(0));
    assert_eq!(world.state("job"), "free");
}

#[test]
fn the_outside_checker_sees_what_the_program_holds() {
    let world = World::new();
    let token: u64 = world.hold("job", "1m").parse().unwrap();
    let mut raw = world.server.connect();
    assert_eq!(raw.ask(&frame::release(token, "job")), Answer::Released { token });
}
