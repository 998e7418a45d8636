//! Keeps the health of a reflector as things happen to it, and knows which changes are worth waking a reader for.

use dogwatch_core::ResourceVersion;
use dogwatch_wire::BadItem;
use tokio::time::Instant;

use crate::health::{Health, HealthState, Problem};

/// A reader who shows progress is woken each time so many objects more have come.
const PROGRESS_STEP: u64 = 500;

/// What changed since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    #[default]
    None,
    /// Versions, times, a few objects more.
    Progress,
    /// Something to wake for.
    Change,
}

/// Which success shows that a problem is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The server sends anything.
    Sent,
    /// The server accepts a request.
    Accepted,
    /// A watch tells something, or a list comes to its end: requests were accepted before, and nothing came of them.
    InStep,
}

/// The health of a reflector, and what it takes to keep it.
#[derive(Debug, Default)]
pub(super) struct Vitals {
    health: Health,
    news: News,
    until: Option<Until>,
    /// Failures in a row, and when the first one was.
    failing: Option<(Instant, u32)>,
}

impl Vitals {
    /// Those of a reflector that begins where another one ended.
    pub(super) fn after(ended: Health) -> Self {
        Self { health: ended, ..Self::default() }
    }

    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    pub(super) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Something failed.
    pub(super) fn failed(&mut self, now: Instant, until: Until, message: String) {
        let (since, count) = self.failing.map_or((now, 0), |it| it);
        let count = count.saturating_add(1);
        self.failing = Some((since, count));
        self.until = Some(until);
        self.trouble(Problem { message, since, count });
    }

    /// Something is not as it should be, and goes on nevertheless. A failure that is not over is worth more to know.
    pub(super) fn uneasy(&mut self, now: Instant, message: String) {
        if self.until.is_none_or(|it| it == Until::Sent) {
            let (since, count) = self.health.problem.as_ref().map_or((now, 0), |it| (it.since, it.count));
            self.until = Some(Until::Sent);
            self.trouble(Problem { message, since, count: count.saturating_add(1) });
        }
    }

    /// The next request comes later.
    pub(super) fn retrying(&mut self, now: Instant, next: Instant) {
        let (since, attempts) = self.failing.unwrap_or((now, 1));
        self.enter(HealthState::Retrying { since, attempts, next });
    }

    /// The server accepted a request.
    pub(super) fn accepted(&mut self) {
        if matches!(self.until, Some(Until::Sent | Until::Accepted)) {
            self.well();
        }
        if self.health.synced && matches!(self.health.state, HealthState::Retrying { .. }) {
            self.enter(HealthState::Synced);
        }
    }

    /// The server was asked, and has nothing older than what is known: a silence was none of its.
    pub(super) fn verified(&mut self) {
        self.well();
    }

    /// The server sent something.
    pub(super) fn heard(&mut self, now: Instant) {
        self.health.last_event_at = Some(now);
        self.news = self.news.max(News::Progress);
        if self.until == Some(Until::Sent) {
            self.well();
        }
    }

    /// A watch that follows on a list told something.
    pub(super) fn followed(&mut self, now: Instant) {
        self.heard(now);
        if self.until.is_some() {
            self.well();
        }
    }

    /// So many objects have come of a list.
    pub(super) fn listing(&mut self, items: u64) {
        let begins = !matches!(self.health.state, HealthState::Listing { .. });
        self.health.state = HealthState::Listing { items };
        let loud = begins || items.is_multiple_of(PROGRESS_STEP);
        self.news = self.news.max(if loud { News::Change } else { News::Progress });
    }

    /// A list is whole.
    pub(super) fn synced(&mut self, now: Instant, version: ResourceVersion) {
        if std::mem::replace(&mut self.health.synced, true) {
            self.health.relists += 1;
        }
        self.well();
        self.heard(now);
        self.reached(version);
        self.enter(HealthState::Synced);
    }

    /// Everything up to this version has been told.
    pub(super) fn reached(&mut self, version: ResourceVersion) {
        self.health.last_version = version;
        self.news = self.news.max(News::Progress);
    }

    pub(super) fn rewound(&mut self) {
        self.health.rewinds += 1;
        self.reached(ResourceVersion::UNSET);
    }

    pub(super) fn poison(&mut self, bad: BadItem) {
        self.health.poison += 1;
        self.health.last_poison = Some(bad);
        self.news = News::Change;
    }

    /// The newest states of so many objects could not be decoded.
    pub(super) fn unreadable(&mut self, objects: usize) {
        let objects = objects as u64;
        if std::mem::replace(&mut self.health.unreadable, objects) != objects {
            self.news = News::Change;
        }
    }

    pub(super) fn gone(&mut self) {
        self.enter(HealthState::Gone);
    }

    fn well(&mut self) {
        self.failing = None;
        self.until = None;
        if self.health.problem.take().is_some() {
            self.news = News::Change;
        }
    }

    fn trouble(&mut self, problem: Problem) {
        self.health.problem = Some(problem);
        self.news = News::Change;
    }

    fn enter(&mut self, state: HealthState) {
        self.health.state = state;
        self.news = News::Change;
    }
}
