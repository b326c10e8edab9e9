//! `H`, hello, and its answer, welcome (`H`): who is there, and which limits hold.

use alloc::vec::Vec;

use crate::reader::{Reader, Stop};
use crate::{ErrorCode, MAX_TEXT, NEWLINE, VERSION};

/// The first frame of an official client. Answered by [`Welcome`] or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The protocol version that the client speaks: [`VERSION`].
    pub version: u8,
    /// Matches the answer to this request.
    pub id: u64,
    /// `name=… auth=…`; see [`HelloText`].
    pub text: &'a str,
}

impl<'a> Hello<'a> {
    pub(crate) const OP: u8 = b'H';

    /// A version that is not spoken here ends the session as soon as it is seen: what follows it may mean anything.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Stop> {
        let version = reader.u8()?;
        let id = reader.u64()?;
        if version != VERSION {
            return Err(Stop::Closing { code: ErrorCode::UnsupportedVersion, id });
        }
        let text = reader.text(id)?;
        Ok(Self { version, id, text })
    }

    /// Appends the frame to `out`. The text must have no newline and at most [`MAX_TEXT`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(Self::OP, self.version, self.id, self.text, out);
    }
}

/// The pairs that a hello's text may carry. Unknown names are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelloText<'a> {
    /// What operators see of the client, 1 to 64 bytes.
    pub name: Option<&'a str>,
    /// The API token.
    pub auth: Option<&'a str>,
}

impl<'a> HelloText<'a> {
    /// The longest name, in bytes.
    pub const MAX_NAME: usize = 64;

    /// Reads the pairs of a hello. `None` when the name has no bytes or too many.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut found = Self::default();
        for (name, value) in pairs(text) {
            match name {
                "name" if value.is_empty() || value.len() > Self::MAX_NAME => return None,
                "name" => found.name = Some(value),
                "auth" => found.auth = Some(value),
                _ => {}
            }
        }
        Some(found)
    }
}

/// The hello was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome<'a> {
    /// The protocol version that the server speaks.
    pub version: u8,
    /// The id of the request.
    pub id: u64,
    /// `name=value` pairs; see [`WelcomeText`].
    pub text: &'a str,
}

impl<'a> Welcome<'a> {
    pub(crate) const OP: u8 = b'H';

    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, Stop> {
        let version = reader.u8()?;
        let id = reader.u64()?;
        let text = reader.text(id)?;
        Ok(Self { version, id, text })
    }

    /// Appends the frame to `out`. The text must have no newline and at most [`MAX_TEXT`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(Self::OP, self.version, self.id, self.text, out);
    }
}

/// The pairs that a welcome's text carries. Unknown names are ignored, missing ones are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WelcomeText<'a> {
    /// Program and version, `lockstead/…`.
    pub server: Option<&'a str>,
    /// The server id: 32 hexadecimal digits.
    pub id: Option<&'a str>,
    /// This session's number, never used again under that id.
    pub session: Option<u64>,
    /// The longest lease that the server grants, in seconds.
    pub max_lease_s: Option<u8>,
}

impl<'a> WelcomeText<'a> {
    /// Reads the pairs of a welcome. A value that does not parse counts as missing.
    pub fn parse(text: &'a str) -> Self {
        let mut found = Self::default();
        for (name, value) in pairs(text) {
            match name {
                "server" => found.server = Some(value),
                "id" => found.id = Some(value),
                "session" => found.session = value.parse().ok(),
                "max_lease" => found.max_lease_s = value.parse().ok(),
                _ => {}
            }
        }
        found
    }
}

/// Pairs are split at single spaces, name and value at the first `=`. A piece without one is no pair.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(' ').filter_map(|pair| pair.split_once('='))
}

fn encode(op: u8, version: u8, id: u64, text: &str, out: &mut Vec<u8>) {
    debug_assert!(text.len() <= MAX_TEXT && !text.as_bytes().contains(&NEWLINE));
    out.extend_from_slice(&[op, version]);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(NEWLINE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_text_knows_name_and_auth() {
        assert_eq!(
            HelloText::parse("name=job auth=a=b colour=red plain"),
            Some(HelloText { name: Some("job"), auth: Some("a=b") })
        );
        assert_eq!(HelloText::parse(""), Some(HelloText::default()));
        assert_eq!(HelloText::parse("name="), None);
        let longest = std::format!("name={}", "n".repeat(HelloText::MAX_NAME));
        assert_eq!(HelloText::parse(&longest).and_then(|t| t.name), Some(&longest[5..]));
        assert_eq!(HelloText::parse(&(longest + "n")), None);
    }

    #[test]
    fn welcome_text_is_read_and_what_is_unknown_is_left() {
        let text =
            "server=lockstead/0.1.0 id=00ff session=18446744073709551615 max_key=1024 max_lease=255 x=y";
        let read = WelcomeText::parse(text);
        assert_eq!(read.server, Some("lockstead/0.1.0"));
        assert_eq!(read.id, Some("00ff"));
        assert_eq!(read.session, Some(u64::MAX));
        assert_eq!(read.max_lease_s, Some(255));
        assert_eq!(WelcomeText::parse("session=x max_lease=256"), WelcomeText::default());
    }
}
