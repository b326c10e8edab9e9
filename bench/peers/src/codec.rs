//! Peers that speak a simple byte protocol: null, Redis, dflockd, Lockstead.
//! One codec each; one client loop for all of them.

mod dflockd;
mod lockstead;
mod null;
mod redis;

pub use dflockd::Dflockd;
pub use lockstead::Lockstead;
pub use null::Null;
pub use redis::{Redis, RedisMode};

pub enum Reply {
    Incomplete,
    Ok(usize),
    Denied(usize), // the lock is held by somebody else
    Err(usize, String),
}

pub trait Codec {
    /// Bytes to send once after connect, and how many replies they get.
    fn hello(&mut self, _out: &mut Vec<u8>) -> usize {
        0
    }
    fn acquire(&mut self, slot: usize, out: &mut Vec<u8>);
    fn release(&mut self, slot: usize, out: &mut Vec<u8>);
    fn parse(&mut self, buf: &[u8], slot: usize, acq: bool) -> Reply;
    /// Whether the first reply can be the one to this request; always, if replies come in the order of requests.
    fn answers(&self, _buf: &[u8], _slot: usize, _acq: bool) -> bool {
        true
    }
}
