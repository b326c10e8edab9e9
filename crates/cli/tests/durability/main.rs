//! The outside checker of durability: the real program, real files, kill -9 and damage, judged from what clients saw
//! and from the bytes on disk. It shares no code with what it checks: requests and answers are raw bytes, journals
//! are read by the reader of `crates/testkit`, which was written from docs/journal-format.md alone.
//!
//! What only a machine that loses power can show is not here; the crash runs of `crates/journal` have that.
//!
//! `DURABILITY_ROUNDS` sets how often the kill loop kills (50), `DURABILITY_SEED` repeats its choices, and
//! `DURABILITY_SIZE_S` says for how many seconds the size of the directory is watched (5).

#![allow(clippy::unwrap_used)]

mod changes;
mod damage;
mod damage_other_boot;
mod directory;
mod disk;
mod full_disk;
mod kill_loop;
mod load;
mod other_boot;
mod repair;
mod restart;
mod size;
mod support;
mod sync;
