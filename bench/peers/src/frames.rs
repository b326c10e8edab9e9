//! The frames of docs/protocol.md, spelled out here a second time: this tool shares no code with what it measures.

use std::fmt::{self, Display, Formatter};

pub fn acquire(out: &mut Vec<u8>, wait_s: u8, lease_s: u8, owner: u64, key: &[u8]) {
    out.extend_from_slice(&[b'A', wait_s, lease_s]);
    out.extend_from_slice(&owner.to_be_bytes());
    end(out, key);
}

pub fn release(out: &mut Vec<u8>, token: u64, key: &[u8]) {
    out.push(b'R');
    out.extend_from_slice(&token.to_be_bytes());
    end(out, key);
}

pub fn query(out: &mut Vec<u8>, id: u64, key: &[u8]) {
    out.push(b'Q');
    out.extend_from_slice(&id.to_be_bytes());
    end(out, key);
}

pub fn ping(out: &mut Vec<u8>, id: u64) {
    out.push(b'P');
    out.extend_from_slice(&id.to_be_bytes());
    end(out, &[]);
}

fn end(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.push(b'\n');
}

#[derive(Debug)]
pub enum Answer {
    Acquired {
        owner: u64,
        token: u64,
    },
    TimedOut {
        owner: u64,
    },
    Released {
        token: u64,
    },
    NotHeld,
    /// State 1 is held.
    State {
        state: u8,
        remaining_ms: u32,
        waiters: u32,
    },
    Pong {
        id: u64,
    },
    /// What no workload here expects: busy, an error, bytes that are no answer.
    Else(String),
}

impl Display for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Else(what) => f.write_str(what),
            known => write!(f, "{known:?}"),
        }
    }
}

/// The first answer in these bytes and its length; none if it is not whole yet.
pub fn parse(buf: &[u8]) -> Option<(usize, Answer)> {
    let header = match buf.first()? {
        b'A' => 21,
        b'T' | b'R' | b'N' | b'P' => 8,
        b'B' => 9,
        b'Q' => 17,
        b'X' => {
            let n = 11 + buf.iter().skip(10).position(|&b| b == b'\n')?;
            return Some((n, Answer::Else(String::from_utf8_lossy(&buf[..n]).into())));
        }
        op => return Some((buf.len(), Answer::Else(format!("unknown answer {op}")))),
    };
    let n = header + 2;
    let frame = buf.get(..n)?;
    let word = |at: usize| frame[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let half = |at: usize| frame[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let answer = match frame[0] {
        b'A' => Answer::Acquired { owner: word(1), token: word(9) },
        b'T' => Answer::TimedOut { owner: word(1) },
        b'R' => Answer::Released { token: word(1) },
        b'N' => Answer::NotHeld,
        b'Q' => Answer::State { state: frame[9], remaining_ms: half(10), waiters: half(14) },
        b'P' => Answer::Pong { id: word(1) },
        _ => Answer::Else(format!("{frame:02x?}")),
    };
    Some((n, answer))
}
