//! The closed set of requests, and the server's decoder.

use alloc::vec::Vec;

use crate::reader::{Reader, Stop};
use crate::{Acquire, Cancel, ErrorCode, Extend, Hello, Ping, Query, Release};

/// What a client can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `A`
    Acquire(Acquire<'a>),
    /// `R`
    Release(Release<'a>),
    /// `E`
    Extend(Extend<'a>),
    /// `C`
    Cancel(Cancel<'a>),
    /// `Q`
    Query(Query<'a>),
    /// `P`
    Ping(Ping),
    /// `H`
    Hello(Hello<'a>),
}

impl Request<'_> {
    /// Appends the frame to `out`. Keys must have passed [`check_key`](crate::check_key).
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Acquire(frame) => frame.encode(out),
            Self::Release(frame) => frame.encode(out),
            Self::Extend(frame) => frame.encode(out),
            Self::Cancel(frame) => frame.encode(out),
            Self::Query(frame) => frame.encode(out),
            Self::Ping(frame) => frame.encode(out),
            Self::Hello(frame) => frame.encode(out),
        }
    }
}

/// A request that breaks the rules; the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} (request {id:#x})")]
pub struct RequestError {
    /// What is wrong with it.
    pub code: ErrorCode,
    /// The owner, token or id in its header; 0 where none can be known.
    pub id: u64,
    /// How many bytes to skip to the next frame; `None` ends the session.
    pub consumed: Option<usize>,
    /// Whether nothing is answered: a cancel has no answer of its own, not even an error that leaves the session open.
    pub silent: bool,
}

/// Reads one request from the front of `bytes` and says how many bytes it took. `None`: not all of it is here yet.
/// Bytes behind the request do not matter, so any split of a stream gives the same requests.
pub fn decode_request(bytes: &[u8]) -> Result<Option<(Request<'_>, usize)>, RequestError> {
    let Some(&op) = bytes.first() else { return Ok(None) };
    let mut reader = Reader::new(bytes);
    match decode_op(&mut reader) {
        Ok(request) => Ok(Some((request, reader.consumed()))),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Closing { code, id }) => Err(RequestError { code, id, consumed: None, silent: false }),
        Err(Stop::Skip { code, id }) => {
            Err(RequestError { code, id, consumed: Some(reader.consumed()), silent: op == Cancel::OP })
        }
    }
}

fn decode_op<'a>(reader: &mut Reader<'a>) -> Result<Request<'a>, Stop> {
    match reader.u8()? {
        Acquire::OP => Acquire::decode(reader).map(Request::Acquire),
        Release::OP => Release::decode(reader).map(Request::Release),
        Extend::OP => Extend::decode(reader).map(Request::Extend),
        Cancel::OP => Cancel::decode(reader).map(Request::Cancel),
        Query::OP => Query::decode(reader).map(Request::Query),
        Ping::OP => Ping::decode(reader).map(Request::Ping),
        Hello::OP => Hello::decode(reader).map(Request::Hello),
        _ => Err(Stop::Closing { code: ErrorCode::UnknownOp, id: 0 }),
    }
}
