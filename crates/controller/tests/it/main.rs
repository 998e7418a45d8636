//! Tests of controllers through the public API. One binary, one module per area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not what they share")]

mod test_cluster;
mod controller;
mod failures;
mod sources;
mod causes;
mod children;
mod consistency;
mod shutdown;
mod known_issues;
mod metrics;
mod logs;
mod manager;
mod election;
mod blocking_work;
mod endpoints;
mod storm;
mod history_reset;
mod in_process;
mod elections;
mod finalizers;
mod upserts;
mod events;
mod shards;
