//! The frames of vectors/frames.json, byte for byte: what every client and the server must agree on.

#![allow(clippy::unwrap_used)]

use lockstead_proto::*;
use serde_json::Value;

fn frames() -> Vec<Value> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/frames.json");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    json["frames"].as_array().unwrap().clone()
}

fn bytes(frame: &Value) -> Vec<u8> {
    let hex = frame["hex"].as_str().unwrap();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn num(value: &Value) -> u64 {
    value.as_str().expect("64-bit numbers are strings").parse().unwrap()
}

fn small<T: TryFrom<u64, Error: std::fmt::Debug>>(value: &Value) -> T {
    T::try_from(value.as_u64().unwrap()).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn request(m: &Value) -> Request<'_> {
    match text(&m["op"]) {
        "acquire" => Request::Acquire(Acquire {
            wait_s: small(&m["wait_s"]),
            lease_s: small(&m["lease_s"]),
            owner: num(&m["owner"]),
            key: text(&m["key"]),
        }),
        "release" => Request::Release(Release { token: num(&m["token"]), key: text(&m["key"]) }),
        "extend" => Request::Extend(Extend {
            lease_s: small(&m["lease_s"]),
            token: num(&m["token"]),
            key: text(&m["key"]),
        }),
        "cancel" => Request::Cancel(Cancel { owner: num(&m["owner"]), key: text(&m["key"]) }),
        "query" => Request::Query(Query { id: num(&m["id"]), key: text(&m["key"]) }),
        "ping" => Request::Ping(Ping { id: num(&m["id"]) }),
        "hello" => {
            Request::Hello(Hello { version: small(&m["version"]), id: num(&m["id"]), text: text(&m["text"]) })
        }
        op => panic!("no request {op}"),
    }
}

fn answer(m: &Value) -> Answer<'_> {
    match text(&m["op"]) {
        "acquired" => Answer::Acquired(Acquired {
            owner: num(&m["owner"]),
            token: num(&m["token"]),
            lease_s: small(&m["lease_s"]),
            waited_ms: small(&m["waited_ms"]),
        }),
        "timeout" => Answer::Timeout(Timeout { owner: num(&m["owner"]) }),
        "busy" => {
            let reason = BusyReason::from_u8(small(&m["reason"]));
            Answer::Busy(Busy { owner: num(&m["owner"]), reason })
        }
        "released" => Answer::Released(Released { token: num(&m["token"]) }),
        "extended" => Answer::Extended(Extended { token: num(&m["token"]), lease_s: small(&m["lease_s"]) }),
        "not held" => Answer::NotHeld(NotHeld { token: num(&m["token"]) }),
        "state" => Answer::State(State {
            id: num(&m["id"]),
            state: KeyState::from_u8(small(&m["state"])),
            remaining_ms: small(&m["remaining_ms"]),
            waiters: small(&m["waiters"]),
        }),
        "pong" => Answer::Pong(Pong { id: num(&m["id"]) }),
        "welcome" => Answer::Welcome(Welcome {
            version: small(&m["version"]),
            id: num(&m["id"]),
            text: text(&m["text"]),
        }),
        "error" => Answer::Error(ErrorAnswer {
            code: ErrorCode::from_u8(small(&m["code"])),
            id: num(&m["id"]),
            text: text(&m["text"]),
        }),
        op => panic!("no answer {op}"),
    }
}

#[test]
fn good_frames_mean_what_the_vectors_say_in_both_directions() {
    let mut seen = 0;
    for frame in frames().iter().filter(|f| f.get("meaning").is_some()) {
        let (name, bytes, meaning) = (&frame["name"], bytes(frame), &frame["meaning"]);
        let mut encoded = Vec::new();
        let mut behind = bytes.clone();
        behind.extend_from_slice(b"Zmore");
        if frame["direction"] == "request" {
            let request = request(meaning);
            request.encode(&mut encoded);
            assert_eq!(decode_request(&behind), Ok(Some((request, bytes.len()))), "{name}");
            for cut in 0..bytes.len() {
                assert_eq!(decode_request(&bytes[..cut]), Ok(None), "{name} cut at {cut}");
            }
        } else {
            let answer = answer(meaning);
            answer.encode(&mut encoded);
            assert_eq!(decode_answer(&behind), Ok(Some((answer, bytes.len()))), "{name}");
            assert_eq!(answer_len(&behind), bytes.len(), "{name}");
            for cut in 0..bytes.len() {
                assert_eq!(decode_answer(&bytes[..cut]), Ok(None), "{name} cut at {cut}");
            }
        }
        assert_eq!(encoded, bytes, "{name}");
        seen += 1;
    }
    assert!(seen > 40, "only {seen} good frames");
}

#[test]
fn bad_frames_get_the_error_that_the_vectors_say() {
    let mut seen = 0;
    for frame in frames().iter().filter(|f| f.get("error").is_some()) {
        let (name, bytes, error) = (&frame["name"], bytes(frame), &frame["error"]);
        if frame["direction"] == "answer" {
            assert_eq!(decode_answer(&bytes), Err(MalformedAnswer), "{name}");
        } else {
            let closes = error["closes"].as_bool().unwrap();
            let expected = RequestError {
                code: ErrorCode::from_u8(small(&error["code"])),
                id: num(&error["id"]),
                consumed: (!closes).then_some(bytes.len()),
                silent: error["silent"].as_bool().unwrap_or(false),
            };
            assert_eq!(decode_request(&bytes), Err(expected), "{name}");
            let mut behind = bytes.clone();
            behind.extend_from_slice(b"P12345678\n");
            assert_eq!(decode_request(&behind), Err(expected), "{name} with a frame behind it");
        }
        seen += 1;
    }
    assert!(seen > 40, "only {seen} bad frames");
}
