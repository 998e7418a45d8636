//! Tracks the health of a reflector, and decides which changes wake watchers of the health.

use dogwatch_core::ResourceVersion;
use dogwatch_wire::UndecodableItem;
use tokio::time::Instant;

use super::explain::Explanation;
use crate::health::{Health, HealthState, Problem};

/// The number of objects after which the progress of a list wakes watchers.
const PROGRESS_STEP: u64 = 500;

/// The significance of the changes since the last publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Significance {
    #[default]
    None,
    /// Versions, times, a few more objects.
    Progress,
    /// A change that wakes watchers.
    Change,
}

/// The success that ends a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The server sends anything.
    Sent,
    /// The server accepts a request.
    Accepted,
    /// A watch delivers an event, or a list is completed: requests were accepted before without a
    /// result.
    Synced,
}

/// The health of a reflector, and the state needed to update it.
#[derive(Debug, Default)]
pub(super) struct HealthTracker {
    health: Health,
    changes: Significance,
    until: Option<Until>,
    /// The time of the first of the consecutive failures, and their number.
    failing: Option<(Instant, u32)>,
}

impl HealthTracker {
    /// Continues from the health of a reflector that ended.
    pub(super) fn after(ended: Health) -> Self {
        Self { health: ended, ..Self::default() }
    }

    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    pub(super) fn take_changes(&mut self) -> Significance {
        std::mem::take(&mut self.changes)
    }

    /// Records a failure.
    pub(super) fn failed(&mut self, now: Instant, until: Until, failure: Explanation) {
        let (since, count) = self.failing.map_or((now, 0), |it| it);
        let count = count.saturating_add(1);
        self.failing = Some((since, count));
        self.until = Some(until);
        let Explanation { kind, message } = failure;
        self.set_problem(Problem { kind, message, since, count });
    }

    /// Records a problem that does not stop the reflector. An unresolved failure takes precedence.
    pub(super) fn degraded(&mut self, now: Instant, problem: Explanation) {
        if self.until.is_none_or(|it| it == Until::Sent) {
            let (since, count) = self.health.problem.as_ref().map_or((now, 0), |it| (it.since, it.count));
            self.until = Some(Until::Sent);
            let Explanation { kind, message } = problem;
            self.set_problem(Problem { kind, message, since, count: count.saturating_add(1) });
        }
    }

    /// Records that the next request is scheduled.
    pub(super) fn retrying(&mut self, now: Instant, next: Instant) {
        let (since, attempts) = self.failing.unwrap_or((now, 1));
        self.set_state(HealthState::Retrying { since, attempts, next });
    }

    /// Records that the server accepted a request.
    pub(super) fn accepted(&mut self) {
        if matches!(self.until, Some(Until::Sent | Until::Accepted)) {
            self.resolved();
        }
        if self.health.synced && matches!(self.health.state, HealthState::Retrying { .. }) {
            self.set_state(HealthState::Synced);
        }
    }

    /// Records that the server's newest version is not older than the last one: a silence was
    /// harmless.
    pub(super) fn verified(&mut self) {
        self.resolved();
    }

    /// Records that the server sent something.
    pub(super) fn received(&mut self, now: Instant) {
        self.health.last_event_at = Some(now);
        self.changes = self.changes.max(Significance::Progress);
        if self.until == Some(Until::Sent) {
            self.resolved();
        }
    }

    /// Records an event of a watch that follows a list.
    pub(super) fn received_event(&mut self, now: Instant) {
        self.received(now);
        if self.until.is_some() {
            self.resolved();
        }
    }

    /// Records the number of objects received of a list.
    pub(super) fn listing(&mut self, items: u64) {
        let begins = !matches!(self.health.state, HealthState::Listing { .. });
        self.health.state = HealthState::Listing { items };
        let loud = begins || items.is_multiple_of(PROGRESS_STEP);
        self.changes = self.changes.max(if loud { Significance::Change } else { Significance::Progress });
    }

    /// Records that a list is complete.
    pub(super) fn synced(&mut self, now: Instant, version: ResourceVersion) {
        if std::mem::replace(&mut self.health.synced, true) {
            self.health.relists += 1;
        }
        self.resolved();
        self.received(now);
        self.reached(version);
        self.set_state(HealthState::Synced);
    }

    /// Records the version up to which everything has been delivered.
    pub(super) fn reached(&mut self, version: ResourceVersion) {
        self.health.last_version = version;
        self.changes = self.changes.max(Significance::Progress);
    }

    pub(super) fn rewound(&mut self) {
        self.health.rewinds += 1;
        self.reached(ResourceVersion::UNSET);
    }

    pub(super) fn decode_failed(&mut self, bad: UndecodableItem) {
        self.health.decode_failures += 1;
        self.health.last_decode_failure = Some(bad);
        self.changes = Significance::Change;
    }

    /// Records the number of objects whose newest state could not be decoded.
    pub(super) fn set_undecodable(&mut self, objects: usize) {
        let objects = objects as u64;
        if std::mem::replace(&mut self.health.undecodable, objects) != objects {
            self.changes = Significance::Change;
        }
    }

    pub(super) fn gone(&mut self) {
        self.set_state(HealthState::NotServed);
    }

    fn resolved(&mut self) {
        self.failing = None;
        self.until = None;
        if self.health.problem.take().is_some() {
            self.changes = Significance::Change;
        }
    }

    fn set_problem(&mut self, problem: Problem) {
        self.health.problem = Some(problem);
        self.changes = Significance::Change;
    }

    fn set_state(&mut self, state: HealthState) {
        self.health.state = state;
        self.changes = Significance::Change;
    }
}
