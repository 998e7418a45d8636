//! Storage: all versions of every object of every collection, ordered by one revision.
//!
//! ```text
//! commit ─► one lock: check, take the next revision, write the history, wake the watchers
//! read   ─► a short lock: one reference count for each object
//! watch  ─► a cursor: a position in the log of changes, and a change listener
//! ```
//!
//! Watchers pull: one that does not read costs only its position. If the log is trimmed past a
//! watcher, its next step returns an error. A list walks a snapshot, so writers never wait for it.
//!
//! History is bounded in three ways: by the number and by the size of changes at each commit, and
//! by their age when the caller trims it ([`Store::trim`]).

mod event_type;
mod attributes;
mod json_line;
mod protobuf_frame;
mod encodings;
#[cfg(not(feature = "zstd"))]
mod no_compression;
mod compressed;
mod encoded;
mod picked;
mod received;
mod objects;
mod log;
mod known_state;
mod history;
mod storage;
mod copy;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use dogwatch_core::ObjectKey;

pub(crate) use attributes::{FieldName, SelectableField};
pub(crate) use compressed::BytesCompressor;
pub(crate) use copy::{CopiedChange, CopyLimits};
pub(crate) use encoded::{Draft, Encoded, Unstorable};
pub(crate) use event_type::EventType;
pub(crate) use history::{Compacted, History};
pub(crate) use known_state::KnownState;
pub(crate) use log::Change;
pub(crate) use picked::Paths;
pub(crate) use received::{NotStored, Received};
pub use storage::Pending;
pub(crate) use storage::Storage;

use crate::change_notifier::{ChangeListener, ChangeNotifier};

/// The maximum number of changes kept per collection. Beyond it, the older half is dropped.
const LONGEST_LOG: usize = 100_000;

/// The maximum size of the changes kept per collection, in bytes. Beyond it, the older half is
/// dropped. An object of a built-in kind counts in JSON and in protobuf, whether or not it was
/// requested in both.
const LARGEST_LOG: usize = 64 << 20;

/// The name of a collection: the group and plural name of the resource, independent of the API
/// version.
pub(crate) type CollectionName = Arc<str>;

/// All collections of a server. Clones share them; [`Store::fork`] makes an independent copy.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<SharedStore>,
}

#[derive(Debug)]
struct SharedStore {
    /// Locked for the duration of each commit, which takes the next revision. A plain mutex: never
    /// held across an await.
    revision: Mutex<u64>,
    /// The newest confirmed version, which may be before the revision: see [`Store::confirm`]. Only
    /// used with the lock of `revision`.
    confirmed: AtomicU64,
    /// Notified after each change of the revision.
    changes: Arc<ChangeNotifier>,
    collections: RwLock<HashMap<CollectionName, Arc<Collection>>>,
    /// Removed collections that a slow watcher still reads; they are trimmed like the others.
    removed: Mutex<Vec<Weak<Collection>>>,
    /// The revision before the first change. Watches cannot start before it.
    first: u64,
}

/// One collection.
#[derive(Debug)]
struct Collection {
    /// Shared with forks and with lists in progress until the next write. Locked only briefly.
    history: RwLock<Arc<History>>,
    /// Set when it is removed from the store. Cursors fail once they are past its last change.
    removed: AtomicBool,
    /// Notified after each change, when history is dropped, and when the collection is removed.
    changes: Arc<ChangeNotifier>,
}

/// The precondition of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expect {
    /// The object does not exist.
    Absent,
    /// The object is at this version.
    At(u64),
}

/// The error of a commit whose precondition does not hold.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the object has changed")]
pub struct Lost {
    /// The current object, if it exists.
    pub current: Option<Arc<Encoded>>,
}

/// A position in the log of a collection; moves only forward.
#[derive(Debug)]
pub struct Cursor {
    collection: Arc<Collection>,
    changes: ChangeListener,
    position: u64,
    /// Set when every change up to the last seen notification was returned.
    caught_up: bool,
}

impl Default for Store {
    fn default() -> Self {
        // Clients read 0 as "any version", so the first revision is 1.
        Self::beginning_at(1)
    }
}

impl Store {
    /// Creates an empty store whose first change gets the revision after this one. Older versions
    /// are treated as compacted.
    pub fn beginning_at(revision: u64) -> Self {
        Self { shared: Arc::new(SharedStore::new(revision, revision, HashMap::new())) }
    }

    /// Returns the newest revision of all collections.
    pub fn revision(&self) -> u64 {
        *self.shared.revision()
    }

    /// Returns the version whose state is known: the newest revision, or a later one of a copy that
    /// is confirmed (see [`Store::confirm`]). It never decreases, unless a collection begins anew.
    pub fn known(&self) -> u64 {
        self.shared.known(*self.shared.revision())
    }

    /// Waits until the state at `version` is known; never returns if that does not happen.
    pub async fn reach(&self, version: u64) {
        let mut changes = self.shared.changes.subscribe();
        while self.known() < version {
            changes.changed().await;
        }
    }

    /// Returns true if the changes of a collection after a version are known: it has arrived, or
    /// its state is confirmed. What a copy knows about its known version does not say what changed
    /// since an earlier one.
    pub fn has_seen(&self, collection: &CollectionName, version: u64) -> bool {
        self.read_known(collection, |history, known| history.revision_of(version, known.revision).is_some())
    }

    /// Waits until the changes of a collection after `version` are known; never returns if that
    /// does not happen.
    pub async fn see(&self, collection: &CollectionName, version: u64) {
        let mut changes = self.shared.changes.subscribe();
        while !self.has_seen(collection, version) {
            changes.changed().await;
        }
    }

    /// Writes or deletes an object if the precondition holds.
    ///
    /// Returns the object as stored; for a deletion, its last state with the version of the
    /// deletion.
    ///
    /// # Errors
    ///
    /// Returns an error and changes nothing if the precondition does not hold, or if the key of the
    /// draft is another: such an object could not be found under the name that it shows.
    pub fn commit(
        &self,
        collection: &CollectionName,
        key: &ObjectKey,
        expect: Expect,
        draft: Option<Draft>,
    ) -> Result<Arc<Encoded>, Lost> {
        let collection = self.shared.collection(collection);
        let mut revision = self.shared.revision();
        let mut history = collection.history.write();
        let current = history.get(key).cloned();
        let holds = match (expect, &current) {
            (Expect::Absent, None) => true,
            (Expect::At(version), Some(current)) => current.version() == version,
            _ => false,
        };
        if !holds || draft.as_ref().is_some_and(|it| it.key() != key) {
            return Err(Lost { current });
        }
        let version = *revision + 1;
        let event_type = if current.is_some() { EventType::Modified } else { EventType::Added };
        let after = draft.map(|it| Arc::new(it.encode(event_type, version)));
        if after.is_none() && current.is_none() {
            // Deleting an absent object changes nothing.
            return Err(Lost { current: None });
        }
        let log = Arc::make_mut(&mut history);
        let change = log.write(key, version, after);
        log.shorten(LONGEST_LOG, LARGEST_LOG);
        *revision = version;
        drop(history);
        drop(revision);
        collection.changes.notify();
        self.shared.changes.notify();
        let stored = change.after.clone().or_else(|| change.last());
        Ok(stored.expect("the object exists before or after the change"))
    }

    /// Returns the current object.
    pub fn get(&self, collection: &CollectionName, key: &ObjectKey) -> Option<Arc<Encoded>> {
        self.shared.collection(collection).history().get(key).cloned()
    }

    /// Returns the objects of a collection as they are now, in one namespace or in all, in the
    /// order of their keys.
    pub fn list(&self, collection: &CollectionName, namespace: Option<&str>) -> Vec<Arc<Encoded>> {
        self.read(collection, |history, revision| {
            history.list_in(revision, namespace, None).into_iter().flatten().cloned().collect()
        })
    }

    /// Reads the history of a collection together with the newest revision of all.
    ///
    /// The closure gets a snapshot and holds no lock: it may take its time.
    pub fn read<T>(&self, collection: &CollectionName, look: impl FnOnce(&History, u64) -> T) -> T {
        self.read_known(collection, |history, at| look(history, at.revision))
    }

    /// Reads the history of a collection like [`Self::read`], together with the state of it that is
    /// known.
    pub fn read_known<T>(
        &self,
        collection: &CollectionName,
        look: impl FnOnce(&History, KnownState) -> T,
    ) -> T {
        let (history, at) = loop {
            let found = self.shared.collection(collection);
            // Both locks together, so that no change happens between the revision and the snapshot.
            let revision = self.shared.revision();
            // A copy of another server may have begun anew at a lower revision in the meantime.
            if !found.removed.load(Ordering::Acquire) {
                let history = Arc::clone(&found.history());
                let at = history.known(*revision);
                // The history may have been shortened. No reader may wait for what it confirmed.
                self.shared.confirmed.fetch_min(at.version, Ordering::Relaxed);
                break (history, at);
            }
        };
        look(&history, at)
    }

    /// Returns a cursor positioned after a version: it returns every newer change, in order, each
    /// once.
    ///
    /// # Errors
    ///
    /// Returns an error if those changes are no longer kept.
    pub fn watch(&self, collection: &CollectionName, version: u64) -> Result<Cursor, Compacted> {
        let collection = self.shared.collection(collection);
        let changes = collection.changes.subscribe();
        let position = collection.history().position_after(version)?;
        Ok(Cursor { collection, changes, position, caught_up: false })
    }

    /// Returns the objects of a collection, a cursor for the changes after them, and the revision
    /// between the two.
    pub fn list_and_watch(&self, collection: &CollectionName) -> (Vec<Arc<Encoded>>, Cursor, u64) {
        loop {
            let (listed, version) = self.read(collection, |history, version| {
                (history.list_at(version, None).into_iter().flatten().cloned().collect(), version)
            });
            // Fails only if the history is compacted in between.
            if let Ok(cursor) = self.watch(collection, version) {
                return (listed, cursor, version);
            }
        }
    }

    /// Starts a collection anew: it is empty, and nothing before the newest revision can be read.
    /// Its previous content, if any, is removed as by [`Self::remove`].
    pub fn begin(&self, collection: &CollectionName) {
        let revision = *self.shared.revision();
        let begun = Arc::new(Collection::new(Arc::new(History::beginning_at(revision))));
        let mut collections = self.shared.collections.write();
        let replaced = collections.insert(Arc::clone(collection), begun);
        drop(collections);
        self.shared.retire(replaced);
    }

    /// Removes a collection with all its history. Cursors still return the changes that they have
    /// not returned yet, and then fail; the memory is freed when the last of them is dropped.
    pub fn remove(&self, collection: &CollectionName) {
        let mut collections = self.shared.collections.write();
        let removed = collections.remove(collection);
        drop(collections);
        self.shared.retire(removed);
    }

    /// Removes the collections that hold no object and are not wanted according to `wants`, such as
    /// those that only a read has created.
    pub fn remove_empty(&self, wants: impl Fn(&CollectionName) -> bool) {
        let collections = self.shared.collections();
        let unused =
            |(name, it): &(&CollectionName, &Arc<Collection>)| !wants(name) && it.history().has_no_objects();
        let mut unused: Vec<_> =
            collections.iter().filter(unused).map(|(name, _)| Arc::clone(name)).collect();
        drop(collections);
        // The order of a hash map differs between processes, and each removal wakes watchers.
        unused.sort_unstable();
        unused.iter().for_each(|it| self.remove(it));
    }

    /// Returns the names of all collections, sorted.
    pub fn collections(&self) -> Vec<CollectionName> {
        let mut names: Vec<_> = self.shared.collections().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Drops everything that only reads before this version need, in all collections.
    pub fn compact(&self, version: u64) {
        let version = version.min(self.revision());
        self.shared.cut(|it| it.oldest() < version, |it| it.compact(version));
    }

    /// Drops the changes up to this version, in all collections, and the states that only they
    /// need. A watch can start at an older version only where nothing has changed since. Data
    /// shared with forks stays shared where there is nothing to drop.
    pub fn trim(&self, version: u64) {
        let version = version.min(self.revision());
        self.shared.cut(|it| it.can_trim(version), |it| it.trim(version));
    }

    /// Returns an independent copy. This is cheap: each write copies only the small part of a
    /// collection that it changes.
    #[must_use]
    pub fn fork(&self) -> Self {
        let revision = self.shared.revision();
        let copy = |(name, collection): (&CollectionName, &Arc<Collection>)| {
            (Arc::clone(name), Arc::new(Collection::new(Arc::clone(&collection.history()))))
        };
        let collections = self.shared.collections().iter().map(copy).collect();
        Self { shared: Arc::new(SharedStore::new(*revision, self.shared.first, collections)) }
    }
}

impl Cursor {
    /// Returns the next change as soon as there is one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no change.
    ///
    /// # Errors
    ///
    /// Returns an error if the log was trimmed past the cursor, or the collection is removed and
    /// has no more changes.
    pub async fn next(&mut self) -> Result<Arc<Change>, Compacted> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls as [`Self::next`] does. Polling again while nothing has happened is cheap.
    ///
    /// # Errors
    ///
    /// As [`Self::next`].
    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Result<Arc<Change>, Compacted>> {
        loop {
            if self.caught_up {
                // The notification is consumed before the log is read, so that no change is missed
                // in between.
                ready!(self.changes.poll_changed(context));
                self.caught_up = false;
            }
            if let Some(change) = self.try_next().transpose() {
                return Poll::Ready(change);
            }
        }
    }

    /// Returns the next change, if it has already happened.
    ///
    /// # Errors
    ///
    /// As [`Self::next`].
    pub fn try_next(&mut self) -> Result<Option<Arc<Change>>, Compacted> {
        // Only a caught-up cursor waits for a notification, and a cursor that fails is not caught
        // up.
        self.caught_up = false;
        let removed = self.collection.removed.load(Ordering::Acquire);
        let history = self.collection.history();
        let change = history.change(self.position)?.cloned();
        if change.is_none() && removed {
            return Err(Compacted { asked: self.position, oldest: history.oldest() });
        }
        drop(history);
        self.position += u64::from(change.is_some());
        self.caught_up = change.is_none();
        Ok(change)
    }
}

impl SharedStore {
    fn new(revision: u64, first: u64, collections: HashMap<CollectionName, Arc<Collection>>) -> Self {
        let (revision, collections) = (Mutex::new(revision), RwLock::new(collections));
        let (confirmed, changes, removed) = (AtomicU64::default(), Arc::default(), Mutex::default());
        Self { revision, confirmed, changes, collections, removed, first }
    }

    /// Returns the version whose state is known. The caller holds the lock of the revision.
    fn known(&self, revision: u64) -> u64 {
        self.confirmed.load(Ordering::Relaxed).max(revision)
    }

    fn revision(&self) -> MutexGuard<'_, u64> {
        self.revision.lock()
    }

    fn collections(&self) -> RwLockReadGuard<'_, HashMap<CollectionName, Arc<Collection>>> {
        self.collections.read()
    }

    /// Returns the collection of this name; creates an empty one if there is none.
    fn collection(&self, name: &CollectionName) -> Arc<Collection> {
        if let Some(collection) = self.collections().get(name) {
            return Arc::clone(collection);
        }
        let mut collections = self.collections.write();
        let empty = || Arc::new(Collection::new(Arc::new(History::beginning_at(self.first))));
        Arc::clone(collections.entry(Arc::clone(name)).or_insert_with(empty))
    }

    /// Shortens the history of the collections for which `helps` returns true, including removed
    /// ones.
    fn cut(&self, helps: impl Fn(&History) -> bool, cut: impl Fn(&mut History)) {
        let mut all: Vec<_> =
            self.collections().iter().map(|(name, it)| (Arc::clone(name), Arc::clone(it))).collect();
        // The order of a hash map differs between processes, and each cut wakes watchers.
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let removed: Vec<_> = self.removed().iter().filter_map(Weak::upgrade).collect();
        for collection in all.into_iter().map(|(_, it)| it).chain(removed) {
            // Checked under the read lock first: a write would copy data that forks share.
            if !helps(&collection.history()) {
                continue;
            }
            let mut history = collection.history.write();
            cut(Arc::make_mut(&mut history));
            drop(history);
            collection.changes.notify();
        }
    }

    fn retire(&self, collection: Option<Arc<Collection>>) {
        let Some(collection) = collection else { return };
        collection.removed.store(true, Ordering::Release);
        collection.changes.notify();
        let mut removed = self.removed();
        removed.retain(|it| it.strong_count() > 0);
        removed.push(Arc::downgrade(&collection));
    }

    fn removed(&self) -> MutexGuard<'_, Vec<Weak<Collection>>> {
        self.removed.lock()
    }
}

impl Collection {
    fn new(history: Arc<History>) -> Self {
        Self { history: RwLock::new(history), removed: AtomicBool::new(false), changes: Arc::default() }
    }

    fn history(&self) -> RwLockReadGuard<'_, Arc<History>> {
        self.history.read()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods() -> CollectionName {
        "/pods".into()
    }

    fn draft(name: &str) -> (ObjectKey, Draft) {
        let draft =
            Draft::new(&json!({ "metadata": { "name": name, "uid": "u" } }), vec![]).expect("it has a name");
        (draft.key().clone(), draft)
    }

    fn create(store: &Store, name: &str) -> u64 {
        let (key, draft) = draft(name);
        store.commit(&pods(), &key, Expect::Absent, Some(draft)).expect("absent").version()
    }

    #[test]
    fn an_object_is_stored_under_its_own_key_only() {
        let store = Store::default();
        let (_, other) = draft("other");
        let key = ObjectKey::cluster("a");
        assert!(store.commit(&pods(), &key, Expect::Absent, Some(other.clone())).is_err());
        let version = create(&store, "a");
        assert!(store.commit(&pods(), &key, Expect::At(version), Some(other)).is_err());
        assert_eq!(store.revision(), version, "nothing has changed");
        assert_eq!(store.get(&pods(), &key).expect("stored").version(), version);
    }

    #[test]
    fn one_revision_orders_all_collections() {
        let store = Store::default();
        let first = create(&store, "a");
        let (key, draft) = draft("x");
        let second =
            store.commit(&"/nodes".into(), &key, Expect::Absent, Some(draft)).expect("absent").version();
        assert!(first < second && second < create(&store, "b"));
        assert_eq!(store.read(&pods(), |_, revision| revision), store.revision());
    }

    #[test]
    fn a_commit_succeeds_only_at_the_version_that_the_caller_has_seen() {
        let store = Store::default();
        let version = create(&store, "a");
        let (key, again) = draft("a");
        let lost =
            store.commit(&pods(), &key, Expect::Absent, Some(again.clone())).expect_err("there is one");
        assert_eq!(lost.current.map(|it| it.version()), Some(version));
        assert!(store.commit(&pods(), &key, Expect::At(version - 1), Some(again.clone())).is_err());
        assert!(store.commit(&pods(), &key, Expect::At(version), Some(again)).is_ok());
        assert_eq!(store.revision(), version + 1, "a lost commit takes no revision");
    }

    #[test]
    fn a_deletion_shows_the_last_state_at_its_own_version() {
        let store = Store::default();
        let version = create(&store, "a");
        let key = ObjectKey::cluster("a");
        let gone = store.commit(&pods(), &key, Expect::At(version), None).expect("as seen");
        assert_eq!(gone.version(), version + 1);
        assert!(store.get(&pods(), &key).is_none());
    }

    #[tokio::test]
    async fn a_cursor_returns_every_change_once_and_in_order_including_future_ones() {
        let store = Store::default();
        let from = create(&store, "a");
        let mut cursor = store.watch(&pods(), from).expect("kept");
        assert!(cursor.try_next().expect("kept").is_none());
        let expected = [create(&store, "b"), create(&store, "c")];
        assert_eq!([cursor.next().await, cursor.next().await].map(|it| it.expect("kept").version), expected);
        let (waited, version) = tokio::join!(cursor.next(), async { create(&store, "d") });
        assert_eq!(waited.expect("kept").version, version);
    }

    #[tokio::test]
    async fn a_cursor_that_fell_behind_the_log_fails_and_one_at_its_end_does_not() {
        let store = Store::default();
        let mut behind = store.watch(&pods(), 1).expect("kept");
        let version = create(&store, "a");
        let mut at_the_end = store.watch(&pods(), version).expect("kept");
        store.compact(version);
        assert!(behind.next().await.is_err());
        assert!(store.watch(&pods(), 1).is_err());
        let version = create(&store, "b");
        assert_eq!(at_the_end.next().await.expect("kept").version, version);
    }

    #[tokio::test]
    async fn reach_waits_for_a_future_revision_of_any_collection() {
        let store = Store::default();
        store.reach(store.revision()).await;
        let (key, draft) = draft("x");
        let come = store.revision() + 2;
        let write = async {
            create(&store, "a");
            store.commit(&"/nodes".into(), &key, Expect::Absent, Some(draft)).expect("absent").version()
        };
        let (seen, written) = tokio::join!(
            async {
                store.reach(come).await;
                store.revision()
            },
            write
        );
        assert_eq!((seen, written), (come, come));
    }

    #[test]
    fn a_collection_that_starts_later_has_no_history_before() {
        let store = Store::default();
        let version = create(&store, "a");
        store.begin(&"example.com/later".into());
        assert!(store.watch(&"example.com/later".into(), version - 1).is_err());
        assert!(store.watch(&"example.com/later".into(), version).is_ok());
    }

    #[test]
    fn versions_before_the_first_revision_are_compacted() {
        let store = Store::beginning_at(1_000);
        assert_eq!(store.watch(&pods(), 999).map(drop), Err(Compacted { asked: 999, oldest: 1_000 }));
        assert!(store.watch(&pods(), 1_000).is_ok());
        assert!(store.read(&"/nodes".into(), |all, _| all.list_at(999, None).is_err()));
        assert_eq!(create(&store, "a"), 1_001);
        assert!(store.fork().watch(&"/nodes".into(), 999).is_err());
    }

    /// Regression test: after the definition of a custom kind was deleted and created again,
    /// watches of the new collection saw the deletions of the old one.
    #[tokio::test]
    async fn a_recreated_collection_shows_nothing_of_its_predecessor() {
        let store = Store::default();
        let from = store.revision();
        let mut behind = store.watch(&pods(), from).expect("kept");
        let version = create(&store, "a");
        store.remove(&pods());
        assert_eq!(behind.next().await.expect("it happened before").version, version);
        assert!(behind.next().await.is_err(), "there are no more changes");
        let mut waiting = store.watch(&pods(), version).expect("kept");
        let (ended, ()) = tokio::join!(waiting.next(), async { store.begin(&pods()) });
        assert!(ended.is_err());
        assert!(store.watch(&pods(), from).is_err());
        assert!(store.get(&pods(), &ObjectKey::cluster("a")).is_none());
        create(&store, "a");
    }

    #[test]
    fn the_memory_of_removed_collections_is_freed_with_the_last_watcher() {
        let store = Store::default();
        let mut stalled = Vec::new();
        for _ in 0..10 {
            stalled.push(store.watch(&pods(), store.revision()).expect("kept"));
            create(&store, "a");
            store.begin(&pods());
        }
        assert_eq!(store.shared.removed().len(), 10);
        let histories: Vec<_> = stalled.iter().map(|it| Arc::downgrade(&*it.collection.history())).collect();
        assert!(stalled.iter().all(|it| it.collection.history().len() == 1));
        store.trim(store.revision());
        assert!(
            stalled.iter().all(|it| it.collection.history().is_empty()),
            "removed collections are trimmed too"
        );
        assert!(stalled.iter_mut().all(|it| it.try_next().is_err()));
        drop(stalled);
        assert!(histories.iter().all(|it| it.strong_count() == 0));
        store.remove(&pods());
        assert!(store.shared.removed().iter().all(|it| it.strong_count() == 0));
    }

    #[test]
    fn empty_collections_that_are_not_wanted_are_removed() {
        let store = Store::default();
        create(&store, "a");
        for name in ["example.com/read", "example.com/wanted"] {
            store.read(&name.into(), |_, _| ());
        }
        store.remove_empty(|it| &**it == "example.com/wanted");
        let mut left = store.collections();
        left.sort_unstable();
        assert_eq!(left, [pods(), "example.com/wanted".into()]);
    }

    /// Regression test: a timer that trims every few minutes copied the collections that forks
    /// share, without need.
    #[test]
    fn trimming_without_effect_leaves_data_shared() {
        let store = Store::default();
        let version = create(&store, "a");
        let fork = store.fork();
        let shared = |store: &Store| Arc::as_ptr(&*store.shared.collection(&pods()).history());
        fork.trim(version - 1);
        fork.compact(1);
        assert_eq!(shared(&store), shared(&fork));
        fork.trim(version);
        assert_ne!(shared(&store), shared(&fork));
        assert!(store.watch(&pods(), version - 1).is_ok());
    }

    /// Regression test: a list held the lock that every writer needs for as long as it walked.
    #[test]
    fn a_write_does_not_wait_for_a_list() {
        let store = Store::default();
        create(&store, "a");
        let seen = store.read(&pods(), |history, revision| {
            assert_eq!(create(&store, "b"), revision + 1);
            history.list_at(revision, None).expect("kept").count()
        });
        assert_eq!((seen, store.read(&pods(), |all, now| all.count_in(now, None, None))), (1, Ok(2)));
    }

    #[test]
    fn a_fork_is_independent() {
        let store = Store::default();
        create(&store, "a");
        let fork = store.fork();
        create(&fork, "b");
        create(&store, "c");
        let names = |store: &Store| {
            store.read(&pods(), |history, revision| {
                let listed = history.list_at(revision, None).expect("kept");
                listed.map(|it| it.key().to_string()).collect::<Vec<_>>()
            })
        };
        assert_eq!(
            (names(&store), names(&fork)),
            (vec!["a".into(), "c".into()], vec!["a".into(), "b".into()])
        );
    }
}
