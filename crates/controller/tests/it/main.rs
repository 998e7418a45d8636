//! Tests of controllers through the public API. One binary, one module per area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not what they share")]

mod world;
mod controller;
mod failures;
mod sources;
mod children;
mod consistency;
mod ending;
mod peers;
mod numbers;
mod logs;
mod manager;
mod election;
mod overstaying;
mod endpoints;
mod storm;
mod served;
mod elections;
mod finalizers;
mod upserts;
mod events;
mod shards;
