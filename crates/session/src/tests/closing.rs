//! How a session ends, and what is said and given back then.

use super::*;

#[test]
fn p19_after_an_error_that_closes_nothing_is_answered() {
    let mut bench = Bench::new();
    let mut stream = bytes(&[ping(1)]);
    stream.extend_from_slice(b"Z");
    stream.extend(bytes(&[acquire(2, "k")]));
    bench.turn(&stream);
    assert_eq!(bench.session.phase(), Phase::Ending);
    assert!(bench.session.has_requests(), "it has to be closed");
    assert_eq!(bench.session.room(), 0);
    assert_eq!(bench.session.deadline(), None);
    // The pong was not begun: it is thrown away, and what is wrong is all that is written.
    assert_eq!(bench.close(), []);
    assert_eq!(names(&bench.written()), ["X1 0"]);
    assert_eq!(bench.engine.counts().keys, 0);
}

#[test]
fn a_frame_that_was_begun_is_finished_before_the_error() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "a"), acquire(2, "b"), acquire(3, "c")]));
    bench.session.accepted(24);
    bench.turn(b"Z");
    assert_eq!(bench.close(), [3], "of the third grant no byte was accepted");
    let rest = bench.written();
    assert_eq!(names(&rest[22..]), ["X1 0"]);
}

#[test]
fn a_lingering_session_reads_away_for_a_second() {
    let mut bench = Bench::new();
    bench.turn(b"Z");
    assert!(!bench.session.has_said_all());
    bench.close();
    assert_eq!(bench.session.phase(), Phase::Lingering);
    assert!(!bench.session.has_said_all());
    let _ = bench.written();
    assert!(bench.session.has_said_all());
    assert_eq!(bench.session.room(), INPUT_LIMIT);
    bench.turn(&bytes(&[ping(1), acquire(2, "k")]));
    assert!(!bench.session.has_requests());
    assert_eq!(bench.session.output(), b"");
    assert_eq!(bench.session.deadline(), Some(Instant(2_000)));
    bench.session.expire(Instant(1_999));
    assert_eq!(bench.session.phase(), Phase::Lingering);
    bench.session.expire(Instant(2_000));
    assert_eq!(bench.session.phase(), Phase::Closed);
    assert_eq!((bench.session.room(), bench.session.deadline()), (0, None));
    assert!(!bench.session.has_requests());
}

#[test]
fn a_lingering_session_is_over_when_its_peer_closes_or_cannot_be_written_to() {
    for end in [Session::read_ended, Session::write_failed] {
        let mut bench = Bench::new();
        bench.turn(b"Z");
        bench.close();
        end(&mut bench.session);
        assert_eq!(bench.session.phase(), Phase::Closed);
        bench.session.read_ended();
        assert_eq!(bench.session.phase(), Phase::Closed);
    }
}

#[test]
fn a_refused_session_is_told_so_and_lingers() {
    let mut session = Session::refused(Instant(5));
    assert_eq!(session.phase(), Phase::Lingering);
    assert_eq!(names(session.output()), ["X9 0"]);
    assert_eq!(session.deadline(), Some(Instant(1_005)));
    session.accepted(session.output().len());
    assert!(session.has_said_all());
}

#[test]
fn what_was_read_before_the_end_counts_and_unsent_grants_are_named() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "a"), acquire(2, "b")]));
    bench.session.accepted(1);
    // Two more grants, a release and half a frame are followed by the end at once.
    bench.session.received(&bytes(&[acquire(3, "c"), release(2, "b"), acquire(4, "d")]));
    bench.session.received(b"R\0\0");
    bench.session.read_ended();
    assert!(bench.session.has_requests());
    assert_eq!(bench.session.room(), 0);
    assert_eq!(bench.session.phase(), Phase::Finishing, "not before its requests are run");
    assert_eq!(bench.session.output(), b"", "nothing is written to a session whose end was read");
    bench.process(NextRequests::All);
    assert_eq!(bench.session.phase(), Phase::Ending);
    assert_eq!(bench.close(), [2, 3, 4], "of the first grant one byte was accepted");
    assert_eq!(bench.session.phase(), Phase::Closed);
    assert_eq!(bench.session.output(), b"");
    assert_eq!(bench.engine.counts().held, 3);
}

#[test]
fn an_end_with_nothing_before_it_ends_the_session() {
    let mut bench = Bench::new();
    bench.session.read_ended();
    assert!(bench.session.has_requests());
    bench.process(NextRequests::PingsOnly);
    assert_eq!(bench.session.phase(), Phase::Ending);
}

#[test]
fn a_fault_is_said_even_if_the_end_followed_at_once() {
    let mut bench = Bench::new();
    bench.session.received(b"Z");
    bench.session.read_ended();
    bench.process(NextRequests::All);
    bench.close();
    assert_eq!(bench.session.phase(), Phase::Lingering, "until it is written, and no longer");
    let said = bench.session.output().to_vec();
    assert_eq!(names(&said), ["X1 0"]);
    bench.session.accepted(said.len() - 1);
    assert_eq!(bench.session.phase(), Phase::Lingering);
    bench.session.accepted(1);
    assert_eq!(bench.session.phase(), Phase::Closed);
}

#[test]
fn p05_what_a_session_is_granted_after_its_end_was_read_is_never_sent() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "k"), acquire(2, "k")]));
    let _ = bench.written();
    bench.session.received(&bytes(&[release(1, "k")]));
    bench.session.read_ended();
    // Events are due, so the end has to wait; meanwhile the release of another session would grant.
    bench.process(NextRequests::PingsOnly);
    assert_eq!(bench.session.phase(), Phase::Finishing);
    assert!(bench.session.has_requests());
    assert_eq!((bench.session.room(), bench.session.deadline()), (0, None));
    bench.process(NextRequests::All);
    assert_eq!(bench.session.output(), b"");
    assert_eq!(bench.close(), [2]);
}

#[test]
fn after_a_failed_write_requests_count_and_nothing_is_written() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "a"), acquire(2, "b")]));
    bench.session.accepted(5);
    bench.session.write_failed();
    assert_eq!(bench.session.phase(), Phase::Open);
    assert_eq!(bench.session.output(), b"");
    bench.session.received(&bytes(&[release(1, "a"), acquire(3, "c"), ping(4)]));
    bench.process(NextRequests::All);
    assert_eq!(bench.session.output(), b"");
    bench.session.settle(bench.now);
    assert_eq!(bench.session.buffered_output(), 0, "what nobody will read takes no memory");
    assert_eq!(bench.engine.counts().held, 2);
    bench.turn(b"Z");
    assert_eq!(bench.close(), [2, 3]);
    assert_eq!(bench.session.phase(), Phase::Closed, "there is nobody to tell");
}

#[test]
fn pings_alone_are_answered_while_events_are_due() {
    let mut bench = Bench::new();
    bench.session.received(&bytes(&[ping(1), ping(2), acquire(3, "k"), ping(4)]));
    bench.process(NextRequests::PingsOnly);
    bench.session.settle(bench.now);
    assert_eq!(names(&bench.written()), ["P 1", "P 2"]);
    assert!(!bench.session.has_said_all(), "there is more to say");
    assert!(bench.session.has_requests());
    assert_eq!(bench.session.deadline(), None, "a request that has to wait is not an unfinished frame");
    bench.process(NextRequests::PingsOnly);
    assert_eq!(bench.session.output(), b"");
    bench.process(NextRequests::All);
    assert_eq!(names(&bench.written()), ["A 3", "P 4"]);
    assert!(!bench.session.has_requests());
}
