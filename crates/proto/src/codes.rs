//! The one-byte codes that answers carry. A code this build does not know is kept as it came, so that an older client
//! can still say what a newer server told it.

use core::fmt;

/// Why an acquire was answered with busy (`B`): nothing was queued, nothing was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BusyReason {
    /// 1: as many waiters queue for this key as one key may have.
    KeyQueueFull,
    /// 2: the server has as many waiters as it may have.
    WaitersFull,
    /// 3: the server has as many keys as it may have.
    KeysFull,
    /// 4: this session has as many waiters as one session may have.
    SessionWaitersFull,
    /// 5: the server is draining: it is about to stop.
    Draining,
    /// 6: the server cannot make grants durable at the moment.
    NotDurable,
    /// A reason that this build does not know.
    Other(u8),
}

impl BusyReason {
    /// The code on the wire.
    pub fn as_u8(self) -> u8 {
        match self {
            Self::KeyQueueFull => 1,
            Self::WaitersFull => 2,
            Self::KeysFull => 3,
            Self::SessionWaitersFull => 4,
            Self::Draining => 5,
            Self::NotDurable => 6,
            Self::Other(code) => code,
        }
    }

    /// The reason that a code on the wire stands for.
    pub fn from_u8(code: u8) -> Self {
        match code {
            1 => Self::KeyQueueFull,
            2 => Self::WaitersFull,
            3 => Self::KeysFull,
            4 => Self::SessionWaitersFull,
            5 => Self::Draining,
            6 => Self::NotDurable,
            code => Self::Other(code),
        }
    }
}

impl fmt::Display for BusyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyQueueFull => f.write_str("the queue of this key is full"),
            Self::WaitersFull => f.write_str("the server has all the waiters it may have"),
            Self::KeysFull => f.write_str("the server has all the keys it may have"),
            Self::SessionWaitersFull => f.write_str("this session has all the waiters it may have"),
            Self::Draining => f.write_str("the server is stopping"),
            Self::NotDurable => f.write_str("the server cannot make grants durable"),
            Self::Other(code) => write!(f, "busy for a reason this client does not know ({code})"),
        }
    }
}

/// What an error answer (`X`) is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// 1: no request has this op. Closes.
    UnknownOp,
    /// 2: the key is empty, too long (which closes) or not UTF-8.
    BadKey,
    /// 3: a lease of 0 seconds.
    BadLease,
    /// 4: the session has not shown who it is, or tried to become somebody else. Closes.
    NotAuthenticated,
    /// 5: a policy forbids this.
    Forbidden,
    /// 6: not used.
    Reserved,
    /// 7: a hello in a version that the server does not speak. Closes.
    UnsupportedVersion,
    /// 8: bytes that are no frame. Closes.
    Malformed,
    /// 9: the session or the server is over one of its limits. Closes.
    OverLimits,
    /// 10: an extend could not be made durable; the lease is what it was.
    NotDurable,
    /// A code that this build does not know.
    Other(u8),
}

impl ErrorCode {
    /// The code on the wire.
    pub fn as_u8(self) -> u8 {
        match self {
            Self::UnknownOp => 1,
            Self::BadKey => 2,
            Self::BadLease => 3,
            Self::NotAuthenticated => 4,
            Self::Forbidden => 5,
            Self::Reserved => 6,
            Self::UnsupportedVersion => 7,
            Self::Malformed => 8,
            Self::OverLimits => 9,
            Self::NotDurable => 10,
            Self::Other(code) => code,
        }
    }

    /// The meaning of a code on the wire.
    pub fn from_u8(code: u8) -> Self {
        match code {
            1 => Self::UnknownOp,
            2 => Self::BadKey,
            3 => Self::BadLease,
            4 => Self::NotAuthenticated,
            5 => Self::Forbidden,
            6 => Self::Reserved,
            7 => Self::UnsupportedVersion,
            8 => Self::Malformed,
            9 => Self::OverLimits,
            10 => Self::NotDurable,
            code => Self::Other(code),
        }
    }

    /// Whether an answer with this code is always the last one of its session. ([`BadKey`](Self::BadKey) closes too
    /// when the key was too long, which the code alone does not show.)
    pub fn closes(self) -> bool {
        matches!(
            self,
            Self::UnknownOp
                | Self::NotAuthenticated
                | Self::UnsupportedVersion
                | Self::Malformed
                | Self::OverLimits
        )
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOp => f.write_str("unknown op"),
            Self::BadKey => f.write_str("bad key"),
            Self::BadLease => f.write_str("bad lease"),
            Self::NotAuthenticated => f.write_str("not authenticated"),
            Self::Forbidden => f.write_str("forbidden by policy"),
            Self::Reserved => f.write_str("reserved code 6"),
            Self::UnsupportedVersion => f.write_str("unsupported protocol version"),
            Self::Malformed => f.write_str("malformed frame"),
            Self::OverLimits => f.write_str("over a limit"),
            Self::NotDurable => f.write_str("could not be made durable"),
            Self::Other(code) => write!(f, "error code {code}, which this client does not know"),
        }
    }
}

/// What a query found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// 0: nobody holds the key.
    Free,
    /// 1: somebody holds the key.
    Held,
    /// 2: nobody is known to hold the key, but the server is recovering, so somebody still could.
    Recovering,
    /// A state that this build does not know.
    Other(u8),
}

impl KeyState {
    /// The code on the wire.
    pub fn as_u8(self) -> u8 {
        match self {
            Self::Free => 0,
            Self::Held => 1,
            Self::Recovering => 2,
            Self::Other(code) => code,
        }
    }

    /// The state that a code on the wire stands for.
    pub fn from_u8(code: u8) -> Self {
        match code {
            0 => Self::Free,
            1 => Self::Held,
            2 => Self::Recovering,
            code => Self::Other(code),
        }
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("free"),
            Self::Held => f.write_str("held"),
            Self::Recovering => f.write_str("recovering"),
            Self::Other(code) => write!(f, "state {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_wire() {
        for code in 0..=255 {
            assert_eq!(BusyReason::from_u8(code).as_u8(), code);
            assert_eq!(ErrorCode::from_u8(code).as_u8(), code);
            assert_eq!(KeyState::from_u8(code).as_u8(), code);
        }
    }

    #[test]
    fn the_codes_that_close_are_these() {
        let closing: std::vec::Vec<u8> = (0..=255).filter(|&c| ErrorCode::from_u8(c).closes()).collect();
        assert_eq!(closing, [1, 4, 7, 8, 9]);
    }
}
