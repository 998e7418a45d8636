//! A list while it is read, from whichever source: what has been said of it to the queue, and what must be said at its end.
//!
//! It keeps no object: those go to the queue as they come.

use std::collections::BTreeMap;

use dogwatch_core::{Object, ObjectKey, ResourceVersion};
use dogwatch_wire::{BadItem, EventKind};
use tokio::time::Instant;

use super::signals::Command;
use crate::delta::Delta;

/// A list while it is read.
#[derive(Debug)]
pub(super) struct Collected {
    /// When it was asked for.
    pub(super) since: Instant,
    /// How many objects have come.
    pub(super) items: u64,
    /// The version that was asked for.
    asked: ResourceVersion,
    /// Whether `Begin` has been said: only when there is something to say, so that a server that refuses costs the store nothing.
    begun: bool,
    /// Objects that are there and cannot be decoded, and the version that cannot.
    pub(super) unreadable: BTreeMap<ObjectKey, ResourceVersion>,
    /// How many more such objects there are, of which no name is known.
    pub(super) nameless: usize,
}

impl Collected {
    pub(super) fn new(since: Instant, asked: ResourceVersion) -> Self {
        Self { since, items: 0, asked, begun: false, unreadable: BTreeMap::new(), nameless: 0 }
    }

    /// Whether it asks for the newest state, so that asking for a newer one is no way out.
    pub(super) fn of_the_newest(&self) -> bool {
        self.asked.is_unset()
    }

    /// Whether it takes whatever the server has in memory.
    pub(super) fn of_any_version(&self) -> bool {
        self.asked == ResourceVersion::ANY
    }

    /// An object that was not there before.
    pub(super) fn item<T: Object>(&mut self, object: T, out: &mut Vec<Command<T>>) {
        self.items += 1;
        self.replace(object, out);
    }

    /// Another state of an object.
    pub(super) fn replace<T: Object>(&mut self, object: T, out: &mut Vec<Command<T>>) {
        self.begin(out);
        if !self.unreadable.is_empty()
            && let Some(key) = object.key()
        {
            self.unreadable.remove(&key);
        }
        out.push(Command::Emit(Delta::Item(object)));
    }

    /// An object went while the list was read.
    pub(super) fn dropped<T>(&mut self, key: ObjectKey, out: &mut Vec<Command<T>>) {
        self.begin(out);
        self.items = self.items.saturating_sub(1);
        self.unreadable.remove(&key);
        out.push(Command::Emit(Delta::Dropped(key)));
    }

    /// An object that cannot be decoded: it is there, unless the server says that it went.
    pub(super) fn bad<T>(&mut self, bad: &BadItem, out: &mut Vec<Command<T>>) {
        match (&bad.key, bad.event) {
            (Some(key), Some(EventKind::Deleted)) => self.dropped(key.clone(), out),
            (Some(key), _) => {
                self.begin(out);
                self.unreadable.insert(key.clone(), bad.version.clone());
            }
            (None, Some(EventKind::Deleted)) => {}
            // It may be any of those that the list lacks.
            (None, _) => {
                self.begin(out);
                self.nameless += 1;
                out.push(Command::Emit(Delta::Nameless));
            }
        }
    }

    /// It is read again from the start.
    pub(super) fn restarted<T>(&mut self, out: &mut Vec<Command<T>>) {
        if self.begun {
            out.push(Command::Emit(Delta::Begin));
        }
        (self.items, self.nameless) = (0, 0);
        self.unreadable.clear();
    }

    pub(super) fn abort<T>(self, out: &mut Vec<Command<T>>) {
        if self.begun {
            out.push(Command::Emit(Delta::Abort));
        }
    }

    pub(super) fn end<T>(&mut self, version: ResourceVersion, out: &mut Vec<Command<T>>) {
        self.begin(out);
        let unreadable = self.unreadable.iter().map(|(key, it)| (key.clone(), it.clone())).collect();
        out.push(Command::Emit(Delta::End { version, unreadable }));
    }

    fn begin<T>(&mut self, out: &mut Vec<Command<T>>) {
        if !std::mem::replace(&mut self.begun, true) {
            out.push(Command::Emit(Delta::Begin));
        }
    }
}
