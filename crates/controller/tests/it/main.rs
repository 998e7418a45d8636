//! Controllers, from outside. One binary, one module per area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not what they share")]

mod served;
mod elections;
mod finalizers;
mod upserts;
mod events;
mod shards;
