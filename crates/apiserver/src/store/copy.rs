//! A copy of a collection of another server, at that server's versions.
//!
//! The versions of the changes are given instead of counted: see [`super::Storage`], of which this
//! is the local copy. A store has one revision, so each copied collection has a store of its own.
//!
//! A copy sees every change of its collection while it watches the other server. When it has to
//! list instead, it sees the differences only, all at the version of the list. What happened in
//! between stays unknown, so the versions in between cannot be read: a client that resumed there
//! might hold an object that was created and deleted unseen.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dogwatch_core::ObjectKey;

use super::encoded::Encoded;
use super::history::History;
use super::{Collection, CollectionName, LARGEST_LOG, LONGEST_LOG, Store};

/// The number of changes from which they are written to a copy of the history, which then takes the
/// place of the other one in one step: readers wait for a few changes only.
const MANY: usize = 64;

/// One change of a copy.
#[derive(Clone, Debug)]
pub struct CopiedChange {
    /// The key of the object.
    pub key: ObjectKey,
    /// The object after the change; `None` if it was deleted.
    pub after: Option<Arc<Encoded>>,
    /// The last state of a deleted object.
    pub last: Option<Arc<Encoded>>,
}

/// The limits of the changes that a copy keeps.
#[derive(Clone, Copy, Debug)]
pub struct CopyLimits {
    /// The maximum number of changes.
    pub changes: usize,
    /// The maximum size of the changes in bytes.
    pub bytes: usize,
}

impl Default for CopyLimits {
    fn default() -> Self {
        Self { changes: LONGEST_LOG, bytes: LARGEST_LOG }
    }
}

impl Store {
    /// Starts a collection anew at a version, which becomes the revision even if it is lower than
    /// before. Its previous content is removed as by [`Store::remove`].
    pub fn begin_at(
        &self,
        collection: &CollectionName,
        version: u64,
        objects: impl IntoIterator<Item = Arc<Encoded>>,
    ) {
        let mut history = History::beginning_at(version);
        objects.into_iter().for_each(|it| history.fill(it));
        let begun = Arc::new(Collection::new(Arc::new(history)));
        let mut revision = self.shared.revision();
        let replaced = self.shared.collections.write().insert(Arc::clone(collection), begun);
        *revision = version;
        // It was about the previous content, whose versions may come again.
        self.shared.confirmed.store(0, Ordering::Relaxed);
        // Before the lock of the revision is released: a reader that has found the old collection
        // must not read it at the new revision.
        self.shared.retire(replaced);
        drop(revision);
        self.shared.changes.notify();
    }

    /// Ends a collection: its cursors fail, and no version of it can be read until it begins again.
    pub fn close(&self, collection: &CollectionName) {
        let closed = Arc::new(Collection::new(Arc::new(History::beginning_at(u64::MAX))));
        let replaced = self.shared.collections.write().insert(Arc::clone(collection), closed);
        self.shared.retire(replaced);
    }

    /// Writes changes at a version, which becomes the revision. The caller makes sure that it is
    /// not lower, and is the only writer. With `is_listed`, the versions between the last revision
    /// and this one were not seen.
    pub fn copy(
        &self,
        collection: &CollectionName,
        version: u64,
        changes: Vec<CopiedChange>,
        is_listed: bool,
        limits: CopyLimits,
    ) {
        let copied = self.shared.collection(collection);
        let is_changed = !changes.is_empty();
        let (is_long, before) = (changes.len() >= MANY, self.revision());
        let write = |history: &mut History| {
            for CopiedChange { key, after, last } in changes {
                history.write_with_last(&key, version, after, last);
            }
            if is_listed {
                history.skip(before, version);
            }
            history.shorten(limits.changes, limits.bytes);
        };
        let mut revision;
        let mut replaced = None;
        if is_long {
            let mut next = History::clone(&copied.history());
            write(&mut next);
            revision = self.shared.revision();
            let mut history = copied.history.write();
            next.take_confirmed(&history);
            replaced = Some(std::mem::replace(&mut *history, Arc::new(next)));
        } else {
            revision = self.shared.revision();
            if is_changed || is_listed {
                write(Arc::make_mut(&mut copied.history.write()));
            }
        }
        *revision = version;
        drop(revision);
        // Without a lock: it may hold the last references to many objects.
        drop(replaced);
        if is_changed {
            copied.changes.notify();
        }
        self.shared.changes.notify();
    }

    /// Records that the other server has the objects of `revision` at a later `version` too. That
    /// makes the state of this version known, and no other: an object may have come and gone in
    /// between. Ignored if the revision is another by now.
    ///
    /// The state stays known when changes before that version arrive: pages of it are still read,
    /// and a client that has seen this version must not see an earlier one later.
    pub fn confirm(&self, collection: &CollectionName, revision: u64, version: u64) {
        let copied = self.shared.collection(collection);
        let current = self.shared.revision();
        if *current != revision || version <= revision || copied.removed.load(Ordering::Acquire) {
            return;
        }
        Arc::make_mut(&mut copied.history.write()).confirm(version, revision);
        self.shared.confirmed.fetch_max(version, Ordering::Relaxed);
        drop(current);
        self.shared.changes.notify();
    }
}
