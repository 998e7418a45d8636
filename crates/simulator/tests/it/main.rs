//! Tests of the simulator and the controller manager, through their public API, on our own API
//! server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod test_cluster;
mod managed_cluster;
mod autoscaling;
mod cron_jobs;
mod daemon_sets;
mod disruptions;
mod garbage_collection;
mod garbage_cost;
mod jobs;
mod kubelet_server;
mod lifecycle;
mod manager_lifecycle;
mod namespaces;
mod node_lifecycle;
mod pod_ends;
mod preemption;
mod refused_writes;
mod replication_controllers;
mod scheduling;
mod simulators;
mod stale_caches;
mod stateful_sets;
mod volume_protection;
mod volumes;
