//! What stands in a batch, by docs/journal-format.md, *Records*.

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// 1: who writes this segment.
    Run(Run),
    /// 2: a key was granted.
    Granted(Lease),
    /// 3: a lease ends later now.
    Extended(Lease),
    /// 4: a lease that was live when a checkpoint was made.
    Copy(Lease),
    /// 5: a lease is over.
    Freed {
        /// This token or a lower one.
        token: u64,
        /// The key.
        key: String,
    },
    /// 6: the longest lease that may have been given.
    LeaseCeiling {
        /// In milliseconds.
        lease_ms: u32,
    },
    /// 7: the greatest token that may have been used.
    TokenCeiling {
        /// The token.
        token: u64,
    },
    /// 8: the checkpoint is complete.
    EndMark,
    /// 9: the server has stopped cleanly.
    Stop,
    /// 10: an operator has repaired the directory.
    RepairMark {
        /// 1 a cut, 2 a directory that was put back.
        cause: u8,
    },
}

/// Everything about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The token.
    pub token: u64,
    /// The end, milliseconds of CLOCK_BOOTTIME.
    pub end_ms: u64,
    /// What was left until then when it was written, in milliseconds.
    pub left_ms: u32,
    /// The key.
    pub key: String,
}

/// The run that writes a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The run's number.
    pub number: u64,
    /// 1 `process`, 2 `machine`.
    pub mode: u8,
    /// 1 alone, 2 continuing.
    pub kind: u8,
    /// The server's id.
    pub server_id: [u8; 16],
    /// Lease ceiling in milliseconds.
    pub lease_ceiling_ms: u32,
    /// Token ceiling.
    pub token_ceiling: u64,
    /// When the run's recovery ends, 0 if there is none.
    pub recovery_end_ms: u64,
    /// What was left until then, in milliseconds.
    pub recovery_left_ms: u32,
    /// The boot identity, empty if it could not be read.
    pub boot: String,
}

/// Mode `process` in a run record.
pub const PROCESS: u8 = 1;
/// Mode `machine` in a run record.
pub const MACHINE: u8 = 2;
/// A segment that stands alone.
pub const ALONE: u8 = 1;
/// A segment that continues the one before.
pub const CONTINUING: u8 = 2;

/// All records of a batch.
///
/// # Errors
/// What is wrong with the first that cannot be read.
pub fn parse_all(bytes: &[u8]) -> Result<Vec<Record>, String> {
    let mut input = Input(bytes);
    let mut records = Vec::new();
    while !input.0.is_empty() {
        records.push(parse(&mut input)?);
    }
    Ok(records)
}

fn parse(input: &mut Input<'_>) -> Result<Record, String> {
    Ok(match input.u8()? {
        1 => Record::Run(run(input)?),
        2 => Record::Granted(lease(input)?),
        3 => Record::Extended(lease(input)?),
        4 => Record::Copy(lease(input)?),
        5 => Record::Freed { token: token(input)?, key: key(input)? },
        6 => Record::LeaseCeiling { lease_ms: input.u32()? },
        7 => Record::TokenCeiling { token: token(input)? },
        8 => Record::EndMark,
        9 => Record::Stop,
        10 => Record::RepairMark { cause: one_or_two("cause", input.u8()?)? },
        other => return Err(format!("a record of the unknown type {other}")),
    })
}

fn run(input: &mut Input<'_>) -> Result<Run, String> {
    Ok(Run {
        number: input.u64()?,
        mode: one_or_two("mode", input.u8()?)?,
        kind: one_or_two("kind", input.u8()?)?,
        server_id: input.take(16)?.try_into().expect("sixteen bytes were taken"),
        lease_ceiling_ms: input.u32()?,
        token_ceiling: input.u64()?,
        recovery_end_ms: input.u64()?,
        recovery_left_ms: input.u32()?,
        boot: {
            let length = input.u8()?;
            input.text(usize::from(length))?
        },
    })
}

fn lease(input: &mut Input<'_>) -> Result<Lease, String> {
    Ok(Lease { token: token(input)?, end_ms: input.u64()?, left_ms: input.u32()?, key: key(input)? })
}

fn token(input: &mut Input<'_>) -> Result<u64, String> {
    let token = input.u64()?;
    if token == 0 || token >> 63 != 0 { Err(format!("{token} is no token")) } else { Ok(token) }
}

fn key(input: &mut Input<'_>) -> Result<String, String> {
    let length = usize::from(u16::from_be_bytes([input.u8()?, input.u8()?]));
    if (1..=1024).contains(&length) { input.text(length) } else { Err(format!("a key of {length} bytes")) }
}

fn one_or_two(what: &str, value: u8) -> Result<u8, String> {
    if (1..=2).contains(&value) { Ok(value) } else { Err(format!("{what} {value}")) }
}

/// What has not been read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or("a record goes beyond the end of its batch")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(number(self.take(4)?) as u32)
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(number(self.take(8)?))
    }

    fn text(&mut self, length: usize) -> Result<String, String> {
        let bytes = self.take(length)?.to_vec();
        String::from_utf8(bytes).map_err(|error| format!("a text is not UTF-8: {error}"))
    }
}

/// A big-endian number.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A granted record, written out by hand.
    const GRANTED: &[u8] = b"\x02\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\x01\x02\0\0\0\x03\0\x01k";

    #[test]
    fn records_are_read_one_behind_the_other() {
        let bytes = [GRANTED, b"\x08\x09\x05\0\0\0\0\0\0\0\x07\0\x01k"].concat();
        let lease = Lease { token: 7, end_ms: 258, left_ms: 3, key: "k".to_owned() };
        let freed = Record::Freed { token: 7, key: "k".to_owned() };
        assert_eq!(parse_all(&bytes), Ok(vec![Record::Granted(lease), Record::EndMark, Record::Stop, freed]));
    }

    /// The canary: a reader that took these would take anything.
    #[test]
    fn what_is_no_record_is_refused() {
        for length in 1..GRANTED.len() {
            assert!(parse_all(&GRANTED[..length]).is_err(), "cut to {length}");
        }
        let wrong: [&[u8]; 7] = [
            b"\0",
            b"\x0b",
            b"\x07\0\0\0\0\0\0\0\0",
            b"\x07\x80\0\0\0\0\0\0\0",
            b"\x05\0\0\0\0\0\0\0\x07\0\0",
            b"\x05\0\0\0\0\0\0\0\x07\0\x01\xff",
            b"\x0a\x03",
        ];
        for bytes in wrong {
            assert!(parse_all(bytes).is_err(), "accepted {bytes:?}");
        }
    }
}
