//! The mode and the longest lease change from one run to the next.

use crate::support::{BOTH, Place, RECOVERING, SECOND, extend, is_active};
use lockstead_testkit::{Answer, Ends, frame};
use std::time::Instant;

/// docs/guarantees.md: what one mode has promised is kept by the next run in another.
#[test]
fn the_mode_may_change_from_run_to_run() {
    let place = Place::new();
    let mut held: Vec<(String, u64)> = Vec::new();
    for (round, mode) in ["process", "machine", "process", "process", "machine"].into_iter().enumerate() {
        let mut server = place.serve(mode).start();
        let mut session = server.connect();
        for (key, token) in &held {
            assert!(is_active(&mut session, key, *token), "round {round}: {key} is lost");
        }
        let key = format!("k{round}");
        let grant = session.hold(60, 1, &key);
        assert!(held.iter().all(|&(_, token)| token < grant.token));
        held.push((key, grant.token));
        server.kill();
        let expected = if mode == "process" { 1 } else { 2 };
        assert_eq!(place.log().run().mode, expected, "round {round}");
    }
}

/// docs/guarantees.md: the longest lease is for new leases; one from before goes on to its true end, and an extend
/// never shortens it.
#[test]
fn a_lower_longest_lease_leaves_older_leases_alone() {
    for mode in BOTH {
        let place = Place::new();
        let mut server = place.serve(mode).start();
        let mut session = server.connect();
        let old = session.hold(4, 1, "old");
        let longer = session.hold(60, 2, "longer");
        server.kill();
        let server = place.serve(mode).args(&["--max-lease", "2s"]).start();
        let mut session = server.connect();
        // Granted and extended as the longest now.
        session.send(&frame::acquire(0, 30, 3, "new"));
        let asked = Instant::now();
        assert_eq!(session.granted(3, asked, SECOND, "a new lease").lease_s, 2);
        session.send(&frame::extend(30, old.token, "old"));
        session.expect(Answer::Extended { token: old.token, lease_s: 2 }, "an extend of an old lease");
        assert!(session.query("longer").1 > 50_000, "{mode}: the older lease was shortened");
        session.send(&frame::acquire(20, 1, 4, "old"));
        let next = session.granted(4, asked, 10 * SECOND, "the holder after an old lease");
        Ends::of(format!("{mode}: a lease above the longest")).judge(old.begun(), old.lease(), next.at);
        session.release(longer.token, "longer");
    }
}

/// docs/journal-format.md, *Reading*: a run may be followed by a recovery as long as the longest lease that it
/// restored, also if it gave none of its own.
#[test]
fn a_recovery_lasts_as_long_as_what_the_last_run_restored() {
    let place = Place::new();
    let mut server = place.serve_on_boot("process", "first").start();
    server.connect().hold(20, 1, "k");
    server.kill();
    let mut server = place.serve_on_boot("process", "first").args(&["--max-lease", "1s"]).start();
    server.connect().ping();
    server.kill();
    let ceiling_ms = place.log().lease_ceiling_ms();
    assert!((15_000..=20_002).contains(&ceiling_ms), "the ceiling is {ceiling_ms} ms");
    let server = place.serve_on_boot("process", "second").start();
    let (state, remaining_ms, _) = server.connect().query("free");
    assert_eq!(state, RECOVERING);
    let range = ceiling_ms - 5_000..=ceiling_ms + 2;
    assert!(range.contains(&remaining_ms.into()), "{remaining_ms} ms of {ceiling_ms} are left");
}

/// docs/guarantees.md: a lease above all before it is given only when the journal knows that there may be such
/// leases.
#[test]
fn the_lease_ceiling_is_written_before_the_lease() {
    for mode in BOTH {
        let place = Place::new();
        let mut server = place.serve(mode).start();
        let mut session = server.connect();
        let grant = session.hold(2, 1, "k");
        for (owner, lease_s) in [(2, 5), (3, 3), (4, 30), (5, 255)] {
            session.hold(lease_s, owner, format!("k{owner}"));
        }
        extend(&mut session, 255, "k", grant.token);
        server.kill();
        // `log` finds leases and tokens that stand before their ceilings.
        let ceiling_ms = place.log().lease_ceiling_ms();
        assert!(ceiling_ms >= 255_001, "{mode}: the ceiling is {ceiling_ms} ms");
    }
}
