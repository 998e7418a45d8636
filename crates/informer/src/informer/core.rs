//! What the handles of an informer and its task share.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dogwatch_core::{Object, ResourceType};
use tokio::sync::{mpsc, watch};

use crate::fan_out::{Joining, Shared};
use crate::health::{Health, HealthState, HealthWatch};
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
    pub(super) store: Store<T>,
    /// What its handlers have in common.
    pub(super) members: Shared,
    /// To the task, which takes handlers in between two batches.
    pub(super) joins: mpsc::UnboundedSender<Joining<T>>,
    /// One for each feed.
    health: Mutex<Vec<HealthWatch>>,
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
        store: Store<T>,
        members: Shared,
        joins: mpsc::UnboundedSender<Joining<T>>,
        health: Vec<HealthWatch>,
    ) -> Self {
        let (phase, stop) = (watch::Sender::new(Phase::Made), watch::Sender::new(false));
        Self { name, resource, store, members, joins, health: Mutex::new(health), phase, stop }
    }

    fn healths(&self) -> MutexGuard<'_, Vec<HealthWatch>> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How all its reflectors are doing, as one; when they have ended, how they were.
    pub(super) fn health(&self) -> Health {
        let all: Vec<Health> = self.healths().iter().map(HealthWatch::get).collect();
        let mut health = all.into_iter().reduce(both).unwrap_or_default();
        if self.is_stopped() && health.state != HealthState::Gone {
            health.state = HealthState::Stopped;
        }
        health
    }

    /// A feed has another reflector now.
    pub(super) fn replace_health(&self, feed: usize, health: HealthWatch) {
        if let Some(slot) = self.healths().get_mut(feed) {
            *slot = health;
        }
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

/// Two reflectors as one: what troubles either troubles both, and both have come as far as the one that is behind.
fn both(one: Health, other: Health) -> Health {
    let state = if urgency(&one.state) >= urgency(&other.state) { one.state } else { other.state };
    let older = one.last_version.is_older_than(&other.last_version) || one.last_version.is_unset();
    Health {
        state,
        problem: one.problem.or(other.problem),
        synced: one.synced && other.synced,
        last_version: if older { one.last_version } else { other.last_version },
        last_event_at: one.last_event_at.max(other.last_event_at),
        relists: one.relists + other.relists,
        rewinds: one.rewinds + other.rewinds,
        poison: one.poison + other.poison,
        last_poison: one.last_poison.or(other.last_poison),
    }
}

/// Which of two states says more about the whole.
fn urgency(state: &HealthState) -> u8 {
    match state {
        HealthState::Synced => 0,
        HealthState::Starting => 1,
        HealthState::Listing { .. } => 2,
        HealthState::Retrying { .. } => 3,
        HealthState::Gone => 4,
        HealthState::Stopped => 5,
    }
}
