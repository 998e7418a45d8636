//! The state machine of a reflector: inputs go in, commands come out. It performs no I/O, has no
//! clock and no random numbers.
//!
//! There is one function per phase, those of a stream of initial events in `initial_events.rs`; the
//! transitions that they choose from are in `machine.rs`.

use std::time::Duration;

use dogwatch_client::{Error, ListEvent};
use dogwatch_core::{Object, ObjectKey, ResourceVersion, Status};
use dogwatch_wire::{Bookmark, EventKind, UndecodableItem, WatchEvent};

use super::explain::{Attempt, Explanation, explain, named};
use super::failure::{Ending, Failure, is_from_an_api_server, requested_delay, suggests_a_restart};
use super::health_tracker::Until;
use super::list_in_progress::ListInProgress;
use super::machine::{Absence, Machine, Next, OpenWatch, Phase, SHORT_WATCH};
use super::options::NotFound;
use super::signals::{Command, Input, Measure, Moment};
use crate::delta::Delta;
use crate::history::RelistReason;

/// The number of consecutive silences after which the collection is listed again, if the server is
/// known to send bookmarks.
const STALLS: u32 = 2;
/// The same for a server that may be silent because nothing happens and it sends no bookmarks.
/// Doubled each time that nothing had changed, at most [`MOST_DOUBLINGS`] times.
const STALLS_WITHOUT_BOOKMARKS: u32 = 5;
/// The maximal number of doublings: a quiet collection is listed again at least about once a day.
const MOST_DOUBLINGS: u32 = 6;

impl Machine {
    /// Processes one input, and appends the commands to perform, in order.
    ///
    /// An input that does not belong to the current phase has no effect.
    pub(super) fn step<T: Object>(&mut self, at: Moment, input: Input<T>, out: &mut Vec<Command<T>>) {
        match input {
            Input::Start => self.sync(at, out),
            Input::ResyncDue => self.resync_due = true,
            Input::Silence(length) => self.on_silence(at, length, out),
            input => match std::mem::replace(&mut self.phase, Phase::Idle) {
                Phase::Idle => {}
                Phase::Waiting(next) => self.on_waited(at, next, &input, out),
                Phase::Listing(list) => self.on_list(at, list, input, out),
                Phase::OpeningInitial(list) => self.on_opening_initial(at, list, input, out),
                Phase::Initial(open, list) => self.on_initial(at, open, list, input, out),
                Phase::Opening => self.on_opening(at, input, out),
                Phase::Watching(open) => self.on_watch(at, open, input, out),
                Phase::Comparing => self.on_comparing(at, input, out),
                Phase::Discovering(absence) => self.on_discovering(at, absence, input, out),
            },
        }
        self.resync(out);
    }

    fn on_waited<T>(&mut self, at: Moment, next: Next, input: &Input<T>, out: &mut Vec<Command<T>>) {
        match (input, next) {
            (Input::Waited, Next::Sync) => self.sync(at, out),
            (Input::Waited, Next::Watch) => self.resume(at, out),
            _ => self.phase = Phase::Waiting(next),
        }
    }

    fn on_list<T: Object>(
        &mut self,
        at: Moment,
        mut list: ListInProgress,
        input: Input<T>,
        out: &mut Vec<Command<T>>,
    ) {
        match input {
            Input::Listed(ListEvent::End { version, paginated }) => {
                // Pages of such a list mean that the server has no cache to answer it from (rule
                // REF-2).
                self.position.paged |= paginated && list.accepts_any_version();
                if self.complete(at, list, version, out) {
                    self.follow(at, out);
                }
                return;
            }
            Input::ListFailed(error) => return self.list_failed(at, list, &error, out),
            Input::Listed(ListEvent::Item(object)) => list.item(object, out),
            Input::Listed(ListEvent::Bad(bad)) => {
                list.bad(&bad, out);
                self.tracker.decode_failed(bad);
            }
            Input::Listed(ListEvent::Restarted) => list.restarted(out),
            _ => {}
        }
        self.tracker.accepted();
        self.tracker.received(at.now);
        self.tracker.listing(list.items);
        self.phase = Phase::Listing(list);
    }

    /// Handles a failed list (rule REF-3), and detects a collection that is no longer served.
    fn list_failed<T>(&mut self, at: Moment, list: ListInProgress, error: &Error, out: &mut Vec<Command<T>>) {
        let (newest, until) =
            (list.requested_newest(), if list.items == 0 { Until::Accepted } else { Until::Synced });
        list.abort(out);
        let failure = Failure::of(error);
        if failure == Failure::Version && !newest {
            self.position.unavailable = true;
            return self.list(at, out);
        }
        let explanation = explain(Attempt::List, &self.resource, error);
        self.tracker.failed(at.now, until, explanation.clone());
        let message = explanation.message;
        let least = requested_delay(error);
        if failure != Failure::NotFound {
            self.not_found = None;
            return self.wait_then(at, Next::Sync, least, out);
        }
        let since = *self.not_found.get_or_insert(at.now);
        let missing = at.now.saturating_duration_since(since);
        match self.policy.not_found {
            _ if self.still_gone => self.gone(message, out),
            NotFound::GoneAfter(limit) if missing >= limit => {
                let certain = is_from_an_api_server(error);
                self.phase = Phase::Discovering(Absence { message, certain, least });
                out.push(Command::Discover);
            }
            _ => self.wait_then(at, Next::Sync, least, out),
        }
    }

    /// Handles the answer of discovery, which decides whether the collection is gone.
    fn on_discovering<T>(
        &mut self,
        at: Moment,
        absence: Absence,
        input: Input<T>,
        out: &mut Vec<Command<T>>,
    ) {
        match input {
            Input::Served(Ok(Some(false))) => self.gone(absence.message, out),
            Input::Served(Ok(None)) if absence.certain => self.gone(absence.message, out),
            Input::Served(_) => self.wait_then(at, Next::Sync, absence.least, out),
            _ => self.phase = Phase::Discovering(absence),
        }
    }

    /// Compares the server's newest version with the last one before a watch is resumed.
    fn on_comparing<T>(&mut self, at: Moment, input: Input<T>, out: &mut Vec<Command<T>>) {
        let error = match input {
            Input::Newest(Ok(Some(version))) if version.is_older_than(&self.position.last) => {
                return self.rewound(at, &version, out);
            }
            Input::Newest(Ok(version)) => {
                self.suspect = false;
                self.incomparable = version.is_none();
                if version.is_some() {
                    self.tracker.verified();
                }
                return self.follow(at, out);
            }
            Input::Newest(Err(error)) => error,
            _ => {
                self.phase = Phase::Comparing;
                return;
            }
        };
        let message = explain(Attempt::List, &self.resource, &error);
        let least = requested_delay(&error);
        match Failure::of(&error) {
            // A server that takes this long for one object would never answer in time. A list has
            // no such limit, and needs no comparison.
            Failure::Busy | Failure::Connection if matches!(error, Error::TimedOut(_)) => {
                self.tracker.failed(at.now, Until::Accepted, message);
                self.relist_because(RelistReason::Connection);
                self.wait_then(at, Next::Sync, least, out);
            }
            Failure::Busy | Failure::Connection => {
                self.tracker.failed(at.now, Until::Accepted, message);
                self.wait_then(at, Next::Watch, least, out);
            }
            failure @ (Failure::Version | Failure::NotFound) => {
                self.tracker.failed(at.now, Until::Accepted, message);
                self.relist_because(reason_of(failure));
                self.wait_then(at, Next::Sync, least, out);
            }
            // A 5xx may come from a server that is starting.
            Failure::Other if error.status().is_some_and(|it| it.code >= 500) => {
                self.tracker.failed(at.now, Until::Accepted, message);
                self.retry_watch(at, least, out);
            }
            // The request is not permitted or not understood: resume the watch without the
            // comparison.
            Failure::Other => {
                self.suspect = false;
                self.follow(at, out);
            }
        }
    }

    fn on_opening<T: Object>(&mut self, at: Moment, input: Input<T>, out: &mut Vec<Command<T>>) {
        let error = match input {
            Input::Opened => {
                self.not_found = None;
                self.tracker.accepted();
                let ordered = self.position.last.is_exact();
                self.phase = Phase::Watching(OpenWatch::new(at.now, self.watch_timeout, ordered));
                return;
            }
            Input::NotOpened(error) => error,
            _ => {
                self.phase = Phase::Opening;
                return;
            }
        };
        self.tracker.failed(at.now, Until::Accepted, explain(Attempt::Watch, &self.resource, &error));
        let least = requested_delay(&error);
        self.suspect |= suggests_a_restart(&error);
        match Failure::of(&error) {
            // The server reports if the version is too old. Until then, it is the best one to
            // resume from.
            Failure::Busy | Failure::Connection => self.wait_then(at, Next::Watch, least, out),
            failure @ (Failure::Version | Failure::NotFound) => {
                self.relist_because(reason_of(failure));
                self.wait_then(at, Next::Sync, least, out);
            }
            Failure::Other => self.retry_watch(at, least, out),
        }
    }

    fn on_watch<T: Object>(
        &mut self,
        at: Moment,
        mut open: OpenWatch,
        input: Input<T>,
        out: &mut Vec<Command<T>>,
    ) {
        let (version, kind, deltas) = match input {
            Input::Event(WatchEvent::Added(object)) => {
                (object.version(), EventKind::Added, [Some(Delta::Applied(object)), None])
            }
            Input::Event(WatchEvent::Modified(object)) => {
                (object.version(), EventKind::Modified, [Some(Delta::Applied(object)), None])
            }
            Input::Event(WatchEvent::Deleted(object)) => {
                (object.version(), EventKind::Deleted, [Some(Delta::Deleted(object)), None])
            }
            Input::Event(WatchEvent::Bookmark(Bookmark { version, .. })) => {
                self.bookmarks = true;
                (version.clone(), EventKind::Bookmark, [Some(Delta::Bookmark(version)), None])
            }
            Input::Undecodable(bad) => {
                let event = undecodable(&bad, open.ordered);
                match (&bad.key, bad.event) {
                    (Some(key), event) => self.record_readable(key, event == Some(EventKind::Deleted)),
                    (None, Some(EventKind::Error) | None) => {}
                    (None, _) => {
                        self.nameless += 1;
                        self.tracker.set_undecodable(self.undecodable.len() + self.nameless);
                    }
                }
                self.tracker.decode_failed(bad);
                event
            }
            Input::Event(WatchEvent::Error(status)) => return self.error_event(at, &open, status, out),
            Input::Closed | Input::Lost(_) => return self.watch_ended(at, &open, &input, out),
            _ => {
                self.phase = Phase::Watching(open);
                return;
            }
        };
        open.events += 1;
        open.ordered |= kind != EventKind::Added;
        if open.ordered && version.is_older_than(&self.position.last) {
            self.watched(at, &open, out);
            return self.rewound(at, &version, out);
        }
        if !self.undecodable.is_empty()
            && let [Some(Delta::Applied(object) | Delta::Deleted(object)), _] = &deltas
            && let Some(key) = object.key()
        {
            self.record_readable(&key, true);
        }
        out.extend(deltas.into_iter().flatten().map(Command::Emit));
        self.tracker.received_event(at.now);
        self.stalls = 0;
        if open.ordered && !version.is_unset() && version != self.position.last {
            open.advanced = true;
            self.fruitless = 0;
            self.position.last = version.clone();
            self.tracker.reached(version);
        }
        self.phase = Phase::Watching(open);
    }

    /// Records whether the newest state of an object is readable, which is also the case if the
    /// object was deleted.
    fn record_readable(&mut self, key: &ObjectKey, readable: bool) {
        let changed =
            if readable { self.undecodable.remove(key) } else { self.undecodable.insert(key.clone()) };
        if changed {
            self.tracker.set_undecodable(self.undecodable.len() + self.nameless);
        }
    }

    /// Handles an `ERROR` event, which ends the watch (rule REF-6).
    fn error_event<T>(&mut self, at: Moment, open: &OpenWatch, status: Status, out: &mut Vec<Command<T>>) {
        let short = self.watched(at, open, out);
        let ending = Ending::of(&status);
        let least = status.suggested_delay();
        let reason = reason_of(Failure::of_status(&status));
        let internal = ending == Ending::Internal && self.internal_errors.tolerable(at.now);
        if ending != Ending::Internal {
            self.internal_errors.end();
        }
        let explanation = explain(Attempt::Watch, &self.resource, &status.into());
        out.push(Command::Measure(Measure::Interrupted(explanation.message.clone())));
        self.tracker.failed(at.now, Until::Synced, explanation);
        match ending {
            Ending::Internal if internal && !short => self.follow(at, out),
            Ending::Internal if internal => self.wait_then(at, Next::Watch, least, out),
            Ending::Later => self.wait_then(at, Next::Watch, least, out),
            Ending::Internal | Ending::Relist => {
                self.relist_because(reason);
                self.wait_then(at, Next::Sync, least, out);
            }
        }
    }

    /// Handles a watch that ended without an error: resumes from the last version, at once unless
    /// the watch brought nothing.
    fn watch_ended<T>(&mut self, at: Moment, open: &OpenWatch, input: &Input<T>, out: &mut Vec<Command<T>>) {
        self.internal_errors.end();
        // A watch that ends early may mean that the server was restarted. A healthy server ends a
        // watch when its timeout is up.
        let lasted = at.now.saturating_duration_since(open.since);
        let in_time = matches!(input, Input::Closed) && lasted.saturating_add(SHORT_WATCH) >= open.timeout;
        self.suspect |= !in_time;
        if !in_time {
            let message = match input {
                Input::Lost(error) => explain(Attempt::Watch, &self.resource, error).message,
                _ => "the server or a proxy closed the watch before its timeout".to_owned(),
            };
            out.push(Command::Measure(Measure::Interrupted(message)));
        }
        if self.watched(at, open, out) {
            let explanation = self.ended_early(input);
            self.tracker.failed(at.now, Until::Synced, explanation);
            self.retry_watch(at, None, out);
        } else {
            self.fruitless = 0;
            self.resume(at, out);
        }
    }

    fn on_silence<T>(&mut self, at: Moment, length: Duration, out: &mut Vec<Command<T>>) {
        let stalled = self.policy.stall_after.is_some_and(|limit| length >= limit);
        let what = named(&self.resource);
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Initial(open, list) if !stalled => {
                let message = format!(
                    "the server sent nothing for {what} in {length:.0?}, after {} objects and before the end of the list",
                    list.items
                );
                self.tracker.degraded(at.now, Explanation::unreachable(message));
                self.phase = Phase::Initial(open, list);
            }
            phase if !stalled => self.phase = phase,
            phase => {
                let message = format!("the server sent nothing for {what} in {length:.0?}; reconnecting");
                self.tracker.failed(at.now, Until::Synced, Explanation::unreachable(message));
                self.stalled(at, phase, out);
            }
        }
    }

    /// Gives up a silent request.
    ///
    /// Silence may mean more than a dead connection: a server whose history was reset may wait for
    /// a version in its future, and sends nothing until then. So the server is asked for its newest
    /// version before the watch is resumed. After several consecutive silences the collection is
    /// listed again, as a watch that never delivers anything may be broken.
    fn stalled<T>(&mut self, at: Moment, phase: Phase, out: &mut Vec<Command<T>>) {
        match phase {
            Phase::Idle | Phase::Waiting(_) => self.phase = phase,
            Phase::Listing(list) => {
                list.abort(out);
                self.wait_then(at, Next::Sync, None, out);
            }
            Phase::OpeningInitial(list) => self.unfinished(at, list, out),
            Phase::Initial(open, list) => {
                self.watched(at, &open, out);
                self.unfinished(at, list, out);
            }
            Phase::Opening => {
                self.suspect = true;
                self.retry_watch(at, None, out);
            }
            Phase::Comparing => self.wait_then(at, Next::Watch, None, out),
            Phase::Discovering(absence) => self.wait_then(at, Next::Sync, absence.least, out),
            Phase::Watching(open) => {
                self.watched(at, &open, out);
                let message = self.tracker.health().problem.as_ref().map(|it| it.message.clone());
                out.extend(message.map(|it| Command::Measure(Measure::Interrupted(it))));
                self.stalls += 1;
                self.suspect = true;
                let doublings = self.quiet.min(MOST_DOUBLINGS);
                // If the newest version cannot be read, silence is the only sign of a server whose
                // history was reset.
                let expected = self.bookmarks || self.incomparable && self.initial_bookmark;
                let enough = if expected { STALLS } else { STALLS_WITHOUT_BOOKMARKS << doublings };
                if self.stalls >= enough {
                    self.after_silence = true;
                    self.relist_because(RelistReason::Silence);
                    self.wait_then(at, Next::Sync, None, out);
                } else {
                    self.resume(at, out);
                }
            }
        }
    }
}

/// Returns the reason for a list after a watch that failed in this way.
fn reason_of(failure: Failure) -> RelistReason {
    match failure {
        Failure::Version => RelistReason::Expired,
        Failure::NotFound => RelistReason::NotServed,
        Failure::Busy | Failure::Connection => RelistReason::Connection,
        Failure::Other => RelistReason::ServerError,
    }
}

/// Returns the version, the kind and the deltas of an event that could not be decoded.
fn undecodable<T>(
    bad: &UndecodableItem,
    ordered: bool,
) -> (ResourceVersion, EventKind, [Option<Delta<T>>; 2]) {
    let kind = bad.event.unwrap_or(EventKind::Error);
    if kind == EventKind::Error {
        return (ResourceVersion::UNSET, EventKind::Added, [None, None]);
    }
    let object = bad.key.clone().map(|key| match kind {
        EventKind::Deleted => Delta::Dropped(key),
        _ => Delta::Undecodable { key, version: bad.version.clone() },
    });
    let ordered = ordered || kind != EventKind::Added;
    let reached = Some(bad.version.clone()).filter(|it| ordered && it.is_exact()).map(Delta::Bookmark);
    (bad.version.clone(), kind, [object, reached])
}
