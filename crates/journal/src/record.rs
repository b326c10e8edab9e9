//! The records, byte by byte as docs/journal-format.md has them.

use crate::boot::BootIdentity;
use crate::bytes::Bytes;

/// The longest key, in bytes.
const MAX_KEY: usize = 1024;

/// What an answer waits for (docs/guarantees.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Until its record's write has returned: the process may die.
    Process,
    /// Until its record is on stable storage: the machine may die.
    Machine,
}

impl Mode {
    /// Its name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Machine => "machine",
        }
    }
}

/// How a segment came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It got its name when it was complete.
    Alone,
    /// It goes on behind the segment before it, at least until its end mark.
    Continuing,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Continuing => "continuing",
        }
    }
}

/// Why a lease record was written. Reading it makes no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Granted,
    Extended,
    Copy,
}

/// Why a directory is not what the last run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepairCause {
    Cut,
    Restored,
}

/// Numbers that only rise, and below which the next run must not begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ceilings {
    /// The longest lease that may have been given, in milliseconds.
    pub(crate) lease_ms: u32,
    /// The greatest token that may have been used.
    pub(crate) token: u64,
}

/// An end, and how long it was until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The instant, under the boot identity of the run.
    pub(crate) at_ms: u64,
    /// The time left when it was written.
    pub(crate) left_ms: u32,
}

impl End {
    pub(crate) fn new(at_ms: u64, now_ms: u64) -> Self {
        let left_ms = u32::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(u32::MAX);
        Self { at_ms, left_ms }
    }
}

/// The run that writes a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) mode: Mode,
    pub(crate) kind: Kind,
    pub(crate) server_id: [u8; 16],
    pub(crate) ceilings: Ceilings,
    pub(crate) recovery: Option<End>,
    pub(crate) boot: Option<BootIdentity>,
}

/// All that is to be known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRecord<'a> {
    pub(crate) cause: Cause,
    pub(crate) token: u64,
    pub(crate) end: End,
    pub(crate) key: &'a str,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Run(Run),
    Lease(LeaseRecord<'a>),
    Freed { token: u64, key: &'a str },
    LeaseCeiling(u32),
    TokenCeiling(u64),
    EndMark,
    Stop,
    RepairMark(RepairCause),
}

const RUN: u8 = 1;
const GRANTED: u8 = 2;
const EXTENDED: u8 = 3;
const COPY: u8 = 4;
const FREED: u8 = 5;
const LEASE_CEILING: u8 = 6;
const TOKEN_CEILING: u8 = 7;
const END_MARK: u8 = 8;
const STOP: u8 = 9;
const REPAIR_MARK: u8 = 10;

/// The bytes that a lease takes in a checkpoint.
pub(crate) fn lease_bytes(key: &str) -> u64 {
    (1 + 8 + 8 + 4 + 2 + key.len()) as u64
}

impl Record<'_> {
    /// Writes the record behind what is there.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Run(run) => run.encode(out),
            Self::Lease(lease) => lease.encode(out),
            Self::Freed { token, key } => {
                out.push(FREED);
                out.extend_from_slice(&token.to_be_bytes());
                encode_key(key, out);
            }
            Self::LeaseCeiling(ms) => {
                out.push(LEASE_CEILING);
                out.extend_from_slice(&ms.to_be_bytes());
            }
            Self::TokenCeiling(token) => {
                out.push(TOKEN_CEILING);
                out.extend_from_slice(&token.to_be_bytes());
            }
            Self::EndMark => out.push(END_MARK),
            Self::Stop => out.push(STOP),
            Self::RepairMark(cause) => out.extend_from_slice(&[
                REPAIR_MARK,
                match cause {
                    RepairCause::Cut => 1,
                    RepairCause::Restored => 2,
                },
            ]),
        }
    }
}

impl<'a> Record<'a> {
    /// Takes a record from the front; none if the bytes are not one.
    pub(crate) fn decode(bytes: &mut Bytes<'a>) -> Option<Self> {
        Some(match bytes.u8()? {
            RUN => Self::Run(Run::decode(bytes)?),
            GRANTED => Self::Lease(LeaseRecord::decode(Cause::Granted, bytes)?),
            EXTENDED => Self::Lease(LeaseRecord::decode(Cause::Extended, bytes)?),
            COPY => Self::Lease(LeaseRecord::decode(Cause::Copy, bytes)?),
            FREED => Self::Freed { token: decode_token(bytes)?, key: decode_key(bytes)? },
            LEASE_CEILING => Self::LeaseCeiling(bytes.u32()?),
            TOKEN_CEILING => Self::TokenCeiling(decode_token_ceiling(bytes)?),
            END_MARK => Self::EndMark,
            STOP => Self::Stop,
            REPAIR_MARK => Self::RepairMark(match bytes.u8()? {
                1 => RepairCause::Cut,
                2 => RepairCause::Restored,
                _ => return None,
            }),
            _ => return None,
        })
    }

    /// All records of a batch; the iterator ends early where the bytes are none.
    pub(crate) fn all(records: &'a [u8]) -> impl Iterator<Item = Record<'a>> {
        let mut bytes = Bytes(records);
        std::iter::from_fn(move || Record::decode(&mut bytes))
    }

    /// Whether the bytes are records to the last one, and a run record stands first or nowhere.
    pub(crate) fn are_readable(records: &[u8]) -> bool {
        let mut bytes = Bytes(records);
        let mut first = true;
        while !bytes.is_empty() {
            match Record::decode(&mut bytes) {
                None => return false,
                Some(Record::Run(_)) if !first => return false,
                Some(_) => first = false,
            }
        }
        !first
    }
}

impl LeaseRecord<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self.cause {
            Cause::Granted => GRANTED,
            Cause::Extended => EXTENDED,
            Cause::Copy => COPY,
        });
        out.extend_from_slice(&self.token.to_be_bytes());
        self.end.encode(out);
        encode_key(self.key, out);
    }
}

impl<'a> LeaseRecord<'a> {
    fn decode(cause: Cause, bytes: &mut Bytes<'a>) -> Option<Self> {
        Some(Self { cause, token: decode_token(bytes)?, end: End::decode(bytes)?, key: decode_key(bytes)? })
    }
}

impl End {
    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.at_ms.to_be_bytes());
        out.extend_from_slice(&self.left_ms.to_be_bytes());
    }

    fn decode(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self { at_ms: bytes.u64()?, left_ms: bytes.u32()? })
    }
}

impl Run {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(RUN);
        out.extend_from_slice(&self.number.to_be_bytes());
        out.push(match self.mode {
            Mode::Process => 1,
            Mode::Machine => 2,
        });
        out.push(match self.kind {
            Kind::Alone => 1,
            Kind::Continuing => 2,
        });
        out.extend_from_slice(&self.server_id);
        out.extend_from_slice(&self.ceilings.lease_ms.to_be_bytes());
        out.extend_from_slice(&self.ceilings.token.to_be_bytes());
        self.recovery.unwrap_or(End { at_ms: 0, left_ms: 0 }).encode(out);
        let boot = self.boot.as_ref().map_or("", BootIdentity::as_str);
        out.push(u8::try_from(boot.len()).expect("a boot identity has at most 255 bytes"));
        out.extend_from_slice(boot.as_bytes());
    }

    fn decode(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self {
            number: bytes.u64()?,
            mode: match bytes.u8()? {
                1 => Mode::Process,
                2 => Mode::Machine,
                _ => return None,
            },
            kind: match bytes.u8()? {
                1 => Kind::Alone,
                2 => Kind::Continuing,
                _ => return None,
            },
            server_id: bytes.array()?,
            ceilings: Ceilings { lease_ms: bytes.u32()?, token: decode_token_ceiling(bytes)? },
            recovery: Some(End::decode(bytes)?).filter(|end| end.at_ms != 0),
            boot: {
                let length = usize::from(bytes.u8()?);
                BootIdentity::new(bytes.text(length)?)
            },
        })
    }
}

fn encode_key(key: &str, out: &mut Vec<u8>) {
    debug_assert!((1..=MAX_KEY).contains(&key.len()), "a key has 1 to 1024 bytes");
    let length = u16::try_from(key.len()).expect("a key has at most 1024 bytes");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(key.as_bytes());
}

fn decode_key<'a>(bytes: &mut Bytes<'a>) -> Option<&'a str> {
    let length = usize::from(bytes.u16()?);
    bytes.text(length).filter(|_| (1..=MAX_KEY).contains(&length))
}

/// There are always tokens above a ceiling.
fn decode_token_ceiling(bytes: &mut Bytes<'_>) -> Option<u64> {
    bytes.u64().filter(|&token| token < 1 << 63)
}

fn decode_token(bytes: &mut Bytes<'_>) -> Option<u64> {
    bytes.u64().filter(|token| (1..1 << 63).contains(token))
}
