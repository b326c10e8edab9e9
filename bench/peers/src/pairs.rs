//! W1 and W2: acquire and release without contention.

use crate::codec::{Codec, Reply};
use crate::locker::{Locker, RawLocker};
use crate::tally::{Tally, bump};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// W1, and W2 for the library peers (DEPTH of these share one connection).
pub async fn one_at_a_time<L: Locker>(mut l: L, tally: Rc<Tally>) {
    while !tally.stop.get() {
        let t0 = Instant::now();
        match l.acquire().await {
            Ok(true) => tally.lat(t0.elapsed()),
            Ok(false) => {
                bump(&tally.denied);
                continue;
            }
            Err(e) => {
                tally.fail(e);
                if tally.is_hopeless() {
                    return;
                }
                continue;
            }
        }
        match l.release().await {
            Ok(true) => bump(&tally.pairs),
            Ok(false) => tally.fail("release: not ours"),
            Err(e) => tally.fail(e),
        }
    }
}

/// A request of the window that is not sent yet.
#[derive(Clone, Copy)]
struct Next {
    slot: usize,
    acquires: bool,
}

/// W2 for the raw peers: DEPTH requests outstanding; all replies of one read are handled, then their follow-up
/// requests go out in one write.
pub async fn window<C: Codec>(l: RawLocker<C>, depth: usize, tally: Rc<Tally>) {
    let (mut s, mut c) = l.into_parts();
    let mut sent: VecDeque<(Next, Instant)> = VecDeque::new();
    let (mut buf, mut out) = (Vec::<u8>::with_capacity(64 * 1024), Vec::<u8>::new());
    let mut new: Vec<Next> = (0..depth).map(|slot| Next { slot, acquires: true }).collect();
    loop {
        for next in &new {
            if next.acquires { c.acquire(next.slot, &mut out) } else { c.release(next.slot, &mut out) }
        }
        let t = Instant::now();
        sent.extend(new.drain(..).map(|next| (next, t)));
        if !out.is_empty() {
            if let Err(e) = s.write_all(&out).await {
                return tally.fail(e);
            }
            out.clear();
        }
        if sent.is_empty() {
            return;
        }
        match s.read_buf(&mut buf).await {
            Ok(0) => return tally.fail("server closed"),
            Err(e) => return tally.fail(e),
            Ok(_) => {}
        }
        let at = replies(&mut c, &buf, &mut sent, &mut new, &tally);
        buf.drain(..at);
    }
}

/// Handles every whole reply, and says how many bytes they were.
fn replies<C: Codec>(
    c: &mut C,
    buf: &[u8],
    sent: &mut VecDeque<(Next, Instant)>,
    new: &mut Vec<Next>,
    tally: &Tally,
) -> usize {
    let now = Instant::now();
    let mut at = 0;
    loop {
        let whose = |(next, _): &(Next, Instant)| c.answers(&buf[at..], next.slot, next.acquires);
        let index = sent.iter().position(whose).unwrap_or(0);
        let Some(&(Next { slot, acquires }, t0)) = sent.get(index) else { break };
        let (n, good) = match c.parse(&buf[at..], slot, acquires) {
            Reply::Incomplete => break,
            Reply::Ok(n) => (n, true),
            Reply::Denied(n) => {
                bump(&tally.denied);
                (n, false)
            }
            Reply::Err(n, e) => {
                tally.fail(e);
                (n, false)
            }
        };
        at += n;
        sent.remove(index);
        if acquires && good {
            tally.lat(now - t0);
            new.push(Next { slot, acquires: false });
        } else {
            if good {
                bump(&tally.pairs);
            }
            if !tally.stop.get() {
                new.push(Next { slot, acquires: true });
            }
        }
    }
    at
}
