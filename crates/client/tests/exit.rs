//! A process that ends in an ordinary way flushes the releases of dropped tickets, for a bounded time
//! (docs/client-contract.md, rule 15).
//!
//! Each test runs this program once more, as a user's program that ends at once. So it has a harness of its own.

// These are tests: what must not happen may panic.
#![allow(clippy::unwrap_used)]

#[path = "it/peer.rs"]
#[allow(dead_code)]
mod peer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use lockstead_client::{Client, blocking};
use lockstead_proto::{Answer, Released};
use peer::{Connection, Peer, grant};

/// The names of the tests and of the programs that they watch.
const TESTS: [(&str, fn()); 5] = [
    ("rule15_a_blocking_client_flushes_when_main_returns", blocking_static),
    ("rule15_a_program_that_calls_exit_inside_its_runtime_flushes", exit_inside),
    ("rule15_a_runtime_that_never_ends_is_no_hindrance", leaked_runtime),
    ("rule15_a_mute_server_holds_the_end_up_for_a_bounded_time", mute_server),
    ("rule15_a_ticket_in_use_is_not_released_by_the_end_of_the_process", ticket_in_use),
];

/// A program that was told where the server is.
const PROGRAM: &str = "--program";

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, name, address] = &args[..]
        && flag == PROGRAM
    {
        return program(name, address);
    }
    let filter = args.iter().skip(1).find(|arg| !arg.starts_with('-'));
    let chosen = |name: &str| filter.is_none_or(|filter| name.contains(filter.as_str()));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in TESTS.into_iter().filter(|(name, _)| chosen(name)) {
        let ok = catch_unwind(AssertUnwindSafe(test)).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        if ok { passed += 1 } else { failed += 1 }
    }
    let filtered = TESTS.len() - passed - failed;
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {filtered} filtered out"
    );
    std::process::exit(i32::from(failed > 0));
}

/// What the programs do: they take the lock, drop the ticket, and end.
fn program(name: &str, address: &str) {
    match name {
        "blocking_static" => {
            static CLIENT: OnceLock<blocking::Client> = OnceLock::new();
            let client = CLIENT.get_or_init(|| blocking_client(address));
            drop(client.acquire("k").call().unwrap());
        }
        "exit_inside" => current_thread().block_on(async {
            drop(async_client(address).acquire("k").await.unwrap());
            std::process::exit(0);
        }),
        "leaked_runtime" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            let client = runtime.block_on(async {
                let client = async_client(address);
                drop(client.acquire("k").await.unwrap());
                client
            });
            std::mem::forget((runtime, client));
        }
        "ticket_in_use" => {
            let ticket = blocking_client(address).acquire("k").call().unwrap();
            std::mem::forget(ticket);
        }
        other => panic!("there is no program {other}"),
    }
}

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn async_client(address: &str) -> Client {
    Client::builder().server(address).unwrap().connect().unwrap()
}

fn blocking_client(address: &str) -> blocking::Client {
    blocking::Client::builder().server(address).unwrap().connect().unwrap()
}

/// Starts a program, and grants it its lock.
fn start(name: &str) -> (Child, Connection) {
    let peer = Peer::new();
    let myself = std::env::current_exe().unwrap();
    let child = Command::new(myself).args([PROGRAM, name, &peer.address.to_string()]).spawn().unwrap();
    let mut connection = peer.welcome();
    let owner = connection.expect_acquire();
    connection.answer(grant(owner, 41, 30));
    (child, connection)
}

/// The program releases its lock, waits for the answer, and ends well.
fn releases_and_ends(name: &str) {
    let (mut child, mut connection) = start(name);
    assert_eq!(connection.expect_release(), 41);
    thread::sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none(), "it waits for the answer");
    connection.answer(Answer::Released(Released { token: 41 }));
    assert!(child.wait().unwrap().success());
    assert!(connection.next(|request| panic!("{request:?}")).is_none());
}

fn blocking_static() {
    releases_and_ends("blocking_static");
}

fn exit_inside() {
    releases_and_ends("exit_inside");
}

fn leaked_runtime() {
    releases_and_ends("leaked_runtime");
}

fn mute_server() {
    let (mut child, mut connection) = start("blocking_static");
    assert_eq!(connection.expect_release(), 41);
    let start = Instant::now();
    assert!(child.wait().unwrap().success());
    let took = start.elapsed();
    assert!(took > Duration::from_millis(500) && took < Duration::from_secs(3), "{took:?}");
}

fn ticket_in_use() {
    let (mut child, mut connection) = start("ticket_in_use");
    assert!(connection.next(|request| panic!("{request:?}")).is_none());
    assert!(child.wait().unwrap().success());
}
