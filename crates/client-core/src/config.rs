//! What a client is told when it is made.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::lease::Margin;

/// What a client is told when it is made; the shell has checked it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses as people write them; at least one. The core knows them by their index, and repeats them in
    /// messages.
    pub addresses: Vec<String>,
    /// The text of the hello: at most 1024 bytes, no newline.
    pub hello_text: String,
    /// How long after the end of its wait the answer of a call may still come; more than 1 s.
    pub answer_allowance: Duration,
    /// What is taken off each lease.
    pub margin: Margin,
    /// How many acquires, and how many other requests, may be open at once.
    pub max_open: usize,
    /// Two random numbers: where ids start, and the jitter.
    pub seeds: [u64; 2],
}

impl Config {
    /// The default of [`answer_allowance`](Self::answer_allowance).
    pub const ANSWER_ALLOWANCE: Duration = Duration::from_secs(2);

    /// The default of [`max_open`](Self::max_open).
    pub const MAX_OPEN: usize = 65_536;
}
