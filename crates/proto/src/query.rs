//! `Q`, query, and its answer, state (`Q`).

use alloc::vec::Vec;

use crate::reader::{Reader, Stop};
use crate::{KeyState, NEWLINE};

/// Asks how a key stands. Answered by [`State`] or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Matches the answer to this request.
    pub id: u64,
    /// The key.
    pub key: &'a str,
}

impl<'a> Query<'a> {
    pub(crate) const OP: u8 = b'Q';

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Stop> {
        let id = reader.u64()?;
        let key = reader.key(id)?;
        Ok(Self { id, key })
    }

    /// Appends the frame to `out`. The key must have passed [`check_key`](crate::check_key).
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(crate::check_key(self.key), Ok(()));
        out.push(Self::OP);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(self.key.as_bytes());
        out.push(NEWLINE);
    }
}

/// How the key stood when the query was processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The id of the request.
    pub id: u64,
    /// Free, held or recovering.
    pub state: KeyState,
    /// Held: until the lease ends; recovering: until recovery ends; else 0. Milliseconds, rounded up.
    pub remaining_ms: u32,
    /// How many attempts queue for the key.
    pub waiters: u32,
}

impl State {
    pub(crate) const OP: u8 = b'Q';
    pub(crate) const LEN: usize = 19;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Stop> {
        let id = reader.u64()?;
        let state = KeyState::from_u8(reader.u8()?);
        let remaining_ms = reader.u32()?;
        let waiters = reader.u32()?;
        reader.end(id)?;
        Ok(Self { id, state, remaining_ms, waiters })
    }

    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::OP);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.push(self.state.as_u8());
        out.extend_from_slice(&self.remaining_ms.to_be_bytes());
        out.extend_from_slice(&self.waiters.to_be_bytes());
        out.push(NEWLINE);
    }
}
