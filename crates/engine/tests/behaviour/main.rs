//! What the engine does, seen from outside.

// Helpers of tests unwrap as tests do; clippy knows only the tests themselves.
#![allow(clippy::unwrap_used)]

mod field_reports;
mod limits;
mod matrix;
mod misuse;
mod model;
mod naive;
mod say;
mod told;
mod transcripts;
mod world;
