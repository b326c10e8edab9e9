//! Whoever waits for a key gets it when it becomes free: what the journal says of all holders, against what waiters
//! saw.

use super::{Call, History, Request, Said};
use crate::journal::Tenure;
use std::collections::HashMap;
use std::time::Duration;

/// How soon waiters were served.
#[derive(Debug, Default)]
pub struct Service {
    /// Each a sentence.
    pub faults: Vec<String>,
    /// For each grant that had to be waited for: how long after the last holder's end it had been heard of.
    pub late: Vec<Duration>,
}

/// Judges all waits. A key may be free while somebody waits for `tolerance` at most.
pub fn judge_service(history: &History, tolerance: Duration) -> Service {
    let mut service = Service::default();
    let held = held(history);
    let unheard = unheard(history);
    for call in &history.calls {
        let Request::Acquire { wait_s, .. } = call.request else { continue };
        let holders = held.get(&(call.run, call.key.as_str())).map_or(&[][..], |held| held);
        let window = (call.sent, call.waited_until(history));
        let gaps = gaps(holders, window, call.granted());
        if wait_s > 0 {
            let longest = gaps.iter().map(|&(from, to)| to - from).max().unwrap_or_default();
            if longest > tolerance {
                service.faults.push(format!("not served: `{}` was free {gaps:?}, and {call:?}", call.key));
            }
            if matches!(call.said(), Some(Said::Granted { .. })) && gaps != [window] {
                let last = gaps.last().filter(|&&(_, to)| to == window.1);
                service.late.push(last.map_or(Duration::ZERO, |&(from, to)| to - from));
            }
        } else if call.said() == Some(Said::TimedOut) && gaps == [window] {
            // A grant that the machine's disk had not got yet when the server was killed.
            let others = unheard.get(&(call.run, call.key.as_str())).into_iter().flatten();
            if others.filter(|&&sent| sent < window.1).count() == 0 {
                service.faults.push(format!("refused, though nobody held `{}`: {call:?}", call.key));
            }
        }
    }
    service
}

/// The time from which on a key may have been held, until when, and by which token.
type Holding = (Duration, Duration, u64);

/// All holdings of each run and key, by their beginnings.
fn held(history: &History) -> HashMap<(usize, &str), Vec<Holding>> {
    let mut held: HashMap<(usize, &str), Vec<Holding>> = HashMap::new();
    for (index, run) in history.runs.iter().enumerate() {
        for tenure in &run.kept.tenures {
            let from = if tenure.is_restored { run.spawned } else { Duration::from_millis(tenure.from_ms) };
            let holding = (from, until(tenure), tenure.token);
            held.entry((index, &tenure.key)).or_default().push(holding);
        }
    }
    held.values_mut().for_each(|holdings| holdings.sort_unstable());
    held
}

/// An instant is a whole millisecond, rounded down.
fn until(tenure: &Tenure) -> Duration {
    Duration::from_millis(tenure.void_ms() + 1)
}

/// When each acquire was sent that got no answer.
fn unheard(history: &History) -> HashMap<(usize, &str), Vec<Duration>> {
    let mut unheard: HashMap<(usize, &str), Vec<Duration>> = HashMap::new();
    let is_unheard = |call: &&Call| call.reply.is_none() && matches!(call.request, Request::Acquire { .. });
    for call in history.calls.iter().filter(is_unheard) {
        unheard.entry((call.run, &call.key)).or_default().push(call.sent);
    }
    unheard
}

/// The parts of a window in which nobody held the key, but for the window's own token.
fn gaps(holders: &[Holding], window: (Duration, Duration), own: Option<u64>) -> Vec<(Duration, Duration)> {
    let mut gaps = Vec::new();
    let mut at = window.0;
    for &(from, until, token) in holders {
        if from >= window.1 {
            break;
        }
        if until <= at || Some(token) == own {
            continue;
        }
        if from > at {
            gaps.push((at, from));
        }
        at = until;
    }
    if at < window.1 {
        gaps.push((at, window.1));
    }
    gaps
}
