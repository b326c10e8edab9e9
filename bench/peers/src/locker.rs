//! The face that all peers have for the workloads, and how the raw-protocol peers get it.

use crate::codec::{Codec, Reply};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub type R<T> = Result<T, Box<dyn std::error::Error>>;

#[allow(async_fn_in_trait)]
pub trait Locker {
    /// Uncontended try. false: denied.
    async fn acquire(&mut self) -> R<bool>;
    /// Wait for the lock in the peer's own best way.
    async fn acquire_wait(&mut self) -> R<()>;
    /// false: it was not ours.
    async fn release(&mut self) -> R<bool>;
}

/// A client of a peer that [`Codec`] speaks to: one request at a time.
pub struct RawLocker<C> {
    s: TcpStream,
    pub c: C,
    buf: Vec<u8>,
    out: Vec<u8>,
    pub poll: Option<Duration>,
}
impl<C: Codec> RawLocker<C> {
    pub async fn connect(addr: &str, c: C, poll: Option<Duration>) -> R<Self> {
        let s = TcpStream::connect(addr).await?;
        s.set_nodelay(true)?;
        let mut l = RawLocker { s, c, buf: Vec::with_capacity(4096), out: Vec::new(), poll };
        let n = l.c.hello(&mut l.out);
        for _ in 0..n {
            l.call(false).await?;
        }
        Ok(l)
    }
    async fn call(&mut self, acq: bool) -> R<bool> {
        self.s.write_all(&self.out).await?;
        self.out.clear();
        loop {
            match self.c.parse(&self.buf, 0, acq) {
                Reply::Incomplete => {
                    if self.s.read_buf(&mut self.buf).await? == 0 {
                        return Err("server closed".into());
                    }
                }
                Reply::Ok(n) => {
                    self.buf.drain(..n);
                    return Ok(true);
                }
                Reply::Denied(n) => {
                    self.buf.drain(..n);
                    return Ok(false);
                }
                Reply::Err(n, e) => {
                    self.buf.drain(..n);
                    return Err(e.into());
                }
            }
        }
    }
    pub fn into_parts(self) -> (TcpStream, C) {
        (self.s, self.c)
    }
}
impl<C: Codec> Locker for RawLocker<C> {
    async fn acquire(&mut self) -> R<bool> {
        self.c.acquire(0, &mut self.out);
        self.call(true).await
    }
    async fn acquire_wait(&mut self) -> R<()> {
        loop {
            if self.acquire().await? {
                return Ok(());
            }
            match self.poll {
                Some(d) => tokio::time::sleep(d).await,
                None => return Err("denied".into()),
            }
        }
    }
    async fn release(&mut self) -> R<bool> {
        self.c.release(0, &mut self.out);
        self.call(false).await
    }
}
