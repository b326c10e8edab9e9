//! Whole milliseconds of the engine clock. The caller reads the clock, the engine never does.

/// An instant of the engine clock, in milliseconds. It counts suspend and never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl Instant {
    /// Every instant is before this one, some 8,900 years after the clock began: 6 bytes hold it.
    pub const LIMIT: Self = Self(1 << 48);

    /// The end of a wait or a lease of `duration_s` seconds that begins now.
    ///
    /// Both instants were rounded down, so one more millisecond keeps the whole duration (docs/protocol.md, *Time*).
    #[must_use]
    pub fn end_after(self, duration_s: u8) -> Self {
        Self(self.0 + u64::from(duration_s) * 1000 + 1)
    }

    /// How long a request that was `asked` then has waited now, in milliseconds, never overstated: the difference
    /// less the millisecond that rounding may have added (docs/protocol.md, *Time*).
    #[must_use]
    pub fn waited_ms(self, asked: Self) -> u32 {
        saturating_ms(self.0.saturating_sub(asked.0).saturating_sub(1))
    }

    /// The milliseconds from now until `end`, 0 if it has passed.
    #[must_use]
    pub fn ms_until(self, end: Self) -> u32 {
        saturating_ms(end.0.saturating_sub(self.0))
    }
}

fn saturating_ms(ms: u64) -> u32 {
    u32::try_from(ms).unwrap_or(u32::MAX)
}
