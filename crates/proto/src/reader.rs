//! A cursor over received bytes that only moves forward, and why it stops.

use core::str;

use crate::{ErrorCode, MAX_KEY, MAX_TEXT, NEWLINE};

/// Why no frame could be read.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The frame is good so far, but not all of it is here.
    Incomplete,
    /// The frame is bad, and what is left of it is not worth reading: its session ends.
    Closing { code: ErrorCode, id: u64 },
    /// The frame is bad, but its end is known: the next one can be read.
    Skip { code: ErrorCode, id: u64 },
}

/// Reads one frame from the front of `bytes`. Header fields come by count; only [`Reader::text`] looks for the newline.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes were read so far.
    pub(crate) fn consumed(&self) -> usize {
        self.at
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let field = self.bytes[self.at..].first_chunk::<N>().ok_or(Stop::Incomplete)?;
        self.at += N;
        Ok(*field)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Stop> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Stop> {
        self.take().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Stop> {
        self.take().map(u64::from_be_bytes)
    }

    /// The newline that follows the header of a frame without text.
    pub(crate) fn end(&mut self, id: u64) -> Result<(), Stop> {
        match self.u8()? {
            NEWLINE => Ok(()),
            _ => Err(Stop::Closing { code: ErrorCode::Malformed, id }),
        }
    }

    /// Everything up to the newline, which is read too. `too_long` is what a longer text than `max` bytes means; it is
    /// known without buffering the rest.
    fn line(&mut self, max: usize, too_long: Stop) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let window = &rest[..rest.len().min(max + 1)];
        match memchr::memchr(NEWLINE, window) {
            Some(len) => {
                self.at += len + 1;
                Ok(&window[..len])
            }
            None if window.len() > max => Err(too_long),
            None => Err(Stop::Incomplete),
        }
    }

    /// A key and the newline behind it. `id` names the request in an error.
    pub(crate) fn key(&mut self, id: u64) -> Result<&'a str, Stop> {
        let code = ErrorCode::BadKey;
        let line = self.line(MAX_KEY, Stop::Closing { code, id })?;
        match str::from_utf8(line) {
            Ok(key) if !key.is_empty() => Ok(key),
            _ => Err(Stop::Skip { code, id }),
        }
    }

    /// A text that is not a key, and the newline behind it.
    pub(crate) fn text(&mut self, id: u64) -> Result<&'a str, Stop> {
        let code = ErrorCode::Malformed;
        let line = self.line(MAX_TEXT, Stop::Closing { code, id })?;
        str::from_utf8(line).map_err(|_| Stop::Closing { code, id })
    }
}
