//! `X`, the error answer: something about the request, the session or the server is wrong.

use alloc::vec::Vec;

use crate::reader::{Reader, Stop};
use crate::{ErrorCode, MAX_TEXT, NEWLINE};

/// What is wrong, and with which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorAnswer<'a> {
    /// What is wrong.
    pub code: ErrorCode,
    /// The owner, token or id of the request; 0 where none can be known.
    pub id: u64,
    /// A sentence for a person.
    pub text: &'a str,
}

impl<'a> ErrorAnswer<'a> {
    pub(crate) const OP: u8 = b'X';

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Stop> {
        let code = ErrorCode::from_u8(reader.u8()?);
        let id = reader.u64()?;
        let text = reader.text(id)?;
        Ok(Self { code, id, text })
    }

    /// Appends the frame to `out`. The text must have no newline and at most [`MAX_TEXT`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.text.len() <= MAX_TEXT && !self.text.as_bytes().contains(&NEWLINE));
        out.extend_from_slice(&[Self::OP, self.code.as_u8()]);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(self.text.as_bytes());
        out.push(NEWLINE);
    }
}
