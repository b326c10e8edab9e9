//! `A`, acquire, and the three answers that end an attempt: acquired (`A`), timeout (`T`), busy (`B`).

use alloc::vec::Vec;

use crate::reader::{Reader, Stop};
use crate::{BusyReason, CLIENT_ID_BIT, ErrorCode, NEWLINE};

/// Asks for the lock on a key. Answered by exactly one of [`Acquired`], [`Timeout`], [`Busy`] or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire<'a> {
    /// How long to wait in the queue, in seconds. 0 is one immediate attempt; there is no endless wait.
    pub wait_s: u8,
    /// How long the server keeps the grant without hearing more, in seconds; never 0.
    pub lease_s: u8,
    /// Matches the answer to this request; no authority over the lock.
    pub owner: u64,
    /// The key.
    pub key: &'a str,
}

impl<'a> Acquire<'a> {
    pub(crate) const OP: u8 = b'A';

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Stop> {
        let wait_s = reader.u8()?;
        let lease_s = reader.u8()?;
        let owner = reader.u64()?;
        let key = reader.key(owner)?;
        if lease_s == 0 {
            return Err(Stop::Skip { code: ErrorCode::BadLease, id: owner });
        }
        Ok(Self { wait_s, lease_s, owner, key })
    }

    /// Appends the frame to `out`. The key must have passed [`check_key`](crate::check_key).
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(crate::check_key(self.key), Ok(()));
        out.extend_from_slice(&[Self::OP, self.wait_s, self.lease_s]);
        out.extend_from_slice(&self.owner.to_be_bytes());
        out.extend_from_slice(self.key.as_bytes());
        out.push(NEWLINE);
    }
}

/// The lock was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// The owner of the request.
    pub owner: u64,
    /// The authority over this grant, and its fencing token; never 0, and greater than every earlier one.
    pub token: u64,
    /// The lease that the server keeps, in seconds: the one asked for, or the server's longest.
    pub lease_s: u8,
    /// How long the request was queued, in milliseconds; never overstated.
    pub waited_ms: u32,
}

impl Acquired {
    pub(crate) const OP: u8 = b'A';
    pub(crate) const LEN: usize = 23;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Stop> {
        let owner = reader.u64()?;
        let token = reader.u64()?;
        let lease_s = reader.u8()?;
        let waited_ms = reader.u32()?;
        reader.end(owner)?;
        if token == 0 || token & CLIENT_ID_BIT != 0 || lease_s == 0 {
            return Err(Stop::Closing { code: ErrorCode::Malformed, id: owner });
        }
        Ok(Self { owner, token, lease_s, waited_ms })
    }

    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut frame = [0; Self::LEN];
        frame[0] = Self::OP;
        frame[1..9].copy_from_slice(&self.owner.to_be_bytes());
        frame[9..17].copy_from_slice(&self.token.to_be_bytes());
        frame[17] = self.lease_s;
        frame[18..22].copy_from_slice(&self.waited_ms.to_be_bytes());
        frame[22] = NEWLINE;
        out.extend_from_slice(&frame);
    }
}

/// The wait ended, or the attempt was cancelled, without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// The owner of the request.
    pub owner: u64,
}

impl Timeout {
    pub(crate) const OP: u8 = b'T';
    pub(crate) const LEN: usize = 10;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Stop> {
        let owner = reader.u64()?;
        reader.end(owner)?;
        Ok(Self { owner })
    }

    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::OP);
        out.extend_from_slice(&self.owner.to_be_bytes());
        out.push(NEWLINE);
    }
}

/// The attempt was neither granted nor queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The owner of the request.
    pub owner: u64,
    /// Why.
    pub reason: BusyReason,
}

impl Busy {
    pub(crate) const OP: u8 = b'B';
    pub(crate) const LEN: usize = 11;

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Stop> {
        let owner = reader.u64()?;
        let reason = BusyReason::from_u8(reader.u8()?);
        reader.end(owner)?;
        Ok(Self { owner, reason })
    }

    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(Self::OP);
        out.extend_from_slice(&self.owner.to_be_bytes());
        out.extend_from_slice(&[self.reason.as_u8(), NEWLINE]);
    }
}
