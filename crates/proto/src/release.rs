//! `R`, release, and its answers: released (`R`) and not held (`N`).

use alloc::vec::Vec;

use crate::NEWLINE;
use crate::reader::{Reader, Stop};

/// Gives a lock back. Answered by [`Released`], [`NotHeld`] or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// The exact token of the grant.
    pub token: u64,
    /// The key.
    pub key: &'a str,
}

impl<'a> Release<'a> {
    pub(crate) const OP: u8 = b'R';

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Stop> {
        let token = reader.u64()?;
        let key = reader.key(token)?;
        Ok(Self { token, key })
    }

    /// Appends the frame to `out`. The key must have passed [`check_key`](crate::check_key).
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(crate::check_key(self.key), Ok(()));
        out.push(Self::OP);
        out.extend_from_slice(&self.token.to_be_bytes());
        out.extend_from_slice(self.key.as_bytes());
        out.push(NEWLINE);
    }
}

/// The grant with this token is over; the key went to the next waiter or is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The token of the request.
    pub token: u64,
}

impl Released {
    pub(crate) const OP: u8 = b'R';
    pub(crate) const LEN: usize = 10;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Stop> {
        let token = reader.u64()?;
        reader.end(token)?;
        Ok(Self { token })
    }

    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::OP);
        out.extend_from_slice(&self.token.to_be_bytes());
        out.push(NEWLINE);
    }
}

/// The key is not held with this token (any more); nothing changed. Answers a release or an extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld {
    /// The token of the request.
    pub token: u64,
}

impl NotHeld {
    pub(crate) const OP: u8 = b'N';
    pub(crate) const LEN: usize = 10;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Stop> {
        let token = reader.u64()?;
        reader.end(token)?;
        Ok(Self { token })
    }

    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::OP);
        out.extend_from_slice(&self.token.to_be_bytes());
        out.push(NEWLINE);
    }
}
