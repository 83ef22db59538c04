//! The `oncegate` binary.
fn main() {}
