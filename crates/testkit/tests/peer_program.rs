//! `lockstead-peer`, driven by lines of text as a test in another language would.

use lockstead_testkit::{Address, Answer, Raw, frame};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Ids that clients draw have this bit.
const DRAWN: u64 = 1 << 63;

/// The program at work.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lockstead-peer"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it has an output"));
        Self { child, input, output: BufReader::new(output) }
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("`{line}`: {error}"))
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("the input is open"), "{line}").expect("it is read");
    }

    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().expect("it ends").code()
    }
}

fn address(text: &Value) -> Address {
    Address::parse(text.as_str().expect("an address"))
}

const SCENARIO: &str = r#"{"name": "small", "about": "", "rules": [], "program": [], "peer": [
    {"do": "welcome", "on": "s1"}, {"do": "signal", "name": "welcomed"}, {"do": "await", "name": "ask"},
    {"do": "expect", "on": "s1", "frames": ["A 0 30 $o1 k"]}, {"do": "answer", "on": "s1", "frames": ["T $o1"]}]}"#;

fn run(lease_s: u8) -> (Value, Option<i32>) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let file = dir.path().join("small.json");
    fs::write(&file, SCENARIO).expect("the file can be written");
    let mut program = Program::start(&["run", file.to_str().expect("a plain path")]);
    let first = program.line();
    let mut client = Raw::connect(&address(&first["servers"]["a"]));
    client.send(&frame::hello(1, DRAWN | 1, ""));
    client.next("the welcome");
    assert_eq!(program.line()["signal"], "welcomed");
    program.say("signal ask");
    // The peer resets when it finds a fault, so only a passing client has an answer.
    client.ask_or_end(&frame::acquire(0, lease_s, DRAWN | 2, "k"));
    drop(client);
    drop(program.input.take());
    (program.line(), program.end())
}

#[test]
fn run_plays_a_scenario_and_passes_the_client() {
    let (verdict, status) = run(30);
    assert_eq!((verdict["verdict"].as_str(), status), (Some("passed"), Some(0)), "{verdict}");
}

#[test]
fn canary_run_finds_a_fault() {
    let (verdict, status) = run(31);
    assert_eq!((verdict["verdict"].as_str(), status), (Some("failed"), Some(1)), "{verdict}");
    assert!(verdict["faults"][0].as_str().is_some_and(|fault| fault.contains("came instead")), "{verdict}");
}

#[test]
fn proxy_obeys_lines() {
    let mut peer = Program::start(&["run", "tests/canary/a_frame_too_few.json"]);
    let to = peer.line()["servers"]["a"].as_str().expect("an address").to_owned();
    let mut proxy = Program::start(&["proxy", "--to", &to]);
    let listening = address(&proxy.line()["listening"]);
    proxy.say("drop T");
    assert_eq!(proxy.line()["ok"], true);
    proxy.say("dance");
    assert!(proxy.line()["error"].is_string());
    let mut client = Raw::connect(&listening);
    client.send(&frame::hello(1, DRAWN | 1, ""));
    assert!(matches!(client.next("the welcome").answer, Answer::Welcome { .. }));
    client.send(&frame::acquire(5, 30, DRAWN | 2, "k"));
    // Its `T` vanishes; half a second later the peer, which wanted another request, resets.
    assert_eq!(client.event(std::time::Duration::from_secs(5)), lockstead_testkit::Event::Reset);
    assert_eq!(proxy.end(), Some(0));
    assert_eq!(peer.end(), Some(1));
}

#[test]
fn wrong_usage_is_said() {
    for args in [&["run"][..], &["run", "no such file"], &["proxy"], &["proxy", "--to", "nowhere"], &[]] {
        let program = Program::start(args);
        assert_eq!(program.end(), Some(2), "{args:?}");
    }
}
