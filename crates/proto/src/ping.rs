//! `P`, ping, and its answer, pong (`P`).

use alloc::vec::Vec;

use crate::NEWLINE;
use crate::reader::{Reader, Stop};

/// Asks whether the server is there. Answered by [`Pong`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Matches the answer to this request.
    pub id: u64,
}

impl Ping {
    pub(crate) const OP: u8 = b'P';

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Stop> {
        let id = reader.u64()?;
        reader.end(id)?;
        Ok(Self { id })
    }

    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::OP);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.push(NEWLINE);
    }
}

/// The server is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The id of the request.
    pub id: u64,
}

impl Pong {
    pub(crate) const OP: u8 = b'P';
    pub(crate) const LEN: usize = 10;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Stop> {
        let id = reader.u64()?;
        reader.end(id)?;
        Ok(Self { id })
    }

    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::OP);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.push(NEWLINE);
    }
}
