//! Bad requests: which are answered and passed over, and which end their session.

use lockstead_proto::{ErrorAnswer, ErrorCode, RequestError};

use crate::output::Output;

/// Why the server ends a session: what its last answer says.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) code: ErrorCode,
    pub(crate) id: u64,
    pub(crate) text: &'static str,
}

/// Answers a request that breaks the rules, or says why it ends the session.
pub(crate) fn reject(error: RequestError, at: &mut usize, output: &mut Output) -> Option<Fault> {
    let RequestError { code, id, consumed, silent } = error;
    let text = sentence(code);
    let Some(used) = consumed else {
        return Some(Fault { code, id, text });
    };
    *at += used;
    if !silent {
        ErrorAnswer { code, id, text }.encode(output.buffer());
    }
    None
}

/// What a person is told about a bad request.
fn sentence(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UnknownOp => {
            "no request starts with this byte; this port speaks the Lockstead protocol, version 1"
        }
        ErrorCode::BadKey => "a key is 1 to 1024 bytes of UTF-8",
        ErrorCode::BadLease => "a lease is 1 to 255 seconds",
        ErrorCode::UnsupportedVersion => "this server speaks version 1 of the protocol",
        _ => "these bytes are no frame of the Lockstead protocol",
    }
}
