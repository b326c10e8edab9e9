//! Answers against what the journal kept of them, when the server was gone.

use super::story::{ROUNDING, Story, stories};
use super::{Call, History, Run, Said};
use crate::boottime::ms;
use crate::journal::Tenure;
use std::collections::HashMap;
use std::time::Duration;

/// In mode `process` and `machine`, whatever was answered stood in the journal before, and every start goes on with
/// what was there: each fault a sentence.
pub fn judge_durability(history: &History) -> Vec<String> {
    let mut faults = Vec::new();
    let stories = stories(history, &mut faults);
    let known_since = known_since(history);
    for (index, run) in history.runs.iter().enumerate() {
        let tenures: HashMap<u64, &Tenure> =
            run.kept.tenures.iter().map(|tenure| (tenure.token, tenure)).collect();
        for story in stories.values() {
            judge_release(story, index, known_since[index], tenures.get(&story.token).copied(), &mut faults);
        }
        for story in stories.values().filter(|story| story.grant.run <= index) {
            let tenure = tenures.get(&story.token).filter(|tenure| tenure.key == story.grant.key);
            judge_token(history, index, story, tenure.copied(), &mut faults);
        }
    }
    for pair in history.runs.windows(2) {
        goes_on(&pair[0], &pair[1], &mut faults);
    }
    faults
}

/// A token that was answered, in the journal of the run that gave it or of a later one.
fn judge_token(
    history: &History,
    index: usize,
    story: &Story<'_>,
    tenure: Option<&Tenure>,
    faults: &mut Vec<String>,
) {
    let run = &history.runs[index];
    let lease_until = story.lease_until(index);
    let is_new = story.grant.run == index;
    let is_live = lease_until > run.ended && story.let_go(None) > run.ended;
    let Some(tenure) = tenure else {
        if is_new || is_live {
            faults.push(format!("run {index}'s journal lacks {:?}", story.grant));
        }
        return;
    };
    let first_end = Duration::from_millis(tenure.first_end_ms);
    let (earliest, latest) = (story.not_before + story.lease, story.granted_by + story.lease + ROUNDING);
    if is_new && (first_end < earliest || first_end > latest) {
        faults
            .push(format!("{tenure:?} does not end between {earliest:?} and {latest:?}: {:?}", story.grant));
    }
    if tenure.end_ms < ms(lease_until) || Duration::from_millis(tenure.end_ms) > story.over_by(history) {
        faults.push(format!("{tenure:?} has another end than {story:?} in run {index}"));
    }
    if is_live && tenure.over_ms.is_some() {
        faults.push(format!("{tenure:?} was given up in run {index}, but {story:?}"));
    }
}

/// For each run, when the last of those grants was asked for that were answered: the journal had everything that was
/// decided before.
fn known_since(history: &History) -> Vec<Duration> {
    let mut since = vec![Duration::ZERO; history.runs.len()];
    for call in history.calls.iter().filter(|call| call.granted().is_some()) {
        since[call.run] = since[call.run].max(call.sent);
    }
    since
}

/// A release does not wait for the journal, but what is answered later does, and the journal keeps the order.
fn judge_release(
    story: &Story<'_>,
    index: usize,
    known_since: Duration,
    tenure: Option<&Tenure>,
    faults: &mut Vec<String>,
) {
    let is_known = |release: &&&Call| {
        let before = release.reply.is_some_and(|reply| reply.at < known_since);
        release.run == index && release.said() == Some(Said::Released) && before
    };
    if let Some(release) = story.releases.iter().find(is_known)
        && tenure.is_some_and(|tenure| tenure.over_ms.is_none())
    {
        faults.push(format!("forgotten: {release:?}, but {tenure:?}"));
    }
}

/// The next run begins with exactly the leases that were live at the end of the one before.
fn goes_on(before: &Run, after: &Run, faults: &mut Vec<String>) {
    let begun_ms = after.kept.begun_ms;
    let is_live = |tenure: &&Tenure| tenure.over_ms.is_none() && tenure.end_ms > begun_ms;
    let left = before.kept.tenures.iter().filter(is_live);
    let mut left: HashMap<u64, &Tenure> = left.map(|tenure| (tenure.token, tenure)).collect();
    for restored in after.kept.tenures.iter().filter(|tenure| tenure.is_restored) {
        match left.remove(&restored.token) {
            Some(tenure) if tenure.key == restored.key && tenure.end_ms == restored.first_end_ms => {}
            Some(tenure) => faults.push(format!("{tenure:?} was restored as {restored:?}")),
            None => faults.push(format!("{restored:?} was restored, but not left by the run before")),
        }
    }
    faults.extend(left.values().map(|tenure| format!("{tenure:?} was not restored at {begun_ms} ms")));
}
