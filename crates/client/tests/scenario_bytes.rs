//! Rule 6 to the byte: exactly the calls of which the kernel accepted a byte are possibly sent.

use lockstead_client::{AcquireError, Client, IndeterminateCause};
use lockstead_testkit::peer::Peer;
use lockstead_testkit::scenario::Scenario;
use std::time::Duration;
use tokio::time::timeout;

/// More calls than the kernel's buffers take.
const CALLS: usize = 6_000;

/// Only a hang takes longer.
const HANG: Duration = Duration::from_secs(60);

/// The peer reads nothing, and ends its side. The client closes, so all that its kernel had accepted can be read then:
/// the whole requests among it, and the one that was cut, are the calls that end as indeterminate. All others are
/// answered on the next session.
const SCRIPT: &str = r#"{"name": "", "about": "", "rules": [6], "program": [], "peer": [
    {"do": "small_buffers"}, {"do": "welcome", "on": "s1"}, {"do": "stop_reading", "on": "s1"},
    {"do": "pause", "ms": 500}, {"do": "close", "on": "s1"}, {"do": "pause", "ms": 100}, {"do": "read_on", "on": "s1"},
    {"do": "welcome", "on": "s2"}, {"do": "serve", "on": "s2", "acquires": "timeout", "until": "over"}]}"#;

#[tokio::test]
async fn rule06_exactly_the_accepted_bytes_are_sent() {
    let script = Scenario::parse(SCRIPT).expect("a scenario").peer;
    let peer = Peer::play(&["a".to_owned()], script).expect("a socket can be opened");
    let address = peer.addresses()[0].1.to_string();
    let client = Client::builder().server(&address).expect("an address").connect().expect("good options");
    let key = "k".repeat(1_000);
    let calls: Vec<_> = (0..CALLS)
        .map(|_| client.acquire(key.clone()).wait(Duration::from_secs(20)).into_future())
        .map(tokio::spawn)
        .collect();
    let (mut unknown, mut answered) = (0, 0);
    for call in calls {
        let call = timeout(HANG, call).await.expect("a call does not hang");
        match call.expect("no panic").expect_err("never granted") {
            AcquireError::Indeterminate(IndeterminateCause::SessionBroke) => {
                assert_eq!(answered, 0, "calls are sent in their order");
                unknown += 1;
            }
            AcquireError::Timeout => answered += 1,
            other => panic!("{other}"),
        }
    }
    assert!(unknown > 0 && answered > 0, "the kernel took {unknown} of {CALLS}");
    peer.signals().signal("over");
    timeout(HANG, client.shutdown()).await.expect("a shutdown does not hang");
    let verdict = tokio::task::spawn_blocking(|| peer.finish()).await.expect("no panic");
    // The script expects none of the first session's requests, so each whole one is in the verdict; a second send of an
    // owner would be there too.
    let arrived = verdict.faults.iter().filter(|fault| fault.starts_with("s1: nobody expected `A ")).count();
    assert_eq!(verdict.faults.len(), arrived, "{:?}", verdict.faults.last());
    assert!(
        arrived <= unknown && unknown <= arrived + 1,
        "{arrived} arrived whole, {unknown} are indeterminate"
    );
}
