//! Sessions over a real engine, without a socket.

use std::string::String;
use std::vec::Vec;

use lockstead_engine::{Answer, Command, Effect, Engine, Instant, Limits, SessionId};
use lockstead_proto::*;

use crate::session::*;
use crate::*;

const OWNER: u64 = 0x0a0a_0a0a_0a0a_0a0a;

/// An engine and one session of it, with the clock in hand.
struct Bench {
    engine: Engine,
    id: SessionId,
    session: Session,
    facts: Facts,
    now: Instant,
    /// The journal position that the next answers need.
    position: Position,
}

impl Bench {
    fn new() -> Self {
        let mut engine = Engine::new(Limits::default(), [1, 2], Instant(0), None);
        engine.supply_tokens(1, 1_000_000);
        let id = engine.open_session();
        let facts = Facts { server_id: "00ff".into(), version: "9.9.9", max_lease_s: 77 };
        Self { engine, id, session: Session::new(42), facts, now: Instant(1_000), position: Position::START }
    }

    /// Runs every request that may be run now.
    fn process(&mut self, which: NextRequests) {
        let mut effects = Vec::new();
        while let Some(command) = self.session.next(&self.facts, which) {
            self.engine.run(self.now, self.id, command, &mut effects);
            for Effect { answer, .. } in effects.drain(..) {
                self.session.answer(answer, self.position);
            }
        }
    }

    /// One whole turn in which `bytes` were read.
    fn turn(&mut self, bytes: &[u8]) {
        self.session.received(bytes);
        self.process(NextRequests::All);
        self.session.settle(self.now);
    }

    /// Everything that waits to be written, accepted by the kernel now.
    fn written(&mut self) -> Vec<u8> {
        let bytes = self.session.output().to_vec();
        self.session.accepted(bytes.len());
        bytes
    }

    /// The server has decided: what was read is processed, then the session closes.
    fn finish(&mut self) {
        assert_eq!(self.session.phase(), Phase::Finishing);
        assert_eq!(self.session.output(), b"");
        self.process(NextRequests::All);
        assert_eq!(self.session.phase(), Phase::Ending);
        self.close();
    }

    fn close(&mut self) -> Vec<u64> {
        let unsent = self.session.unsent_grants();
        let tokens: Vec<u64> = self.session.close(self.now).map(|grant| grant.token).collect();
        assert_eq!(tokens.len(), unsent);
        tokens
    }
}

fn bytes(requests: &[Request<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    requests.iter().for_each(|request| request.encode(&mut out));
    out
}

fn acquire(owner: u64, key: &str) -> Request<'_> {
    Request::Acquire(Acquire { wait_s: 10, lease_s: 10, owner, key })
}

fn release(token: u64, key: &str) -> Request<'_> {
    Request::Release(Release { token, key })
}

fn extend(token: u64, key: &str) -> Request<'_> {
    Request::Extend(Extend { lease_s: 20, token, key })
}

fn ping(id: u64) -> Request<'static> {
    Request::Ping(Ping { id })
}

fn query(id: u64, key: &str) -> Request<'_> {
    Request::Query(Query { id, key })
}

fn hello(text: &str) -> Request<'_> {
    Request::Hello(Hello { version: VERSION, id: 3, text })
}

/// Answers by op and id; errors by code too.
fn names(mut bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((answer, used)) = decode_answer(bytes).unwrap() {
        bytes = &bytes[used..];
        names.push(match answer {
            AnswerFrame::Acquired(a) => std::format!("A {}", a.owner),
            AnswerFrame::Timeout(t) => std::format!("T {}", t.owner),
            AnswerFrame::Busy(b) => std::format!("B {}", b.owner),
            AnswerFrame::Released(r) => std::format!("R {}", r.token),
            AnswerFrame::Extended(e) => std::format!("E {}", e.token),
            AnswerFrame::NotHeld(n) => std::format!("N {}", n.token),
            AnswerFrame::State(q) => std::format!("Q {}", q.id),
            AnswerFrame::Pong(p) => std::format!("P {}", p.id),
            AnswerFrame::Welcome(h) => std::format!("H {}", h.id),
            AnswerFrame::Error(x) => std::format!("X{} {}", x.code.as_u8(), x.id),
        });
    }
    assert_eq!(bytes, b"", "output is whole frames");
    names
}

type AnswerFrame<'a> = lockstead_proto::Answer<'a>;

/// Each request, and each answer, once.
fn everything() -> Vec<u8> {
    let mut all = bytes(&[
        hello("name=x"),
        acquire(OWNER, "k"),
        acquire(8, "k"),
        Request::Cancel(Cancel { owner: 8, key: "k" }),
        extend(1, "k"),
        query(9, "k"),
        ping(OWNER),
    ]);
    all.extend_from_slice(b"R\0\0\0\0\0\0\0\x05\n"); // empty key
    all.extend_from_slice(&bytes(&[release(1, "k"), release(1, "k")]));
    all
}

const EVERYTHING: [&str; 9] =
    ["H 3", "A 723401728380766730", "T 8", "E 1", "Q 9", "P 723401728380766730", "X2 5", "R 1", "N 1"];

#[test]
fn p21_split_frames_give_the_same_answers() {
    for step in [1, 2, 3, 7, 11, 1_000] {
        let mut bench = Bench::new();
        let mut answers = Vec::new();
        for piece in everything().chunks(step) {
            bench.turn(piece);
            answers.extend(bench.written());
        }
        assert_eq!(names(&answers), EVERYTHING, "{step} bytes at a time");
        assert_eq!(bench.session.phase(), Phase::Open);
    }
}

#[test]
fn a_welcome_tells_what_the_client_has_to_know() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[hello("")]));
    let text =
        b"H\x01\0\0\0\0\0\0\0\x03server=lockstead/9.9.9 id=00ff session=42 max_key=1024 max_lease=77\n";
    assert_eq!(bench.written(), text);
    bench.turn(&bytes(&[hello("name=other")]));
    assert_eq!(bench.written(), text, "a second hello is answered like the first");
}

#[test]
fn a_hello_with_a_bad_name_ends_the_session() {
    let mut bench = Bench::new();
    bench.turn(&bytes(&[hello("name="), ping(1)]));
    assert_eq!(bench.session.phase(), Phase::Ending);
    assert_eq!(bench.close(), []);
    assert_eq!(names(&bench.written()), ["X8 3"]);
}

#[test]
fn a_cancel_with_a_bad_key_is_answered_by_nothing() {
    let mut bench = Bench::new();
    let mut stream = b"C\0\0\0\0\0\0\0\x05\n".to_vec();
    stream.extend(bytes(&[ping(1)]));
    bench.turn(&stream);
    assert_eq!(names(&bench.written()), ["P 1"]);
}

#[test]
fn each_error_tells_a_person_what_is_wrong() {
    let mut long = b"R\0\0\0\0\0\0\0\x05".to_vec();
    long.resize(2_000, b'k');
    let cases: [(&[u8], &str); 6] = [
        (b"Z", "no request starts with this byte"),
        (b"R\0\0\0\0\0\0\0\x05\n", "a key is 1 to 1024 bytes"),
        (b"E\0\0\0\0\0\0\0\0\x05k\n", "a lease is 1 to 255 seconds"),
        (b"H\x02\0\0\0\0\0\0\0\x05", "version 1"),
        (b"P\0\0\0\0\0\0\0\x05x", "no frame"),
        (&long, "a key is 1 to 1024 bytes"),
    ];
    for (stream, text) in cases {
        let mut bench = Bench::new();
        bench.turn(stream);
        if bench.session.phase() == Phase::Ending {
            assert_eq!(bench.close(), []);
        }
        let written = bench.written();
        let said = String::from_utf8_lossy(&written[10..]);
        assert!(said.contains(text), "{said} does not say {text}");
    }
}

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

#[test]
fn every_answer_of_the_engine_has_its_frame() {
    let mut bench = Bench::new();
    bench.session.answer(Answer::Busy { owner: 4, reason: BusyReason::KeysFull }, Position::START);
    let state = KeyState::Held;
    bench.session.answer(Answer::State { id: 5, state, remaining_ms: 6, waiters: 7 }, Position::START);
    let written = bench.written();
    assert_eq!(written[..11], *b"B\0\0\0\0\0\0\0\x04\x03\n");
    assert_eq!(written[11..], *b"Q\0\0\0\0\0\0\0\x05\x01\0\0\0\x06\0\0\0\x07\n");
    bench.turn(&bytes(&[acquire(OWNER, "k")]));
    bench.turn(&bytes(&[extend(1, "k")]));
    let mut expected = Vec::new();
    Acquired { owner: OWNER, token: 1, lease_s: 10, waited_ms: 0 }.encode(&mut expected);
    Extended { token: 1, lease_s: 20 }.encode(&mut expected);
    assert_eq!(bench.written(), expected);
}
