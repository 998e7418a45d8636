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
use crate::controllers::{Running, reconcile, supervised, together};

impl Simulators {
    /// Runs the simulators until `shutdown` is ready. Dropping the future stops them too, at once and without harm.
    ///
    /// Must be polled inside a runtime. With [`Controllers`](crate::controllers::Controllers) beside it in the same task,
    /// the same seed gives the same course of things.
    pub async fn run(self, cluster: Arc<Cluster>, shutdown: impl Future<Output = ()>) {
        together(self.supervised(&cluster), shutdown).await;
    }

    /// Returns the simulators, each of which runs for ever.
    pub(crate) fn supervised(self, cluster: &Arc<Cluster>) -> Vec<Running> {
        let (count, heartbeat, workloads) = (self.nodes, self.heartbeat, self.workloads);
        let certificate = self.root_certificate.clone();
        let mut all = vec![
            supervised("nodes", cluster, move |it| Box::pin(nodes::run(it, count, heartbeat))),
            reconcile::supervised(cluster, scheduler::Scheduler::default),
            reconcile::supervised(cluster, move || kubelet::Kubelet::new(&self)),
        ];
        if workloads {
            all.extend([
                reconcile::supervised(cluster, move || accounts::Accounts {
                    certificate: certificate.clone(),
                }),
                reconcile::supervised(cluster, replicasets::ReplicaSets::default),
                reconcile::supervised(cluster, deployments::Deployments::default),
                reconcile::supervised(cluster, endpoints::Endpoints::default),
            ]);
        }
        all
    }
}
