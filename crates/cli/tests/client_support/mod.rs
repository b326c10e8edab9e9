//! A real server and clients of it.

#![allow(dead_code)]

use lockstead_client::{Client, KeyState, Ticket};
use lockstead_testkit::proxy::{Command, Direction, Proxy};
use lockstead_testkit::{Address, Server};
use std::time::{Duration, Instant};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
pub const SECOND: Duration = Duration::from_secs(1);

/// What a hand-over may take on a busy machine.
pub const AT_ONCE: Duration = Duration::from_millis(500);

/// Longer than anything here takes; who waits so long has failed.
const LONG: Duration = Duration::from_secs(20);

/// A server on a TCP port.
pub fn server() -> Server {
    Server::start(PROGRAM, &[])
}

/// A client that finds its server at `address`.
pub fn client_at(address: &str) -> Client {
    let builder = Client::builder().server(address).expect("an address");
    builder.connect().expect("the options are good")
}

pub fn client(server: &Server) -> Client {
    client_at(&server.address().to_string())
}

/// A proxy before a server, and a client behind it.
pub fn behind_proxy(server: &Server) -> (Proxy, Client) {
    let Address::Tcp(address) = server.address() else {
        panic!("a proxy relays TCP");
    };
    let proxy = Proxy::start(*address).expect("a proxy starts");
    let client = client_at(&proxy.address().to_string());
    (proxy, client)
}

/// From now on nothing reaches the server, and nothing comes from it.
pub fn swallow_everything(proxy: &Proxy) {
    for direction in [Direction::Up, Direction::Down] {
        proxy.apply(Command::Blackhole(direction));
    }
}

pub async fn take(client: &Client, key: &str, wait_s: u32, lease_s: u32) -> Ticket {
    let acquire = client.acquire(key).wait(wait_s * SECOND).lease(lease_s * SECOND);
    acquire.await.expect("granted")
}

/// Waits until so many attempts queue for `key`.
pub async fn until_queued(client: &Client, key: &str, waiters: u32) {
    let start = Instant::now();
    while client.query(key).await.expect("a query is answered").waiters != waiters {
        assert!(start.elapsed() < LONG, "there are not {waiters} waiters for {key}");
    }
}

/// Whether somebody holds `key`.
pub async fn held(client: &Client, key: &str) -> bool {
    client.query(key).await.expect("a query is answered").state == KeyState::Held
}

/// Waits until nobody holds `key`.
pub async fn until_free(client: &Client, key: &str) {
    let start = Instant::now();
    while held(client, key).await {
        assert!(start.elapsed() < LONG, "{key} does not become free");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
