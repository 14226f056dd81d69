//! Records programs and replays them exactly.

fn main() {}
