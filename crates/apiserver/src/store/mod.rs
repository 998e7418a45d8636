//! Storage: every object of every collection, all its versions, and one revision that orders them.
//!
//! ```text
//! commit ─► one lock: check, take the next revision, write the history, wake the watchers
//! read   ─► a short look: one reference count for each object
//! watch  ─► a cursor: a position in the log of changes, and a bell
//! ```
//!
//! Watchers are pulled, not pushed: one that does not read costs its position. When the log is trimmed past a watcher, it is
//! told so at its next step.

mod encoded;
mod history;
mod storage;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll, ready};

use dogwatch_core::ObjectKey;

pub use encoded::{Draft, Encoded, SelectableField, Told, Unstorable};
pub use history::{Change, Compacted, History};
pub use storage::{Pending, Storage};

use crate::bell::{Bell, Listener};

/// How many changes of a collection are kept at most. When there are more, the older half goes.
const LONGEST_LOG: usize = 100_000;

/// Names a collection: the group and the plural of the resource, whatever the version of the API.
pub type CollectionName = Arc<str>;

/// All collections of a server. Clones share them; [`Store::fork`] makes a copy that goes its own way.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Held while a change is made, which is when revisions are given out. A plain mutex: never held across an await.
    revision: Mutex<u64>,
    /// Rung after each change of the revision.
    bell: Arc<Bell>,
    collections: RwLock<HashMap<CollectionName, Arc<Collection>>>,
}

/// One collection.
#[derive(Debug)]
struct Collection {
    /// Shared with forks until one of them writes.
    history: RwLock<Arc<History>>,
    /// Rung after each change, and when history is forgotten.
    bell: Arc<Bell>,
}

/// What must be true of an object for a commit to go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expect {
    /// There is none.
    Absent,
    /// It is at this version.
    At(u64),
}

/// Somebody else was faster; here is what there is now.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the object has changed")]
pub struct Lost {
    /// The object as it is.
    pub current: Option<Arc<Encoded>>,
}

/// A place in the log of a collection; moves forward only.
#[derive(Debug)]
pub struct Cursor {
    collection: Arc<Collection>,
    bell: Listener,
    position: u64,
    /// Whether everything up to the last ring that was heard has been given.
    caught_up: bool,
}

impl Default for Store {
    fn default() -> Self {
        // Clients take 0 for "any version", so the first revision is 1.
        Self { shared: Arc::new(Shared::new(1, HashMap::new())) }
    }
}

impl Store {
    /// The newest revision of all collections.
    pub fn revision(&self) -> u64 {
        *self.shared.revision()
    }

    /// Waits until the newest revision is this one or a later one; for ever if that does not come about.
    pub async fn reach(&self, revision: u64) {
        let mut bell = self.shared.bell.listen();
        while self.revision() < revision {
            bell.rung().await;
        }
    }

    /// Writes an object, or deletes it, if it still is what the caller thinks it is.
    ///
    /// Gives the object as stored; for a deletion, its last state with the version of the deletion.
    ///
    /// # Errors
    /// When it is not; nothing has happened then.
    pub fn commit(
        &self,
        collection: &CollectionName,
        key: &ObjectKey,
        expect: Expect,
        draft: Option<Draft>,
    ) -> Result<Arc<Encoded>, Lost> {
        let collection = self.shared.collection(collection);
        let mut revision = self.shared.revision();
        let mut history = collection.history.write().unwrap_or_else(PoisonError::into_inner);
        let current = history.get(key).cloned();
        let holds = match (expect, &current) {
            (Expect::Absent, None) => true,
            (Expect::At(version), Some(current)) => current.version() == version,
            _ => false,
        };
        if !holds {
            return Err(Lost { current });
        }
        let version = *revision + 1;
        let told = if current.is_some() { Told::Modified } else { Told::Added };
        let after = draft.map(|it| Arc::new(it.told(told, version)));
        if after.is_none() && current.is_none() {
            // Deleting what is absent changes nothing.
            return Err(Lost { current: None });
        }
        let log = Arc::make_mut(&mut history);
        let change = log.write(key, version, after);
        log.shorten(LONGEST_LOG);
        *revision = version;
        drop(history);
        drop(revision);
        collection.bell.ring();
        self.shared.bell.ring();
        let stored = change.after.as_ref().or_else(|| change.last());
        Ok(Arc::clone(stored.expect("it was there before or is now")))
    }

    /// The object as it is now.
    pub fn get(&self, collection: &CollectionName, key: &ObjectKey) -> Option<Arc<Encoded>> {
        self.shared.collection(collection).history().get(key).cloned()
    }

    /// Looks at the history of a collection together with the newest revision of all.
    ///
    /// Writers wait meanwhile: take what is needed, which is a reference count for each object, and go.
    pub fn read<T>(&self, collection: &CollectionName, look: impl FnOnce(&History, u64) -> T) -> T {
        let collection = self.shared.collection(collection);
        // Under the lock, so that no change falls between the revision and what it shows.
        let revision = self.shared.revision();
        let history = collection.history();
        let revision = *revision;
        look(&history, revision)
    }

    /// A cursor right behind a version: it gives every change that is newer, in order, each once.
    ///
    /// # Errors
    /// When those changes are no longer kept.
    pub fn watch(&self, collection: &CollectionName, version: u64) -> Result<Cursor, Compacted> {
        let collection = self.shared.collection(collection);
        let bell = collection.bell.listen();
        let position = collection.history().position_after(version)?;
        Ok(Cursor { collection, bell, position, caught_up: false })
    }

    /// Lets a collection begin now: nothing before can be asked for. Nothing happens to one that is there already.
    pub fn begin(&self, collection: &CollectionName) {
        let revision = *self.shared.revision();
        let mut collections = self.shared.collections.write().unwrap_or_else(PoisonError::into_inner);
        collections.entry(Arc::clone(collection)).or_insert_with(|| {
            let mut history = History::default();
            history.compact(revision);
            Arc::new(Collection::new(Arc::new(history)))
        });
    }

    /// Forgets everything that only reads before this version need, in all collections.
    pub fn compact(&self, version: u64) {
        let version = version.min(self.revision());
        for collection in self.shared.collections().values() {
            let mut history = collection.history.write().unwrap_or_else(PoisonError::into_inner);
            Arc::make_mut(&mut history).compact(version);
            drop(history);
            collection.bell.ring();
        }
    }

    /// Forgets the states that only lists before this version need, in all collections. Watches can still begin before it.
    pub fn forget(&self, version: u64) {
        let version = version.min(self.revision());
        for collection in self.shared.collections().values() {
            let mut history = collection.history.write().unwrap_or_else(PoisonError::into_inner);
            Arc::make_mut(&mut history).forget(version);
        }
    }

    /// A copy that goes its own way. Costs next to nothing: a collection is copied when either side writes to it.
    #[must_use]
    pub fn fork(&self) -> Self {
        let revision = self.shared.revision();
        let copy = |(name, collection): (&CollectionName, &Arc<Collection>)| {
            (Arc::clone(name), Arc::new(Collection::new(Arc::clone(&collection.history()))))
        };
        let collections = self.shared.collections().iter().map(copy).collect();
        Self { shared: Arc::new(Shared::new(*revision, collections)) }
    }
}

impl Cursor {
    /// The next change, as soon as there is one. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the log was trimmed past the cursor.
    pub async fn next(&mut self) -> Result<Arc<Change>, Compacted> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Self::next`]. Costs next to nothing when it is asked again and nothing has happened.
    ///
    /// # Errors
    /// When the log was trimmed past the cursor.
    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Result<Arc<Change>, Compacted>> {
        loop {
            if self.caught_up {
                // What is heard is heard before the log is looked at, so that no change falls between.
                ready!(self.bell.poll_rung(context));
                self.caught_up = false;
            }
            if let Some(change) = self.try_next().transpose() {
                return Poll::Ready(change);
            }
        }
    }

    /// The next change, if it has happened already.
    ///
    /// # Errors
    /// When the log was trimmed past the cursor.
    pub fn try_next(&mut self) -> Result<Option<Arc<Change>>, Compacted> {
        let change = self.collection.history().change(self.position)?.cloned();
        self.position += u64::from(change.is_some());
        self.caught_up = change.is_none();
        Ok(change)
    }
}

impl Shared {
    fn new(revision: u64, collections: HashMap<CollectionName, Arc<Collection>>) -> Self {
        let (revision, collections) = (Mutex::new(revision), RwLock::new(collections));
        Self { revision, bell: Arc::default(), collections }
    }

    fn revision(&self) -> MutexGuard<'_, u64> {
        self.revision.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collections(&self) -> RwLockReadGuard<'_, HashMap<CollectionName, Arc<Collection>>> {
        self.collections.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The collection of that name; an empty one where nothing was stored yet.
    fn collection(&self, name: &CollectionName) -> Arc<Collection> {
        if let Some(collection) = self.collections().get(name) {
            return Arc::clone(collection);
        }
        let mut collections = self.collections.write().unwrap_or_else(PoisonError::into_inner);
        let empty = || Arc::new(Collection::new(Arc::default()));
        Arc::clone(collections.entry(Arc::clone(name)).or_insert_with(empty))
    }
}

impl Collection {
    fn new(history: Arc<History>) -> Self {
        Self { history: RwLock::new(history), bell: Arc::default() }
    }

    fn history(&self) -> RwLockReadGuard<'_, Arc<History>> {
        self.history.read().unwrap_or_else(PoisonError::into_inner)
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
    fn a_commit_goes_through_only_on_what_the_caller_has_seen() {
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
    async fn a_cursor_gives_every_change_once_and_in_order_also_those_to_come() {
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
    async fn a_cursor_behind_the_log_is_told_so_and_one_at_its_end_is_not() {
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
    async fn a_revision_of_the_future_is_waited_for_in_whichever_collection_it_comes_about() {
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
    fn a_collection_that_begins_later_has_no_past() {
        let store = Store::default();
        let version = create(&store, "a");
        store.begin(&"example.com/later".into());
        assert!(store.watch(&"example.com/later".into(), version - 1).is_err());
        assert!(store.watch(&"example.com/later".into(), version).is_ok());
        store.begin(&pods());
        assert!(store.watch(&pods(), version - 1).is_ok(), "it was there before");
    }

    #[test]
    fn a_fork_goes_its_own_way() {
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
