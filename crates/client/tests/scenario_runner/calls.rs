//! Calls under way, and the words for what comes of them.

use lockstead_client::{AcquireError, Acquiring, ExtendError, Extended, ReleaseOutcome, Ticket};
use std::pin::Pin;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// What came of a call, and when.
pub type Ended = (Result<Ticket, AcquireError>, Instant);

/// One call.
pub struct Call {
    /// Just before it was made.
    pub began: Instant,
    pub state: State,
    /// From its beginning, when it must be over.
    pub deadline: Duration,
}

pub enum State {
    /// A task awaits it.
    Watched(JoinHandle<Ended>),
    /// Polled once, and then left alone.
    Late(Pin<Box<Acquiring>>),
}

impl Call {
    /// The outcome, as soon as it is there.
    pub async fn end(self) -> Ended {
        match self.state {
            State::Watched(task) => task.await.expect("a call does not panic"),
            State::Late(call) => (call.await, Instant::now()),
        }
    }
}

/// The outcome of an acquire in the words of a scenario.
pub fn acquired(outcome: &Result<Ticket, AcquireError>) -> String {
    match outcome {
        Ok(ticket) => format!("acquired {}", ticket.token()),
        Err(AcquireError::Timeout) => "timeout".to_owned(),
        Err(AcquireError::Busy(reason)) => format!("busy {}", reason.as_u8()),
        Err(AcquireError::Rejected { code, .. }) => format!("rejected {}", code.as_u8()),
        Err(AcquireError::Unsent(cause)) => format!("unsent {}", cause.as_str()),
        Err(AcquireError::Indeterminate(cause)) => format!("indeterminate {}", cause.as_str()),
        Err(AcquireError::Usage(_)) => "usage".to_owned(),
    }
}

/// The outcome of a release in the words of a scenario.
pub fn released(outcome: &ReleaseOutcome) -> String {
    match outcome {
        ReleaseOutcome::Released => "released".to_owned(),
        ReleaseOutcome::NotHeld => "not_held".to_owned(),
        ReleaseOutcome::Rejected { code, .. } => format!("rejected {}", code.as_u8()),
        ReleaseOutcome::Unknown => "unknown".to_owned(),
        ReleaseOutcome::Unsent(cause) => format!("unsent {}", cause.as_str()),
    }
}

/// The outcome of an extend in the words of a scenario.
pub fn extended(outcome: &Result<Extended, ExtendError>) -> String {
    match outcome {
        Ok(_) => "extended".to_owned(),
        Err(ExtendError::Lost(why)) => format!("lost {}", why.as_str()),
        Err(ExtendError::Rejected { code, .. }) => format!("rejected {}", code.as_u8()),
        Err(ExtendError::Unknown) => "unknown".to_owned(),
        Err(ExtendError::Unsent(cause)) => format!("unsent {}", cause.as_str()),
        Err(ExtendError::Usage(_)) => "usage".to_owned(),
    }
}
