//! The phases in which a watch delivers the list as initial events (WatchList): it is being opened,
//! or sends them. [`super::state`] has the other phases.

use dogwatch_client::Error;
use dogwatch_core::Object;
use dogwatch_wire::{Bookmark, WatchEvent};

use super::explain::{Attempt, Explanation, explain, named};
use super::failure::{Failure, requested_delay};
use super::health_tracker::Until;
use super::list_in_progress::ListInProgress;
use super::machine::{Machine, Next, OpenWatch, Phase};
use super::signals::{Command, Input, Moment};

/// The number of bookmarks after which a stream of initial events is given up.
///
/// kube-apiserver sends no bookmark before the one that ends the initial events: the first bookmark
/// carries the annotation (k8s.io/apiserver v0.36.4 `pkg/storage/cacher/cache_watcher.go`). A
/// server before 1.27 ignores the parameter that asks for initial events, and sends a plain
/// bookmark each minute. Without this limit, each sync would last until three such watches have
/// ended, which takes a quarter of an hour or more.
const EARLY_BOOKMARKS: u32 = 2;

impl Machine {
    pub(super) fn on_opening_initial<T: Object>(
        &mut self,
        at: Moment,
        list: ListInProgress,
        input: Input<T>,
        out: &mut Vec<Command<T>>,
    ) {
        match input {
            Input::Opened => {
                self.not_found = None;
                self.tracker.accepted();
                self.tracker.listing(0);
                self.phase = Phase::Initial(OpenWatch::new(at.now, self.watch_timeout, false), list);
            }
            Input::NotOpened(error) => self.initial_failed(at, list, &error, out),
            _ => self.phase = Phase::OpeningInitial(list),
        }
    }

    /// Handles a failed stream of initial events (rule REF-10): retries after a backoff, at another
    /// version, or with a list. Immediate retries are bounded.
    fn initial_failed<T>(
        &mut self,
        at: Moment,
        list: ListInProgress,
        error: &Error,
        out: &mut Vec<Command<T>>,
    ) {
        let failure = Failure::of(error);
        match failure {
            Failure::Version if !list.requested_newest() => {
                list.abort(out);
                self.position.unavailable = true;
                self.sync(at, out);
            }
            Failure::NotFound | Failure::Other => {
                list.abort(out);
                self.list(at, out);
            }
            Failure::Version | Failure::Busy => {
                list.abort(out);
                self.tracker.failed(at.now, Until::Accepted, explain(Attempt::Watch, &self.resource, error));
                self.wait_then(at, Next::Sync, requested_delay(error), out);
            }
            Failure::Connection => {
                self.tracker.failed(at.now, Until::Accepted, explain(Attempt::Watch, &self.resource, error));
                self.unfinished(at, list, out);
            }
        }
    }

    pub(super) fn on_initial<T: Object>(
        &mut self,
        at: Moment,
        mut open: OpenWatch,
        mut list: ListInProgress,
        input: Input<T>,
        out: &mut Vec<Command<T>>,
    ) {
        match input {
            Input::Event(WatchEvent::Added(object)) => list.item(object, out),
            Input::Event(WatchEvent::Modified(object)) => list.replace(object, out),
            Input::Event(WatchEvent::Deleted(object)) => {
                if let Some(key) = object.key() {
                    list.dropped(key, out);
                }
            }
            Input::Undecodable(bad) => {
                list.bad(&bad, out);
                self.tracker.decode_failed(bad);
            }
            Input::Event(WatchEvent::Bookmark(bookmark)) if bookmark.initial_events_end() => {
                return self.initial_events_end(at, open, list, bookmark, out);
            }
            Input::Event(WatchEvent::Bookmark(_)) => {
                open.early_bookmarks += 1;
                if open.early_bookmarks >= EARLY_BOOKMARKS {
                    self.watched(at, &open, out);
                    list.abort(out);
                    self.ignores_initial_events = true;
                    return self.list(at, out);
                }
            }
            Input::Event(WatchEvent::Error(status)) => {
                self.watched(at, &open, out);
                return self.initial_failed(at, list, &status.into(), out);
            }
            Input::Lost(_) | Input::Closed => {
                self.watched(at, &open, out);
                let explanation = self.ended_early(&input);
                self.tracker.failed(at.now, Until::Synced, explanation);
                return self.unfinished(at, list, out);
            }
            _ => {}
        }
        open.events += 1;
        self.tracker.received(at.now);
        self.tracker.listing(list.items);
        self.phase = Phase::Initial(open, list);
    }

    /// Completes the list; the same watch continues with later events.
    fn initial_events_end<T>(
        &mut self,
        at: Moment,
        open: OpenWatch,
        list: ListInProgress,
        bookmark: Bookmark,
        out: &mut Vec<Command<T>>,
    ) {
        let ordered = bookmark.version.is_exact();
        if self.complete(at, list, bookmark.version, out) {
            self.initial_bookmark = true;
            self.phase =
                Phase::Watching(OpenWatch { events: open.events + 1, advanced: true, ordered, ..open });
        } else {
            self.watched(at, &open, out);
        }
    }

    /// Explains a watch that ended before it had sent anything.
    pub(super) fn ended_early<T>(&self, input: &Input<T>) -> Explanation {
        match input {
            Input::Lost(error) => explain(Attempt::Watch, &self.resource, error),
            _ => Explanation::unreachable(format!(
                "the server or a proxy closes watches of {} as soon as they are opened",
                named(&self.resource)
            )),
        }
    }
}
