//! Background tasks: the controllers.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::controllers::{Controllers, together};

/// The tasks of controllers. Dropping it aborts them, which is safe at any point:
/// every write is atomic.
#[derive(Debug)]
pub(super) struct Background {
    tasks: JoinSet<()>,
    shutdown: CancellationToken,
}

impl Background {
    pub(super) fn start(cluster: &Arc<Cluster>, controllers: Controllers) -> Self {
        let all = controllers.supervised(cluster);
        let (mut tasks, shutdown) = (JoinSet::new(), CancellationToken::new());
        let ended = || shutdown.clone().cancelled_owned();
        if cluster.source().is_seeded() {
            // One task polls all of them in a fixed order. With a task each, the runtime's threads
            // would decide which loop takes the next uid of the seed.
            tasks.spawn(together(all, ended()));
        } else {
            // A task each, so that a busy loop does not delay the others.
            for one in all {
                tasks.spawn(together(vec![one], ended()));
            }
        }
        Self { tasks, shutdown }
    }

    /// Stops the tasks and returns when all of them have ended.
    pub(super) async fn stop(mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a controller failed");
            }
        }
    }
}
