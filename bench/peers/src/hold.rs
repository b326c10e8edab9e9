//! `peers hold`, W4: how much memory a held lock takes in the server.

use crate::clients::{key, tokens};
use crate::codec::{Codec, Dflockd, Lockstead, Redis, RedisMode, Reply};
use crate::etcd::EtcdTxn;
use crate::json::Line;
use crate::locker::{Locker, R, RawLocker};
use crate::postgres::PgConn;
use crate::usage::{pss_kib, status_kib, tree};
use crate::zookeeper::{self, Zk};
use std::any::Any;
use std::future::Future;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Requests that a raw peer gets in one write, and that a library peer works on at once.
const RAW_CHUNK: usize = 500;
const LIBRARY_CHUNK: usize = 256;

/// How long the server may settle before it is measured.
const SETTLE: Duration = Duration::from_secs(4);

/// Held locks, with the client that keeps them.
struct Filled {
    /// Memory before the first lock; the client had connected by then, unless it speaks a raw protocol.
    before: Memory,
    held: u64,
    took: Duration,
    _client: Box<dyn Any>,
}

/// KiB: RSS, its anonymous, file-backed and shared parts, and the PSS of all processes.
#[derive(Clone, Copy)]
struct Memory([u64; 5]);

impl Memory {
    fn of(pid: i32) -> Self {
        let kib = |name| status_kib(pid, name);
        let rss = [kib("VmRSS:"), kib("RssAnon:"), kib("RssFile:"), kib("RssShmem:")];
        Self([rss[0], rss[1], rss[2], rss[3], pss_kib(&tree(pid))])
    }
}

/// Arguments: PEER N PORT SERVER_PID.
pub async fn hold(a: &[String]) -> R<()> {
    let [peer, n, port, pid] = a else { return Err("hold: see the head of main.rs".into()) };
    let (n, port, pid): (usize, u16, i32) = (n.parse()?, port.parse()?, pid.parse()?);
    assert!(n <= 2_000_000, "bounded loads only");
    let tag = std::process::id().to_string();
    let keys: Vec<String> = (0..n).map(|i| key(&tag, 0, i)).collect();
    let filled = match peer.as_str() {
        "redis" => {
            let mk = |keys: Vec<String>| {
                let tokens = tokens(keys.len());
                Redis { tokens, keys, sha: String::new(), seq: 0, mode: RedisMode::SetNx, px: 600_000 }
            };
            raw(port, pid, mk, keys).await?
        }
        "dflockd" => {
            raw(port, pid, |keys| Dflockd { tokens: tokens(keys.len()), keys, ttl_s: 600 }, keys).await?
        }
        "lockstead" => {
            let mk =
                |keys: Vec<String>| Lockstead { tokens: vec![0; keys.len()], keys, wait_s: 0, lease_s: 255 };
            raw(port, pid, mk, keys).await?
        }
        "pg" => pg(port, pid, &keys).await?,
        "etcd" => etcd(port, pid, &keys).await?,
        "zk" => zk(port, pid, &tag, &keys).await?,
        p => return Err(format!("no hold for {p}").into()),
    };
    let at_once = Memory::of(pid);
    tokio::time::sleep(SETTLE).await;
    let after = Memory::of(pid);
    if let Ok(command) = std::env::var("HOLD_HOOK") {
        // e.g. ask a JVM for its live heap while the locks are held
        let out = Command::new("sh").arg("-c").arg(command).output()?;
        eprint!("{}", String::from_utf8_lossy(&out.stdout));
    }
    print(peer, &filled, at_once, after);
    Ok(())
}

/// The fields and their order are what the tables, and results of before, know.
fn print(peer: &str, filled: &Filled, at_once: Memory, after: Memory) {
    let before = filled.before;
    let per = |i: usize| (after.0[i] as f64 - before.0[i] as f64) * 1024.0 / filled.held as f64;
    Line::default()
        .text("peer", peer)
        .text("wl", "hold")
        .int("n", filled.held)
        .num("secs", filled.took.as_secs_f64(), 2)
        .int("rss_before", before.0[0])
        .int("rss_at_once", at_once.0[0])
        .int("rss_after", after.0[0])
        .num("b_rss", per(0), 1)
        .num("b_anon", per(1), 1)
        .num("b_file", per(2), 1)
        .num("b_shmem", per(3), 1)
        .num("b_pss", per(4), 1)
        .print();
}

async fn raw<C: Codec + 'static>(
    port: u16,
    pid: i32,
    mk: impl FnOnce(Vec<String>) -> C,
    keys: Vec<String>,
) -> R<Filled> {
    let before = Memory::of(pid);
    let t0 = Instant::now();
    let n = keys.len();
    let l = RawLocker::connect(&format!("127.0.0.1:{port}"), mk(keys), None).await?;
    let (mut s, mut c) = l.into_parts();
    let (mut out, mut buf) = (Vec::new(), Vec::<u8>::new());
    let mut i = 0;
    while i < n {
        let end = (i + RAW_CHUNK).min(n);
        for k in i..end {
            c.acquire(k, &mut out);
        }
        s.write_all(&out).await?;
        out.clear();
        let mut at = 0;
        while i < end {
            match c.parse(&buf[at..], i, true) {
                Reply::Incomplete => {
                    buf.drain(..at);
                    at = 0;
                    if s.read_buf(&mut buf).await? == 0 {
                        return Err("server closed".into());
                    }
                }
                Reply::Ok(m) => {
                    at += m;
                    i += 1;
                }
                Reply::Denied(_) => return Err("denied".into()),
                Reply::Err(_, e) => return Err(e.into()),
            }
        }
        buf.drain(..at);
    }
    Ok(Filled { before, held: n as u64, took: t0.elapsed(), _client: Box::new((s, c)) })
}

async fn pg(port: u16, pid: i32, keys: &[String]) -> R<Filled> {
    let c = PgConn::connect(port).await?;
    let before = Memory::of(pid);
    let t0 = Instant::now();
    // All in one statement: at the end of each transaction a backend walks all the
    // locks its session holds, so one statement a lock is quadratic (100,000 took over 5 minutes).
    let q = "select count(*) filter (where pg_try_advisory_lock(hashtextextended(k,0))) from unnest($1::text[]) k";
    let held = c.c.query_one(q, &[&keys]).await?.get::<_, i64>(0) as u64;
    Ok(Filled { before, held, took: t0.elapsed(), _client: Box::new(c) })
}

async fn etcd(port: u16, pid: i32, keys: &[String]) -> R<Filled> {
    let mut c = etcd_client::Client::connect([format!("127.0.0.1:{port}")], None).await?;
    let lease = c.lease_grant(600, None).await?.id();
    let before = Memory::of(pid);
    let t0 = Instant::now();
    let held = in_chunks(keys, |key| {
        let mut l = EtcdTxn::new(&c, key.clone(), lease);
        async move { l.acquire().await }
    })
    .await?;
    Ok(Filled { before, held, took: t0.elapsed(), _client: Box::new(c) })
}

async fn zk(port: u16, pid: i32, tag: &str, keys: &[String]) -> R<Filled> {
    let c = zookeeper::connect(port).await?;
    let dir = format!("/m{tag}");
    zookeeper::make_dir(&c, &dir).await?;
    let before = Memory::of(pid);
    let t0 = Instant::now();
    let held = in_chunks(keys, |key| {
        let mut l =
            Zk { c: c.clone(), path: format!("{dir}/{key}"), dir: String::new(), mine: String::new() };
        async move { l.acquire().await }
    })
    .await?;
    Ok(Filled { before, held, took: t0.elapsed(), _client: Box::new(c) })
}

/// How many of the keys were acquired.
async fn in_chunks<F: Future<Output = R<bool>>>(keys: &[String], acquire: impl Fn(&String) -> F) -> R<u64> {
    let mut held = 0;
    for chunk in keys.chunks(LIBRARY_CHUNK) {
        for got in futures::future::join_all(chunk.iter().map(&acquire)).await {
            held += u64::from(got?);
        }
    }
    Ok(held)
}
