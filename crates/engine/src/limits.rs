//! How much the engine keeps at most (docs/protocol.md, *Bounded*).

/// The limits of one engine; `default()` gives those of docs/protocol.md. Each is below 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Keys that take room; one more is `B` 3.
    pub max_keys: u32,
    /// Waiters in all; one more is `B` 2.
    pub max_waiters: u32,
    /// Waiters of one key; one more is `B` 1.
    pub max_waiters_per_key: u32,
    /// Waiters of one session; one more is `B` 4.
    pub max_waiters_per_session: u32,
    /// The longest lease that is kept, in seconds, at least 1; a longer wish gets this one.
    pub max_lease_s: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_keys: 10_000_000,
            max_waiters: 1_000_000,
            max_waiters_per_key: 100_000,
            max_waiters_per_session: 32_768,
            max_lease_s: u8::MAX,
        }
    }
}
