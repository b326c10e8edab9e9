//! Lockstead, spelled out here a second time: this tool shares no code with what it measures.

use super::{Codec, Reply};

/// Frames of docs/protocol.md; the owner is the slot, so an answer out of order is an error.
pub struct Lockstead {
    pub keys: Vec<String>,
    pub tokens: Vec<u64>,
    pub wait_s: u8,
    pub lease_s: u8,
}
impl Codec for Lockstead {
    fn acquire(&mut self, slot: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&[b'A', self.wait_s, self.lease_s]);
        out.extend_from_slice(&(slot as u64).to_be_bytes());
        out.extend_from_slice(self.keys[slot].as_bytes());
        out.push(b'\n');
    }
    fn release(&mut self, slot: usize, out: &mut Vec<u8>) {
        out.push(b'R');
        out.extend_from_slice(&self.tokens[slot].to_be_bytes());
        out.extend_from_slice(self.keys[slot].as_bytes());
        out.push(b'\n');
    }
    fn parse(&mut self, buf: &[u8], slot: usize, acq: bool) -> Reply {
        let Some(&op) = buf.first() else { return Reply::Incomplete };
        let header = match op {
            b'A' => 21,
            b'T' | b'R' | b'N' => 8,
            b'B' => 9,
            b'X' => match buf.iter().skip(10).position(|&b| b == b'\n') {
                Some(i) => return Reply::Err(11 + i, String::from_utf8_lossy(&buf[..11 + i]).into()),
                None => return Reply::Incomplete,
            },
            _ => return Reply::Err(buf.len(), format!("unknown answer {op}")),
        };
        let n = header + 2;
        if buf.len() < n {
            return Reply::Incomplete;
        }
        let word = |at: usize| buf[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        match (op, acq) {
            (b'A', true) if word(1) == slot as u64 => {
                self.tokens[slot] = word(9);
                Reply::Ok(n)
            }
            (b'T', true) if word(1) == slot as u64 => Reply::Denied(n),
            (b'R', false) if word(1) == self.tokens[slot] => Reply::Ok(n),
            (b'N', false) => Reply::Denied(n),
            _ => Reply::Err(n, format!("{:02x?}", &buf[..n])),
        }
    }
}
