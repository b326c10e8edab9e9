//! Field reports on the timing of leases and waits, against a real server.

use lockstead_testkit::timing::percentile;
use lockstead_testkit::{Answer, Ends, Raw, Server, frame};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lockstead");
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn p01_a_waiters_lease_counts_from_its_grant() {
    let server = Server::start_on_both(PROGRAM, &[]);
    let mut ends = Ends::of("P01: lease of 2 s after 4 s in the queue");
    thread::scope(|scope| {
        let checks = server.addresses().iter().map(|address| {
            scope.spawn(move || {
                let key = format!("k/{address}");
                let mut sessions = [(); 3].map(|()| Raw::connect(address));
                let [a, b, c] = &mut sessions;
                let first = a.hold(4, 1, &key);
                let sent = Instant::now();
                b.send(&frame::acquire(20, 2, 2, &key));
                let second = b.granted(2, sent, 10 * SECOND, "the end of the first lease");
                assert!(second.at - first.sent >= 4 * SECOND, "granted early");
                assert!(second.token > first.token);
                // Not at once, though a lease counted from the request would be over.
                c.send(&frame::acquire(0, 5, 3, &key));
                c.expect(Answer::TimedOut { owner: 3 }, "a try behind the waiter's grant");
                let sent = Instant::now();
                c.send(&frame::acquire(20, 5, 4, &key));
                let third = c.granted(4, sent, 10 * SECOND, "the end of the waiter's lease");
                let mut ends = Ends::of("");
                // Exact: counted from what the grant itself says.
                ends.judge(second.begun(), 2 * SECOND, third.at);
                ends.judge((first.begun().0 + 4 * SECOND, second.at), 2 * SECOND, third.at);
                ends
            })
        });
        for check in checks.collect::<Vec<_>>() {
            ends.add(check.join().expect("the check has its own message"));
        }
    });
    ends.finish();
}

#[test]
fn p03_a_waiter_that_timed_out_is_not_in_the_queue_any_more() {
    let server = Server::start(PROGRAM, &[]);
    let [mut a, mut b, mut c] = [(); 3].map(|()| server.connect());
    let grant = a.hold(60, 1, "k");
    let sent = Instant::now();
    b.send(&frame::acquire(1, 30, 2, "k"));
    b.ping();
    let queued = Instant::now();
    let arrival = b.next_within(5 * SECOND, "the end of the wait");
    assert_eq!(arrival.answer, Answer::TimedOut { owner: 2 });
    let mut ends = Ends::of("P03: wait of 1 s");
    ends.judge((sent, queued), SECOND, arrival.at);
    ends.finish();
    assert_eq!(a.query("k").2, 0);
    a.release(grant.token, "k");
    let next = c.hold(5, 3, "k");
    assert!(next.token > grant.token);
    b.ping();
}

#[test]
fn p06_the_next_waiter_is_woken_when_the_holder_expires() {
    const KEYS: u64 = 100;
    let server = Server::start_on_both(PROGRAM, &[]);
    let mut ends = Ends::of("P06: lease of 1 s that nobody releases");
    let (mut a, mut b) = (server.connect(), Raw::connect(&server.addresses()[1]));
    let mut grants = Vec::new();
    let mut sent = Vec::new();
    let mut understated = Vec::new();
    for owner in 0..KEYS {
        grants.push(a.hold(1, owner, format!("k{owner}")));
        sent.push(Instant::now());
        b.send(&frame::acquire(5, 5, owner, format!("k{owner}")));
    }
    for _ in 0..KEYS {
        let arrival = b.next_within(5 * SECOND, "the end of a lease");
        let Answer::Acquired { owner, waited_ms, .. } = arrival.answer else {
            panic!("{:?}", arrival.answer)
        };
        ends.judge(grants[owner as usize].begun(), SECOND, arrival.at);
        let (said, most) = (Duration::from_millis(waited_ms.into()), arrival.at - sent[owner as usize]);
        assert!(said <= most, "waited {said:?} is said, {most:?} have passed");
        understated.push(most - said);
    }
    ends.finish();
    understated.sort_unstable();
    let median = percentile(&understated, 50.0);
    println!("P06: waited is understated by median {median:?}");
    assert!(median < Duration::from_millis(50), "waited is understated by median {median:?}");
}

/// A holder that keeps a key for so long, and a waiter that must not be dropped meanwhile.
fn long_wait(seconds: u32) {
    let server = Server::start(PROGRAM, &[]);
    let [mut a, mut b, mut c] = [(); 3].map(|()| server.connect());
    let grant = a.hold(255, 1, "k");
    let sent = Instant::now();
    b.send(&frame::acquire(255, 5, 2, "k"));
    b.ping();
    thread::sleep(SECOND * seconds / 2);
    c.send(&frame::acquire(255, 5, 3, "k"));
    c.ping();
    thread::sleep(SECOND * seconds / 2);
    assert_eq!((a.query("k").0, a.query("k").2), (1, 2));
    let released = Instant::now();
    a.release(grant.token, "k");
    let next = b.granted(2, sent, 5 * SECOND, "the first waiter");
    assert!(next.at - released < SECOND, "woken late");
    let waited = Duration::from_millis(next.waited_ms.into());
    assert!(waited + SECOND >= next.at - sent, "waited {waited:?} is far too little");
    c.ping();
    b.release(next.token, "k");
    c.granted(3, sent, 5 * SECOND, "the second waiter");
}

#[test]
fn p07_a_long_waiter_keeps_its_place() {
    long_wait(6);
}

/// The report's own length. `cargo test -- --ignored` runs it; the engine's tests have it with the clock in
/// hand.
#[test]
#[ignore = "takes 200 seconds"]
fn p07_a_waiter_of_200_seconds_keeps_its_place() {
    long_wait(200);
}

#[test]
fn p08_a_lock_that_has_expired_is_taken_by_a_single_try() {
    const KEYS: u64 = 40;
    let server = Server::start(PROGRAM, &[]);
    let [mut a, mut b] = [(); 2].map(|()| server.connect());
    let mut grants = Vec::new();
    for owner in 0..KEYS {
        grants.push(a.hold(1, owner, format!("k{owner}")));
        // Spread over a second, so that no sweeper's beat fits them all.
        thread::sleep(Duration::from_millis(25));
    }
    for (owner, grant) in grants.into_iter().enumerate() {
        let due = grant.at + SECOND + Duration::from_millis(50);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let next = b.hold(5, owner as u64, format!("k{owner}"));
        assert!(next.token > grant.token);
    }
}

/// Leases of each length over each kind of socket, all at once, each judged by a waiter and by tries.
fn leases(lengths: &[u8]) {
    let server = Server::start_on_both(PROGRAM, &[]);
    thread::scope(|scope| {
        let mut checks = Vec::new();
        for address in server.addresses() {
            for &lease_s in lengths {
                checks.push(scope.spawn(move || {
                    let lease = Duration::from_secs(lease_s.into());
                    let mut ends = Ends::of(format!("P09: lease of {lease_s} s over {address}"));
                    let [mut a, mut b] = [(); 2].map(|()| Raw::connect(address));
                    let waited_for = a.hold(lease_s, 1, format!("w/{lease_s}/{address}"));
                    let tried = a.hold(lease_s, 2, format!("t/{lease_s}/{address}"));
                    b.send(&frame::acquire(255, 5, 1, format!("w/{lease_s}/{address}")));
                    // The second front door: tries, which no waiter's wake-up helps.
                    loop {
                        a.send(&frame::acquire(0, 5, 3, format!("t/{lease_s}/{address}")));
                        let arrival = a.next("a try");
                        if matches!(arrival.answer, Answer::Acquired { .. }) {
                            ends.judge(tried.begun(), lease, arrival.at);
                            break;
                        }
                        thread::sleep(Duration::from_millis(2));
                    }
                    let next = b.next_within(5 * SECOND, "the end of the lease").at;
                    ends.judge(waited_for.begun(), lease, next);
                    ends.finish();
                }));
            }
        }
        checks.into_iter().for_each(|check| check.join().expect("the check has its own message"));
    });
}

#[test]
fn p09_leases_last_as_long_as_asked_over_every_transport() {
    leases(&[1, 2, 5, 30]);
}

/// The report's longest lease. `cargo test -- --ignored` runs it; the engine's tests have it with the clock
/// in hand.
#[test]
#[ignore = "takes 255 seconds"]
fn p09_the_longest_leases_last_as_long_as_asked_over_every_transport() {
    leases(&[255]);
}
