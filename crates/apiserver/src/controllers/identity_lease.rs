//! The renewal of the server's own lease.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;

/// Renews the lease after each period. Never returns.
pub(super) async fn run(cluster: Arc<Cluster>, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        if let Err(refusal) = cluster.renew_identity_lease().await {
            tracing::warn!(%refusal, "cannot renew the lease of the server");
        }
    }
}
