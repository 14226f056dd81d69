//! Measures recording and replay.

fn main() {}
