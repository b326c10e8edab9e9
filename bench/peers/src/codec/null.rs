//! The floor: a frame goes there and comes back.

use super::{Codec, Reply};
use crate::null::FRAME;

pub struct Null;
impl Codec for Null {
    fn acquire(&mut self, slot: usize, out: &mut Vec<u8>) {
        let mut f = [1u8; FRAME];
        f[4..12].copy_from_slice(&(slot as u64).to_le_bytes());
        out.extend_from_slice(&f);
    }
    fn release(&mut self, slot: usize, out: &mut Vec<u8>) {
        let mut f = [2u8; FRAME];
        f[4..12].copy_from_slice(&(slot as u64).to_le_bytes());
        out.extend_from_slice(&f);
    }
    fn parse(&mut self, buf: &[u8], slot: usize, acq: bool) -> Reply {
        if buf.len() < FRAME {
            return Reply::Incomplete;
        }
        if buf[0] == if acq { 1 } else { 2 } && buf[4..12] == (slot as u64).to_le_bytes() {
            Reply::Ok(FRAME)
        } else {
            Reply::Err(FRAME, "bad echo".into())
        }
    }
}
