//! Simulators: the workload controllers, the scheduler and the kubelets of a cluster without
//! machines. Off by default.
//!
//! ```text
//! Deployment ─► ReplicaSet ─► Pod ─► (scheduler) ─► (kubelet) ─► Ready ─► EndpointSlice, Endpoints ◄─ Service
//! ```
//!
//! Each has a file of its own and is built like the controllers: a pure function decides, and a
//! loop acts. They behave like the components of Kubernetes in everything that clients see: names,
//! conditions, counts, events. No container runs; a pod becomes ready after the time that
//! [`Simulators`] configures.
//!
//! The `mod` lines below are in layer order.

mod settings;
mod condition;
mod owner;
mod selector;
mod decoded_cache;
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
    /// Runs the simulators until `shutdown` is ready. Dropping the future also stops them, at once
    /// and safely.
    ///
    /// Must be polled inside a runtime. Together with
    /// [`Controllers`](crate::controllers::Controllers) in the same task, runs with the same seed
    /// are identical.
    pub async fn run(self, cluster: Arc<Cluster>, shutdown: impl Future<Output = ()>) {
        together(self.supervised(&cluster), shutdown).await;
    }

    /// Returns the simulators as futures, none of which returns.
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
