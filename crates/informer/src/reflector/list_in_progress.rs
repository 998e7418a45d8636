//! A list in progress, from a LIST or from initial events: what was sent to the queue, and what its
//! end must contain.
//!
//! It keeps no object: objects go to the queue as they arrive.

use std::collections::BTreeMap;

use dogwatch_core::{Object, ObjectKey, ResourceVersion};
use dogwatch_wire::{EventKind, UndecodableItem};
use tokio::time::Instant;

use super::signals::Command;
use crate::delta::Delta;

/// A list in progress.
#[derive(Debug)]
pub(super) struct ListInProgress {
    /// The time of the request.
    pub(super) since: Instant,
    /// The number of objects received.
    pub(super) items: u64,
    /// The requested version.
    asked: ResourceVersion,
    /// Set once `Begin` was sent: it is sent with the first item, so that a rejected request does
    /// not affect the store.
    begun: bool,
    /// The existing objects that cannot be decoded, with the versions of the undecodable states.
    pub(super) undecodable: BTreeMap<ObjectKey, ResourceVersion>,
    /// The number of further such objects whose name is not known either.
    pub(super) nameless: usize,
}

impl ListInProgress {
    pub(super) fn new(since: Instant, asked: ResourceVersion) -> Self {
        Self { since, items: 0, asked, begun: false, undecodable: BTreeMap::new(), nameless: 0 }
    }

    /// Returns true if the newest state was requested, so that requesting a newer one does not
    /// help.
    pub(super) fn requested_newest(&self) -> bool {
        self.asked.is_unset()
    }

    /// Returns true if any state in the server's cache was acceptable.
    pub(super) fn accepts_any_version(&self) -> bool {
        self.asked == ResourceVersion::ANY
    }

    /// Adds an object.
    pub(super) fn item<T: Object>(&mut self, object: T, out: &mut Vec<Command<T>>) {
        self.items += 1;
        self.replace(object, out);
    }

    /// Replaces the state of an object.
    pub(super) fn replace<T: Object>(&mut self, object: T, out: &mut Vec<Command<T>>) {
        self.begin(out);
        if !self.undecodable.is_empty()
            && let Some(key) = object.key()
        {
            self.undecodable.remove(&key);
        }
        out.push(Command::Emit(Delta::Item(object)));
    }

    /// Removes an object that was deleted while the list was being received.
    pub(super) fn dropped<T>(&mut self, key: ObjectKey, out: &mut Vec<Command<T>>) {
        self.begin(out);
        self.items = self.items.saturating_sub(1);
        self.undecodable.remove(&key);
        out.push(Command::Emit(Delta::Dropped(key)));
    }

    /// Records an object that cannot be decoded. It exists, unless the event is its deletion.
    pub(super) fn bad<T>(&mut self, bad: &UndecodableItem, out: &mut Vec<Command<T>>) {
        match (&bad.key, bad.event) {
            (Some(key), Some(EventKind::Deleted)) => self.dropped(key.clone(), out),
            (Some(key), _) => {
                self.begin(out);
                self.undecodable.insert(key.clone(), bad.version.clone());
            }
            (None, Some(EventKind::Deleted)) => {}
            // It may be any of the objects that the list lacks.
            (None, _) => {
                self.begin(out);
                self.nameless += 1;
                out.push(Command::Emit(Delta::Nameless));
            }
        }
    }

    /// Starts over, because the list is read again from the start.
    pub(super) fn restarted<T>(&mut self, out: &mut Vec<Command<T>>) {
        if self.begun {
            out.push(Command::Emit(Delta::Begin));
        }
        (self.items, self.nameless) = (0, 0);
        self.undecodable.clear();
    }

    pub(super) fn abort<T>(self, out: &mut Vec<Command<T>>) {
        if self.begun {
            out.push(Command::Emit(Delta::Abort));
        }
    }

    pub(super) fn end<T>(&mut self, version: ResourceVersion, out: &mut Vec<Command<T>>) {
        self.begin(out);
        let undecodable = self.undecodable.iter().map(|(key, it)| (key.clone(), it.clone())).collect();
        out.push(Command::Emit(Delta::End { version, undecodable }));
    }

    fn begin<T>(&mut self, out: &mut Vec<Command<T>>) {
        if !std::mem::replace(&mut self.begun, true) {
            out.push(Command::Emit(Delta::Begin));
        }
    }
}
