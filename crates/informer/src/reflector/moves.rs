//! The moves of the state machine: what it remembers, and how it goes from one request to the next. Pure.
//!
//! ```text
//!          ┌── refused, not understood ──► List ──┐
//! sync ─► Initial ─────── bookmark ─────────► Watch ◄─┐ ended, lost, silent: from the last version
//!   ▲      │ ended, lost, silent                 │ └──┘
//!   └ Wait ┴──────── 410, an error event ────────┘
//! ```
//!
//! Which move an input leads to is decided in `state.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use dogwatch_core::{Object, ObjectKey, ResourceType, ResourceVersion};
use tokio::time::Instant;

use super::collected::Collected;
use super::explain::named;
use super::internal_errors::InternalErrors;
use super::options::{NotFound, ReflectorOptions};
use super::requests::{Position, Requests};
use super::signals::{Command, Ended, Measure, Moment};
use super::vitals::{Until, Vitals};
use crate::backoff::{AGES, Backoff, later};
use crate::delta::Delta;
use crate::health::{Health, HealthState};

/// How often a watch may come to nothing in a row before the collection is read anew, and a stream of initial events before it
/// is listed instead. client-go gives in at the first one, and whole fleets of readers list at once when a proxy hiccups.
pub(super) const PATIENCE: u32 = 3;

/// A watch that ends sooner than this without bringing anything is a short one.
pub(super) const MOMENT: Duration = Duration::from_secs(1);

/// The longest wait that a server may ask for. A number from outside must not decide that a cache is out of date for days; a server
/// that is still busy then asks again.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// A reader is told when the initial events pause for this long, each time. client-go's number.
pub(super) const INITIAL_EVENTS_TICK: Duration = Duration::from_secs(10);

/// What a reflector remembers.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) resource: ResourceType,
    pub(super) requests: Requests,
    pub(super) policy: Policy,
    pub(super) phase: Phase,
    pub(super) position: Position,
    pub(super) backoff: Backoff,
    pub(super) internal_errors: InternalErrors,
    pub(super) vitals: Vitals,
    /// Watches in a row that could not be opened, or from which nothing came.
    pub(super) fruitless: u32,
    /// Streams of initial events in a row that did not come to their end.
    pub(super) unfinished: u32,
    /// Whether the server was found to take a watch with initial events for an ordinary one.
    pub(super) ignores_initial_events: bool,
    /// Since when every answer says that there is no such collection.
    pub(super) not_found: Option<Instant>,
    /// Whether the collection was gone when this reflector began, and nothing else has been read since.
    pub(super) still_gone: bool,
    /// Silences in a row.
    pub(super) stalls: u32,
    /// How many times in a row the collection was read anew after silences, and had not changed.
    pub(super) quiet: u32,
    /// Whether the collection is being read because of silences.
    pub(super) after_silence: bool,
    /// Whether the server is known to send bookmarks from time to time, so that their absence means something.
    pub(super) bookmarks: bool,
    /// Whether it ended initial events with a bookmark, which it may do and send no others.
    pub(super) initial_bookmark: bool,
    /// Whether the source cannot tell the server's newest version.
    pub(super) incomparable: bool,
    /// Whether the server may have been restarted since it was last heard of: its newest version is asked for before a watch is
    /// resumed.
    pub(super) suspect: bool,
    /// How long the watch that was asked for last may take.
    pub(super) watch_timeout: Duration,
    /// Whether it is time to tell of every object again.
    pub(super) resync_due: bool,
    /// The objects that exist and whose newest state could not be decoded.
    pub(super) unreadable: BTreeSet<ObjectKey>,
    /// How many more such objects there may be, of which no name is known.
    pub(super) nameless: usize,
}

/// What does not change while a reflector runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) watch_list: bool,
    pub(super) stall_after: Option<Duration>,
    pub(super) not_found: NotFound,
}

/// What is under way.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing yet, or nothing any more.
    Idle,
    /// A list is read.
    Listing(Collected),
    /// A watch with initial events was asked for.
    OpeningInitial(Collected),
    /// Initial events come.
    Initial(Open, Collected),
    /// A watch was asked for.
    Opening,
    /// Events come.
    Watching(Open),
    /// The server's newest version was asked for, to resume a watch.
    Comparing,
    /// Discovery was asked whether the collection is gone.
    Discovering(Absence),
    /// A wait, and what comes after it.
    Waiting(Next),
}

/// A collection that was not found for long enough.
#[derive(Debug)]
pub(super) struct Absence {
    /// What the server answered.
    pub(super) message: String,
    /// Whether that was an API server.
    pub(super) certain: bool,
    /// How long the server asked to wait.
    pub(super) least: Option<Duration>,
}

/// A watch that is open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) since: Instant,
    /// How long it may take.
    pub(super) timeout: Duration,
    pub(super) events: u64,
    /// Bookmarks before the one that ends the initial events.
    pub(super) early_bookmarks: u32,
    /// Whether it brought us further.
    pub(super) advanced: bool,
    /// Whether versions come in order: not from a watch without a version to start from, until its first real event (rule REF-8).
    pub(super) ordered: bool,
}

/// What comes after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Read the collection, by initial events where possible.
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
            vitals: Vitals::default(),
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
            unreadable: BTreeSet::new(),
            nameless: 0,
        }
    }

    /// Begins after another one ended. If that was because the collection was gone, the first answer that it still is ends this one
    /// too: the informer asks again from time to time.
    pub(super) fn once_more(&mut self, ended: Health) {
        self.still_gone = ended.state == HealthState::Gone;
        // Without it, the first list could be answered from a cache that is older than what was delivered.
        self.position.last = ended.last_version.clone();
        self.vitals = Vitals::after(ended);
    }

    /// How long to wait for an input before a silence is one.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self.phase {
            Phase::Idle | Phase::Waiting(_) => None,
            Phase::Initial(..) => {
                Some(self.policy.stall_after.map_or(INITIAL_EVENTS_TICK, |it| it.min(INITIAL_EVENTS_TICK)))
            }
            _ => self.policy.stall_after,
        }
    }

    /// Reads the collection by initial events, or by a list where those are not wanted.
    pub(super) fn sync<T>(&mut self, at: Moment, out: &mut Vec<Command<T>>) {
        if !self.policy.watch_list || self.ignores_initial_events {
            return self.list(at, out);
        }
        let params = self.requests.watch_list(&self.position, at.chance);
        self.watch_timeout = params.timeout.unwrap_or(Duration::MAX);
        self.phase = Phase::OpeningInitial(Collected::new(at.now, params.version.clone()));
        out.push(Command::Watch(params));
    }

    /// Reads the collection by a list.
    pub(super) fn list<T>(&mut self, at: Moment, out: &mut Vec<Command<T>>) {
        let params = self.requests.list(&self.position);
        self.phase = Phase::Listing(Collected::new(at.now, params.version.clone()));
        out.push(Command::List(params));
    }

    /// Watches from the last version.
    pub(super) fn follow<T>(&mut self, at: Moment, out: &mut Vec<Command<T>>) {
        let params = self.requests.watch(&self.position, at.chance);
        self.watch_timeout = params.timeout.unwrap_or(Duration::MAX);
        self.phase = Phase::Opening;
        out.push(Command::Watch(params));
    }

    /// Watches from the last version, after a look at the server's newest one where it may have been restarted.
    ///
    /// A server whose state is older than the last version accepts a watch from there and says nothing until it has come that far
    /// again (kube-apiserver's cacheWatcher drops events and bookmarks that are not newer), which may be never. One
    /// request with a limit of one tells.
    pub(super) fn resume<T>(&mut self, at: Moment, out: &mut Vec<Command<T>>) {
        if self.suspect && self.position.last.is_exact() {
            self.phase = Phase::Comparing;
            out.push(Command::Newest(self.requests.fields()));
        } else {
            self.follow(at, out);
        }
    }

    /// Waits, at least as long as the server asked for, and goes on.
    pub(super) fn later<T>(
        &mut self,
        at: Moment,
        next: Next,
        least: Option<Duration>,
        out: &mut Vec<Command<T>>,
    ) {
        let least = least.unwrap_or_default().min(LONGEST_ASKED);
        let wait = self.backoff.delay(at.now, at.chance).max(least).min(AGES);
        self.vitals.retrying(at.now, later(at.now, wait));
        self.phase = Phase::Waiting(next);
        out.push(Command::Wait(wait));
    }

    /// A watch came to nothing: the same again after a while, and everything anew when that does not help.
    pub(super) fn came_to_nothing<T>(
        &mut self,
        at: Moment,
        least: Option<Duration>,
        out: &mut Vec<Command<T>>,
    ) {
        self.fruitless += 1;
        let next = if self.fruitless >= PATIENCE { Next::Sync } else { Next::Watch };
        self.later(at, next, least, out);
    }

    /// Initial events ended before their end: the same again after a while, and a list when that does not help.
    pub(super) fn unfinished<T>(&mut self, at: Moment, list: Collected, out: &mut Vec<Command<T>>) {
        list.abort(out);
        self.unfinished += 1;
        if self.unfinished >= PATIENCE {
            self.unfinished = 0;
            self.list(at, out);
        } else {
            self.later(at, Next::Sync, None, out);
        }
    }

    /// The list is whole, unless its version shows that the server went back in time; then false.
    pub(super) fn complete<T>(
        &mut self,
        at: Moment,
        mut list: Collected,
        version: ResourceVersion,
        out: &mut Vec<Command<T>>,
    ) -> bool {
        if version.is_older_than(&self.position.last) {
            list.abort(out);
            self.rewound(at, &version, out);
            return false;
        }
        out.push(Command::Measure(Measure::Listed {
            took: at.now.saturating_duration_since(list.since),
            items: list.items,
        }));
        list.end(version.clone(), out);
        (self.unreadable, self.nameless) = (list.unreadable.into_keys().collect(), list.nameless);
        self.vitals.unreadable(self.unreadable.len() + self.nameless);
        (self.fruitless, self.unfinished, self.stalls) = (0, 0, 0);
        (self.not_found, self.still_gone, self.suspect) = (None, false, false);
        // A collection that is only quiet is read anew ever more seldom.
        let unchanged = std::mem::take(&mut self.after_silence) && version == self.position.last;
        self.quiet = if unchanged { self.quiet.saturating_add(1) } else { 0 };
        self.position.unavailable = false;
        self.position.last = version.clone();
        self.vitals.synced(at.now, version);
        true
    }

    /// The server told a version older than one it told before: nothing that it said can be built upon.
    pub(super) fn rewound<T>(&mut self, at: Moment, version: &ResourceVersion, out: &mut Vec<Command<T>>) {
        let message = format!(
            "the server went back in time: it tells of {} at version {version} after version {}; everything is read anew",
            named(&self.resource),
            self.position.last,
        );
        self.vitals.rewound();
        self.vitals.failed(at.now, Until::InStep, message);
        self.position =
            Position { last: ResourceVersion::UNSET, unavailable: true, paged: self.position.paged };
        out.push(Command::Emit(Delta::Rewound));
        self.later(at, Next::Sync, None, out);
    }

    /// Ends for good.
    pub(super) fn gone<T>(&mut self, message: String, out: &mut Vec<Command<T>>) {
        self.vitals.gone();
        self.phase = Phase::Idle;
        out.push(Command::End(Ended::Gone(message)));
    }

    /// The end of a watch, in numbers; whether it was one that brought nothing.
    pub(super) fn watched<T>(&mut self, at: Moment, open: &Open, out: &mut Vec<Command<T>>) -> bool {
        let took = at.now.saturating_duration_since(open.since);
        let short = took < MOMENT && !open.advanced;
        out.push(Command::Measure(Measure::Watched { took, events: open.events, short }));
        short
    }

    /// Tells of every object again when that is due, and never inside a list or before the first one.
    pub(super) fn resync<T: Object>(&mut self, out: &mut Vec<Command<T>>) {
        let listing = matches!(self.phase, Phase::Listing(_) | Phase::OpeningInitial(_) | Phase::Initial(..));
        if self.resync_due && !listing && self.vitals.health().synced {
            self.resync_due = false;
            out.push(Command::Emit(Delta::Resync));
        }
    }
}

impl Open {
    pub(super) fn new(since: Instant, timeout: Duration, ordered: bool) -> Self {
        Self { since, timeout, events: 0, early_bookmarks: 0, advanced: false, ordered }
    }
}
