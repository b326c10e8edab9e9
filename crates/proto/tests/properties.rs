//! Properties of the codec: what is encoded is decoded, any split of a stream gives the same frames, and no bytes make
//! it panic or read past a frame.

#![allow(clippy::unwrap_used)]

use lockstead_proto::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Owned {
    Acquire(u8, u8, u64, String),
    Release(u64, String),
    Extend(u8, u64, String),
    Cancel(u64, String),
    Query(u64, String),
    Ping(u64),
    Hello(u64, String),
}

impl Owned {
    fn borrow(&self) -> Request<'_> {
        match self {
            Self::Acquire(wait_s, lease_s, owner, key) => {
                Request::Acquire(Acquire { wait_s: *wait_s, lease_s: *lease_s, owner: *owner, key })
            }
            Self::Release(token, key) => Request::Release(Release { token: *token, key }),
            Self::Extend(lease_s, token, key) => {
                Request::Extend(Extend { lease_s: *lease_s, token: *token, key })
            }
            Self::Cancel(owner, key) => Request::Cancel(Cancel { owner: *owner, key }),
            Self::Query(id, key) => Request::Query(Query { id: *id, key }),
            Self::Ping(id) => Request::Ping(Ping { id: *id }),
            Self::Hello(id, text) => Request::Hello(Hello { version: VERSION, id: *id, text }),
        }
    }
}

/// Ids that are full of newlines as often as not.
fn id() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), Just(0x0a0a_0a0a_0a0a_0a0a), Just(10)]
}

fn lease() -> impl Strategy<Value = u8> {
    prop_oneof![1..=255u8, Just(10)]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[^\n]{1,40}",
        (1..=MAX_KEY).prop_map(|n| "k".repeat(n)),
        Just("é".repeat(MAX_KEY / 2)),
        Just("\0\r ".to_string())
    ]
}

fn request() -> impl Strategy<Value = Owned> {
    prop_oneof![
        (any::<u8>(), lease(), id(), key()).prop_map(|(w, l, o, k)| Owned::Acquire(w, l, o, k)),
        (id(), key()).prop_map(|(t, k)| Owned::Release(t, k)),
        (lease(), id(), key()).prop_map(|(l, t, k)| Owned::Extend(l, t, k)),
        (id(), key()).prop_map(|(o, k)| Owned::Cancel(o, k)),
        (id(), key()).prop_map(|(i, k)| Owned::Query(i, k)),
        id().prop_map(Owned::Ping),
        (id(), "[^\n]{0,60}").prop_map(|(i, t)| Owned::Hello(i, t)),
    ]
}

proptest! {
    #[test]
    fn p21_any_split_of_a_stream_gives_the_same_frames(
        requests in prop::collection::vec(request(), 1..12),
        splits in prop::collection::vec(1..200usize, 1..40),
    ) {
        let mut stream = Vec::new();
        requests.iter().for_each(|r| r.borrow().encode(&mut stream));
        let (mut buffer, mut rest, mut got) = (Vec::new(), &stream[..], 0);
        for step in splits.iter().cycle() {
            let (now, later) = rest.split_at((*step).min(rest.len()));
            buffer.extend_from_slice(now);
            rest = later;
            while let Some((request, used)) = decode_request(&buffer).unwrap() {
                prop_assert_eq!(request, requests[got].borrow());
                got += 1;
                buffer.drain(..used);
            }
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(got, requests.len());
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn no_bytes_make_a_decoder_panic_or_read_past_its_input(
        op in prop_oneof![prop::sample::select(b"ARECQPHTBNX".to_vec()), any::<u8>()],
        tail in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n')], 0..1400),
    ) {
        let mut bytes = vec![op];
        bytes.extend_from_slice(&tail);
        match decode_request(&bytes) {
            Ok(Some((_, used))) => prop_assert!(used <= bytes.len() && bytes[used - 1] == b'\n'),
            Ok(None) => prop_assert!(bytes.len() < MAX_REQUEST),
            Err(error) => prop_assert!(error.consumed.is_none_or(|n| n <= bytes.len() && bytes[n - 1] == b'\n')),
        }
        if let Ok(Some((_, used))) = decode_answer(&bytes) {
            prop_assert!(used <= bytes.len() && bytes[used - 1] == b'\n');
        }
    }
}
