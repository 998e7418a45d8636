//! What keeps a cluster tidy.

use std::sync::Arc;

use crate::cluster::Cluster;

/// Which controllers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Controllers {
    /// Empties namespaces that are being deleted.
    pub namespaces: bool,
    /// Deletes objects whose owners are gone.
    pub garbage: bool,
    /// Accepts the names of definitions.
    pub definitions: bool,
    /// Deletes old events.
    pub events: bool,
}

impl Default for Controllers {
    fn default() -> Self {
        Self { namespaces: true, garbage: true, definitions: true, events: true }
    }
}

impl Controllers {
    /// None of them.
    pub fn none() -> Self {
        Self { namespaces: false, garbage: false, definitions: false, events: false }
    }

    /// Runs the controllers until `shutdown` is ready.
    pub async fn run(self, cluster: Arc<Cluster>, shutdown: impl Future<Output = ()>) {
        shutdown.await;
        drop(cluster);
    }
}
