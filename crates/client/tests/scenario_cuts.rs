//! A peer that cuts its answers at every byte position, by an end of stream and by a reset.

mod scenario_runner;

use lockstead_testkit::scenario::Scenario;
use scenario_runner::run_all;

/// How many run at a time.
const AT_A_TIME: usize = 16;

const WELCOME: &str = "H 1 $h1 server=lockstead/0 id=00000000000000000000000000000001 session=1";

/// One kind of answer: what leads up to it, and what follows when it was cut and when it was whole.
struct Cut {
    /// The frame that is cut.
    frame: &'static str,
    /// Its length on the wire.
    length: usize,
    /// The peer's steps up to it.
    before: &'static str,
    /// The program's steps up to it.
    calls: &'static str,
    /// The peer's steps and the program's after a part of it.
    part: (&'static str, &'static str),
    /// The program's steps after all of it; `None`: not tried.
    whole: Option<&'static str>,
}

const ASKED: &str =
    r#"{"do": "welcome", "on": "s1"}, {"do": "expect", "on": "s1", "frames": ["A 5 30 $o1 k"]}"#;
const RELEASING: &str = r#"{"do": "welcome", "on": "s1"}, {"do": "expect", "on": "s1", "frames": ["A 5 30 $o1 k"]},
    {"do": "answer", "on": "s1", "frames": ["A $o1 7 30 0"]}, {"do": "expect", "on": "s1", "frames": ["R 7 k"]}"#;
const EXTENDING: &str = r#"{"do": "welcome", "on": "s1"}, {"do": "expect", "on": "s1", "frames": ["A 5 30 $o1 k"]},
    {"do": "answer", "on": "s1", "frames": ["A $o1 7 30 0"]}, {"do": "expect", "on": "s1", "frames": ["E 20 7 k"]}"#;

const ASK: &str = r#"{"do": "acquire", "call": "c1", "wait_ms": 5000, "lease_ms": 30000}"#;
const HOLD: &str = r#"{"do": "acquire", "call": "c1", "wait_ms": 5000, "lease_ms": 30000},
    {"do": "outcome", "call": "c1", "is": "acquired 7"}"#;

/// The call may have been sent and nobody knows more; the next call is a new one.
const LOST: (&str, &str) = (
    r#"{"do": "welcome", "on": "s2"}, {"do": "expect", "on": "s2", "frames": ["A 5 30 $o2 k"]},
    {"do": "answer", "on": "s2", "frames": ["T $o2"]}"#,
    r#"{"do": "outcome", "call": "c1", "is": "indeterminate session_broke", "after_ms": [0, 1000]},
    {"do": "acquire", "call": "c2", "wait_ms": 5000, "lease_ms": 30000},
    {"do": "outcome", "call": "c2", "is": "timeout"}"#,
);

/// The release is sent again, and the first one has done it.
const AGAIN: &str = r#"{"do": "welcome", "on": "s2"}, {"do": "expect", "on": "s2", "frames": ["R 7 k"]},
        {"do": "answer", "on": "s2", "frames": ["N 7"]}"#;

const CUTS: [Cut; 9] = [
    Cut {
        frame: WELCOME,
        length: 11 + WELCOME.len() - "H 1 $h1 ".len(),
        before: r#"{"do": "accept", "on": "s1"}, {"do": "expect", "on": "s1", "frames": ["H 1 $h1 *"]}"#,
        calls: ASK,
        part: (
            r#"{"do": "welcome", "on": "s2"}, {"do": "expect", "on": "s2", "frames": ["A 5 30 $o1 k"]},
                {"do": "answer", "on": "s2", "frames": ["T $o1"]}"#,
            r#"{"do": "outcome", "call": "c1", "is": "timeout", "after_ms": [0, 1000]}"#,
        ),
        whole: None,
    },
    Cut {
        frame: "A $o1 7 30 0",
        length: 23,
        before: ASKED,
        calls: ASK,
        part: LOST,
        whole: Some(r#"{"do": "outcome", "call": "c1", "is": "acquired 7"}, {"do": "leave", "call": "c1"}"#),
    },
    Cut {
        frame: "T $o1",
        length: 10,
        before: ASKED,
        calls: ASK,
        part: LOST,
        whole: Some(r#"{"do": "outcome", "call": "c1", "is": "timeout", "after_ms": [0, 1000]}"#),
    },
    Cut {
        frame: "B $o1 3",
        length: 11,
        before: ASKED,
        calls: ASK,
        part: LOST,
        whole: Some(r#"{"do": "outcome", "call": "c1", "is": "busy 3", "after_ms": [0, 1000]}"#),
    },
    Cut {
        frame: "X 2 $o1 bad key",
        length: 18,
        before: ASKED,
        calls: ASK,
        part: LOST,
        whole: Some(r#"{"do": "outcome", "call": "c1", "is": "rejected 2", "after_ms": [0, 1000]}"#),
    },
    Cut {
        frame: "R 7",
        length: 10,
        before: RELEASING,
        calls: HOLD,
        part: (AGAIN, r#"{"do": "release", "call": "c1", "is": "released"}"#),
        whole: Some(r#"{"do": "release", "call": "c1", "is": "released"}"#),
    },
    Cut {
        frame: "N 7",
        length: 10,
        before: RELEASING,
        calls: HOLD,
        part: (AGAIN, r#"{"do": "release", "call": "c1", "is": "released"}"#),
        whole: Some(r#"{"do": "release", "call": "c1", "is": "not_held"}"#),
    },
    Cut {
        frame: "E 7 20",
        length: 11,
        before: EXTENDING,
        calls: HOLD,
        part: (
            r#"{"do": "welcome", "on": "s2"}, {"do": "expect", "on": "s2", "frames": ["E 20 7 k"]},
                {"do": "answer", "on": "s2", "frames": ["E 7 20"]}, {"do": "expect", "on": "s2", "frames": ["R 7 k"]},
                {"do": "answer", "on": "s2", "frames": ["R 7"]}"#,
            r#"{"do": "extend", "call": "c1", "lease_ms": 20000, "is": "extended"},
                {"do": "release", "call": "c1", "is": "released"}"#,
        ),
        whole: Some(
            r#"{"do": "extend", "call": "c1", "lease_ms": 20000, "is": "extended"},
                {"do": "leave", "call": "c1"}"#,
        ),
    },
    Cut {
        frame: "N 7",
        length: 10,
        before: EXTENDING,
        calls: HOLD,
        part: (
            r#"{"do": "welcome", "on": "s2"}, {"do": "expect", "on": "s2", "frames": ["E 20 7 k"]},
                {"do": "answer", "on": "s2", "frames": ["N 7"]}, {"do": "expect", "on": "s2", "frames": ["R 7 k"]},
                {"do": "answer", "on": "s2", "frames": ["N 7"]}"#,
            r#"{"do": "extend", "call": "c1", "lease_ms": 20000, "is": "lost not_held"},
                {"do": "valid", "call": "c1", "is": false}, {"do": "drop", "call": "c1"}"#,
        ),
        // The release that follows would race with the end.
        whole: None,
    },
];

/// The scenario in which the first `bytes` of the frame arrive, and then the connection ends.
fn scenario(cut: &Cut, bytes: usize, how: &str) -> Option<Scenario> {
    let (peer, program) = if bytes == cut.length { ("", cut.whole?) } else { cut.part };
    let step = format!(
        r#"{{"do": "answer", "on": "s1", "frames": ["{}"], "first_bytes": {bytes}}}, {{"do": "{how}", "on": "s1"}}"#,
        cut.frame
    );
    let comma = if peer.is_empty() { "" } else { "," };
    let text = format!(
        r#"{{"name": "{} after {bytes} bytes by {how}", "about": "", "rules": [],
        "peer": [{}, {step}{comma} {peer}], "program": [{}, {program}]}}"#,
        cut.frame, cut.before, cut.calls
    );
    Some(Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// No hang, no ticket that should not be, and the right outcome, wherever an answer is cut.
#[test]
fn answers_are_cut_at_every_byte() {
    let mut scenarios = Vec::new();
    for cut in &CUTS {
        for bytes in 0..=cut.length {
            scenarios.extend(["close", "reset"].iter().filter_map(|how| scenario(cut, bytes, how)));
        }
    }
    assert!(scenarios.len() > 350, "{}", scenarios.len());
    let faults = run_all(&scenarios, AT_A_TIME);
    assert!(faults.is_empty(), "{} of {} fail:\n\n{}", faults.len(), scenarios.len(), faults.join("\n\n"));
}
