//! Old states are forgotten: a list of how things were, or the rest of one that was begun then, is to be had for so long only.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;

/// Once in each period, forgets the states that were replaced before the one before. Never ends by itself.
pub(super) async fn run(cluster: Arc<Cluster>, period: Duration) {
    let mut before = cluster.store().revision();
    loop {
        tokio::time::sleep(period).await;
        cluster.store().forget(before);
        before = cluster.store().revision();
    }
}
