//! Many requests in flight on one session.

use crate::raw::{PATIENCE, Raw};
use crate::{Answer, frame};

/// Requests in one write.
const BATCH: u64 = 2_000;

/// Acquires `count` distinct keys (`prefix` and a number, from `first` on) and releases each, with two
/// batches in flight, so that the server never waits for the client. `each` sees every token in the order of
/// the grants and says whether to go on; returns how many keys were acquired and released.
///
/// # Panics
/// When an answer is not the one that is due, or tokens do not rise.
pub fn acquire_and_release(
    session: &mut Raw,
    prefix: &str,
    first: u64,
    count: u64,
    mut each: impl FnMut(u64) -> bool,
) -> u64 {
    let batches = count.div_ceil(BATCH).max(1);
    let mut on = true;
    let mut last_token = 0;
    let mut asked = 0;
    let mut before: Vec<u64> = Vec::new();
    let mut bytes = Vec::new();
    for batch in 0..batches.min(2) {
        put_acquires(&mut bytes, prefix, first + batch * BATCH, 60);
        asked += 1;
    }
    session.send(&bytes);
    let mut batch = 0;
    while batch < asked {
        let tokens = take_grants(session, first + batch * BATCH, &mut last_token);
        on = on && tokens.iter().all(|&token| each(token));
        for &token in &before {
            session.expect(Answer::Released { token }, "a release among many");
        }
        bytes.clear();
        put_releases(&mut bytes, prefix, first + batch * BATCH, &tokens);
        if on && asked < batches {
            put_acquires(&mut bytes, prefix, first + asked * BATCH, 60);
            asked += 1;
        }
        session.send(&bytes);
        before = tokens;
        batch += 1;
    }
    for &token in &before {
        session.expect(Answer::Released { token }, "a release among the last");
    }
    asked * BATCH
}

/// Acquires `count` distinct keys and leaves them held; the tokens in the order of the keys. Returns a
/// multiple of the batch's size.
///
/// # Panics
/// When one is not granted, or tokens do not rise.
pub fn acquire_many(session: &mut Raw, prefix: &str, first: u64, count: u64, lease_s: u8) -> Vec<u64> {
    let mut last_token = 0;
    let mut tokens = Vec::with_capacity(count as usize);
    let mut bytes = Vec::new();
    put_acquires(&mut bytes, prefix, first, lease_s);
    session.send(&bytes);
    let batches = count.div_ceil(BATCH).max(1);
    for batch in 0..batches {
        if batch + 1 < batches {
            bytes.clear();
            put_acquires(&mut bytes, prefix, first + (batch + 1) * BATCH, lease_s);
            session.send(&bytes);
        }
        tokens.extend(take_grants(session, first + batch * BATCH, &mut last_token));
    }
    tokens
}

/// Releases keys that [`acquire_many`] has acquired.
///
/// # Panics
/// When one is not held any more.
pub fn release_many(session: &mut Raw, prefix: &str, first: u64, tokens: &[u64]) {
    for (number, batch) in tokens.chunks(BATCH as usize).enumerate() {
        let mut bytes = Vec::new();
        put_releases(&mut bytes, prefix, first + number as u64 * BATCH, batch);
        session.send(&bytes);
        for &token in batch {
            session.expect(Answer::Released { token }, "a release among many");
        }
    }
}

fn put_acquires(bytes: &mut Vec<u8>, prefix: &str, first: u64, lease_s: u8) {
    for number in first..first + BATCH {
        bytes.extend_from_slice(&frame::acquire(0, lease_s, number, format!("{prefix}{number}")));
    }
}

fn put_releases(bytes: &mut Vec<u8>, prefix: &str, first: u64, tokens: &[u64]) {
    for (number, &token) in tokens.iter().enumerate() {
        bytes.extend_from_slice(&frame::release(token, format!("{prefix}{}", first + number as u64)));
    }
}

fn take_grants(session: &mut Raw, first: u64, last_token: &mut u64) -> Vec<u64> {
    let take = |number| match session.next_within(PATIENCE, "a grant among many").answer {
        Answer::Acquired { owner, token, .. } if owner == number && token > *last_token => {
            *last_token = token;
            token
        }
        other => panic!("a grant to {number} with a token above {last_token} expected, got {other:?}"),
    };
    (first..first + BATCH).map(take).collect()
}
