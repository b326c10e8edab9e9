//! What a server does wrong without breaking its session.

use crate::session::SessionId;

/// Something that the server should not have sent. It is counted and logged, and otherwise ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An answer that repeats, or to a request that its session did not send.
    Stray {
        /// Where it came from.
        session: SessionId,
        /// The owner, token or id that it names.
        id: u64,
    },
    /// A grant claims a wait longer than the time since its request was sent; it counts as no wait.
    Waited {
        /// Where it came from.
        session: SessionId,
        /// The owner of the request.
        id: u64,
    },
}
