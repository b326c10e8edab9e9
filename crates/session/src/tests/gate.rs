//! What waits for the journal.

use super::*;

#[test]
fn a_grant_waits_for_the_journal_and_is_unsent_until_then() {
    let mut bench = Bench::new();
    bench.position = Position(5);
    bench.turn(&bytes(&[acquire(1, "a"), query(2, "a"), ping(3)]));
    assert_eq!(names(&bench.written()), ["Q 2", "P 3"]);
    bench.session.reached(Position(4));
    assert_eq!(bench.session.output(), b"");
    bench.position = Position(6);
    bench.turn(&bytes(&[extend(1, "a"), acquire(4, "b"), release(1, "a")]));
    bench.session.reached(Position(5));
    assert_eq!(names(&bench.written()), ["A 1"]);
    bench.session.read_ended();
    bench.process(NextRequests::All);
    assert_eq!(bench.close(), [2], "the second grant never passed the gate");
}

#[test]
fn nothing_overtakes_a_release_that_waits_behind_an_extend() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "k"), acquire(2, "l")]));
    bench.position = Position(1);
    bench.turn(&bytes(&[extend(1, "k")]));
    // A grant stands between the two, so that the release still waits when the extend no longer does.
    bench.position = Position(2);
    bench.turn(&bytes(&[acquire(3, "m")]));
    bench.position = Position(3);
    bench.turn(&bytes(&[release(1, "k")]));
    assert_eq!(names(&bench.written()), ["A 1", "A 2"]);
    bench.session.reached(Position(1));
    bench.turn(&bytes(&[release(2, "l"), release(2, "l")]));
    assert_eq!(names(&bench.written()), ["E 1"]);
    bench.session.reached(Position(2));
    assert_eq!(
        names(&bench.written()),
        ["A 3", "R 1", "R 2", "N 2"],
        "a release waits for no record of its own"
    );
    bench.turn(&bytes(&[release(3, "m")]));
    assert_eq!(names(&bench.written()), ["R 3"], "nothing waits any more");
}

#[test]
fn grants_that_passed_come_before_those_that_wait_when_a_session_closes() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "a")]));
    bench.position = Position(1);
    bench.turn(&bytes(&[acquire(2, "b"), acquire(3, "c")]));
    bench.session.read_ended();
    bench.process(NextRequests::All);
    assert_eq!(bench.close(), [1, 2, 3]);
}

#[test]
fn what_waits_at_the_gate_counts_as_output() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "k")]));
    let _ = bench.written();
    bench.position = Position(1);
    let not_durable = 11 + crate::output::NOT_DURABLE.len();
    let gated = (OUTPUT_LIMIT - 1_035) / not_durable;
    for _ in 0..gated {
        bench.turn(&bytes(&[extend(1, "k")]));
    }
    assert_ne!(bench.session.room(), 0);
    bench.turn(&bytes(&[extend(1, "k"), ping(1)]));
    assert_eq!(bench.session.room(), 0);
    assert_eq!(bench.session.output(), b"", "the ping is not processed either");
    bench.session.reached(Position(1));
    assert_ne!(bench.session.room(), 0, "encoded, an extended is shorter");
    bench.process(NextRequests::All);
    assert_eq!(names(&bench.written()).len(), gated + 2);
}

/// As many waiters as a session may have are granted while one sync is under way.
#[test]
fn grants_that_wait_for_the_journal_do_not_overflow_what_they_would_fit_into() {
    let mut bench = Bench::new();
    let mut effects = Vec::new();
    let command = Command::Acquire { wait_s: 0, lease_s: 10, owner: 1, key: "k" };
    bench.engine.run(bench.now, bench.id, command, &mut effects);
    let grant = effects[0].answer;
    for _ in 0..32_768 {
        bench.session.answer(grant, Position(1));
    }
    assert_eq!(bench.session.phase(), Phase::Open);
    bench.session.reached(Position(1));
    assert_eq!(bench.session.output().len(), 32_768 * 23);
    assert_eq!(bench.session.phase(), Phase::Open);
}

/// The disk hangs for longer than a peer may take to read.
#[test]
fn a_peer_is_not_to_blame_for_answers_that_wait_for_the_journal() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "k")]));
    let _ = bench.written();
    bench.position = Position(1);
    while bench.session.room() > 0 {
        bench.turn(&bytes(&[extend(1, "k")]));
    }
    assert_eq!(bench.session.deadline(), None);
    bench.session.reached(Position(1));
    bench.session.settle(bench.now);
    assert_ne!(bench.session.output(), b"");
    assert_eq!(bench.session.deadline(), None, "encoded, it is not full");
}

#[test]
fn what_cannot_be_made_safe_is_answered_as_not_durable_in_its_order() {
    let mut bench = Bench::new();
    bench.position = Position(1);
    bench.turn(&bytes(&[acquire(1, "a")]));
    bench.position = Position(2);
    bench.turn(&bytes(&[acquire(2, "b"), extend(2, "b")]));
    bench.position = Position(3);
    bench.turn(&bytes(&[release(9, "a"), extend(2, "b"), ping(1)]));
    assert!(bench.session.is_gated());
    assert_eq!(names(&bench.written()), ["P 1"]);
    let mut lost = Vec::new();
    bench.session.storage_failed(Position(1), &mut lost);
    assert_eq!(names(&bench.written()), ["A 1", "B 2", "X10 2", "N 9", "X10 2"]);
    assert_eq!(lost.iter().map(|grant| grant.token).collect::<Vec<_>>(), [2]);
    assert!(!bench.session.is_gated());
    bench.turn(&bytes(&[release(9, "a")]));
    assert_eq!(names(&bench.written()), ["N 9"], "nothing waits for its turn any more");
    bench.session.read_ended();
    bench.process(NextRequests::All);
    assert_eq!(bench.close(), [], "what was taken back is not given back twice");
}

#[test]
fn extends_that_fail_do_not_overflow_the_output() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "k")]));
    let _ = bench.written();
    bench.position = Position(1);
    while bench.session.room() > 0 {
        bench.turn(&bytes(&[extend(1, "k")]));
    }
    bench.session.storage_failed(Position(0), &mut Vec::new());
    assert!(bench.session.output().len() <= OUTPUT_LIMIT);
    assert_eq!(bench.session.phase(), Phase::Open);
}
