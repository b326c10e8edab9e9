//! The client behind a proxy that delays, drops, cuts and swallows what goes through it.

use lockstead_client::{AcquireError, Client, IndeterminateCause, Lost, ReleaseOutcome, Ticket};
use lockstead_testkit::peer::Peer;
use lockstead_testkit::proxy::{Command, Direction, Proxy};
use lockstead_testkit::scenario::Scenario;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Only a hang takes longer.
const HANG: Duration = Duration::from_secs(30);

/// A peer with a script, behind one proxy for each of its addresses.
struct Network {
    peer: Peer,
    proxies: Vec<Proxy>,
    client: Client,
}

/// Starts them, and a client that is told the proxies' addresses.
fn network(servers: &[&str], script: &str) -> Network {
    let text = format!(r#"{{"name": "", "about": "", "rules": [], "peer": [{script}], "program": []}}"#);
    let script = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}")).peer;
    let names: Vec<String> = servers.iter().map(|name| (*name).to_owned()).collect();
    let peer = Peer::play(&names, script).expect("a socket can be opened");
    let proxies: Vec<Proxy> =
        peer.addresses().iter().map(|(_, to)| Proxy::start(*to).expect("a proxy starts")).collect();
    let builder = Client::builder().answer_allowance(Duration::from_millis(1_500));
    let builder =
        builder.servers(proxies.iter().map(|proxy| proxy.address().to_string())).expect("addresses");
    Network { peer, proxies, client: builder.connect().expect("the options are good") }
}

impl Network {
    fn apply(&self, line: &str) {
        self.proxies[0].apply(line.parse().expect("a command"));
    }

    fn swallow_everything(&self) {
        for direction in [Direction::Up, Direction::Down] {
            self.proxies[0].apply(Command::Blackhole(direction));
        }
    }

    async fn acquire(&self, wait_s: u64, lease_s: u64) -> Result<Ticket, AcquireError> {
        let acquire = self.client.acquire("k");
        let call = acquire.wait(Duration::from_secs(wait_s)).lease(Duration::from_secs(lease_s));
        timeout(HANG, call.into_future()).await.expect("a call does not hang")
    }

    /// Ends the client, then the proxies, and asks the peer what it thinks.
    async fn end(self) {
        timeout(HANG, self.client.shutdown()).await.expect("a shutdown does not hang");
        drop(self.proxies);
        let peer = self.peer;
        let verdict = tokio::task::spawn_blocking(move || peer.finish()).await.expect("no panic");
        assert!(verdict.passed(), "{}\n{}", verdict.faults.join("\n"), verdict.log.join("\n"));
    }
}

const GRANT_3_S: &str = r#"{"do": "welcome", "on": "s1"}, {"do": "expect", "on": "s1", "frames": ["A 5 3 $o1 k"]},
    {"do": "answer", "on": "s1", "frames": ["A $o1 7 3 0"]}"#;

/// P26: everything is swallowed during a 3 s lease; the ticket is lost before 3.0 s after the send, without traffic.
#[tokio::test]
async fn p26_a_blackhole_during_a_lease_is_told_in_time() {
    let network = network(&["a"], GRANT_3_S);
    let began = Instant::now();
    let ticket = network.acquire(5, 3).await.expect("granted");
    network.swallow_everything();
    ticket.keep_alive();
    let lost = timeout(HANG, ticket.lost()).await.expect("a ticket says that it is lost");
    assert_eq!(lost, Lost::Expired);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(!ticket.valid());
    network.proxies[0].apply(Command::Reset);
    network.end().await;
}

/// P27: one answer to a renewal vanishes. The next one goes out in time, and the lock is kept for longer than a lease.
#[tokio::test]
async fn p27_a_renewal_after_a_lost_answer() {
    let script = format!(
        r#"{GRANT_3_S}, {{"do": "expect", "on": "s1", "frames": ["E 3 7 k"]}}, {{"do": "answer", "on": "s1", "frames": ["E 7 3"]}},
        {{"do": "welcome", "on": "s2"}}, {{"do": "serve", "on": "s2", "acquires": "grant", "until": "over"}}"#
    );
    let network = network(&["a"], &script);
    let ticket = network.acquire(5, 3).await.expect("granted");
    network.apply("drop E");
    ticket.keep_alive();
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    assert!(ticket.valid() && ticket.valid_for() > Duration::from_millis(1_500), "{:?}", ticket.valid_for());
    assert_eq!(ticket.release().await, ReleaseOutcome::Released);
    network.peer.signals().signal("over");
    network.end().await;
}

/// P02: the answer is on its way for longer than its lease: no ticket, and the exact token is released.
#[tokio::test]
async fn p02_an_answer_delayed_beyond_its_lease() {
    let network = network(
        &["a"],
        r#"{"do": "welcome", "on": "s1"}, {"do": "signal", "name": "welcomed"},
        {"do": "expect", "on": "s1", "frames": ["A 0 30 $o1 k"]}, {"do": "answer", "on": "s1", "frames": ["T $o1"]},
        {"do": "expect", "on": "s1", "frames": ["A 5 1 $o2 k"]}, {"do": "answer", "on": "s1", "frames": ["A $o2 7 1 0"]},
        {"do": "expect", "on": "s1", "frames": ["R 7 k"]}, {"do": "answer", "on": "s1", "frames": ["N 7"]}"#,
    );
    assert_eq!(network.acquire(0, 30).await.expect_err("not free"), AcquireError::Timeout);
    network.apply("delay down 1200");
    let outcome = network.acquire(5, 1).await;
    assert_eq!(outcome.expect_err("too late"), AcquireError::Indeterminate(IndeterminateCause::TooLate));
    network.end().await;
}

/// A connection dies without a word while a call waits on it. It is pinged after 5 s, suspect a second later, so that
/// new calls take another, and closed 5 s after that: long before the wait of 60 s ends.
#[tokio::test]
async fn rule17_a_half_open_connection_is_found() {
    let network = network(
        &["a", "b"],
        r#"{"do": "welcome", "on": "s1"}, {"do": "expect", "on": "s1", "frames": ["A 60 30 $o1 k"]}, {"do": "signal", "name": "waiting"},
        {"do": "welcome", "on": "s2", "at": "b", "after_ms": [0, 9000]}, {"do": "expect", "on": "s2", "frames": ["A 5 30 $o2 k"]},
        {"do": "answer", "on": "s2", "frames": ["T $o2"]}"#,
    );
    let began = Instant::now();
    let waiting = network.acquire(60, 30);
    let later = async {
        let signals = network.peer.signals();
        let limit = Duration::from_secs(5);
        assert!(
            tokio::task::spawn_blocking(move || signals.await_signal("waiting", limit))
                .await
                .expect("no panic")
        );
        network.swallow_everything();
        tokio::time::sleep(Duration::from_millis(6_300)).await;
        let asked = Instant::now();
        assert_eq!(network.acquire(5, 30).await.expect_err("not free"), AcquireError::Timeout);
        assert!(asked.elapsed() < Duration::from_secs(1), "a new session is used: {:?}", asked.elapsed());
    };
    let (outcome, ()) = tokio::join!(waiting, later);
    assert_eq!(outcome.expect_err("it broke"), AcquireError::Indeterminate(IndeterminateCause::SessionBroke));
    let took = began.elapsed();
    assert!(took > Duration::from_secs(10) && took < Duration::from_secs(12), "{took:?}");
    network.end().await;
}

/// Requests are cut at every byte on their way: only a call of which a byte may have left is indeterminate.
#[tokio::test]
async fn requests_cut_at_every_byte() {
    // A hello without a text, and an acquire of the key k.
    let (hello, acquire) = (11, 13);
    let runs = (0..hello + acquire).flat_map(|bytes| ["close", "reset"].map(|how| (bytes, how)));
    let tasks: Vec<_> = runs.map(|(bytes, how)| tokio::spawn(cut_request(bytes, how, hello))).collect();
    for task in tasks {
        task.await.expect("a run passes");
    }
}

async fn cut_request(bytes: usize, how: &str, hello: usize) {
    let sent = bytes > hello;
    let first = match bytes.cmp(&hello) {
        std::cmp::Ordering::Less => r#"{"do": "accept", "on": "s1"}"#,
        // Whether the welcome still gets through does not matter: the acquire cannot.
        std::cmp::Ordering::Equal => {
            r#"{"do": "accept", "on": "s1"}, {"do": "expect", "on": "s1", "frames": ["H 1 $h1 "]}"#
        }
        std::cmp::Ordering::Greater => r#"{"do": "welcome", "on": "s1"}"#,
    };
    let owner = if sent { "$o2" } else { "$o1" };
    let script = format!(
        r#"{first}, {{"do": "welcome", "on": "s2"}}, {{"do": "expect", "on": "s2", "frames": ["A 5 30 {owner} k"]}},
        {{"do": "answer", "on": "s2", "frames": ["T {owner}"]}}"#
    );
    let network = network(&["a"], &script);
    network.apply(&format!("cut up {bytes} {how}"));
    let began = Instant::now();
    let mut outcome = network.acquire(5, 30).await.expect_err("never granted");
    if sent {
        let broke = AcquireError::Indeterminate(IndeterminateCause::SessionBroke);
        assert_eq!(outcome, broke, "{bytes} bytes, {how}");
        outcome = network.acquire(5, 30).await.expect_err("never granted");
    }
    assert_eq!(outcome, AcquireError::Timeout, "{bytes} bytes, {how}");
    assert!(began.elapsed() < Duration::from_secs(2), "{bytes} bytes, {how}: {:?}", began.elapsed());
    network.end().await;
}

/// Every byte travels by itself, both ways, and each takes its time.
#[tokio::test]
async fn bytes_that_travel_alone() {
    let network = network(
        &["a"],
        r#"{"do": "welcome", "on": "s1"}, {"do": "serve", "on": "s1", "acquires": "grant", "until": "over"}"#,
    );
    for line in ["split up", "split down", "delay up 20", "delay down 20"] {
        network.apply(line);
    }
    let ticket = network.acquire(5, 10).await.expect("granted");
    ticket.extend(Duration::from_secs(20)).await.expect("extended");
    assert!(ticket.valid_for() > Duration::from_secs(15));
    assert_eq!(ticket.release().await, ReleaseOutcome::Released);
    network.peer.signals().signal("over");
    network.end().await;
}
