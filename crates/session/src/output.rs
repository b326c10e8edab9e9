//! Bytes for the peer: what the kernel has accepted of them, and which grants it has not seen at all.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use lockstead_engine::{Answer, UnsentGrant};
use lockstead_proto::{
    Acquired, Busy, ErrorAnswer, ErrorCode, Extended, NotHeld, Released, State, Timeout, answer_len,
};

/// Accepted bytes at the front are dropped once they are this many; an empty buffer larger than this is given back.
const KEEP: usize = 16_384;

/// What `X` 10 says.
pub(crate) const NOT_DURABLE: &str = "the later end could not be made durable; the lease is what it was";

/// Encoded answers, written from the front.
#[derive(Default)]
pub(crate) struct Output {
    /// Whole frames, from a frame's first byte on.
    bytes: Vec<u8>,
    /// How many of `bytes` the kernel has accepted.
    accepted: usize,
    /// Where the frame starts that holds the first byte not accepted.
    frame: usize,
    /// How many bytes came before `bytes`.
    dropped: u64,
    /// Grants whose `A` starts at or behind the accepted bytes, with the place where it starts.
    unsent: VecDeque<(u64, UnsentGrant)>,
}

impl Output {
    /// Where an answer that is not the engine's is encoded to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Encodes an answer of the engine, and remembers it if it is a grant.
    pub(crate) fn answer(&mut self, answer: Answer) {
        if let Answer::Acquired { key, token, .. } = answer {
            let start = self.dropped + self.bytes.len() as u64;
            self.unsent.push_back((start, UnsentGrant { key, token }));
        }
        let out = &mut self.bytes;
        match answer {
            Answer::Acquired { owner, token, lease_s, waited_ms, .. } => {
                Acquired { owner, token, lease_s, waited_ms }.encode(out);
            }
            Answer::Timeout { owner } => Timeout { owner }.encode(out),
            Answer::Busy { owner, reason } => Busy { owner, reason }.encode(out),
            Answer::Released { token } => Released { token }.encode(out),
            Answer::Extended { token, lease_s } => Extended { token, lease_s }.encode(out),
            Answer::NotHeld { token } => NotHeld { token }.encode(out),
            Answer::NotDurable { token } => {
                ErrorAnswer { code: ErrorCode::NotDurable, id: token, text: NOT_DURABLE }.encode(out);
            }
            Answer::State { id, state, remaining_ms, waiters } => {
                State { id, state, remaining_ms, waiters }.encode(out);
            }
        }
    }

    /// What is left to write.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.accepted..]
    }

    /// The kernel took the next `n` bytes.
    pub(crate) fn accept(&mut self, n: usize) {
        self.accepted += n;
        debug_assert!(self.accepted <= self.bytes.len());
        let accepted = self.dropped + self.accepted as u64;
        while self.unsent.pop_front_if(|(start, _)| *start < accepted).is_some() {}
        if self.accepted == self.bytes.len() {
            self.drop_front(self.accepted);
            if self.bytes.capacity() > KEEP {
                self.bytes = Vec::new();
            }
        } else {
            self.find_frame();
            if self.frame >= KEEP {
                self.drop_front(self.frame);
            }
        }
    }

    /// Moves `frame` on to the frame that the first byte not accepted belongs to.
    fn find_frame(&mut self) {
        loop {
            let end = self.frame + answer_len(&self.bytes[self.frame..]);
            if end > self.accepted {
                return;
            }
            self.frame = end;
        }
    }

    fn drop_front(&mut self, n: usize) {
        self.bytes.drain(..n);
        self.dropped += n as u64;
        self.accepted -= n;
        self.frame = 0;
    }

    /// How many grants the peer can never have seen.
    pub(crate) fn unsent_grants(&self) -> usize {
        self.unsent.len()
    }

    /// Throws away every frame of which no byte was accepted, and names the grants among them. A frame that was begun
    /// stays, so that the peer never reads half of one.
    pub(crate) fn throw_away(&mut self) -> impl Iterator<Item = UnsentGrant> + use<> {
        if self.accepted > self.frame {
            let len = answer_len(&self.bytes[self.frame..]);
            self.bytes.truncate(self.frame + len);
        } else {
            self.bytes.truncate(self.frame);
        }
        core::mem::take(&mut self.unsent).into_iter().map(|(_, grant)| grant)
    }

    /// Nothing more can be written.
    pub(crate) fn clear(&mut self) {
        self.bytes = Vec::new();
        (self.accepted, self.frame) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use lockstead_engine::{Command, Engine, Instant, Limits};

    /// Real grants, since only the engine can make the place of a key.
    fn grants(n: usize) -> Vec<UnsentGrant> {
        let mut engine = Engine::new(Limits::default(), [1, 2], Instant(0), None);
        engine.supply_tokens(1, n as u64);
        let session = engine.open_session();
        let mut effects = Vec::new();
        for i in 0..n {
            let key = &std::format!("k{i}");
            let command = Command::Acquire { wait_s: 0, lease_s: 9, owner: 1, key };
            engine.run(Instant(0), session, command, &mut effects);
        }
        let grant = |answer| match answer {
            Answer::Acquired { key, token, .. } => UnsentGrant { key, token },
            other => panic!("{other:?}"),
        };
        effects.into_iter().map(|effect| grant(effect.answer)).collect()
    }

    fn push(output: &mut Output, UnsentGrant { key, token }: UnsentGrant) {
        output.answer(Answer::Acquired { owner: 1, token, lease_s: 9, waited_ms: 0, key });
    }

    #[test]
    fn a_grant_is_sent_from_its_first_byte_on() {
        let grants = grants(3);
        for accepted in 0..=69 {
            let mut output = Output::default();
            grants.iter().for_each(|&grant| push(&mut output, grant));
            output.accept(accepted);
            let unsent: Vec<_> = output.throw_away().collect();
            assert_eq!(unsent, grants[accepted.div_ceil(23)..], "{accepted} bytes accepted");
            // What was begun is finished, the rest is gone.
            assert_eq!(output.rest().len(), (23 - accepted % 23) % 23, "{accepted} bytes accepted");
        }
    }

    #[test]
    fn places_stay_right_when_accepted_bytes_are_dropped() {
        let grants = grants(2);
        let mut output = Output::default();
        push(&mut output, grants[0]);
        output.accept(23);
        assert_eq!(output.bytes.len(), 0, "all accepted, all dropped");
        for _ in 0..5_000 {
            Timeout { owner: 2 }.encode(output.buffer());
        }
        push(&mut output, grants[1]);
        output.accept(50_000 - 1);
        assert_eq!(output.rest().len(), 24);
        assert!(output.bytes.len() <= 33, "{} bytes are kept for 24", output.bytes.len());
        output.accept(1);
        assert_eq!(output.unsent.len(), 1);
        output.accept(1);
        assert_eq!(output.throw_away().collect::<Vec<_>>(), [], "its first byte was accepted");
        assert_eq!(output.rest().len(), 22);
    }

    #[test]
    fn accepted_bytes_are_kept_only_while_they_are_few() {
        let mut output = Output::default();
        for _ in 0..KEEP / 10 + 2 {
            Timeout { owner: 2 }.encode(output.buffer());
        }
        let len = output.bytes.len();
        output.accept(KEEP - KEEP % 10);
        assert_eq!(output.bytes.len(), len, "moving few bytes at each write would cost more than they take");
        output.accept(10);
        assert_eq!(output.bytes.len(), len - (KEEP - KEEP % 10 + 10));
        assert_eq!((output.accepted, output.frame), (0, 0));
    }

    #[test]
    fn a_burst_gives_its_memory_back() {
        let mut output = Output::default();
        output.buffer().resize(KEEP, b'\n');
        output.accept(KEEP);
        assert_eq!(output.bytes.capacity(), KEEP);
        output.buffer().resize(KEEP + 1, b'\n');
        output.accept(KEEP + 1);
        assert_eq!(output.bytes.capacity(), 0);
    }

    #[test]
    fn cleared_is_empty_and_can_be_filled_again() {
        let grants = grants(1);
        let mut output = Output::default();
        push(&mut output, grants[0]);
        output.accept(1);
        output.clear();
        assert_eq!(output.rest(), b"");
        Timeout { owner: 2 }.encode(output.buffer());
        assert_eq!(output.rest().len(), 10);
        output.accept(10);
        assert_eq!(output.rest(), b"");
    }
}
