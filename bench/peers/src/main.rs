//! Load generator for lock servers: the same workloads against each peer.
//!   peers serve tokio2|tokio1|epoll|uring PORT
//!   peers run PEER WORKLOAD CONNS DEPTH WARM_S SECS PORT SERVER_PID
//!       PEER: null redis redis-baton etcd etcd-v3lock pg dflockd zk lockstead
//!       WORKLOAD: pairs (W1 with DEPTH 1, W2 with more) | handoff, handoff1, free (W3) | verify
//!   peers hold PEER N PORT SERVER_PID                                   (W4)
//!   peers scale WHAT … PORT SERVER_PID                                  (see the head of scale.rs)
//!   peers fsync DIR
//! Prints one JSON object. Only ever connects to 127.0.0.1.

mod clients;
mod codec;
mod etcd;
mod frames;
mod fsync;
mod handoff;
mod hold;
mod json;
mod locker;
mod null;
mod pairs;
mod postgres;
mod run;
mod scale;
mod tally;
mod usage;
mod zookeeper;

use locker::R;
use std::future::Future;
use tokio::task::LocalSet;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((command, rest)) => match command.as_str() {
            "serve" => serve(rest),
            "run" => block_on(run::run(rest)),
            "hold" => block_on(LocalSet::new().run_until(hold::hold(rest))),
            "scale" => scale::scale(rest),
            "fsync" => fsync::fsync(rest),
            _ => Err("see the head of main.rs".into()),
        },
        None => Err("see the head of main.rs".into()),
    };
    if let Err(e) = done {
        eprintln!("peers: {e}");
        std::process::exit(1);
    }
    std::process::exit(0); // do not wait for stray connections
}

fn block_on<T>(doing: impl Future<Output = R<T>>) -> R<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(doing)
}

fn serve(a: &[String]) -> R<()> {
    let [how, port] = a else { return Err("serve: see the head of main.rs".into()) };
    let port: u16 = port.parse()?;
    match how.as_str() {
        "tokio2" => null::tokio_server(2, port)?,
        "tokio1" => null::tokio_server(0, port)?,
        "uring" => null::uring_server(port)?,
        "epoll" => null::epoll_server(port)?,
        _ => return Err(format!("no server {how}").into()),
    }
    Ok(())
}
