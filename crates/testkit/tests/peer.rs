//! The scripted peer judges clients that are written by hand here: one that keeps to the script, and the faults that it
//! must find.

use lockstead_testkit::peer::{Peer, Step, Verdict};
use lockstead_testkit::scenario::Scenario;
use lockstead_testkit::{Address, Raw, frame};
use std::time::{Duration, Instant};

/// Ids that clients draw have this bit.
const DRAWN: u64 = 1 << 63;

fn script(steps: &str) -> Vec<Step> {
    let text = format!(r#"{{"name": "", "about": "", "rules": [], "peer": [{steps}], "program": []}}"#);
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}")).peer
}

fn play(steps: &str) -> Peer {
    Peer::play(&["a".to_owned()], script(steps)).expect("a socket can be opened")
}

fn connect(peer: &Peer) -> Raw {
    Raw::connect(&Address::Tcp(peer.addresses()[0].1))
}

/// Connects, says hello and reads the welcome.
fn greet(peer: &Peer) -> Raw {
    let mut client = connect(peer);
    client.send(&frame::hello(1, DRAWN | 1, "name=x"));
    client.next("the welcome");
    client
}

fn the_fault(verdict: &Verdict) -> &str {
    assert_eq!(verdict.faults.len(), 1, "{verdict:?}");
    &verdict.faults[0]
}

const WELCOME: &str = r#"{"do": "welcome", "on": "s1"}"#;
const ACQUIRE: &str =
    r#"{"do": "welcome", "on": "s1"}, {"do": "expect", "on": "s1", "frames": ["A 5 30 $o1 k"]}"#;

#[test]
fn a_client_that_keeps_to_the_script_passes() {
    let peer = play(&format!(
        r#"{ACQUIRE}, {{"do": "answer", "on": "s1", "frames": ["A $o1 7 30 0"], "cuts": [1, 5, 22]}},
        {{"do": "signal", "name": "granted"}}, {{"do": "await", "name": "going on"}},
        {{"do": "expect", "on": "s1", "frames": ["R 7 k", "C $o1 k"], "any_order": true}},
        {{"do": "answer", "on": "s1", "frames": ["R 7"]}}, {{"do": "expect_close", "on": "s1", "by": "close"}}"#
    ));
    let mut client = greet(&peer);
    client.send(&frame::acquire(5, 30, DRAWN | 2, "k"));
    client.granted(DRAWN | 2, Instant::now() - Duration::from_secs(1), Duration::from_secs(5), "the grant");
    assert!(peer.signals().await_signal("granted", Duration::from_secs(5)));
    peer.signals().signal("going on");
    client.send(&frame::cancel(DRAWN | 2, "k"));
    client.release(7, "k");
    drop(client);
    let verdict = peer.finish();
    assert!(verdict.passed(), "{verdict:?}");
}

#[test]
fn canary_a_second_send_of_an_owner_is_found_on_any_connection() {
    let peer = play(&format!(
        r#"{ACQUIRE}, {{"do": "reset", "on": "s1"}}, {{"do": "welcome", "on": "s2"}},
        {{"do": "expect", "on": "s2", "frames": ["A 5 30 $o1 k"]}}"#
    ));
    let mut client = greet(&peer);
    client.send(&frame::acquire(5, 30, DRAWN | 2, "k"));
    let mut client = connect(&peer);
    client.send(&frame::hello(1, DRAWN | 3, ""));
    client.next("the welcome");
    client.send(&frame::acquire(5, 30, DRAWN | 2, "k"));
    drop(client);
    let verdict = peer.finish();
    assert!(the_fault(&verdict).contains("was sent on s1 and again on s2"), "{verdict:?}");
}

#[test]
fn canary_an_unexpected_frame_is_found_after_the_script_too() {
    let peer = play(WELCOME);
    let mut client = greet(&peer);
    client.send(&frame::release(7, "k"));
    drop(client);
    assert_eq!(the_fault(&peer.finish()), "s1: nobody expected `R 7 k`");
}

#[test]
fn canary_other_bytes_than_expected_are_found() {
    for wrong in [
        frame::acquire(4, 30, DRAWN | 2, "k"),
        frame::acquire(5, 31, DRAWN | 2, "k"),
        frame::acquire(5, 30, 2, "k"),
        frame::acquire(5, 30, DRAWN | 1, "k"),
        frame::acquire(5, 30, DRAWN | 2, "K"),
        frame::release(7, "k"),
    ] {
        let peer = play(ACQUIRE);
        let mut client = greet(&peer);
        client.send(&wrong);
        drop(client);
        let verdict = peer.finish();
        assert!(the_fault(&verdict).contains("came instead"), "{wrong:?}: {verdict:?}");
    }
}

#[test]
fn canary_the_wrong_end_is_found() {
    let script = |by: &str| format!(r#"{WELCOME}, {{"do": "expect_close", "on": "s1", "by": "{by}"}}"#);
    for (by, resets, passes) in [
        ("close", false, true),
        ("close", true, false),
        ("reset", true, true),
        ("reset", false, false),
        ("either", true, true),
        ("either", false, true),
    ] {
        let peer = play(&script(by));
        let client = greet(&peer);
        if resets {
            client.reset()
        } else {
            drop(client)
        }
        let verdict = peer.finish();
        assert_eq!(verdict.passed(), passes, "{by}, reset: {resets}: {verdict:?}");
    }
}

#[test]
fn canary_words_before_the_welcome_are_found() {
    let peer = play("");
    let mut client = connect(&peer);
    client.send(&frame::hello(1, DRAWN | 1, ""));
    client.send(&frame::ping(DRAWN | 2));
    drop(client);
    let verdict = peer.finish();
    assert!(the_fault(&verdict).starts_with("a: before the welcome: `P "), "{verdict:?}");
}

#[test]
fn canary_a_connection_left_open_is_found() {
    let peer = play(WELCOME);
    let client = greet(&peer);
    let verdict = peer.finish();
    assert_eq!(the_fault(&verdict), "s1 is still open after the client has ended");
    drop(client);
}

#[test]
fn canary_what_comes_too_early_or_too_late_is_found() {
    for (after_ms, passes) in
        [("[0, 3000]", true), ("[150, 3000]", true), ("[2000, 3000]", false), ("[0, 20]", false)]
    {
        let peer = play(&format!(
            r#"{WELCOME}, {{"do": "expect", "on": "s1", "frames": ["P $p"], "after_ms": {after_ms}}}"#
        ));
        let mut client = greet(&peer);
        std::thread::sleep(Duration::from_millis(200));
        // A peer that has waited long enough has reset the connection.
        let _ = client.try_send(&frame::ping(DRAWN | 2), Duration::from_secs(1));
        drop(client);
        let verdict = peer.finish();
        assert_eq!(verdict.passed(), passes, "{after_ms}: {verdict:?}");
    }
}

#[test]
fn canary_what_comes_while_nothing_may_is_found() {
    let peer = play(&format!(r#"{WELCOME}, {{"do": "expect_nothing", "ms": 3000}}"#));
    let mut client = greet(&peer);
    client.send(&frame::ping(DRAWN | 2));
    let verdict = peer.finish();
    assert!(the_fault(&verdict).contains("on s1 came `P "), "{verdict:?}");
}

#[test]
fn an_address_goes_away_and_comes_back_at_the_same_port() {
    let peer = play(
        r#"{"do": "refuse"}, {"do": "await", "name": "refused"}, {"do": "listen"}, {"do": "signal", "name": "back"},
        {"do": "welcome", "on": "s1"}"#,
    );
    let address = Address::Tcp(peer.addresses()[0].1);
    let refused = Raw::try_connect(&address).expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    peer.signals().signal("refused");
    assert!(peer.signals().await_signal("back", Duration::from_secs(5)));
    drop(greet(&peer));
    let verdict = peer.finish();
    assert!(verdict.passed(), "{verdict:?}");
}

#[test]
fn a_peer_that_stops_reading_lets_the_client_send_little() {
    let peer = play(&format!(
        r#"{{"do": "small_buffers"}}, {WELCOME}, {{"do": "stop_reading", "on": "s1"}}, {{"do": "await", "name": "full"}},
        {{"do": "read_on", "on": "s1"}}, {{"do": "serve", "on": "s1", "acquires": "timeout", "until": "over"}}"#
    ));
    let mut client = greet(&peer);
    let (key, mut sent) = ("k".repeat(1000), 0);
    // Far more than the buffers of both sides hold.
    while sent < 20_000 {
        let acquire = frame::acquire(5, 30, DRAWN | (2 + sent), &key);
        if client.try_send(&acquire, Duration::from_millis(200)).is_err() {
            break;
        }
        sent += 1;
    }
    assert!(sent < 20_000, "the client could send everything");
    peer.signals().signal("full");
    for _ in 0..sent {
        client.next("a timeout");
    }
    peer.signals().signal("over");
    drop(client);
    let verdict = peer.finish();
    assert!(verdict.passed(), "{:?}", verdict.faults);
}

#[test]
fn half_an_answer_and_a_reset() {
    let peer = play(&format!(
        r#"{ACQUIRE}, {{"do": "answer", "on": "s1", "frames": ["A $o1 7 30 0"], "first_bytes": 9}},
        {{"do": "reset", "on": "s1"}}"#
    ));
    let mut client = greet(&peer);
    client.send(&frame::acquire(5, 30, DRAWN | 2, "k"));
    client.expect_bytes(&[&b"A"[..], &(DRAWN | 2).to_be_bytes()].concat(), "the first bytes of the grant");
    assert_eq!(client.event(Duration::from_secs(5)), lockstead_testkit::Event::Reset);
    assert!(peer.finish().passed());
}

#[test]
fn a_program_that_ends_early_does_not_hang_the_peer() {
    let began = Instant::now();
    let verdict = play(r#"{"do": "await", "name": "never"}"#).finish();
    assert!(the_fault(&verdict).contains("has not said never"), "{verdict:?}");
    assert!(began.elapsed() < Duration::from_secs(5));
}
