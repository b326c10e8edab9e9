//! Redis: `SET NX` with a release by script, or a baton in a list.

use super::{Codec, Reply};
use std::fmt::Write as _;

/// Deletes the key if its value is still ours.
pub const LUA: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

#[derive(Clone, Copy, PartialEq)]
pub enum RedisMode {
    SetNx,
    Baton, // BLPOP / LPUSH on one list that holds one token
}
pub struct Redis {
    pub keys: Vec<String>,
    pub tokens: Vec<String>,
    pub sha: String,
    pub seq: u64,
    pub mode: RedisMode,
    pub px: u64,
}
fn resp(out: &mut Vec<u8>, parts: &[&str]) {
    let mut s = String::with_capacity(128);
    let _ = write!(s, "*{}\r\n", parts.len());
    for p in parts {
        let _ = write!(s, "${}\r\n{}\r\n", p.len(), p);
    }
    out.extend_from_slice(s.as_bytes());
}
/// End (one past) of one RESP2 value that starts at `at`, if it is all there.
fn resp_end(b: &[u8], at: usize) -> Option<usize> {
    let rest = &b[at..];
    let nl = rest.windows(2).position(|w| w == b"\r\n")?;
    let line_end = at + nl + 2;
    let num = || -> i64 { std::str::from_utf8(&rest[1..nl]).ok().and_then(|s| s.parse().ok()).unwrap_or(-1) };
    match rest[0] {
        b'$' => {
            let n = num();
            if n < 0 {
                Some(line_end)
            } else {
                let e = line_end + n as usize + 2;
                (b.len() >= e).then_some(e)
            }
        }
        b'*' => {
            let mut e = line_end;
            for _ in 0..num().max(0) {
                if e >= b.len() {
                    return None;
                }
                e = resp_end(b, e)?;
            }
            Some(e)
        }
        _ => Some(line_end),
    }
}
impl Codec for Redis {
    fn hello(&mut self, out: &mut Vec<u8>) -> usize {
        resp(out, &["SCRIPT", "LOAD", LUA]);
        1
    }
    fn acquire(&mut self, slot: usize, out: &mut Vec<u8>) {
        if self.mode == RedisMode::Baton {
            return resp(out, &["BLPOP", &self.keys[slot], "30"]);
        }
        self.seq += 1;
        let t = &mut self.tokens[slot];
        t.clear();
        let _ = write!(t, "{:016x}", self.seq.wrapping_mul(0x9E3779B97F4A7C15)); // 16-byte value, new each time
        let px = self.px.to_string();
        resp(out, &["SET", &self.keys[slot], &self.tokens[slot], "NX", "PX", &px]);
    }
    fn release(&mut self, slot: usize, out: &mut Vec<u8>) {
        if self.mode == RedisMode::Baton {
            return resp(out, &["LPUSH", &self.keys[slot], "t"]);
        }
        resp(out, &["EVALSHA", &self.sha, "1", &self.keys[slot], &self.tokens[slot]]);
    }
    fn parse(&mut self, buf: &[u8], _slot: usize, acq: bool) -> Reply {
        let Some(e) = (if buf.is_empty() { None } else { resp_end(buf, 0) }) else {
            return Reply::Incomplete;
        };
        let v = &buf[..e];
        match (v[0], acq) {
            (b'+', true) => Reply::Ok(e),
            (b'*', true) if v.starts_with(b"*2") => Reply::Ok(e),
            (b'$', true) if v.starts_with(b"$-1") => Reply::Denied(e),
            (b':', false) if v == b":1\r\n" => Reply::Ok(e),
            (b':', false) if self.mode == RedisMode::Baton => Reply::Err(e, "two batons".into()),
            (b'$', false) => {
                self.sha = String::from_utf8_lossy(&v[5..45]).into(); // SCRIPT LOAD's answer: $40\r\n<sha>
                Reply::Ok(e)
            }
            _ => Reply::Err(e, String::from_utf8_lossy(v).into()),
        }
    }
}
