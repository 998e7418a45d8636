//! Tests of the simulator, through its public API, on our own API server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod test_cluster;
mod lifecycle;
mod pod_ends;
mod refused_writes;
mod simulators;
mod stale_caches;
