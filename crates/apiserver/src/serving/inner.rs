//! The state that all connections of a server share: the handler, and the shutdown signals.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection_parts::ConnectionParts;

/// The state that every connection needs.
#[derive(Debug)]
pub(super) struct Inner<H> {
    pub(super) handler: Arc<H>,
    pub(super) tasks: TaskTracker,
    pub(super) shutdown: Shutdown,
    pub(super) parts: ConnectionParts,
}

/// The shutdown signals of all tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Shutdown {
    /// No new requests; those in flight may finish.
    pub(super) graceful: CancellationToken,
    /// Every task ends immediately.
    pub(super) immediate: CancellationToken,
}

impl<H> Inner<H> {
    /// Runs a task until it ends or the server is stopped.
    pub(super) fn spawn(&self, task: impl Future<Output: Send> + Send + 'static) {
        let now = self.shutdown.immediate.clone();
        self.tasks.spawn(async move {
            // Both outcomes are the same to the caller.
            let _ = now.run_until_cancelled_owned(task).await;
        });
    }
}
