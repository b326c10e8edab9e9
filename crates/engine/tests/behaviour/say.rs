//! Effects as lines of text, in which tests compare and show them.

use lockstead_engine::{Answer, Effect};

/// The effects, one line each, without the names of sessions.
pub fn lines(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(line).collect()
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
