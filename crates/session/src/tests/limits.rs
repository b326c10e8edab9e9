//! How much is read, kept and written, and how long a peer may take.

use super::*;

#[test]
fn bytes_that_were_received_are_requests_to_process() {
    let mut bench = Bench::new();
    assert!(!bench.session.has_requests());
    bench.session.received(b"P");
    assert!(bench.session.has_requests());
    bench.process(NextRequests::All);
    assert!(!bench.session.has_requests(), "half a frame is not");
}

#[test]
fn the_limits_are_those_that_the_docs_list() {
    assert_eq!((INPUT_LIMIT, OUTPUT_LIMIT), (65_536, 1_048_576));
    assert_eq!((FINISH_FRAME_MS, STALL_MS, LINGER_MS), (10_000, 10_000, 1_000));
}

#[test]
fn input_is_read_within_its_limit() {
    let mut bench = Bench::new();
    assert_eq!(bench.session.room(), INPUT_LIMIT);
    bench.session.received(&[b'P'; 10]);
    assert_eq!(bench.session.room(), INPUT_LIMIT - 10);
    bench.session.received(&std::vec![b'P'; INPUT_LIMIT]);
    assert_eq!(bench.session.room(), 0);
}

/// How many pongs fit before requests are no longer processed.
const FULL: usize = (OUTPUT_LIMIT - 1_035) / 10 + 1;

fn fill(bench: &mut Bench) {
    for _ in 0..FULL {
        bench.turn(&bytes(&[ping(7)]));
    }
    assert_eq!(bench.session.output().len(), FULL * 10);
}

#[test]
fn a_full_output_stops_the_reading_until_it_is_written() {
    let mut bench = Bench::new();
    fill(&mut bench);
    assert_eq!(bench.session.room(), 0);
    bench.turn(&bytes(&[release(5, "k")]));
    assert_eq!(bench.session.output().len(), FULL * 10, "not processed");
    assert!(!bench.session.has_requests());
    bench.session.accepted(10);
    assert_eq!(bench.session.room(), INPUT_LIMIT - 11);
    assert!(bench.session.has_requests());
    bench.process(NextRequests::All);
    assert_eq!(names(&bench.written()).last().unwrap(), "N 5");
}

#[test]
fn requests_are_processed_as_long_as_the_longest_answer_fits() {
    let mut bench = Bench::new();
    bench.session.answer(Answer::Busy { owner: 1, reason: BusyReason::KeysFull }, Position::START);
    for _ in 0..FULL - 2 {
        bench.turn(&bytes(&[ping(7)]));
    }
    assert_eq!(bench.session.output().len() + 1_035, OUTPUT_LIMIT);
    assert_ne!(bench.session.room(), 0);
    assert_eq!(bench.session.deadline(), None);
    bench.turn(&bytes(&[ping(7)]));
    assert_eq!(bench.session.room(), 0);
}

#[test]
fn requests_before_the_end_count_even_if_the_output_is_full() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "k")]));
    for _ in 0..FULL {
        bench.turn(&bytes(&[ping(7)]));
    }
    assert_eq!(bench.session.room(), 0);
    bench.session.received(&bytes(&[release(1, "k")]));
    bench.session.read_ended();
    assert!(bench.session.has_requests());
    bench.process(NextRequests::All);
    assert_eq!(bench.session.phase(), Phase::Ending);
    assert_eq!(bench.engine.counts().held, 0);
}

#[test]
fn output_that_is_full_must_move_within_ten_seconds() {
    let mut bench = Bench::new();
    fill(&mut bench);
    assert_eq!(bench.session.deadline(), Some(Instant(11_001)));
    bench.now = Instant(6_000);
    bench.turn(b"");
    assert_eq!(bench.session.deadline(), Some(Instant(11_001)), "waiting longer does not start it anew");
    bench.session.accepted(1);
    bench.turn(b"");
    assert_eq!(bench.session.deadline(), Some(Instant(16_001)), "a byte that was accepted does");
    bench.session.expire(Instant(16_000));
    assert_eq!(bench.session.phase(), Phase::Open);
    bench.session.expire(Instant(16_001));
    bench.finish();
    let rest = bench.written();
    assert_eq!(names(&rest[9..]), ["X9 0"], "the pong that was begun, then why");
    assert!(String::from_utf8_lossy(&rest).contains("not read for 10 s"));
}

#[test]
fn requests_that_were_read_count_when_the_server_ends_a_session() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[acquire(1, "k")]));
    let _ = bench.written();
    fill(&mut bench);
    bench.turn(&bytes(&[release(1, "k"), ping(8)]));
    assert_eq!(bench.engine.counts().held, 1, "not processed while the output is full");
    bench.session.expire(Instant(11_001));
    bench.finish();
    assert_eq!(bench.engine.counts().held, 0);
    assert_eq!(names(&bench.written()), ["X9 0"]);
}

#[test]
fn a_bad_frame_waits_while_events_are_due() {
    let mut bench = Bench::new();
    bench.session.received(b"R\0\0\0\0\0\0\0\x05\nZ");
    bench.process(NextRequests::PingsOnly);
    assert_eq!((bench.session.output(), bench.session.phase()), (&b""[..], Phase::Open));
    assert!(bench.session.has_requests());
    bench.process(NextRequests::All);
    assert_eq!(bench.session.phase(), Phase::Ending);
}

#[test]
fn the_first_fault_is_the_one_that_is_told() {
    for behind in [&b"Z"[..], &bytes(&[hello("name=")])] {
        let mut bench = Bench::new();
        fill(&mut bench);
        bench.turn(behind);
        bench.session.expire(Instant(11_001));
        bench.finish();
        assert_eq!(names(&bench.written()), ["X9 0"]);
    }
}

#[test]
fn events_that_overflow_the_output_end_the_session() {
    let mut bench = Bench::new();
    fill(&mut bench);
    for _ in 0..6 {
        bench.session.answer(Answer::Busy { owner: 1, reason: BusyReason::KeysFull }, Position::START);
    }
    for _ in 0..(OUTPUT_LIMIT - FULL * 10 - 66) / 10 {
        bench.session.answer(Answer::Timeout { owner: 1 }, Position::START);
    }
    assert_eq!(bench.session.output().len(), OUTPUT_LIMIT);
    assert_eq!(bench.session.phase(), Phase::Open);
    bench.session.answer(Answer::Timeout { owner: 1 }, Position::START);
    bench.finish();
    let said = bench.written();
    assert_eq!(names(&said), ["X9 0"]);
    assert!(String::from_utf8_lossy(&said).contains("more answers came than were read"));
}

#[test]
fn events_cannot_overflow_what_nobody_reads_any_more() {
    let mut bench = Bench::new();
    fill(&mut bench);
    bench.session.read_ended();
    for _ in 0..200 {
        bench.session.answer(Answer::Timeout { owner: 1 }, Position::START);
    }
    bench.process(NextRequests::All);
    bench.close();
    assert_eq!(bench.session.phase(), Phase::Closed, "there is no fault to tell of");
}

#[test]
fn a_frame_that_was_begun_is_finished_within_ten_seconds() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[ping(1)]));
    assert_eq!(bench.session.deadline(), None, "between frames there is no hurry");
    bench.turn(b"R");
    assert_eq!(bench.session.deadline(), Some(Instant(11_001)));
    bench.now = Instant(5_000);
    bench.turn(b"\0\0");
    assert_eq!(bench.session.deadline(), Some(Instant(11_001)), "a byte now and then does not help");
    bench.turn(b"\0\0\0\0\0\x05k\nR");
    assert_eq!(bench.session.deadline(), Some(Instant(15_001)), "the next frame has its own time");
    bench.session.expire(Instant(15_000));
    assert_eq!(bench.session.phase(), Phase::Open);
    bench.session.expire(Instant(15_001));
    bench.finish();
    let said = bench.written();
    assert_eq!(names(&said), ["X9 0"]);
    assert!(String::from_utf8_lossy(&said).contains("not finished within 10 s"));
}

#[test]
fn a_bad_frame_counts_as_one_that_was_finished() {
    let mut bench = Bench::new();
    bench.turn(b"R\0");
    bench.now = Instant(5_000);
    bench.turn(b"\0\0\0\0\0\0\x05\nR");
    assert_eq!(bench.session.deadline(), Some(Instant(15_001)));
}

#[test]
fn a_session_that_ended_has_no_deadline_of_its_frames() {
    let mut bench = Bench::new();
    bench.turn(b"R");
    bench.session.received(b"\0\0\0\0\0\0\0\x05kZ\nZ");
    bench.process(NextRequests::All);
    bench.session.settle(bench.now);
    assert_eq!(bench.session.phase(), Phase::Ending);
    bench.session.expire(Instant(1_000_000));
    bench.close();
    assert_eq!(names(&bench.written()), ["X1 0"]);
}
