//! Peers that are stopped, mute, late or lying, at every moment that matters.

mod scenario_runner;

use lockstead_testkit::scenario::Scenario;
use scenario_runner::{judge_all, play, run_all};

/// How many run at a time.
const AT_A_TIME: usize = 16;

fn parse(name: &str, peer: &str, program: &str) -> Scenario {
    let text = format!(
        r#"{{"name": "{name}", "about": "", "rules": [], "client": {{"allowance_ms": 1100}},
        "peer": [{peer}], "program": [{program}]}}"#
    );
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{} fail:\n\n{}", faults.len(), faults.join("\n\n"));
}

/// From some moment on the peer says nothing, whether it still reads (mute) or not (stopped).
#[test]
fn a_peer_that_is_mute_or_stopped() {
    let welcome = r#"{"do": "welcome", "on": "s1"}"#;
    let stopped = r#", {"do": "stop_reading", "on": "s1"}"#;
    let asked = r#", {"do": "expect", "on": "s1", "frames": ["A 1 2 $o1 k"]}"#;
    let held = r#", {"do": "answer", "on": "s1", "frames": ["A $o1 7 2 0"]}"#;
    let refuse = r#", {"do": "refuse"}"#;
    let call = |is: &str| {
        format!(
            r#"{{"do": "acquire", "call": "c1", "wait_ms": 1000, "lease_ms": 2000}},
            {{"do": "outcome", "call": "c1", "is": "{is}"}}"#
        )
    };
    let acquired = call("acquired 7");
    let unsent = call("unsent budget_ended");
    let unknown = call("indeterminate no_answer");
    let mute_at = [
        ("after connect", String::new(), unsent.clone()),
        (
            "after hello",
            r#"{"do": "accept", "on": "s1"}, {"do": "expect", "on": "s1", "frames": ["H 1 $h1 *"]}"#
                .to_owned(),
            unsent,
        ),
        ("after acquire", format!("{welcome}{asked}"), unknown),
        (
            "after release",
            format!(r#"{welcome}{asked}{held}{refuse}, {{"do": "expect", "on": "s1", "frames": ["R 7 k"]}}"#),
            format!(
                r#"{acquired}, {{"do": "release", "call": "c1", "is": "unknown", "after_ms": [1900, 2200]}}"#
            ),
        ),
        (
            "after extend",
            format!(
                r#"{welcome}{asked}{held}{refuse}, {{"do": "expect", "on": "s1", "frames": ["E 5 7 k"]}}"#
            ),
            format!(
                r#"{acquired}, {{"do": "extend", "call": "c1", "lease_ms": 5000, "is": "lost expired", "after_ms": [1700, 2000]}},
                {{"do": "lost", "call": "c1", "is": "expired", "after_ms": [1898, 1998]}},
                {{"do": "drop", "call": "c1"}}"#
            ),
        ),
    ];
    let mut scenarios: Vec<Scenario> =
        mute_at.iter().map(|(name, peer, program)| parse(&format!("mute {name}"), peer, program)).collect();
    // Nothing of what a stopped peer does not read can be expected, so its connection is reset at the end.
    let reset = r#", {"do": "await", "name": "over"}, {"do": "reset", "on": "s1"}"#;
    let over = r#", {"do": "signal", "name": "over"}"#;
    scenarios.push(parse(
        "stopped after welcome",
        &format!("{welcome}{stopped}{reset}"),
        &format!("{}{over}", call("indeterminate no_answer")),
    ));
    scenarios.push(parse(
        "stopped after grant",
        &format!("{welcome}{asked}{held}{refuse}{stopped}{reset}"),
        &format!(r#"{acquired}, {{"do": "release", "call": "c1", "is": "unknown", "after_ms": [1900, 2200]}}{over}"#),
    ));
    assert_none(&run_all(&scenarios, AT_A_TIME));
}

/// An answer arrives around the deadline. What is not matched in time is indeterminate, and then a grant was either
/// released by its exact token, once, or its session was reset before the client read it.
#[test]
fn a_peer_that_is_late() {
    let late = |answer: &str, definite: &str, delay_ms: u64| {
        parse(
            &format!("{answer} after {delay_ms} ms"),
            &format!(
                r#"{{"do": "welcome", "on": "s1"}}, {{"do": "expect", "on": "s1", "frames": ["A 1 30 $o1 k"]}},
                {{"do": "pause", "ms": {delay_ms}}}, {{"do": "answer", "on": "s1", "frames": ["{answer}"]}},
                {{"do": "serve", "on": "s1", "acquires": "timeout", "until": "over"}}"#
            ),
            &format!(
                r#"{{"do": "acquire", "call": "c1", "wait_ms": 1000, "lease_ms": 30000}},
                {{"do": "outcomes", "call": "c1", "are": {{"{definite}": [0, 1], "indeterminate": [0, 1]}}}},
                {{"do": "pause", "ms": 200}}, {{"do": "signal", "name": "over"}}"#
            ),
        )
    };
    let mut scenarios = Vec::new();
    for delay_ms in (2_085..=2_110).step_by(1) {
        scenarios.push(late("A $o1 7 30 0", "acquired", delay_ms));
        scenarios.push(late("T $o1", "timeout", delay_ms));
    }
    let judge = |scenario: &Scenario| {
        let (played, verdict) = play(scenario)?;
        let count = |what: &str| verdict.log.iter().filter(|line| line.contains(what)).count();
        // The peer may find the connection reset while it answers, and then hears of that in no other way.
        let (untaken, faults): (Vec<&String>, Vec<&String>) =
            verdict.faults.iter().partition(|fault| fault.contains("does not take"));
        let (releases, resets) = (count("< R 7 k"), count("ends it: Reset").max(untaken.len()));
        let granted = scenario.name.starts_with('A');
        let settled = if granted { releases + resets == 1 } else { releases == 0 && resets <= 1 };
        if played.is_err() || !faults.is_empty() || !settled {
            return Err(format!("{}: {played:?} {faults:?}\n{}", scenario.name, verdict.log.join("\n")));
        }
        Ok(())
    };
    assert_none(&judge_all(&scenarios, AT_A_TIME, judge));
}

/// The peer lies about `waited` or grants another lease: the ticket never counts from after its answer, nor on a longer
/// lease than both sides named.
#[test]
fn a_peer_that_lies_about_a_grant() {
    let mut scenarios = Vec::new();
    for waited_ms in [0, 1, 299, 700, 1_000, 65_535, 255_000, u32::MAX] {
        for lease_s in [1, 2, 3, 30, 255] {
            let believed = if waited_ms < 300 { waited_ms } else { 0 };
            let lease_ms = u32::min(lease_s, 3) * 1000;
            let margin = lease_ms / 20 + ((believed + lease_ms) / 1000).max(1);
            let latest = believed + lease_ms - margin - 300;
            // So much of it may have gone by until the program looks.
            let earliest = latest.saturating_sub(150);
            scenarios.push(parse(
                &format!("waited {waited_ms}, lease {lease_s}"),
                &format!(
                    r#"{{"do": "welcome", "on": "s1"}}, {{"do": "expect", "on": "s1", "frames": ["A 5 3 $o1 k"]}},
                    {{"do": "pause", "ms": 300}}, {{"do": "answer", "on": "s1", "frames": ["A $o1 7 {lease_s} {waited_ms}"]}},
                    {{"do": "expect", "on": "s1", "frames": ["R 7 k"]}}, {{"do": "answer", "on": "s1", "frames": ["R 7"]}}"#
                ),
                &format!(
                    r#"{{"do": "acquire", "call": "c1", "wait_ms": 5000, "lease_ms": 3000}},
                    {{"do": "outcome", "call": "c1", "is": "acquired 7"}},
                    {{"do": "valid", "call": "c1", "is": true, "for_ms": [{earliest}, {latest}]}},
                    {{"do": "release", "call": "c1", "is": "released"}}"#
                ),
            ));
        }
    }
    assert_none(&run_all(&scenarios, AT_A_TIME));
}

/// Answers about owners and tokens that the session never named, in every order around the true one.
#[test]
fn a_peer_that_lies_about_owners() {
    let lies = [
        "A 0x8000000000000001 9 30 0",
        "A 1 9 30 0",
        "A 0 9 30 0",
        "T 0x8000000000000001",
        "T 0",
        "B 0x8000000000000001 1",
        "X 2 0x8000000000000001 no",
        "X 2 9 no",
        "R 9",
        "N 9",
        "E 9 30",
        "P 0x8000000000000001",
        "Q 0x8000000000000001 1 1 1",
        "H 1 0x8000000000000001 id=2",
    ];
    let mut scenarios = Vec::new();
    for lie in lies {
        for (order, frames) in [
            ("before", format!(r#""{lie}", "A $o1 7 30 0""#)),
            ("after", format!(r#""A $o1 7 30 0", "{lie}""#)),
            ("between", format!(r#""T $o2", "{lie}", "A $o1 7 30 0""#)),
        ] {
            scenarios.push(parse(
                &format!("{lie} {order}"),
                &format!(
                    r#"{{"do": "welcome", "on": "s1"}},
                    {{"do": "expect", "on": "s1", "frames": ["A 5 30 $o1 k1", "A 5 30 $o2 k2"], "any_order": true}},
                    {{"do": "answer", "on": "s1", "frames": [{frames}]}}, {{"do": "expect_nothing", "ms": 100}},
                    {{"do": "answer", "on": "s1", "frames": ["T $o2"]}}, {{"do": "signal", "name": "quiet"}},
                    {{"do": "expect", "on": "s1", "frames": ["R 7 k1"]}}, {{"do": "answer", "on": "s1", "frames": ["R 7"]}}"#
                ),
                r#"{"do": "acquire", "call": "c1", "key": "k1", "wait_ms": 5000, "lease_ms": 30000},
                {"do": "acquire", "call": "c2", "key": "k2", "wait_ms": 5000, "lease_ms": 30000},
                {"do": "outcome", "call": "c1", "is": "acquired 7"}, {"do": "outcome", "call": "c2", "is": "timeout"},
                {"do": "await", "name": "quiet"}, {"do": "valid", "call": "c1", "is": true},
                {"do": "release", "call": "c1", "is": "released"}"#,
            ));
        }
    }
    assert_none(&run_all(&scenarios, AT_A_TIME));
}
