//! The changes of several collections: the cursors of a controller, and the tasks that wake it.
//!
//! Each collection has a cursor, which the controller moves, and a notifier: a task with a cursor
//! of its own that marks the collection as dirty after a change. So a controller that follows a
//! hundred collections sleeps on one notification and reads only dirty collections.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use crate::store::{Change, CollectionName, Compacted, Cursor, Encoded, Store};

/// Follows collections. Dropping it stops its notifiers.
#[derive(Debug)]
pub(crate) struct Feed {
    store: Store,
    followed: BTreeMap<CollectionName, Followed>,
    dirty: Arc<DirtyCollections>,
    notifiers: JoinSet<()>,
}

#[derive(Debug)]
struct Followed {
    cursor: Cursor,
    notifier: AbortHandle,
    /// The initial content, until it is taken.
    listed: Option<Vec<Arc<Encoded>>>,
    /// The objects as the controller last saw them, for controllers that must see every deletion.
    known: Option<BTreeMap<ObjectKey, Arc<Encoded>>>,
}

/// The collections with changes that were not taken yet.
#[derive(Debug, Default)]
struct DirtyCollections {
    names: Mutex<BTreeSet<CollectionName>>,
    notify: Notify,
}

/// A change of a collection.
#[derive(Debug)]
pub(crate) enum FeedEvent {
    /// All objects: at the beginning, and again when changes were missed and the former objects are
    /// not known.
    Listed(CollectionName, Vec<Arc<Encoded>>),
    /// One change.
    Changed(CollectionName, Arc<Change>),
}

impl Feed {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, followed: BTreeMap::new(), dirty: Arc::default(), notifiers: JoinSet::new() }
    }

    /// Follows a collection from now on; its content comes first. Does nothing if it is followed
    /// already.
    pub(crate) fn follow(&mut self, collection: &CollectionName) {
        if self.followed.contains_key(collection) {
            return;
        }
        let (listed, cursor, version) = self.store.list_and_watch(collection);
        self.add(collection, cursor, version, Some(listed), None);
        self.dirty.mark(collection);
    }

    /// Follows a collection like [`Self::follow`], and keeps the last state of each object. When
    /// changes were missed, the difference is reported as changes: a list alone does not show
    /// deletions.
    pub(crate) fn follow_each(&mut self, collection: &CollectionName) {
        if self.followed.contains_key(collection) {
            return;
        }
        let (listed, cursor, version) = self.store.list_and_watch(collection);
        let known = listed.iter().map(|it| (it.key().clone(), Arc::clone(it))).collect();
        self.add(collection, cursor, version, Some(listed), Some(known));
        self.dirty.mark(collection);
    }

    /// Follows a collection from a version on. Does nothing if it is followed already.
    ///
    /// # Errors
    /// An error if the changes since then are compacted.
    pub(crate) fn follow_from(&mut self, collection: &CollectionName, version: u64) -> Result<(), Compacted> {
        if !self.followed.contains_key(collection) {
            let cursor = self.store.watch(collection, version)?;
            self.add(collection, cursor, version, None, None);
            self.dirty.mark(collection);
        }
        Ok(())
    }

    /// Stops following a collection.
    pub(crate) fn leave(&mut self, collection: &CollectionName) {
        if let Some(followed) = self.followed.remove(collection) {
            followed.notifier.abort();
        }
    }

    #[cfg(test)]
    pub(super) fn is_followed(&self, collection: &CollectionName) -> bool {
        self.followed.contains_key(collection)
    }

    /// Waits until there is something to take.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn wait(&self) {
        while self.dirty.is_clean() {
            self.dirty.notify.notified().await;
        }
    }

    /// Returns the changes of dirty collections.
    pub(crate) fn take(&mut self) -> Vec<FeedEvent> {
        let names = self.dirty.take();
        names.iter().flat_map(|collection| self.changes(collection)).collect()
    }

    /// Returns all changes of a collection up to now.
    fn changes(&mut self, collection: &CollectionName) -> Vec<FeedEvent> {
        let Some(followed) = self.followed.get_mut(collection) else { return Vec::new() };
        let listed = followed.listed.take().map(|it| FeedEvent::Listed(Arc::clone(collection), it));
        let mut news = Vec::from_iter(listed);
        loop {
            match followed.cursor.try_next() {
                Ok(Some(change)) => {
                    followed.apply(&change);
                    news.push(FeedEvent::Changed(Arc::clone(collection), change));
                }
                Ok(None) => return news,
                Err(Compacted { .. }) => {
                    let (listed, cursor, version) = self.store.list_and_watch(collection);
                    followed.cursor = cursor;
                    news.extend(followed.relisted(collection, listed, version));
                }
            }
        }
    }

    fn add(
        &mut self,
        collection: &CollectionName,
        cursor: Cursor,
        version: u64,
        listed: Option<Vec<Arc<Encoded>>>,
        known: Option<BTreeMap<ObjectKey, Arc<Encoded>>>,
    ) {
        // Notifiers that were stopped stay in the set until they are joined.
        while self.notifiers.try_join_next().is_some() {}
        let notify_changes =
            notify_changes(self.store.clone(), Arc::clone(collection), version, Arc::clone(&self.dirty));
        let notifier = self.notifiers.spawn(notify_changes);
        self.followed.insert(Arc::clone(collection), Followed { cursor, notifier, listed, known });
    }
}

impl Followed {
    /// Updates the known objects with a change.
    fn apply(&mut self, change: &Change) {
        let Some(known) = &mut self.known else { return };
        match (&change.after, &change.before) {
            (Some(after), _) => drop(known.insert(after.key().clone(), Arc::clone(after))),
            (None, Some(before)) => drop(known.remove(before.key())),
            (None, None) => {}
        }
    }

    /// Returns the changes after some were missed: the differences, deletions first, if the former
    /// objects are known, or else the whole list.
    fn relisted(
        &mut self,
        collection: &CollectionName,
        listed: Vec<Arc<Encoded>>,
        version: u64,
    ) -> Vec<FeedEvent> {
        let Some(known) = &mut self.known else {
            return vec![FeedEvent::Listed(Arc::clone(collection), listed)];
        };
        let now = listed.iter().map(|it| (it.key().clone(), Arc::clone(it))).collect();
        let mut before: BTreeMap<ObjectKey, Arc<Encoded>> = std::mem::replace(known, now);
        let changed = |version: u64, before: Option<Arc<Encoded>>, after: Option<Arc<Encoded>>| {
            FeedEvent::Changed(Arc::clone(collection), Arc::new(Change::new(version, before, after)))
        };
        let mut there = Vec::new();
        for after in listed {
            match before.remove(after.key()) {
                Some(same) if same.version() == after.version() => {}
                // An object that was deleted and created again is two changes: the two have nothing
                // in common.
                // The version of the deletion is not known: it is reported with the earliest
                // possible one. A later one could be after the creation of the other object.
                Some(other) if other.uid() != after.uid() => {
                    there.push(changed(other.version().saturating_add(1), Some(other), None));
                    there.push(changed(after.version(), None, Some(after)));
                }
                earlier => there.push(changed(after.version(), earlier, Some(after))),
            }
        }
        before.into_values().map(|it| changed(version, Some(it), None)).chain(there).collect()
    }
}

impl DirtyCollections {
    fn mark(&self, collection: &CollectionName) {
        self.names().insert(Arc::clone(collection));
        self.notify.notify_one();
    }

    fn is_clean(&self) -> bool {
        self.names().is_empty()
    }

    fn take(&self) -> BTreeSet<CollectionName> {
        std::mem::take(&mut *self.names())
    }

    fn names(&self) -> parking_lot::MutexGuard<'_, BTreeSet<CollectionName>> {
        self.names.lock()
    }
}

/// Marks a collection as dirty whenever it has changed since a version.
async fn notify_changes(
    store: Store,
    collection: CollectionName,
    mut version: u64,
    dirty: Arc<DirtyCollections>,
) {
    loop {
        let Ok(mut cursor) = store.watch(&collection, version) else {
            version = store.revision();
            dirty.mark(&collection);
            continue;
        };
        while cursor.next().await.is_ok() {
            // One mark for all changes so far.
            while let Ok(Some(_)) = cursor.try_next() {}
            dirty.mark(&collection);
        }
        // The version is read before the mark. A change after it is found by the next cursor; a
        // change before it is there when the controller reacts to the mark.
        version = store.revision();
        dirty.mark(&collection);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Draft, Expect};

    fn create(store: &Store, collection: &CollectionName, name: &str) -> u64 {
        let draft = Draft::new(&json!({ "metadata": { "name": name } }), vec![]).unwrap();
        let key = draft.key().clone();
        store.commit(collection, &key, Expect::Absent, Some(draft)).unwrap().version()
    }

    fn described(steps: Vec<FeedEvent>) -> Vec<String> {
        let name = |it: &Arc<Encoded>| it.key().to_string();
        let describe = |step| match step {
            FeedEvent::Listed(collection, all) => {
                format!("{collection}: {:?}", Vec::from_iter(all.iter().map(name)))
            }
            FeedEvent::Changed(collection, change) => format!(
                "{collection} {:?} -> {:?}",
                change.before.as_ref().map(name),
                change.after.as_ref().map(name)
            ),
        };
        steps.into_iter().map(describe).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_feed_reports_the_content_and_then_changes_and_sleeps_in_between() {
        let store = Store::default();
        let (pods, nodes): (CollectionName, CollectionName) = ("/pods".into(), "/nodes".into());
        create(&store, &pods, "a");
        let mut feed = Feed::new(store.clone());
        feed.follow(&pods);
        feed.follow(&nodes);
        feed.wait().await;
        assert_eq!(described(feed.take()), [r#"/nodes: []"#, r#"/pods: ["a"]"#]);
        assert!(feed.take().is_empty());
        let nothing = tokio::time::timeout(std::time::Duration::from_secs(60), feed.wait()).await;
        assert!(nothing.is_err(), "nothing has happened");
        let version = create(&store, &pods, "b");
        feed.wait().await;
        assert_eq!(described(feed.take()), [r#"/pods None -> Some("b")"#]);
        store.commit(&pods, &ObjectKey::cluster("b"), Expect::At(version), None).unwrap();
        assert_eq!(described(feed.changes(&pods)), [r#"/pods Some("b") -> None"#], "without a notification");
    }

    #[tokio::test(start_paused = true)]
    async fn after_missed_changes_the_collection_is_listed_again() {
        let store = Store::default();
        let pods: CollectionName = "/pods".into();
        let mut feed = Feed::new(store.clone());
        feed.follow(&pods);
        feed.take();
        create(&store, &pods, "a");
        let version = create(&store, &pods, "b");
        store.compact(version);
        create(&store, &pods, "c");
        feed.wait().await;
        assert_eq!(described(feed.take()), [r#"/pods: ["a", "b", "c"]"#]);
        create(&store, &pods, "d");
        feed.wait().await;
        assert_eq!(described(feed.take()), [r#"/pods None -> Some("d")"#]);
    }

    /// A controller that was busy while the history was compacted used to get only a list: a
    /// ReplicaSet whose only pod was deleted meanwhile never got another.
    #[tokio::test(start_paused = true)]
    async fn known_objects_are_compared_with_a_new_list() {
        let store = Store::default();
        let pods: CollectionName = "/pods".into();
        let create = |name: &str, uid: &str| {
            let draft = Draft::new(&json!({ "metadata": { "name": name, "uid": uid } }), vec![]).unwrap();
            let key = draft.key().clone();
            store.commit(&pods, &key, Expect::Absent, Some(draft)).unwrap().version()
        };
        let delete = |name: &str, version: u64| {
            store.commit(&pods, &ObjectKey::cluster(name), Expect::At(version), None).unwrap();
        };
        let (gone, same, other) = (create("gone", "1"), create("same", "2"), create("other", "3"));
        let mut feed = Feed::new(store.clone());
        feed.follow_each(&pods);
        assert_eq!(described(feed.take()), [r#"/pods: ["gone", "other", "same"]"#]);
        let draft = Draft::new(&json!({ "metadata": { "name": "same", "uid": "2", "labels": {} } }), vec![]);
        store.commit(&pods, &ObjectKey::cluster("same"), Expect::At(same), draft.ok()).unwrap();
        delete("gone", gone);
        delete("other", other);
        create("other", "4");
        create("new", "5");
        store.compact(store.revision());
        feed.wait().await;
        let expected = [
            r#"/pods Some("gone") -> None"#,
            r#"/pods None -> Some("new")"#,
            r#"/pods Some("other") -> None"#,
            r#"/pods None -> Some("other")"#,
            r#"/pods Some("same") -> Some("same")"#,
        ];
        assert_eq!(described(feed.take()), expected);
        store.compact(store.revision());
        assert!(described(feed.changes(&pods)).is_empty(), "nothing has changed since");
        let version = create("last", "6");
        assert_eq!(described(feed.changes(&pods)), [r#"/pods None -> Some("last")"#]);
        delete("last", version);
        create("behind", "7");
        store.compact(store.revision());
        let expected = [r#"/pods Some("last") -> None"#, r#"/pods None -> Some("behind")"#];
        assert_eq!(described(feed.changes(&pods)), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_collection_can_be_followed_from_a_version_and_left_again() {
        let store = Store::default();
        let pods: CollectionName = "/pods".into();
        let before = create(&store, &pods, "a");
        create(&store, &pods, "b");
        let mut feed = Feed::new(store.clone());
        feed.follow_from(&pods, before).unwrap();
        feed.wait().await;
        assert_eq!(described(feed.take()), [r#"/pods None -> Some("b")"#]);
        feed.leave(&pods);
        create(&store, &pods, "c");
        assert!(described(feed.changes(&pods)).is_empty());
        store.compact(store.revision());
        assert!(feed.follow_from(&pods, before).is_err());
    }
}
