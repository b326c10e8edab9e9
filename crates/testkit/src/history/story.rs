//! What clients know of each token: when it was surely active, and when it surely was not.

use super::{Call, History, Request, Said, seconds};
use std::collections::HashMap;
use std::time::Duration;

/// Whole milliseconds, rounded down, and the one that makes up for it.
pub const ROUNDING: Duration = Duration::from_millis(2);

/// One token that was granted to a client, and what was asked with it.
#[derive(Debug)]
pub struct Story<'a> {
    /// The token.
    pub token: u64,
    /// The acquire that it answered.
    pub grant: &'a Call,
    /// The lease that the grant's answer names.
    pub lease: Duration,
    /// The grant did not happen before.
    pub not_before: Duration,
    /// The grant had happened by then.
    pub granted_by: Duration,
    /// Every extend with this token.
    pub extends: Vec<&'a Call>,
    /// Every release with this token.
    pub releases: Vec<&'a Call>,
}

impl Story<'_> {
    /// The lease had not ended by itself before; by all extends that were answered up to run `run`.
    pub fn lease_until(&self, run: usize) -> Duration {
        let answered = self.extends.iter().filter(|call| call.run <= run);
        let later = answered.filter_map(|call| match call.said() {
            Some(Said::Extended(lease_s)) => Some(call.sent + seconds(lease_s)),
            _ => None,
        });
        later.fold(self.not_before + self.lease, Duration::max)
    }

    /// Nobody let go of it before; `except` does not count.
    pub fn let_go(&self, except: Option<&Call>) -> Duration {
        let others = self.releases.iter().filter(|&&call| !except.is_some_and(|e| std::ptr::eq(e, call)));
        let taken = others.filter(|call| call.said() != Some(Said::NotHeld));
        taken.map(|call| call.sent).min().unwrap_or(Duration::MAX)
    }

    /// It was surely active from [`Story::granted_by`] until then.
    pub fn surely_until(&self) -> Duration {
        self.lease_until(usize::MAX).min(self.let_go(None))
    }

    /// The lease had ended by itself by then, whatever became of extends without an answer.
    pub fn over_by(&self, history: &History) -> Duration {
        self.extends.iter().fold(self.unextended(), |end, call| end.max(extended(history, call)))
    }

    /// Every answer that calls the token active although its lease had ended by itself before the request was sent,
    /// and the end. No extend that came too late makes another one right.
    pub fn outlived(&self, history: &History) -> Vec<(&Call, Duration)> {
        let mut calls: Vec<&Call> = self.extends.iter().chain(&self.releases).copied().collect();
        calls.sort_by_key(|call| call.sent);
        let (mut end, mut outlived) = (self.unextended(), Vec::new());
        for call in calls {
            if call.sent <= end {
                end = end.max(extended(history, call));
            } else if call.calls_active() {
                outlived.push((call, end));
            }
        }
        outlived
    }

    fn unextended(&self) -> Duration {
        self.granted_by + self.lease + ROUNDING
    }
}

/// The latest end that a call may have given its lease.
fn extended(history: &History, call: &Call) -> Duration {
    match call.request {
        Request::Extend { lease_s, .. } if call.said() != Some(Said::NotHeld) => {
            history.done_by(call) + seconds(lease_s) + ROUNDING
        }
        _ => Duration::ZERO,
    }
}

/// The story of every token that was granted to a client, and a fault for each that was given twice.
pub fn stories<'a>(history: &'a History, faults: &mut Vec<String>) -> HashMap<u64, Story<'a>> {
    let mut stories: HashMap<u64, Story<'a>> = HashMap::new();
    for call in &history.calls {
        let Some(Said::Granted { token, lease_s, waited_ms }) = call.said() else { continue };
        let story = Story {
            token,
            grant: call,
            lease: seconds(lease_s),
            not_before: call.sent + Duration::from_millis(waited_ms.into()),
            granted_by: history.done_by(call),
            extends: Vec::new(),
            releases: Vec::new(),
        };
        if let Some(first) = stories.insert(token, story) {
            faults.push(format!("token {token} was given twice: {:?} and {call:?}", first.grant));
        }
    }
    for call in &history.calls {
        match call.request {
            Request::Extend { token, .. } => {
                if let Some(story) = stories.get_mut(&token).filter(|story| story.grant.key == call.key) {
                    story.extends.push(call);
                }
            }
            Request::Release { token } => {
                if let Some(story) = stories.get_mut(&token).filter(|story| story.grant.key == call.key) {
                    story.releases.push(call);
                }
            }
            Request::Acquire { .. } | Request::Query => {}
        }
    }
    stories
}
