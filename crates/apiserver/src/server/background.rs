//! What runs beside the requests: controllers and simulators.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::controllers::Controllers;
use crate::simulators::Simulators;

/// The tasks beside the requests. Dropping it ends them where they stand, which does no harm: every write is whole.
#[derive(Debug)]
pub(super) struct Background {
    tasks: JoinSet<()>,
    shutdown: CancellationToken,
}

impl Background {
    pub(super) fn start(
        cluster: &Arc<Cluster>,
        controllers: Controllers,
        simulators: Option<Simulators>,
    ) -> Self {
        let (mut tasks, shutdown) = (JoinSet::new(), CancellationToken::new());
        let ended = || shutdown.clone().cancelled_owned();
        let tidy = controllers.run(Arc::clone(cluster), ended());
        match simulators {
            None => tasks.spawn(tidy),
            // One task for both, so that a seeded cluster does the same in the same order each time.
            Some(simulators) => {
                let live = simulators.run(Arc::clone(cluster), ended());
                tasks.spawn(async move {
                    tokio::join!(biased; tidy, live);
                })
            }
        };
        Self { tasks, shutdown }
    }

    /// Ends them, and returns when they have.
    pub(super) async fn stop(mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a controller failed");
            }
        }
    }
}
