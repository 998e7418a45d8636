//! The settings of a simulator: its nodes, and the times that pods take.

use std::time::Duration;

/// The settings of a simulator.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_simulator::Settings;
///
/// let mut settings = Settings::instant();
/// settings.nodes = 10;
/// settings.heartbeat = Some(Duration::from_secs(10));
/// assert!(settings.ready_after.is_zero() && settings.workloads);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The number of nodes, which are called `node-1` and so on. Defaults to 3.
    pub nodes: usize,
    /// Simulate the controllers of kube-controller-manager too: workloads, autoscalers, services,
    /// volumes, the life of nodes and others. If false, there are only nodes on which pods run, for
    /// controllers of your own. Defaults to true.
    pub workloads: bool,
    /// The interval at which nodes renew their leases, and become ready again if another client has
    /// reported them as lost. Defaults to `None`: there are no leases. With kube-controller-manager
    /// it should be 10 s, as in Kubernetes, so that nodes stay ready.
    pub heartbeat: Option<Duration>,
    /// The time from the assignment of a pod to its readiness. Defaults to 1 s.
    pub ready_after: Duration,
    /// The largest random addition to `ready_after`. Defaults to zero.
    pub jitter: Duration,
    /// The time that a deleted pod takes to end, if its grace period is not shorter. Defaults to
    /// 500 ms.
    pub stop_after: Duration,
    /// The time for which pods run whose restart policy is `Never` or `OnFailure`, such as those of
    /// a Job. Defaults to 2 s.
    pub complete_after: Duration,
    /// The number of pods that have ended and are kept; of more, the oldest are deleted. Defaults
    /// to 12,500, as in kube-controller-manager.
    pub ended_pods: usize,
    /// Start a server with the API of the kubelet, for `kubectl logs`, `exec`, `attach` and
    /// `port-forward`. It listens on a free port of 127.0.0.1, and answers every local process.
    /// Nodes have that port and, as their host name, that address, so the API server has to run on
    /// the same machine. Defaults to false.
    pub kubelet_server: bool,
    /// The certificate in `kube-root-ca.crt` of each namespace. Defaults to `None`: there is no
    /// such object.
    pub root_certificate: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nodes: 3,
            workloads: true,
            heartbeat: None,
            ready_after: Duration::from_secs(1),
            jitter: Duration::ZERO,
            stop_after: Duration::from_millis(500),
            complete_after: Duration::from_secs(2),
            ended_pods: 12_500,
            kubelet_server: false,
            root_certificate: None,
        }
    }
}

impl Settings {
    /// Returns settings that simulate only nodes: creating pods is left to others.
    pub fn only_nodes() -> Self {
        Self { workloads: false, ..Self::default() }
    }

    /// Returns settings under which pods become ready, stop and complete at once.
    pub fn instant() -> Self {
        Self {
            ready_after: Duration::ZERO,
            stop_after: Duration::ZERO,
            complete_after: Duration::ZERO,
            ..Self::default()
        }
    }
}
