//! `C`, cancel. It has no answer of its own: it makes the attempt's own timeout come now.

use alloc::vec::Vec;

use crate::NEWLINE;
use crate::reader::{Reader, Stop};

/// Takes the oldest queued attempt of this session with this owner and key out of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel<'a> {
    /// The owner of the attempt.
    pub owner: u64,
    /// The key of the attempt.
    pub key: &'a str,
}

impl<'a> Cancel<'a> {
    pub(crate) const OP: u8 = b'C';

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Stop> {
        let owner = reader.u64()?;
        let key = reader.key(owner)?;
        Ok(Self { owner, key })
    }

    /// Appends the frame to `out`. The key must have passed [`check_key`](crate::check_key).
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(crate::check_key(self.key), Ok(()));
        out.push(Self::OP);
        out.extend_from_slice(&self.owner.to_be_bytes());
        out.extend_from_slice(self.key.as_bytes());
        out.push(NEWLINE);
    }
}
