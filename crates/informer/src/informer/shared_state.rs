//! The state that the handles of an informer and its task share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dogwatch_core::{Object, ResourceType};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::coverage::Coverage;
use super::inbox::SubscriptionSender;
use crate::health::Health;
use crate::health_watch::CombinedHealth;
use crate::history::SyncHistory;
use crate::queue::QueueGauge;
use crate::stats::InformerStats;
use crate::store::Store;
use crate::subscription::HandlerContext;

/// The lifecycle phase of an informer; it only advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Made,
    Running,
    Stopped,
}

/// The state that all handles of one informer and its task share.
pub(super) struct SharedState<T: Object> {
    /// The name in metrics, logs and errors.
    pub(super) name: String,
    pub(super) resource: ResourceType,
    pub(super) coverage: Coverage,
    pub(super) store: Store<T>,
    /// The settings that its handlers have in common.
    pub(super) members: HandlerContext,
    /// The channel of new handlers to the task, which adds them between two batches.
    pub(super) subscriptions: SubscriptionSender<T>,
    /// One health for each feed.
    pub(super) healths: Arc<CombinedHealth>,
    /// The lists and interruptions of all feeds.
    pub(super) history: SyncHistory,
    /// The queues between the reflectors and the store.
    pub(super) queues: Queues<T>,
    /// The number of deltas that were applied.
    pub(super) applied: AtomicU64,
    pub(super) phase: watch::Sender<Phase>,
    /// Set when the task is asked to stop.
    pub(super) stop: watch::Sender<bool>,
}

/// The queues between the reflectors of an informer and its store.
pub(super) struct Queues<T> {
    /// One for each feed; it is replaced when a reflector is restarted.
    pub(super) gauges: Mutex<Vec<QueueGauge<T>>>,
    /// The capacity of each.
    pub(super) capacity: usize,
}

/// An error of waiting until an informer is synced.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::Api;
/// use dogwatch_informer::{NotSynced, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// maps.start();
/// match maps.synced_within(Duration::ZERO).await {
///     Err(NotSynced::Late { health, .. }) => println!("not ready yet: {health}"),
///     Err(NotSynced::Ended { health, .. }) => return Err(health.to_string().into()),
///     other => other?,
/// }
/// maps.synced().await?; // it kept trying
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSynced {
    /// The timeout elapsed. The informer keeps trying; `health` says what it waits for.
    #[error("informer {informer} is not synced after {after:?}: {health}")]
    Late {
        /// The name of the informer.
        informer: String,
        /// The timeout.
        after: Duration,
        /// The health of the informer at that time.
        health: Box<Health>,
    },
    /// The informer has ended and will never be synced.
    #[error("informer {informer} ended before it was synced: {health}")]
    Ended {
        /// The name of the informer.
        informer: String,
        /// The health of the informer at its end.
        health: Box<Health>,
    },
}

impl<T: Object> SharedState<T> {
    #[allow(clippy::too_many_arguments, reason = "each is a part of the state")]
    pub(super) fn new(
        name: String,
        resource: ResourceType,
        coverage: Coverage,
        store: Store<T>,
        members: HandlerContext,
        subscriptions: SubscriptionSender<T>,
        healths: CombinedHealth,
        history: SyncHistory,
        queues: Queues<T>,
    ) -> Self {
        let (phase, stop) = (watch::Sender::new(Phase::Made), watch::Sender::new(false));
        Self {
            name,
            resource,
            coverage,
            store,
            members,
            subscriptions,
            healths: Arc::new(healths),
            history,
            queues,
            applied: AtomicU64::new(0),
            phase,
            stop,
        }
    }

    /// Returns the combined health of its reflectors; when they have ended, their last health.
    pub(super) fn health(&self) -> Health {
        self.healths.get()
    }

    /// Returns its numbers.
    pub(super) fn stats(&self) -> InformerStats {
        let (relists, watches) = self.history.get();
        let gauges = self.queues.gauges.lock();
        let (queued, queues) = (gauges.iter().map(QueueGauge::depth).sum(), gauges.len());
        drop(gauges);
        InformerStats {
            name: self.name.clone(),
            resource: self.resource.clone(),
            health: self.health(),
            version: self.store.version(),
            objects: self.store.len(),
            memory: self.store.memory(),
            applied: self.applied.load(Ordering::Relaxed),
            queued,
            queue_capacity: self.queues.capacity.saturating_mul(queues),
            relists,
            watches,
            handlers: self.members.handlers(),
        }
    }

    /// Marks the informer as stopped.
    pub(super) fn end(&self) {
        // The health comes first, so that a caller that waited for the stop sees the final health.
        self.healths.end();
        self.phase.send_replace(Phase::Stopped);
    }

    pub(super) fn is_stopped(&self) -> bool {
        *self.phase.borrow() == Phase::Stopped
    }

    pub(super) async fn stopped(&self) {
        // `wait_for` fails only if the sender is dropped, and `self` owns it.
        let _ = self.phase.subscribe().wait_for(|it| *it == Phase::Stopped).await;
    }

    pub(super) async fn synced(&self) -> Result<(), NotSynced> {
        tokio::select! {
            biased;
            synced = self.store.wait_synced() => if synced.is_ok() { return Ok(()) },
            () = self.stopped() => if self.store.is_synced() { return Ok(()) },
        }
        Err(NotSynced::Ended { informer: self.name.clone(), health: Box::new(self.health()) })
    }

    pub(super) async fn synced_within(&self, timeout: Duration) -> Result<(), NotSynced> {
        match tokio::time::timeout(timeout, self.synced()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(NotSynced::Late {
                informer: self.name.clone(),
                after: timeout,
                health: Box::new(self.health()),
            }),
        }
    }
}
