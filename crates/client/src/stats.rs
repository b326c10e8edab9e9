//! What a client has in hand.

/// What a client has in hand at one moment, for operators; see [`Client::stats`](crate::Client::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Acquires: without an outcome, with one that was not taken yet, or given up and not answered by the server.
    pub calls: usize,
    /// Tickets in use, or with a release that is not answered.
    pub tickets: usize,
    /// Other requests that are not answered, or whose result was not taken yet: releases, extends, queries and pings.
    pub requests: usize,
    /// Connections, those that are being opened or given up included; at most 4.
    pub sessions: usize,
    /// Tasks that wait for the client.
    pub waiting: usize,
    /// How often the server broke a rule without breaking its session: an answer to nothing that was asked, or a wait
    /// that cannot be true. Each is also logged.
    pub faults: u64,
}

impl Stats {
    /// Whether nothing is in hand: no call, ticket or request, and nobody waits. A client that stays busy although the
    /// program uses nothing of it leaks.
    pub const fn is_idle(&self) -> bool {
        self.calls == 0 && self.tickets == 0 && self.requests == 0 && self.waiting == 0
    }
}
