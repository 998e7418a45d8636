//! The transitions of the state machine: its memory, and how it goes from one request to the next.
//! Pure.
//!
//! ```text
//!          ┌── refused, not understood ──► List ──┐
//! sync ─► Initial ─────── bookmark ─────────► Watch ◄─┐ ended, lost, silent: from the last version
//!   ▲      │ ended, lost, silent                 │ └──┘
//!   └ Wait ┴──────── 410, an error event ────────┘
//! ```
//!
//! The function for each phase, which chooses the transition for an input, is in `state.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use dogwatch_core::{Object, ObjectKey, ResourceType, ResourceVersion};
use tokio::time::Instant;

use super::explain::{Explanation, named};
use super::health_tracker::{HealthTracker, Until};
use super::internal_errors::InternalErrors;
use super::list_in_progress::ListInProgress;
use super::options::{NotFound, ReflectorOptions};
use super::requests::{Position, Requests};
use super::signals::{Command, Measure, Moment, ReflectorEnded};
use crate::backoff::{Backoff, MAX_WAIT, instant_after};
use crate::delta::Delta;
use crate::health::{Health, HealthState, ProblemKind};
use crate::history::{Relist, RelistReason, shortened};

/// The number of consecutive watches without a result after which the collection is listed again,
/// and of unfinished streams of initial events after which it is listed instead. client-go lists
/// after the first one, so all its clients list at once when a proxy fails briefly.
pub(super) const MAX_ATTEMPTS: u32 = 3;

/// A watch that ends sooner than this without advancing the version is a short one. client-go uses
/// the same limit (`VeryShortWatchError` in `tools/cache/reflector.go`).
pub(super) const SHORT_WATCH: Duration = Duration::from_secs(1);

/// The longest delay that the server may ask for. A number from outside must not leave a cache out
/// of date for days; a server that is still busy then asks again.
const MAX_REQUESTED_DELAY: Duration = Duration::from_secs(300);

/// The interval at which a pause of the initial events is reported. client-go uses the same one
/// (k8s.io/client-go v0.36.4 `tools/cache/reflector.go`).
pub(super) const INITIAL_EVENTS_TICK: Duration = Duration::from_secs(10);

/// The state of a reflector.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) resource: ResourceType,
    pub(super) requests: Requests,
    pub(super) policy: Policy,
    pub(super) phase: Phase,
    pub(super) position: Position,
    pub(super) backoff: Backoff,
    pub(super) internal_errors: InternalErrors,
    pub(super) tracker: HealthTracker,
    /// The reason for the next list or the one in progress, and the problem that led to it.
    pub(super) relist_reason: Option<(RelistReason, Option<String>)>,
    /// The number of consecutive watches that could not be opened or brought nothing.
    pub(super) fruitless: u32,
    /// The number of consecutive streams of initial events that were not finished.
    pub(super) unfinished: u32,
    /// Set if the server was found to treat a watch with initial events as an ordinary one.
    pub(super) ignores_initial_events: bool,
    /// The time since which every answer has been that the collection does not exist.
    pub(super) not_found: Option<Instant>,
    /// Set if the collection was gone when this reflector started, and nothing has been read since.
    pub(super) still_gone: bool,
    /// The number of consecutive silences.
    pub(super) stalls: u32,
    /// The number of consecutive relists after silences in which nothing had changed.
    pub(super) quiet: u32,
    /// Set while the collection is being listed because of silences.
    pub(super) after_silence: bool,
    /// Set if the server is known to send periodic bookmarks, so that their absence is significant.
    pub(super) bookmarks: bool,
    /// Set if the server ended initial events with a bookmark. It may still send no others.
    pub(super) initial_bookmark: bool,
    /// Set if the source cannot read the server's newest version.
    pub(super) incomparable: bool,
    /// Set if the server may have been restarted since it last sent something: its newest version
    /// is read before a watch is resumed.
    pub(super) suspect: bool,
    /// The timeout of the last watch request.
    pub(super) watch_timeout: Duration,
    /// Set when a resync is due.
    pub(super) resync_due: bool,
    /// The existing objects whose newest state could not be decoded.
    pub(super) undecodable: BTreeSet<ObjectKey>,
    /// The number of further such objects whose name is not known either.
    pub(super) nameless: usize,
}

/// The settings that do not change while a reflector runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) watch_list: bool,
    pub(super) stall_after: Option<Duration>,
    pub(super) not_found: NotFound,
}

/// The current activity.
#[derive(Debug)]
pub(super) enum Phase {
    /// Not started, or ended.
    Idle,
    /// A list is being received.
    Listing(ListInProgress),
    /// A watch with initial events was requested.
    OpeningInitial(ListInProgress),
    /// Initial events are being received.
    Initial(OpenWatch, ListInProgress),
    /// A watch was requested.
    Opening,
    /// Events are being received.
    Watching(OpenWatch),
    /// The server's newest version was requested, to resume a watch.
    Comparing,
    /// Discovery was requested, to find out whether the collection is gone.
    Discovering(Absence),
    /// A wait, and the request that follows it.
    Waiting(Next),
}

/// A collection that was not found for long enough.
#[derive(Debug)]
pub(super) struct Absence {
    /// The server's answer.
    pub(super) message: String,
    /// True if an API server answered.
    pub(super) certain: bool,
    /// The delay that the server asked for.
    pub(super) least: Option<Duration>,
}

/// An open watch.
#[derive(Debug)]
pub(super) struct OpenWatch {
    pub(super) since: Instant,
    /// The requested timeout.
    pub(super) timeout: Duration,
    pub(super) events: u64,
    /// The number of bookmarks before the one that ends the initial events.
    pub(super) early_bookmarks: u32,
    /// Set once it advanced the version.
    pub(super) advanced: bool,
    /// Set if versions come in order. They do not on a watch without a start version, until its
    /// first event that is not `ADDED` (rule REF-8).
    pub(super) ordered: bool,
}

/// The request that follows a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Read the collection, by initial events if possible.
    Sync,
    /// Watch from the last version.
    Watch,
}

impl Machine {
    pub(super) fn new<T>(resource: ResourceType, options: &ReflectorOptions<T>, watch_list: bool) -> Self {
        Self {
            resource,
            requests: Requests::new(options),
            policy: Policy {
                watch_list: watch_list && options.watch_list,
                stall_after: options.stall_after,
                not_found: options.not_found,
            },
            phase: Phase::Idle,
            position: Position::default(),
            backoff: Backoff::new(options.backoff),
            internal_errors: InternalErrors::new(options.internal_error_retry),
            tracker: HealthTracker::default(),
            relist_reason: Some((RelistReason::Start, None)),
            fruitless: 0,
            unfinished: 0,
            ignores_initial_events: false,
            not_found: None,
            still_gone: false,
            stalls: 0,
            quiet: 0,
            after_silence: false,
            bookmarks: false,
            initial_bookmark: false,
            incomparable: false,
            suspect: false,
            watch_timeout: Duration::ZERO,
            resync_due: false,
            undecodable: BTreeSet::new(),
            nameless: 0,
        }
    }

    /// Continues after another reflector has ended. If that was because the collection was gone,
    /// the first answer that it is still gone ends this one too: the informer retries periodically.
    pub(super) fn continue_after(&mut self, ended: Health) {
        self.still_gone = ended.state == HealthState::NotServed;
        let reason = if self.still_gone { RelistReason::NotServed } else { RelistReason::Restarted };
        self.relist_reason = Some((reason, ended.problem.as_ref().map(|it| shortened(&it.message))));
        // Without it, the first list could be answered from a cache that is older than what was
        // delivered.
        self.position.last = ended.last_version.clone();
        self.tracker = HealthTracker::after(ended);
    }

    /// Returns how long to wait for an input before a silence is reported.
    pub(super) fn silence_timeout(&self) -> Option<Duration> {
        match self.phase {
            Phase::Idle | Phase::Waiting(_) => None,
            Phase::Initial(..) => {
                Some(self.policy.stall_after.map_or(INITIAL_EVENTS_TICK, |it| it.min(INITIAL_EVENTS_TICK)))
            }
            _ => self.policy.stall_after,
        }
    }

    /// Reads the collection by initial events, or by a list if those are disabled.
    pub(super) fn sync<T>(&mut self, at: Moment, out: &mut Vec<Command<T>>) {
        if !self.policy.watch_list || self.ignores_initial_events {
            return self.list(at, out);
        }
        let params = self.requests.watch_list(&self.position, at.chance);
        self.watch_timeout = params.timeout.unwrap_or(Duration::MAX);
        self.phase = Phase::OpeningInitial(ListInProgress::new(at.now, params.version.clone()));
        out.push(Command::Watch(params));
    }

    /// Reads the collection by a list.
    pub(super) fn list<T>(&mut self, at: Moment, out: &mut Vec<Command<T>>) {
        let params = self.requests.list(&self.position);
        self.phase = Phase::Listing(ListInProgress::new(at.now, params.version.clone()));
        out.push(Command::List(params));
    }

    /// Watches from the last version.
    pub(super) fn follow<T>(&mut self, at: Moment, out: &mut Vec<Command<T>>) {
        let params = self.requests.watch(&self.position, at.chance);
        self.watch_timeout = params.timeout.unwrap_or(Duration::MAX);
        self.phase = Phase::Opening;
        out.push(Command::Watch(params));
    }

    /// Watches from the last version, after comparing it with the server's newest one if the server
    /// may have been restarted.
    ///
    /// A server whose state is older than the last version accepts a watch from there and sends
    /// nothing until it has reached that version again, which may be never: kube-apiserver's
    /// cacheWatcher drops events that are not newer (k8s.io/apiserver v0.36.4
    /// `pkg/storage/cacher/cache_watcher.go`). One list request with a limit of one reveals this.
    pub(super) fn resume<T>(&mut self, at: Moment, out: &mut Vec<Command<T>>) {
        if self.suspect && self.position.last.is_exact() {
            self.phase = Phase::Comparing;
            out.push(Command::Newest(self.requests.fields()));
        } else {
            self.follow(at, out);
        }
    }

    /// Waits, at least as long as the server asked for, and continues with `next`.
    pub(super) fn wait_then<T>(
        &mut self,
        at: Moment,
        next: Next,
        least: Option<Duration>,
        out: &mut Vec<Command<T>>,
    ) {
        let least = least.unwrap_or_default().min(MAX_REQUESTED_DELAY);
        let wait = self.backoff.delay(at.now, at.chance).max(least).min(MAX_WAIT);
        self.tracker.retrying(at.now, instant_after(at.now, wait));
        self.phase = Phase::Waiting(next);
        out.push(Command::Wait(wait));
    }

    /// Handles a watch without a result: retries after a backoff, and lists again after several
    /// attempts.
    pub(super) fn retry_watch<T>(&mut self, at: Moment, least: Option<Duration>, out: &mut Vec<Command<T>>) {
        self.fruitless += 1;
        let next = if self.fruitless >= MAX_ATTEMPTS { Next::Sync } else { Next::Watch };
        if next == Next::Sync {
            self.relist_because(RelistReason::Connection);
        }
        self.wait_then(at, next, least, out);
    }

    /// Handles initial events that were not finished: retries after a backoff, and lists after
    /// several attempts.
    pub(super) fn unfinished<T>(&mut self, at: Moment, list: ListInProgress, out: &mut Vec<Command<T>>) {
        list.abort(out);
        self.unfinished += 1;
        if self.unfinished >= MAX_ATTEMPTS {
            self.unfinished = 0;
            self.list(at, out);
        } else {
            self.wait_then(at, Next::Sync, None, out);
        }
    }

    /// Completes a list. Returns false if its version shows that the server's history was reset.
    pub(super) fn complete<T>(
        &mut self,
        at: Moment,
        mut list: ListInProgress,
        version: ResourceVersion,
        out: &mut Vec<Command<T>>,
    ) -> bool {
        if version.is_older_than(&self.position.last) {
            list.abort(out);
            self.rewound(at, &version, out);
            return false;
        }
        debug_assert!(self.relist_reason.is_some(), "a list has a reason");
        let (reason, message) = self.relist_reason.take().unwrap_or((RelistReason::Connection, None));
        out.push(Command::Measure(Measure::Listed(Box::new(Relist {
            number: 0,
            reason,
            message,
            completed_at: at.now,
            took: at.now.saturating_duration_since(list.since),
            objects: list.items,
            version: version.clone(),
        }))));
        list.end(version.clone(), out);
        (self.undecodable, self.nameless) = (list.undecodable.into_keys().collect(), list.nameless);
        self.tracker.set_undecodable(self.undecodable.len() + self.nameless);
        (self.fruitless, self.unfinished, self.stalls) = (0, 0, 0);
        (self.not_found, self.still_gone, self.suspect) = (None, false, false);
        // A collection that is merely quiet is listed ever less often.
        let unchanged = std::mem::take(&mut self.after_silence) && version == self.position.last;
        self.quiet = if unchanged { self.quiet.saturating_add(1) } else { 0 };
        self.position.unavailable = false;
        self.position.last = version.clone();
        self.tracker.synced(at.now, version);
        true
    }

    /// Handles a version that is older than an earlier one: the server's history was reset, and
    /// nothing that it reported before can be relied on.
    pub(super) fn rewound<T>(&mut self, at: Moment, version: &ResourceVersion, out: &mut Vec<Command<T>>) {
        let message = format!(
            "the server's history was reset: it reports {} at version {version} after version {}; listing again",
            named(&self.resource),
            self.position.last,
        );
        self.tracker.rewound();
        let kind = ProblemKind::HistoryReset;
        self.tracker.failed(at.now, Until::Synced, Explanation { kind, message });
        // Whatever the reason before: a list for it would have been complete by now.
        self.relist_reason = None;
        self.relist_because(RelistReason::HistoryReset);
        self.position =
            Position { last: ResourceVersion::UNSET, unavailable: true, paged: self.position.paged };
        out.push(Command::Emit(Delta::Rewound));
        self.wait_then(at, Next::Sync, None, out);
    }

    /// Records the reason for the next list, and the current problem. The first reason since the
    /// last list counts, because failures of the list itself follow from it.
    pub(super) fn relist_because(&mut self, reason: RelistReason) {
        if self.relist_reason.is_none() {
            let message = self.tracker.health().problem.as_ref().map(|it| shortened(&it.message));
            self.relist_reason = Some((reason, message));
        }
    }

    /// Ends for good.
    pub(super) fn gone<T>(&mut self, message: String, out: &mut Vec<Command<T>>) {
        self.tracker.gone();
        self.phase = Phase::Idle;
        out.push(Command::End(ReflectorEnded::Gone(message)));
    }

    /// Records the end of a watch in the metrics. Returns true if it was a short one.
    pub(super) fn watched<T>(&mut self, at: Moment, open: &OpenWatch, out: &mut Vec<Command<T>>) -> bool {
        let took = at.now.saturating_duration_since(open.since);
        let short = took < SHORT_WATCH && !open.advanced;
        out.push(Command::Measure(Measure::Watched { took, events: open.events, short }));
        short
    }

    /// Requests a resync if it is due, but never inside a list or before the initial one.
    pub(super) fn resync<T: Object>(&mut self, out: &mut Vec<Command<T>>) {
        let listing = matches!(self.phase, Phase::Listing(_) | Phase::OpeningInitial(_) | Phase::Initial(..));
        if self.resync_due && !listing && self.tracker.health().synced {
            self.resync_due = false;
            out.push(Command::Emit(Delta::Resync));
        }
    }
}

impl OpenWatch {
    pub(super) fn new(since: Instant, timeout: Duration, ordered: bool) -> Self {
        Self { since, timeout, events: 0, early_bookmarks: 0, advanced: false, ordered }
    }
}
