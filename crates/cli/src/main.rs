//! The `dogwatch` command.
fn main() {}
