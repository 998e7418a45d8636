//! Compaction of the history by age: older states cannot be listed, and older changes cannot be
//! watched.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;

/// Compacts, once per period, the changes from before the previous period. Never returns.
pub(super) async fn run(cluster: Arc<Cluster>, period: Duration) {
    let mut before = cluster.store().revision();
    loop {
        tokio::time::sleep(period).await;
        cluster.store().trim(before);
        before = cluster.store().revision();
    }
}
