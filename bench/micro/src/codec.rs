//! The frames that every lock travels in, both ways and at both ends.

use std::hint::black_box;

use lockstead_proto::{
    Acquire, Acquired, Answer, Extend, Extended, KeyState, Ping, Pong, Query, Release, Released, Request,
    State, decode_answer, decode_request,
};

use crate::{Case, OPERATIONS, Work, keys};

const OWNER: u64 = 0x8123_4567_89ab_cdef;
const TOKEN: u64 = 0x0006_4501_89ab_cdef;

pub(crate) fn cases() -> Vec<Case> {
    let key: &'static str = keys(1).remove(0).leak();
    let requests = [
        ("acquire", Request::Acquire(Acquire { wait_s: 10, lease_s: 30, owner: OWNER, key })),
        ("release", Request::Release(Release { token: TOKEN, key })),
        ("extend", Request::Extend(Extend { lease_s: 30, token: TOKEN, key })),
        ("query", Request::Query(Query { id: OWNER, key })),
        ("ping", Request::Ping(Ping { id: OWNER })),
    ];
    let state = State { id: OWNER, state: KeyState::Held, remaining_ms: 29_000, waiters: 3 };
    let answers = [
        ("acquired", Answer::Acquired(Acquired { owner: OWNER, token: TOKEN, lease_s: 30, waited_ms: 12 })),
        ("released", Answer::Released(Released { token: TOKEN })),
        ("extended", Answer::Extended(Extended { token: TOKEN, lease_s: 30 })),
        ("state", Answer::State(state)),
        ("pong", Answer::Pong(Pong { id: OWNER })),
    ];
    let mut cases = Vec::new();
    for (name, frame) in requests {
        let encode = move |out: &mut Vec<u8>| black_box(&frame).encode(out);
        let decode = move |bytes: &[u8]| match decode_request(bytes) {
            Ok(Some((read, used))) if read == frame => used,
            _ => 0,
        };
        cases.push(Case::new(format!("proto/encode/{name}"), move || Encode::new(encode)));
        cases.push(Case::new(format!("proto/decode/{name}"), move || Decode::new(encode, decode)));
    }
    for (name, frame) in answers {
        let encode = move |out: &mut Vec<u8>| black_box(&frame).encode(out);
        let decode = move |bytes: &[u8]| match decode_answer(bytes) {
            Ok(Some((read, used))) if read == frame => used,
            _ => 0,
        };
        cases.push(Case::new(format!("proto/encode/{name}"), move || Encode::new(encode)));
        cases.push(Case::new(format!("proto/decode/{name}"), move || Decode::new(encode, decode)));
    }
    cases
}

/// One frame after the other into one buffer.
struct Encode<E> {
    encode: E,
    out: Vec<u8>,
    frame_bytes: usize,
}

impl<E: Fn(&mut Vec<u8>)> Encode<E> {
    fn new(encode: E) -> Self {
        let mut out = Vec::new();
        encode(&mut out);
        Self { encode, frame_bytes: out.len(), out }
    }
}

impl<E: Fn(&mut Vec<u8>)> Work for Encode<E> {
    fn run(&mut self) -> usize {
        self.out.clear();
        for _ in 0..OPERATIONS {
            (self.encode)(&mut self.out);
        }
        self.out.len() / self.frame_bytes
    }
}

/// One frame after the other from one buffer.
struct Decode<D> {
    decode: D,
    bytes: Vec<u8>,
}

impl<D: Fn(&[u8]) -> usize> Decode<D> {
    fn new(encode: impl Fn(&mut Vec<u8>), decode: D) -> Self {
        let mut bytes = Vec::new();
        (0..OPERATIONS).for_each(|_| encode(&mut bytes));
        Self { decode, bytes }
    }
}

impl<D: Fn(&[u8]) -> usize> Work for Decode<D> {
    fn run(&mut self) -> usize {
        let mut at = 0;
        let mut right = 0;
        while at < self.bytes.len() {
            match (self.decode)(&self.bytes[at..]) {
                0 => break,
                used => at += used,
            }
            right += 1;
        }
        right
    }
}
