//! What the handles of an informer and its task share.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::{Object, ResourceType};
use tokio::sync::{mpsc, watch};

use super::coverage::Coverage;
use crate::fan_out::{Joining, Shared};
use crate::health::Health;
use crate::health_watch::Healths;
use crate::store::Store;

/// Where an informer is in its life; it goes in one direction only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Made,
    Running,
    Stopped,
}

/// Shared by all handles of one informer and by its task.
pub(super) struct Core<T: Object> {
    /// In metrics, logs and errors.
    pub(super) name: String,
    pub(super) resource: ResourceType,
    pub(super) coverage: Coverage,
    pub(super) store: Store<T>,
    /// What its handlers have in common.
    pub(super) members: Shared,
    /// To the task, which takes handlers in between two batches.
    pub(super) joins: mpsc::UnboundedSender<Joining<T>>,
    /// One for each feed.
    pub(super) healths: Arc<Healths>,
    pub(super) phase: watch::Sender<Phase>,
    /// Whether the task is asked to end.
    pub(super) stop: watch::Sender<bool>,
}

/// Why an informer has no whole copy of its collection.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSynced {
    /// It goes on trying; what keeps it is said here.
    #[error("informer {informer} is not synced after {after:?}: {health}")]
    Late {
        /// The name of the informer.
        informer: String,
        /// How long was waited.
        after: Duration,
        /// How it was doing then.
        health: Box<Health>,
    },
    /// It has ended and will never be synced.
    #[error("informer {informer} ended before it was synced: {health}")]
    Ended {
        /// The name of the informer.
        informer: String,
        /// How it was doing in the end.
        health: Box<Health>,
    },
}

impl<T: Object> Core<T> {
    pub(super) fn new(
        name: String,
        resource: ResourceType,
        coverage: Coverage,
        store: Store<T>,
        members: Shared,
        joins: mpsc::UnboundedSender<Joining<T>>,
        healths: Healths,
    ) -> Self {
        let (phase, stop) = (watch::Sender::new(Phase::Made), watch::Sender::new(false));
        Self { name, resource, coverage, store, members, joins, healths: Arc::new(healths), phase, stop }
    }

    /// How all its reflectors are doing, as one; when they have ended, how they were.
    pub(super) fn health(&self) -> Health {
        self.healths.get()
    }

    /// Says that it has stopped.
    pub(super) fn end(&self) {
        // First, so that whoever waited for the stop is told of nothing else.
        self.healths.end();
        self.phase.send_replace(Phase::Stopped);
    }

    pub(super) fn is_stopped(&self) -> bool {
        *self.phase.borrow() == Phase::Stopped
    }

    pub(super) async fn stopped(&self) {
        // The sender is here, so it cannot be gone.
        let _ = self.phase.subscribe().wait_for(|it| *it == Phase::Stopped).await;
    }

    pub(super) async fn synced(&self) -> Result<(), NotSynced> {
        tokio::select! {
            biased;
            synced = self.store.wait_synced() => if synced.is_ok() { return Ok(()) },
            () = self.stopped() => if self.store.synced() { return Ok(()) },
        }
        Err(NotSynced::Ended { informer: self.name.clone(), health: Box::new(self.health()) })
    }

    pub(super) async fn synced_within(&self, patience: Duration) -> Result<(), NotSynced> {
        match tokio::time::timeout(patience, self.synced()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(NotSynced::Late {
                informer: self.name.clone(),
                after: patience,
                health: Box::new(self.health()),
            }),
        }
    }
}
