//! Trims history by age: old states cannot be listed, and old changes not be watched from, once they are this old.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;

/// Once in each period, forgets the changes from before the last one. Never ends by itself.
pub(super) async fn run(cluster: Arc<Cluster>, period: Duration) {
    let mut before = cluster.store().revision();
    loop {
        tokio::time::sleep(period).await;
        cluster.store().trim(before);
        before = cluster.store().revision();
    }
}
