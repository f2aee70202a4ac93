//! The `lanekeeper` binary.

fn main() {}
