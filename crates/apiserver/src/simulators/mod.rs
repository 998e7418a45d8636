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
use std::time::Duration;

use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::controllers::{reconcile, until};

/// How simulated nodes and pods behave.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Simulators {
    /// How many nodes there are: `node-1` and so on.
    pub nodes: usize,
    /// How often nodes renew their leases; never where there is none.
    pub heartbeat: Option<Duration>,
    /// How long a pod takes from its node to being ready.
    pub ready_after: Duration,
    /// How much longer it may take, by chance.
    pub jitter: Duration,
    /// How long a pod takes to end once it is deleted, unless it has less time.
    pub stop_after: Duration,
    /// How long the pods of a job run.
    pub complete_after: Duration,
    /// The certificate that `kube-root-ca.crt` holds in each namespace; without one there is no such object.
    pub root_certificate: Option<String>,
}

impl Default for Simulators {
    fn default() -> Self {
        Self {
            nodes: 3,
            heartbeat: None,
            ready_after: Duration::from_secs(1),
            jitter: Duration::ZERO,
            stop_after: Duration::from_millis(500),
            complete_after: Duration::from_secs(2),
            root_certificate: None,
        }
    }
}

impl Simulators {
    /// A cluster whose pods are ready at once.
    pub fn instant() -> Self {
        Self {
            ready_after: Duration::ZERO,
            stop_after: Duration::ZERO,
            complete_after: Duration::ZERO,
            ..Self::default()
        }
    }

    /// Runs the simulators until `shutdown` is ready. Dropping the future stops them too, at once and without harm.
    ///
    /// Must be polled inside a runtime: each simulator is a task of its own, owned by this future.
    pub async fn run(self, cluster: Arc<Cluster>, shutdown: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        let it = || Arc::clone(&cluster);
        let accounts = accounts::Accounts { certificate: self.root_certificate.clone() };
        tasks.spawn(reconcile::run(it(), accounts));
        tasks.spawn(nodes::run(it(), self.nodes, self.heartbeat));
        tasks.spawn(reconcile::run(it(), scheduler::Scheduler::default()));
        tasks.spawn(reconcile::run(it(), kubelet::Kubelet::new(&self)));
        tasks.spawn(reconcile::run(it(), replicasets::ReplicaSets::default()));
        tasks.spawn(reconcile::run(it(), deployments::Deployments::default()));
        tasks.spawn(reconcile::run(it(), endpoints::Endpoints::default()));
        until(tasks, shutdown).await;
    }
}
