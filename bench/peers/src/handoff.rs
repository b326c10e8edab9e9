//! W3: many clients want one lock.

use crate::locker::Locker;
use crate::tally::{Tally, bump};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How a contended run behaves.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Who released asks again only after this many later grants (0: at once).
    park: u64,
    /// Hold for a random time in this range; None: 0 ms (one turn of the client's scheduler).
    hold_us: Option<(u64, u64)>,
}

impl Rule {
    /// The rule of a workload; none if it is not a contended one.
    pub fn of(workload: &str, conns: usize) -> Option<Self> {
        Some(match workload {
            // W3: half of the clients are always true waiters, already queued (or polling) at a release
            "handoff" => Rule { park: (conns as u64 / 2).max(1), hold_us: None },
            // one waiter, who has been waiting for a while at each release
            "handoff1" => Rule { park: 1, hold_us: Some((2_000, 12_000)) },
            // no rule: the releaser asks again at once
            "free" => Rule { park: 0, hold_us: None },
            // mutual exclusion under real overlap
            "verify" => Rule { park: 0, hold_us: Some((0, 2_000)) },
            _ => return None,
        })
    }
}

/// One of the clients: waits for the lock, holds it, gives it back, again and again.
pub async fn contender<L: Locker>(me: usize, mut l: L, tally: Rc<Tally>, rule: Rule) {
    let wake = Rc::new(Notify::new());
    loop {
        let t0 = Instant::now();
        if let Err(e) = l.acquire_wait().await {
            tally.fail(e);
            if tally.is_hopeless() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        let my_grant = note_grant(me, &tally, t0);
        while tally.parked.borrow().front().is_some_and(|p| p.0 + rule.park <= my_grant) {
            if let Some((_, parked)) = tally.parked.borrow_mut().pop_front() {
                parked.notify_one();
            }
        }
        match rule.hold_us {
            Some((a, b)) => tokio::time::sleep(Duration::from_micros(a + tally.random() % (b - a))).await,
            None => tokio::task::yield_now().await,
        }
        if tally.holders.get() != 1 {
            bump(&tally.violations);
        }
        tally.holders.set(tally.holders.get() - 1);
        tally.last_release.set(Some((me, Instant::now())));
        if rule.park > 0 {
            tally.parked.borrow_mut().push_back((my_grant, wake.clone()));
        }
        match l.release().await {
            Ok(true) => {}
            Ok(false) => tally.fail("release: not ours"),
            Err(e) => tally.fail(e),
        }
        if rule.park > 0 {
            wake.notified().await;
        }
    }
}

/// Counts a grant that was asked for at `t0`, and says the how-manieth it was.
fn note_grant(me: usize, tally: &Tally, t0: Instant) -> u64 {
    let now = Instant::now();
    tally.holders.set(tally.holders.get() + 1);
    if tally.holders.get() != 1 {
        bump(&tally.violations);
    }
    bump(&tally.grants_seen);
    if tally.rec.get() {
        bump(&tally.pairs);
        let _ = tally.wait_hist.borrow_mut().record((now - t0).as_nanos().max(1) as u64);
    }
    match tally.last_release.get() {
        Some((who, _)) if who == me => bump(&tally.denied), // counted: the releaser got it again
        Some((_, t)) => tally.lat(now - t),
        None => {}
    }
    tally.grants_seen.get()
}
