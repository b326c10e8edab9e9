//! dflockd: lines of text.

use super::{Codec, Reply};

pub struct Dflockd {
    pub keys: Vec<String>,
    pub tokens: Vec<String>,
    pub ttl_s: u32,
}
impl Codec for Dflockd {
    fn acquire(&mut self, slot: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("l\n{}\n30 {}\n", self.keys[slot], self.ttl_s).as_bytes());
    }
    fn release(&mut self, slot: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("r\n{}\n{}\n", self.keys[slot], self.tokens[slot]).as_bytes());
    }
    fn parse(&mut self, buf: &[u8], slot: usize, acq: bool) -> Reply {
        let Some(nl) = buf.iter().position(|&b| b == b'\n') else {
            return Reply::Incomplete;
        };
        let line = std::str::from_utf8(&buf[..nl]).unwrap_or("");
        let mut w = line.split(' ');
        match (w.next(), acq) {
            (Some("ok"), true) => match w.next() {
                Some(t) => {
                    self.tokens[slot].clear();
                    self.tokens[slot].push_str(t);
                    Reply::Ok(nl + 1)
                }
                None => Reply::Err(nl + 1, line.into()),
            },
            (Some("ok"), false) => Reply::Ok(nl + 1),
            (Some("timeout"), true) => Reply::Denied(nl + 1),
            _ => Reply::Err(nl + 1, line.into()),
        }
    }
}
