//! Calls that ended without their result: what the client says, turned into an exit status, a JSON object and a
//! sentence. One place, so that all commands say the same of the same.

use lockstead_client::{
    AcquireError, CallError, ErrorCode, ExtendError, ReleaseOutcome, UnsentCause, UsageError,
};
use serde_json::{Value, json};

use crate::exit::Status;

/// A call without its result.
#[derive(Debug)]
pub struct Failed {
    /// How the program ends.
    pub status: Status,
    /// What `--json` prints.
    pub json: Value,
    /// What a person reads.
    pub sentence: String,
}

impl Failed {
    /// A failure of this status, with its object and its sentence.
    pub fn new(status: Status, json: Value, sentence: impl ToString) -> Self {
        Self { status, json, sentence: sentence.to_string() }
    }

    /// The server refused the request.
    pub fn rejected(code: ErrorCode, message: &str, sentence: impl ToString) -> Self {
        let json = json!({ "outcome": "rejected", "code": code.as_u8(), "message": message });
        Self::new(Status::FAILURE, json, sentence)
    }

    /// Nothing left this process.
    pub fn unsent(cause: &UnsentCause, sentence: impl ToString) -> Self {
        let json = json!({ "outcome": "unsent", "cause": cause.as_str() });
        Self::new(Status::UNSENT, json, sentence)
    }

    /// It was sent, and nobody can say what came of it.
    pub fn unknown(sentence: impl ToString) -> Self {
        Self::new(Status::UNKNOWN, json!({ "outcome": "unknown" }), sentence)
    }
}

/// The acquire's outcomes other than a ticket. The request itself being wrong is no outcome but an error.
impl TryFrom<AcquireError> for Failed {
    type Error = UsageError;

    fn try_from(error: AcquireError) -> Result<Self, UsageError> {
        let sentence = error.to_string();
        Ok(match &error {
            AcquireError::Timeout => Self::new(Status::TIMEOUT, json!({ "outcome": "timeout" }), sentence),
            AcquireError::Busy(reason) => {
                let json = json!({ "outcome": "busy", "reason": reason.as_u8() });
                Self::new(Status::BUSY, json, sentence)
            }
            AcquireError::Rejected { code, message } => Self::rejected(*code, message, sentence),
            AcquireError::Unsent(cause) => Self::unsent(cause, sentence),
            AcquireError::Indeterminate(cause) => {
                let json = json!({ "outcome": "indeterminate", "cause": cause.as_str() });
                Self::new(Status::UNKNOWN, json, sentence)
            }
            AcquireError::Usage(usage) => return Err(*usage),
        })
    }
}

/// A release that did not free the lock.
impl From<ReleaseOutcome> for Failed {
    fn from(outcome: ReleaseOutcome) -> Self {
        let sentence = outcome.to_string();
        match &outcome {
            ReleaseOutcome::Rejected { code, message } => Self::rejected(*code, message, sentence),
            ReleaseOutcome::Unsent(cause) => Self::unsent(cause, sentence),
            ReleaseOutcome::Unknown => Self::unknown(sentence),
            ReleaseOutcome::NotHeld | ReleaseOutcome::Released => {
                Self::new(Status::NO, json!({ "outcome": outcome.as_str() }), sentence)
            }
        }
    }
}

impl TryFrom<ExtendError> for Failed {
    type Error = UsageError;

    fn try_from(error: ExtendError) -> Result<Self, UsageError> {
        let sentence = error.to_string();
        Ok(match &error {
            // What a release says of such a token, too.
            ExtendError::Lost(_) => Self::from(ReleaseOutcome::NotHeld),
            ExtendError::Rejected { code, message } => Self::rejected(*code, message, sentence),
            ExtendError::Unknown => Self::unknown(sentence),
            ExtendError::Unsent(cause) => Self::unsent(cause, sentence),
            ExtendError::Usage(usage) => return Err(*usage),
        })
    }
}

impl TryFrom<CallError> for Failed {
    type Error = UsageError;

    fn try_from(error: CallError) -> Result<Self, UsageError> {
        let sentence = error.to_string();
        Ok(match &error {
            CallError::Rejected { code, message } => Self::rejected(*code, message, sentence),
            CallError::Unknown => Self::unknown(sentence),
            CallError::Unsent(cause) => Self::unsent(cause, sentence),
            CallError::Usage(usage) => return Err(*usage),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstead_client::{BusyReason, IndeterminateCause};

    #[test]
    fn each_outcome_of_an_acquire_has_its_status_and_its_object() {
        let of = |error: AcquireError| {
            let failed = Failed::try_from(error).unwrap();
            (failed.status, failed.json.to_string())
        };
        let json = |text: &str| text.to_owned();
        assert_eq!(of(AcquireError::Timeout), (Status::TIMEOUT, json(r#"{"outcome":"timeout"}"#)));
        assert_eq!(
            of(AcquireError::Busy(BusyReason::Draining)),
            (Status::BUSY, json(r#"{"outcome":"busy","reason":5}"#))
        );
        assert_eq!(
            of(AcquireError::Unsent(UnsentCause::BudgetEnded { last: None })),
            (Status::UNSENT, json(r#"{"cause":"budget_ended","outcome":"unsent"}"#))
        );
        assert_eq!(
            of(AcquireError::Indeterminate(IndeterminateCause::SessionBroke)),
            (Status::UNKNOWN, json(r#"{"cause":"session_broke","outcome":"indeterminate"}"#))
        );
        assert_eq!(
            of(AcquireError::Rejected { code: ErrorCode::Forbidden, message: "no".into() }),
            (Status::FAILURE, json(r#"{"code":5,"message":"no","outcome":"rejected"}"#))
        );
        assert!(Failed::try_from(AcquireError::Usage(UsageError::WaitTooLong)).is_err());
    }
}
