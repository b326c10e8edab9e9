//! Effects as lines of text, in which tests compare and show them.

use crate::told::{Said, Told};
use lockstead_engine::{Answer, Effect};

/// The effects, one line each, without the names of sessions.
pub fn lines(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(line).collect()
}

/// Decisions and answers, one line each.
pub fn all(told: &Told) -> Vec<String> {
    let line = |said: &Said| match said {
        Said::Answer(effect) => line(effect),
        Said::Granted { key, token, ends } => granted(key, *token, ends.0),
        Said::Extended { key, token, ends } => extended(key, *token, ends.0),
        Said::Freed { key, token } => freed(key, *token),
    };
    told.0.iter().map(line).collect()
}

pub fn granted(key: &str, token: u64, ends_ms: u64) -> String {
    format!("granted {key:?} token={token} ends={ends_ms}")
}

pub fn extended(key: &str, token: u64, ends_ms: u64) -> String {
    format!("extended {key:?} token={token} ends={ends_ms}")
}

pub fn freed(key: &str, token: u64) -> String {
    format!("freed {key:?} token={token}")
}

fn line(effect: &Effect) -> String {
    format!("s{} {}", effect.session.0, answer(&effect.answer))
}

/// An answer; the place of a key does not show.
pub fn answer(answer: &Answer) -> String {
    match *answer {
        Answer::Acquired { owner, token, lease_s, waited_ms, .. } => {
            format!("A owner={owner} token={token} lease={lease_s} waited={waited_ms}")
        }
        Answer::Timeout { owner } => format!("T owner={owner}"),
        Answer::Busy { owner, reason } => format!("B owner={owner} reason={}", reason.as_u8()),
        Answer::Released { token } => format!("R token={token}"),
        Answer::Extended { token, lease_s } => format!("E token={token} lease={lease_s}"),
        Answer::NotHeld { token } => format!("N token={token}"),
        Answer::NotDurable { token } => format!("X token={token} code=10"),
        Answer::State { id, state, remaining_ms, waiters } => {
            let state = state.as_u8();
            format!("Q id={id} state={state} remaining={remaining_ms} waiters={waiters}")
        }
    }
}
