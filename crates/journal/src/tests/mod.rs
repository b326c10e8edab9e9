//! Tests that need the inside: a small server over a disk in memory, the truth about what it answered, and a crash at
//! every place.

mod bench;
mod canaries;
mod checkpoints;
mod crash;
mod damage;
mod failing;
mod fixtures;
mod format;
mod model;
mod named;
mod operators;
mod truth;
mod turns;
