//! What a server says, taken apart by the checker's own parser.
//!
//! The parser refuses everything that docs/protocol.md does not allow an answer to be, so reading an answer
//! is already a check of it.

/// The longest text of an answer, bytes.
const MAX_TEXT: usize = 1024;

/// One answer. Fields have the names and units of docs/protocol.md, *Answers*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `A`: acquired.
    Acquired {
        /// The owner of the request.
        owner: u64,
        /// The grant's token.
        token: u64,
        /// The lease the server keeps.
        lease_s: u8,
        /// From the server's reading of the request to the grant, never overstated.
        waited_ms: u32,
    },
    /// `T`: the wait is over.
    TimedOut {
        /// The owner of the request.
        owner: u64,
    },
    /// `B`: busy.
    Busy {
        /// The owner of the request.
        owner: u64,
        /// Why, 1..=6.
        reason: u8,
    },
    /// `R`: released.
    Released {
        /// The token that was released.
        token: u64,
    },
    /// `E`: extended.
    Extended {
        /// The token that was extended.
        token: u64,
        /// The lease the server keeps.
        lease_s: u8,
    },
    /// `N`: not held.
    NotHeld {
        /// The token of the request.
        token: u64,
    },
    /// `Q`: the state of a key.
    State {
        /// The id of the request.
        id: u64,
        /// 0 free, 1 held, 2 recovering.
        state: u8,
        /// Time until the lease or the recovery ends.
        remaining_ms: u32,
        /// How many wait.
        waiters: u32,
    },
    /// `P`: pong.
    Pong {
        /// The id of the request.
        id: u64,
    },
    /// `H`: welcome.
    Welcome {
        /// The protocol version.
        version: u8,
        /// The id of the request.
        id: u64,
        /// `name=value` pairs.
        text: String,
    },
    /// `X`: error.
    Error {
        /// What was wrong, 1..=10.
        code: u8,
        /// Owner, token or id of the request, or 0.
        id: u64,
        /// A sentence for a person.
        text: String,
    },
}

impl Answer {
    /// The bytes this answer must have on the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        match self {
            Answer::Acquired { owner, token, lease_s, waited_ms } => {
                bytes.push(b'A');
                bytes.extend_from_slice(&owner.to_be_bytes());
                bytes.extend_from_slice(&token.to_be_bytes());
                bytes.push(*lease_s);
                bytes.extend_from_slice(&waited_ms.to_be_bytes());
            }
            Answer::TimedOut { owner } => put_op_and_id(&mut bytes, b'T', *owner),
            Answer::Busy { owner, reason } => {
                put_op_and_id(&mut bytes, b'B', *owner);
                bytes.push(*reason);
            }
            Answer::Released { token } => put_op_and_id(&mut bytes, b'R', *token),
            Answer::Extended { token, lease_s } => {
                put_op_and_id(&mut bytes, b'E', *token);
                bytes.push(*lease_s);
            }
            Answer::NotHeld { token } => put_op_and_id(&mut bytes, b'N', *token),
            Answer::State { id, state, remaining_ms, waiters } => {
                put_op_and_id(&mut bytes, b'Q', *id);
                bytes.push(*state);
                bytes.extend_from_slice(&remaining_ms.to_be_bytes());
                bytes.extend_from_slice(&waiters.to_be_bytes());
            }
            Answer::Pong { id } => put_op_and_id(&mut bytes, b'P', *id),
            Answer::Welcome { version, id, text } => {
                bytes.extend_from_slice(&[b'H', *version]);
                bytes.extend_from_slice(&id.to_be_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
            Answer::Error { code, id, text } => {
                bytes.extend_from_slice(&[b'X', *code]);
                bytes.extend_from_slice(&id.to_be_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        bytes.push(b'\n');
        bytes
    }

    /// Whether this is the `X` with that code and id, whatever its sentence says.
    pub fn is_error(&self, code: u8, id: u64) -> bool {
        matches!(self, Answer::Error { code: c, id: i, .. } if *c == code && *i == id)
    }
}

fn put_op_and_id(bytes: &mut Vec<u8>, op: u8, id: u64) {
    bytes.push(op);
    bytes.extend_from_slice(&id.to_be_bytes());
}

/// Takes the first answer off `bytes`: the answer and how many bytes it had, or `None` when more must come.
///
/// # Errors
/// A sentence that says in what way the bytes are no answer that the protocol allows.
pub fn parse(bytes: &[u8]) -> Result<Option<(Answer, usize)>, String> {
    let Some(&op) = bytes.first() else { return Ok(None) };
    let Some((header_len, has_text)) = shape(op) else {
        return Err(format!("answer with unknown op {op:#04x}"));
    };
    if bytes.len() <= 1 + header_len {
        return Ok(None);
    }
    let header = &bytes[1..1 + header_len];
    let rest = &bytes[1 + header_len..];
    let text_len = if has_text { find_newline(rest)? } else { Some(0) };
    let Some(text_len) = text_len else { return Ok(None) };
    if rest[text_len] != b'\n' {
        return Err(format!("{}: byte after the header is {:#04x}, not a newline", op as char, rest[0]));
    }
    let text = std::str::from_utf8(&rest[..text_len]).map_err(|e| format!("{}: text: {e}", op as char))?;
    let answer = build(op, header, text);
    judge(&answer)?;
    Ok(Some((answer, 1 + header_len + text_len + 1)))
}

/// Header length in bytes and whether a text follows.
fn shape(op: u8) -> Option<(usize, bool)> {
    Some(match op {
        b'A' => (8 + 8 + 1 + 4, false),
        b'T' | b'R' | b'N' | b'P' => (8, false),
        b'B' | b'E' => (8 + 1, false),
        b'Q' => (8 + 1 + 4 + 4, false),
        b'H' | b'X' => (1 + 8, true),
        _ => return None,
    })
}

fn find_newline(rest: &[u8]) -> Result<Option<usize>, String> {
    let found = rest.iter().position(|&byte| byte == b'\n');
    if found.unwrap_or(rest.len()) > MAX_TEXT {
        return Err(format!("text of an answer is longer than {MAX_TEXT} bytes"));
    }
    Ok(found)
}

fn build(op: u8, header: &[u8], text: &str) -> Answer {
    match op {
        b'A' => Answer::Acquired {
            owner: u64_at(header, 0),
            token: u64_at(header, 8),
            lease_s: header[16],
            waited_ms: u32_at(header, 17),
        },
        b'T' => Answer::TimedOut { owner: u64_at(header, 0) },
        b'B' => Answer::Busy { owner: u64_at(header, 0), reason: header[8] },
        b'R' => Answer::Released { token: u64_at(header, 0) },
        b'E' => Answer::Extended { token: u64_at(header, 0), lease_s: header[8] },
        b'N' => Answer::NotHeld { token: u64_at(header, 0) },
        b'Q' => Answer::State {
            id: u64_at(header, 0),
            state: header[8],
            remaining_ms: u32_at(header, 9),
            waiters: u32_at(header, 13),
        },
        b'P' => Answer::Pong { id: u64_at(header, 0) },
        b'H' => Answer::Welcome { version: header[0], id: u64_at(header, 1), text: text.to_owned() },
        b'X' => Answer::Error { code: header[0], id: u64_at(header, 1), text: text.to_owned() },
        other => unreachable!("shape() knows no op {other:#04x}"),
    }
}

/// The values an answer may carry.
fn judge(answer: &Answer) -> Result<(), String> {
    let fault = match answer {
        Answer::Acquired { token, .. } if *token == 0 || *token >> 63 != 0 => "a token outside 1..2^63",
        Answer::Acquired { lease_s: 0, .. } | Answer::Extended { lease_s: 0, .. } => "a lease of 0",
        Answer::Acquired { waited_ms, .. } if *waited_ms > 255_000 => "waited longer than any wait",
        Answer::Busy { reason, .. } if !(1..=6).contains(reason) => "an unknown reason",
        Answer::State { state: 0, remaining_ms, waiters, .. } if *remaining_ms != 0 || *waiters != 0 => {
            "a free key with time remaining or waiters"
        }
        Answer::State { state: 1 | 2, remaining_ms: 0, .. } => "remaining 0 of a key that is not free",
        Answer::State { state, .. } if *state > 2 => "an unknown state",
        Answer::Error { code, .. } if !(1..=10).contains(code) => "an unknown code",
        Answer::Error { text, .. } if text.is_empty() => "no sentence for a person",
        _ => return Ok(()),
    };
    Err(format!("{fault}: {answer:?}"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Answer> {
        vec![
            Answer::Acquired { owner: 0x0a0a_0a0a_0a0a_0a0a, token: 0x0a0a, lease_s: 10, waited_ms: 0x0a0a },
            Answer::TimedOut { owner: 10 },
            Answer::Busy { owner: 10, reason: 5 },
            Answer::Released { token: 1 },
            Answer::Extended { token: 10, lease_s: 10 },
            Answer::NotHeld { token: 0 },
            Answer::State { id: 10, state: 1, remaining_ms: 10, waiters: 10 },
            Answer::Pong { id: 10 },
            Answer::Welcome { version: 1, id: 10, text: "server=lockstead/1 session=1".to_owned() },
            Answer::Error { code: 2, id: 10, text: "bad key".to_owned() },
        ]
    }

    #[test]
    fn parses_what_it_writes_at_every_cut() {
        for answer in samples() {
            let bytes = answer.to_bytes();
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "{answer:?} cut at {cut}");
            }
            let mut joined = bytes.clone();
            joined.extend_from_slice(b"P");
            assert_eq!(parse(&joined), Ok(Some((answer, bytes.len()))));
        }
    }

    #[test]
    fn an_answer_written_out_by_hand_is_understood() {
        let bytes = b"A\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\x01\0\x1e\0\0\x01\x02\n";
        let answer = Answer::Acquired { owner: 10, token: 256, lease_s: 30, waited_ms: 258 };
        assert_eq!(parse(bytes), Ok(Some((answer, 23))));
    }

    /// The canary: a parser that accepted these would accept anything.
    #[test]
    fn refuses_what_the_protocol_does_not_allow() {
        let wrong: [&[u8]; 14] = [
            b"Z\0\0\0\0\0\0\0\x01\n",
            b"T\0\0\0\0\0\0\0\x01\0",
            b"A\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\0\x1e\0\0\0\0\n",
            b"A\0\0\0\0\0\0\0\x0a\x80\0\0\0\0\0\0\x01\x1e\0\0\0\0\n",
            b"A\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\x01\0\0\0\0\0\0\n",
            b"A\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\x01\0\x01\0\x04\0\0\n",
            b"B\0\0\0\0\0\0\0\x01\0\n",
            b"B\0\0\0\0\0\0\0\x01\x07\n",
            b"Q\0\0\0\0\0\0\0\x01\0\0\0\0\x01\0\0\0\0\n",
            b"Q\0\0\0\0\0\0\0\x01\x01\0\0\0\0\0\0\0\0\n",
            b"Q\0\0\0\0\0\0\0\x01\x03\0\0\0\x01\0\0\0\0\n",
            b"X\x0b\0\0\0\0\0\0\0\x01text\n",
            b"X\x01\0\0\0\0\0\0\0\x01\n",
            b"X\x01\0\0\0\0\0\0\0\x01\xff\n",
        ];
        for bytes in wrong {
            assert!(parse(bytes).is_err(), "accepted {bytes:?}");
        }
        let mut endless = b"X\x01\0\0\0\0\0\0\0\x01".to_vec();
        endless.resize(2000, b'x');
        assert!(parse(&endless).is_err(), "accepted an endless text");
    }
}
