//! Simulators: what makes a cluster live that has no machines. Off unless asked for.
//!
//! ```text
//! Deployment ─► ReplicaSet ─► Pod ─► (scheduler) ─► (kubelet) ─► Ready ─► EndpointSlice, Endpoints ◄─ Service
//! ```
//!
//! Each is one thing in a file of its own, built as the controllers are: a pure function decides, a loop carries out.
//! They act as their originals do where people and clients look: names, conditions, counts, events. Nothing runs; a pod
//! is ready because a simulator says so, after the time the [`Simulators`] give.
//!
//! The `mod` lines below are in layer order.

mod settings;
mod condition;
mod owner;
mod selector;
mod view;
mod accounts;
mod nodes;
mod scheduler;
mod kubelet;
mod replicasets;
mod deployments;
mod endpoints;

use std::future::Future;
use std::sync::Arc;

pub use settings::Simulators;

use crate::cluster::Cluster;
use crate::controllers::{Running, reconcile, together};

impl Simulators {
    /// Runs the simulators until `shutdown` is ready. Dropping the future stops them too, at once and without harm.
    ///
    /// Must be polled inside a runtime. With [`Controllers`](crate::controllers::Controllers) beside it in the same task,
    /// the same seed gives the same course of things.
    pub async fn run(self, cluster: Arc<Cluster>, shutdown: impl Future<Output = ()>) {
        let it = || Arc::clone(&cluster);
        let mut all: Vec<Running> = vec![
            Box::pin(nodes::run(it(), self.nodes, self.heartbeat)),
            Box::pin(reconcile::run(it(), scheduler::Scheduler::default())),
            Box::pin(reconcile::run(it(), kubelet::Kubelet::new(&self))),
        ];
        if self.workloads {
            let accounts = accounts::Accounts { certificate: self.root_certificate.clone() };
            let workloads: [Running; 4] = [
                Box::pin(reconcile::run(it(), accounts)),
                Box::pin(reconcile::run(it(), replicasets::ReplicaSets::default())),
                Box::pin(reconcile::run(it(), deployments::Deployments::default())),
                Box::pin(reconcile::run(it(), endpoints::Endpoints::default())),
            ];
            all.extend(workloads);
        }
        together(all, shutdown).await;
    }
}
