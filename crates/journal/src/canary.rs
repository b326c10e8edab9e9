//! Faults that a test plants on its own thread, to see that the checks find them. In any other build there are none.

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canary {
    /// A segment is appended to after a failed write.
    AppendAfterFailure,
    /// What is left of an earlier recovery is forgotten.
    DropRecoveryEnd,
    /// An end is read under another boot identity than its run's.
    ForeignEnds,
    /// A longer lease is given before its ceiling is synced.
    LeaseCeilingUnsynced,
    /// A block of tokens is used before its ceiling is synced.
    TokensUnsynced,
    /// Older segments are void before the end mark is synced.
    VoidUnsynced,
}

#[cfg(not(test))]
pub(crate) const fn is_planted(_: Canary) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Canary>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn is_planted(canary: Canary) -> bool {
    PLANTED.get() == Some(canary)
}

/// Plants a fault, or takes it away.
#[cfg(test)]
pub(crate) fn plant(canary: Option<Canary>) {
    PLANTED.set(canary);
}
