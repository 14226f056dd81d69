//! The process in which an interval is replayed.

fn main() {}
