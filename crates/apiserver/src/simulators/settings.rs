//! How simulated nodes and pods behave.

use std::time::Duration;

/// How simulated nodes and pods behave.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Simulators {
    /// How many nodes there are: `node-1` and so on.
    pub nodes: usize,
    /// Whether deployments, replica sets, services and service accounts are looked after too. Without, there are only nodes
    /// that pods come to and run on, for controllers of your own.
    pub workloads: bool,
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
            workloads: true,
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
    /// Nodes and nothing else: whatever makes pods is left to others.
    pub fn only_nodes() -> Self {
        Self { workloads: false, ..Self::default() }
    }

    /// A cluster whose pods are ready at once.
    pub fn instant() -> Self {
        Self {
            ready_after: Duration::ZERO,
            stop_after: Duration::ZERO,
            complete_after: Duration::ZERO,
            ..Self::default()
        }
    }
}
