//! Both shells against a scripted peer over real sockets.

// These are tests: what must not happen may panic.
#![allow(clippy::unwrap_used)]

mod basics;
mod blocking;
mod faults;
mod peer;
mod reports;
