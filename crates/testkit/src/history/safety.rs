//! What must hold of all answers together: one holder, rising tokens, nothing lost, nothing early.

use super::story::{ROUNDING, Story, stories};
use super::{Call, History, Request, Said, seconds};
use std::collections::HashMap;
use std::time::Duration;

/// Everything that no server may do, whenever and however it is killed as long as its machine lives: each a sentence.
pub fn judge_safety(history: &History) -> Vec<String> {
    let mut faults = Vec::new();
    let stories = stories(history, &mut faults);
    one_holder(history, &stories, &mut faults);
    rising_tokens(&stories, &mut faults);
    for story in stories.values() {
        nothing_lost(history, story, &mut faults);
        nothing_outlived(history, story, &mut faults);
    }
    honest_states(history, &stories, &mut faults);
    honest_answers(history, &mut faults);
    faults
}

/// A token that held a key, surely until then.
struct Holder {
    token: u64,
    granted_by: Option<Duration>,
    until: Duration,
    what: String,
}

/// While a key is surely held, nobody else is granted it. Tokens tell which of two grants came first.
fn one_holder(history: &History, stories: &HashMap<u64, Story<'_>>, faults: &mut Vec<String>) {
    let mut keys: HashMap<&str, Vec<Holder>> = HashMap::new();
    for story in stories.values() {
        keys.entry(&story.grant.key).or_default().push(Holder {
            token: story.token,
            granted_by: Some(story.granted_by),
            until: story.surely_until(),
            what: format!("{:?}", story.grant),
        });
    }
    // Grants that no client heard of: their server was killed, or they were taken back. A later run must respect them.
    let tenures = history.runs.iter().flat_map(|run| &run.kept.tenures);
    for tenure in tenures.filter(|tenure| !stories.contains_key(&tenure.token)) {
        keys.entry(&tenure.key).or_default().push(Holder {
            token: tenure.token,
            granted_by: None,
            until: Duration::from_millis(tenure.void_ms()),
            what: format!("{tenure:?}"),
        });
    }
    for (key, holders) in &mut keys {
        holders.sort_by_key(|holder| holder.token);
        let mut last: Option<&Holder> = None;
        for holder in &*holders {
            if let (Some(last), Some(granted_by)) = (last, holder.granted_by)
                && last.token < holder.token
                && granted_by < last.until
            {
                faults.push(format!(
                    "`{key}` was granted twice: {} is held until {:?}; and {}",
                    last.what, last.until, holder.what
                ));
            }
            if last.is_none_or(|last| last.until < holder.until) {
                last = Some(holder);
            }
        }
    }
}

/// A grant that surely came later, of whatever key, has a greater token.
fn rising_tokens(stories: &HashMap<u64, Story<'_>>, faults: &mut Vec<String>) {
    let mut by_end: Vec<&Story<'_>> = stories.values().collect();
    by_end.sort_by_key(|story| story.granted_by);
    let mut by_begin = by_end.clone();
    by_begin.sort_by_key(|story| story.not_before);
    let mut earlier = by_end.into_iter().peekable();
    let mut greatest: Option<&Story<'_>> = None;
    for story in by_begin {
        while let Some(done) = earlier.next_if(|done| done.granted_by < story.not_before) {
            if greatest.is_none_or(|greatest| greatest.token < done.token) {
                greatest = Some(done);
            }
        }
        if let Some(greatest) = greatest.filter(|greatest| greatest.token > story.token) {
            faults.push(format!("tokens fell: {:?} and later {:?}", greatest.grant, story.grant));
        }
    }
}

/// What was answered as held is held for its lease: `N` comes only after its end, or after a release.
fn nothing_lost(history: &History, story: &Story<'_>, faults: &mut Vec<String>) {
    for call in story.extends.iter().chain(&story.releases) {
        let held_until = story.lease_until(usize::MAX).min(story.let_go(Some(call)));
        if call.said() == Some(Said::NotHeld) && history.done_by(call) < held_until {
            faults.push(format!("lost: {:?} is held until {held_until:?}, but {call:?}", story.grant));
        }
    }
}

/// A token is void after its end, and after a release in the same run. (A run that is killed may forget a release
/// that it has answered.)
fn nothing_outlived(history: &History, story: &Story<'_>, faults: &mut Vec<String>) {
    for (call, end) in story.outlived(history) {
        faults.push(format!("outlived: {:?} ends by {end:?}, but {call:?}", story.grant));
    }
    for call in story.extends.iter().chain(&story.releases).filter(|call| call.calls_active()) {
        let voids = |release: &&&Call| {
            let before = release.reply.is_some_and(|reply| reply.at < call.sent);
            release.said() == Some(Said::Released) && release.run == call.run && before
        };
        if let Some(release) = story.releases.iter().find(voids) {
            faults.push(format!("outlived: {release:?}, but later {call:?}"));
        }
    }
}

/// A key that is surely held is not called free.
fn honest_states(history: &History, stories: &HashMap<u64, Story<'_>>, faults: &mut Vec<String>) {
    let mut held: HashMap<&str, Vec<&Story<'_>>> = HashMap::new();
    for story in stories.values() {
        held.entry(&story.grant.key).or_default().push(story);
    }
    for call in history.calls.iter().filter(|call| call.said() == Some(Said::State(0))) {
        let of_key = held.get(call.key.as_str()).into_iter().flatten();
        let mut holders = of_key.filter(|story| story.granted_by <= call.sent);
        if let Some(story) = holders.find(|story| history.done_by(call) < story.surely_until()) {
            faults.push(format!("called free: {call:?}, but {:?}", story.grant));
        }
    }
}

/// Each answer by itself.
fn honest_answers(history: &History, faults: &mut Vec<String>) {
    for call in &history.calls {
        let Some(reply) = call.reply else { continue };
        let took = reply.at.saturating_sub(call.sent);
        let fault = match (call.request, reply.said) {
            (Request::Acquire { lease_s: asked, .. }, Said::Granted { lease_s, waited_ms, .. }) => {
                let overstated = Duration::from_millis(waited_ms.into()) > took;
                (asked != lease_s || overstated).then_some("another lease, or a wait that is overstated")
            }
            (Request::Acquire { wait_s, .. }, Said::TimedOut) => {
                (took + ROUNDING < seconds(wait_s)).then_some("a wait that was cut short")
            }
            (Request::Extend { lease_s: asked, .. }, Said::Extended(lease_s)) => {
                (asked != lease_s).then_some("another lease")
            }
            (Request::Extend { .. } | Request::Release { .. }, Said::NotHeld) => None,
            (Request::Release { .. }, Said::Released) => None,
            (Request::Query, Said::State(0 | 1)) => None,
            _ => Some("an answer that does not belong here"),
        };
        if let Some(fault) = fault {
            faults.push(format!("{fault}: {call:?}"));
        }
    }
}
