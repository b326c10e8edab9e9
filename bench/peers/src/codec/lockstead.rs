//! Lockstead; the owner is the slot. A release may be answered before an acquire that was sent earlier.

use super::{Codec, Reply};
use crate::frames::{self, Answer};

pub struct Lockstead {
    pub keys: Vec<String>,
    pub tokens: Vec<u64>,
    pub wait_s: u8,
    pub lease_s: u8,
}
impl Codec for Lockstead {
    fn acquire(&mut self, slot: usize, out: &mut Vec<u8>) {
        frames::acquire(out, self.wait_s, self.lease_s, slot as u64, self.keys[slot].as_bytes());
    }
    fn release(&mut self, slot: usize, out: &mut Vec<u8>) {
        frames::release(out, self.tokens[slot], self.keys[slot].as_bytes());
    }
    fn parse(&mut self, buf: &[u8], slot: usize, acq: bool) -> Reply {
        let Some((n, answer)) = frames::parse(buf) else { return Reply::Incomplete };
        match (answer, acq) {
            (Answer::Acquired { owner, token }, true) if owner == slot as u64 => {
                self.tokens[slot] = token;
                Reply::Ok(n)
            }
            (Answer::TimedOut { owner }, true) if owner == slot as u64 => Reply::Denied(n),
            (Answer::Released { token }, false) if token == self.tokens[slot] => Reply::Ok(n),
            (Answer::NotHeld, false) => Reply::Denied(n),
            (other, _) => Reply::Err(n, other.to_string()),
        }
    }
    fn answers(&self, buf: &[u8], slot: usize, acq: bool) -> bool {
        match frames::parse(buf) {
            Some((_, Answer::Acquired { owner, .. } | Answer::TimedOut { owner })) => {
                acq && owner == slot as u64
            }
            Some((_, Answer::Released { token })) => !acq && token == self.tokens[slot],
            _ => true,
        }
    }
}
