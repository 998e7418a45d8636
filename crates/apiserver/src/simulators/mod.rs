//! What makes a cluster live.

use std::sync::Arc;

use crate::cluster::Cluster;

/// What makes a cluster live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Simulators {}

impl Simulators {
    /// Runs them until `shutdown` is ready.
    pub async fn run(self, cluster: Arc<Cluster>, shutdown: impl Future<Output = ()>) {
        shutdown.await;
        drop(cluster);
    }
}
