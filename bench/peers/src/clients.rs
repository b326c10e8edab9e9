//! One run's clients: connects as many as were asked for, and sets each to its workload.

use crate::codec::{Codec, Dflockd, Lockstead, Null, Redis, RedisMode};
use crate::etcd::{EtcdLock, EtcdTxn};
use crate::handoff::{self, Rule};
use crate::locker::{Locker, R, RawLocker};
use crate::pairs;
use crate::postgres::{Pg, PgConn};
use crate::tally::Tally;
use crate::zookeeper::{self, Zk};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::LocalSet;

/// What to run against what.
pub struct Run {
    pub peer: String,
    pub workload: String,
    pub conns: usize,
    pub depth: usize,
    pub port: u16,
    /// Makes the keys of this run its own.
    pub tag: String,
    /// [`KEY_LEN`], more, or 1: then there are at most 94 keys.
    pub key_len: usize,
}

/// Bytes of a key, unless a workload is about their number.
pub const KEY_LEN: usize = 32;

/// A key of [`KEY_LEN`] bytes.
pub fn key(tag: &str, conn: usize, slot: usize) -> String {
    let k = format!("lock:{tag:0>11}:{conn:07}:{slot:07}");
    assert_eq!(k.len(), KEY_LEN);
    k
}

/// Room for the tokens of this many keys.
pub fn tokens(n: usize) -> Vec<String> {
    vec![String::with_capacity(64); n]
}

impl Run {
    pub fn rule(&self) -> Option<Rule> {
        Rule::of(&self.workload, self.conns)
    }

    fn key(&self, conn: usize, slot: usize) -> String {
        if self.rule().is_some() {
            return key(&self.tag, 0, 0);
        }
        if self.key_len == 1 {
            let printable = u8::try_from(conn * self.depth + slot).ok().filter(|&i| i < 94);
            return char::from(b'!' + printable.expect("there are 94 keys of one byte")).into();
        }
        format!("{:x>1$}", key(&self.tag, conn, slot), self.key_len)
    }

    /// Connects the clients, and lets them begin.
    pub async fn start(&self, ls: &LocalSet, tally: &Rc<Tally>) -> R<()> {
        match self.peer.as_str() {
            "null" => self.raw(ls, tally, |_| Null, None).await,
            "redis" => self.redis(ls, tally).await,
            "redis-baton" => self.redis_baton(ls, tally).await,
            "dflockd" => {
                let mk = |keys: Vec<String>| Dflockd { tokens: tokens(keys.len()), keys, ttl_s: 30 };
                self.raw(ls, tally, mk, None).await
            }
            "lockstead" => {
                let wait_s = if self.rule().is_some() { 255 } else { 0 };
                let mk =
                    |keys: Vec<String>| Lockstead { tokens: vec![0; keys.len()], keys, wait_s, lease_s: 30 };
                self.raw(ls, tally, mk, None).await
            }
            "etcd" | "etcd-v3lock" => self.etcd(ls, tally).await,
            "pg" => self.pg(ls, tally).await,
            "zk" => self.zk(ls, tally).await,
            p => Err(format!("no peer {p}").into()),
        }
    }

    async fn raw<C: Codec + 'static>(
        &self,
        ls: &LocalSet,
        tally: &Rc<Tally>,
        mk: impl Fn(Vec<String>) -> C,
        poll: Option<Duration>,
    ) -> R<()> {
        let addr = format!("127.0.0.1:{}", self.port);
        for i in 0..self.conns {
            let keys = (0..self.depth).map(|s| self.key(i, s)).collect();
            let l = RawLocker::connect(&addr, mk(keys), poll).await?;
            if self.rule().is_none() && self.depth > 1 {
                ls.spawn_local(pairs::window(l, self.depth, tally.clone()));
            } else {
                self.go(ls, tally, i, l);
            }
        }
        Ok(())
    }

    fn go<L: Locker + 'static>(&self, ls: &LocalSet, tally: &Rc<Tally>, i: usize, l: L) {
        if let Some(r) = self.rule() {
            ls.spawn_local(handoff::contender(i, l, tally.clone(), r));
        } else {
            ls.spawn_local(pairs::one_at_a_time(l, tally.clone()));
        }
    }

    async fn redis(&self, ls: &LocalSet, tally: &Rc<Tally>) -> R<()> {
        let n = Cell::new(0u64);
        let mk = |keys: Vec<String>| {
            n.set(n.get() + 1);
            let (tokens, sha, seq) = (tokens(keys.len()), String::new(), n.get() << 40);
            Redis { tokens, keys, sha, seq, mode: RedisMode::SetNx, px: 30000 }
        };
        self.raw(ls, tally, mk, Some(Duration::from_millis(10))).await
    }

    async fn redis_baton(&self, ls: &LocalSet, tally: &Rc<Tally>) -> R<()> {
        let addr = format!("127.0.0.1:{}", self.port);
        let mk = |keys: Vec<String>| {
            let tokens = tokens(keys.len());
            Redis { tokens, keys, sha: String::new(), seq: 0, mode: RedisMode::Baton, px: 0 }
        };
        let mut l = RawLocker::connect(&addr, mk(vec![self.key(0, 0)]), None).await?;
        l.release().await?; // put the one baton in
        self.raw(ls, tally, mk, None).await
    }

    async fn etcd(&self, ls: &LocalSet, tally: &Rc<Tally>) -> R<()> {
        for i in 0..self.conns {
            let mut c = etcd_client::Client::connect([format!("127.0.0.1:{}", self.port)], None).await?;
            let lease = c.lease_grant(300, None).await?.id();
            for s in 0..self.depth {
                let k = self.key(i, s);
                if self.peer == "etcd" {
                    self.go(ls, tally, i, EtcdTxn::new(&c, k, lease));
                } else {
                    self.go(ls, tally, i, EtcdLock { c: c.lock_client(), name: k, lease, held: vec![] });
                }
            }
            std::mem::forget(c);
        }
        Ok(())
    }

    async fn pg(&self, ls: &LocalSet, tally: &Rc<Tally>) -> R<()> {
        for i in 0..self.conns {
            let c = PgConn::connect(self.port).await?;
            for s in 0..self.depth {
                self.go(ls, tally, i, Pg { c: c.clone(), key: self.key(i, s) });
            }
        }
        Ok(())
    }

    async fn zk(&self, ls: &LocalSet, tally: &Rc<Tally>) -> R<()> {
        let dir = format!("/h{}", self.tag);
        for i in 0..self.conns {
            let c = zookeeper::connect(self.port).await?;
            if i == 0 {
                zookeeper::make_dir(&c, &dir).await?;
            }
            for s in 0..self.depth {
                let path = format!("{dir}/{}", self.key(i, s));
                self.go(ls, tally, i, Zk { c: c.clone(), path, dir: dir.clone(), mine: String::new() });
            }
        }
        Ok(())
    }
}
