//! Placeholder until its first content.
fn main() {}
