//! `E`, extend, and its answer, extended (`E`). A release's not held (`N`) answers it too.

use alloc::vec::Vec;

use crate::reader::{Reader, Stop};
use crate::{ErrorCode, NEWLINE};

/// Asks for a later end of a lease: the later of the old end and now + lease. Answered by [`Extended`],
/// [`NotHeld`](crate::NotHeld) or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extend<'a> {
    /// The lease wanted from now on, in seconds; never 0.
    pub lease_s: u8,
    /// The exact token of the grant.
    pub token: u64,
    /// The key.
    pub key: &'a str,
}

impl<'a> Extend<'a> {
    pub(crate) const OP: u8 = b'E';

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Stop> {
        let lease_s = reader.u8()?;
        let token = reader.u64()?;
        let key = reader.key(token)?;
        if lease_s == 0 {
            return Err(Stop::Skip { code: ErrorCode::BadLease, id: token });
        }
        Ok(Self { lease_s, token, key })
    }

    /// Appends the frame to `out`. The key must have passed [`check_key`](crate::check_key).
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(crate::check_key(self.key), Ok(()));
        out.extend_from_slice(&[Self::OP, self.lease_s]);
        out.extend_from_slice(&self.token.to_be_bytes());
        out.extend_from_slice(self.key.as_bytes());
        out.push(NEWLINE);
    }
}

/// The lease lasts at least `lease_s` seconds from the moment at which the extend was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// The token of the request.
    pub token: u64,
    /// The lease that the server keeps, in seconds: the one asked for, or the server's longest.
    pub lease_s: u8,
}

impl Extended {
    pub(crate) const OP: u8 = b'E';
    pub(crate) const LEN: usize = 11;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Stop> {
        let token = reader.u64()?;
        let lease_s = reader.u8()?;
        reader.end(token)?;
        if lease_s == 0 {
            return Err(Stop::Closing { code: ErrorCode::Malformed, id: token });
        }
        Ok(Self { token, lease_s })
    }

    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::OP);
        out.extend_from_slice(&self.token.to_be_bytes());
        out.extend_from_slice(&[self.lease_s, NEWLINE]);
    }
}
