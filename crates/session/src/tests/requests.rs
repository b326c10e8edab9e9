//! Frames in, answers out, hello, and what is wrong with a frame.

use super::*;

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
