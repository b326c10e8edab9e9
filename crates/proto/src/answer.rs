//! The closed set of answers, and the client's decoder.

use alloc::vec::Vec;

use crate::reader::{Reader, Stop};
use crate::{
    Acquired, Busy, ErrorAnswer, ErrorCode, Extended, NEWLINE, NotHeld, Pong, Released, State, Timeout,
    Welcome,
};

/// What a server can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// `A`
    Acquired(Acquired),
    /// `T`
    Timeout(Timeout),
    /// `B`
    Busy(Busy),
    /// `R`
    Released(Released),
    /// `E`
    Extended(Extended),
    /// `N`
    NotHeld(NotHeld),
    /// `Q`
    State(State),
    /// `P`
    Pong(Pong),
    /// `H`
    Welcome(Welcome<'a>),
    /// `X`
    Error(ErrorAnswer<'a>),
}

impl Answer<'_> {
    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Acquired(frame) => frame.encode(out),
            Self::Timeout(frame) => frame.encode(out),
            Self::Busy(frame) => frame.encode(out),
            Self::Released(frame) => frame.encode(out),
            Self::Extended(frame) => frame.encode(out),
            Self::NotHeld(frame) => frame.encode(out),
            Self::State(frame) => frame.encode(out),
            Self::Pong(frame) => frame.encode(out),
            Self::Welcome(frame) => frame.encode(out),
            Self::Error(frame) => frame.encode(out),
        }
    }
}

/// The server sent bytes that are no answer; its fault. Nothing behind them can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server sent bytes that are no answer")]
pub struct MalformedAnswer;

/// Reads one answer from the front of `bytes` and says how many bytes it took. `None`: not all of it is here yet.
pub fn decode_answer(bytes: &[u8]) -> Result<Option<(Answer<'_>, usize)>, MalformedAnswer> {
    let mut reader = Reader::new(bytes);
    match decode_op(&mut reader) {
        Ok(answer) => Ok(Some((answer, reader.consumed()))),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Closing { .. } | Stop::Skip { .. }) => Err(MalformedAnswer),
    }
}

fn decode_op<'a>(reader: &mut Reader<'a>) -> Result<Answer<'a>, Stop> {
    match reader.u8()? {
        Acquired::OP => Acquired::decode(reader).map(Answer::Acquired),
        Timeout::OP => Timeout::decode(reader).map(Answer::Timeout),
        Busy::OP => Busy::decode(reader).map(Answer::Busy),
        Released::OP => Released::decode(reader).map(Answer::Released),
        Extended::OP => Extended::decode(reader).map(Answer::Extended),
        NotHeld::OP => NotHeld::decode(reader).map(Answer::NotHeld),
        State::OP => State::decode(reader).map(Answer::State),
        Pong::OP => Pong::decode(reader).map(Answer::Pong),
        Welcome::OP => Welcome::decode(reader).map(Answer::Welcome),
        ErrorAnswer::OP => ErrorAnswer::decode(reader).map(Answer::Error),
        _ => Err(Stop::Closing { code: ErrorCode::UnknownOp, id: 0 }),
    }
}

/// The length of the encoded answer at the front of `frames`: where the server's own output may be cut between
/// frames. `frames` must start with a whole answer that this crate encoded.
pub fn answer_len(frames: &[u8]) -> usize {
    match frames[0] {
        Acquired::OP => Acquired::LEN,
        Timeout::OP => Timeout::LEN,
        Busy::OP => Busy::LEN,
        Released::OP => Released::LEN,
        Extended::OP => Extended::LEN,
        NotHeld::OP => NotHeld::LEN,
        State::OP => State::LEN,
        Pong::OP => Pong::LEN,
        _ => {
            const HEADER: usize = 10; // Welcome and error: op, one byte, id; then text.
            let text =
                memchr::memchr(NEWLINE, &frames[HEADER..]).expect("an encoded frame ends with a newline");
            HEADER + text + 1
        }
    }
}
