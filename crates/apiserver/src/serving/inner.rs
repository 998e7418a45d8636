//! What all connections of a server share: who answers, and how they end.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What every connection needs.
#[derive(Debug)]
pub(super) struct Inner<H> {
    pub(super) handler: Arc<H>,
    pub(super) tasks: TaskTracker,
    pub(super) ending: Ending,
}

/// How the end is told to tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending {
    /// No new requests; what is under way may finish.
    pub(super) soon: CancellationToken,
    /// Everything ends where it stands.
    pub(super) now: CancellationToken,
}

impl<H> Inner<H> {
    /// Runs a task until it ends, or everything does.
    pub(super) fn spawn(&self, task: impl Future<Output: Send> + Send + 'static) {
        let now = self.ending.now.clone();
        self.tasks.spawn(async move {
            // Whether it ended or was ended makes no difference to anyone.
            let _ = now.run_until_cancelled_owned(task).await;
        });
    }
}
