//! What has changed in some collections: the cursors of a controller, and the bells that wake it.
//!
//! Each collection has a cursor, which the controller moves, and a bell: a task with a cursor of its own that marks the
//! collection when something has happened. So a controller that follows a hundred collections sleeps on one notification
//! and looks only where the bell rang; and when it must know everything up to now, it can ask for that too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use dogwatch_core::ObjectKey;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use crate::store::{Change, CollectionName, Compacted, Cursor, Encoded, Store};

/// Follows collections. Dropping it ends its bells.
#[derive(Debug)]
pub(crate) struct Feed {
    store: Store,
    followed: BTreeMap<CollectionName, Followed>,
    marks: Arc<Marks>,
    bells: JoinSet<()>,
}

#[derive(Debug)]
struct Followed {
    cursor: Cursor,
    bell: AbortHandle,
    /// What there was when it was first looked at, until it is taken.
    listed: Option<Vec<Arc<Encoded>>>,
    /// The objects as the controller last saw them, where it has to learn of every deletion.
    known: Option<BTreeMap<ObjectKey, Arc<Encoded>>>,
}

/// Where something has happened.
#[derive(Debug, Default)]
struct Marks {
    marked: Mutex<BTreeSet<CollectionName>>,
    rung: Notify,
}

/// News of a collection.
#[derive(Debug)]
pub(crate) enum Step {
    /// All there is: at the beginning, and again when changes were missed and nothing is known of the objects before.
    Listed(CollectionName, Vec<Arc<Encoded>>),
    /// One change since.
    Changed(CollectionName, Arc<Change>),
}

impl Feed {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, followed: BTreeMap::new(), marks: Arc::default(), bells: JoinSet::new() }
    }

    /// Follows a collection from now on; what it holds comes first. Does nothing for one that is followed already.
    pub(crate) fn follow(&mut self, collection: &CollectionName) {
        if self.followed.contains_key(collection) {
            return;
        }
        let (listed, cursor, version) = list(&self.store, collection);
        self.add(collection, cursor, version, Some(listed), None);
        self.marks.mark(collection);
    }

    /// As [`Self::follow`], and keeps the last state of each object. When changes were missed, the difference to what there
    /// is now comes as changes: a list alone does not say what has gone.
    pub(crate) fn follow_each(&mut self, collection: &CollectionName) {
        if self.followed.contains_key(collection) {
            return;
        }
        let (listed, cursor, version) = list(&self.store, collection);
        let known = listed.iter().map(|it| (it.key().clone(), Arc::clone(it))).collect();
        self.add(collection, cursor, version, Some(listed), Some(known));
        self.marks.mark(collection);
    }

    /// Follows a collection from a version on. Does nothing for one that is followed already.
    ///
    /// # Errors
    /// When the changes since are no longer kept.
    pub(crate) fn follow_from(&mut self, collection: &CollectionName, version: u64) -> Result<(), Compacted> {
        if !self.followed.contains_key(collection) {
            let cursor = self.store.watch(collection, version)?;
            self.add(collection, cursor, version, None, None);
            self.marks.mark(collection);
        }
        Ok(())
    }

    /// Follows a collection no longer.
    pub(crate) fn leave(&mut self, collection: &CollectionName) {
        if let Some(followed) = self.followed.remove(collection) {
            followed.bell.abort();
        }
    }

    /// The collections that are followed.
    pub(crate) fn followed(&self) -> impl Iterator<Item = &CollectionName> {
        self.followed.keys()
    }

    /// Waits until there is something to take. Dropping the future loses nothing.
    pub(crate) async fn wait(&self) {
        while self.marks.is_clean() {
            self.marks.rung.notified().await;
        }
    }

    /// The news of collections whose bell has rung.
    pub(crate) fn take(&mut self) -> Vec<Step> {
        let marked = self.marks.take();
        marked.iter().flat_map(|collection| self.news(collection)).collect()
    }

    /// All news up to now, whether the bell has rung or not.
    pub(crate) fn catch_up(&mut self) -> Vec<Step> {
        let all: Vec<_> = self.followed.keys().cloned().collect();
        all.iter().flat_map(|collection| self.news(collection)).collect()
    }

    fn add(
        &mut self,
        collection: &CollectionName,
        cursor: Cursor,
        version: u64,
        listed: Option<Vec<Arc<Encoded>>>,
        known: Option<BTreeMap<ObjectKey, Arc<Encoded>>>,
    ) {
        // Bells that were ended stay in the set until somebody asks for them.
        while self.bells.try_join_next().is_some() {}
        let ring = ring(self.store.clone(), Arc::clone(collection), version, Arc::clone(&self.marks));
        let bell = self.bells.spawn(ring);
        self.followed.insert(Arc::clone(collection), Followed { cursor, bell, listed, known });
    }

    fn news(&mut self, collection: &CollectionName) -> Vec<Step> {
        let Some(followed) = self.followed.get_mut(collection) else { return Vec::new() };
        let listed = followed.listed.take().map(|it| Step::Listed(Arc::clone(collection), it));
        let mut news = Vec::from_iter(listed);
        loop {
            match followed.cursor.try_next() {
                Ok(Some(change)) => {
                    followed.note(&change);
                    news.push(Step::Changed(Arc::clone(collection), change));
                }
                Ok(None) => return news,
                Err(Compacted { .. }) => {
                    let (listed, cursor, version) = list(&self.store, collection);
                    followed.cursor = cursor;
                    news.extend(followed.relisted(collection, listed, version));
                }
            }
        }
    }
}

impl Followed {
    /// Keeps what a change leaves of an object.
    fn note(&mut self, change: &Change) {
        let Some(known) = &mut self.known else { return };
        match (&change.after, &change.before) {
            (Some(after), _) => drop(known.insert(after.key().clone(), Arc::clone(after))),
            (None, Some(before)) => drop(known.remove(before.key())),
            (None, None) => {}
        }
    }

    /// The news of a list after changes were missed: what is different, deletions first, where the objects are known; all
    /// there is where they are not.
    fn relisted(
        &mut self,
        collection: &CollectionName,
        listed: Vec<Arc<Encoded>>,
        version: u64,
    ) -> Vec<Step> {
        let Some(known) = &mut self.known else {
            return vec![Step::Listed(Arc::clone(collection), listed)];
        };
        let now = listed.iter().map(|it| (it.key().clone(), Arc::clone(it))).collect();
        let mut before: BTreeMap<ObjectKey, Arc<Encoded>> = std::mem::replace(known, now);
        let changed = |before: Option<Arc<Encoded>>, after: Option<Arc<Encoded>>| {
            let version = after.as_ref().map_or(version, |it| it.version());
            Step::Changed(Arc::clone(collection), Arc::new(Change::new(version, before, after)))
        };
        let mut there = Vec::new();
        for after in listed {
            match before.remove(after.key()) {
                Some(same) if same.version() == after.version() => {}
                // One that was deleted and created again is two changes: it has nothing in common with the other.
                Some(other) if other.uid() != after.uid() => {
                    there.extend([changed(Some(other), None), changed(None, Some(after))]);
                }
                earlier => there.push(changed(earlier, Some(after))),
            }
        }
        before.into_values().map(|it| changed(Some(it), None)).chain(there).collect()
    }
}

impl Marks {
    fn mark(&self, collection: &CollectionName) {
        self.marked().insert(Arc::clone(collection));
        self.rung.notify_one();
    }

    fn is_clean(&self) -> bool {
        self.marked().is_empty()
    }

    fn take(&self) -> BTreeSet<CollectionName> {
        std::mem::take(&mut *self.marked())
    }

    fn marked(&self) -> std::sync::MutexGuard<'_, BTreeSet<CollectionName>> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a collection holds, a cursor behind that, and the version both are of.
fn list(store: &Store, collection: &CollectionName) -> (Vec<Arc<Encoded>>, Cursor, u64) {
    loop {
        let (listed, version) = store.read(collection, |history, version| {
            (history.list_at(version, None).into_iter().flatten().cloned().collect(), version)
        });
        // Fails only when history is forgotten right in between.
        if let Ok(cursor) = store.watch(collection, version) {
            return (listed, cursor, version);
        }
    }
}

/// Marks a collection each time something has changed in it since a version.
async fn ring(store: Store, collection: CollectionName, mut version: u64, marks: Arc<Marks>) {
    loop {
        let Ok(mut cursor) = store.watch(&collection, version) else {
            marks.mark(&collection);
            version = store.revision();
            continue;
        };
        while cursor.next().await.is_ok() {
            // One mark for all that has happened meanwhile.
            while let Ok(Some(_)) = cursor.try_next() {}
            marks.mark(&collection);
        }
        marks.mark(&collection);
        version = store.revision();
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

    fn told(steps: Vec<Step>) -> Vec<String> {
        let name = |it: &Arc<Encoded>| it.key().to_string();
        let tell = |step| match step {
            Step::Listed(collection, all) => {
                format!("{collection}: {:?}", Vec::from_iter(all.iter().map(name)))
            }
            Step::Changed(collection, change) => format!(
                "{collection} {:?} -> {:?}",
                change.before.as_ref().map(name),
                change.after.as_ref().map(name)
            ),
        };
        steps.into_iter().map(tell).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_feed_tells_what_there_is_and_then_what_changes_and_sleeps_in_between() {
        let store = Store::default();
        let (pods, nodes): (CollectionName, CollectionName) = ("/pods".into(), "/nodes".into());
        create(&store, &pods, "a");
        let mut feed = Feed::new(store.clone());
        feed.follow(&pods);
        feed.follow(&nodes);
        feed.wait().await;
        assert_eq!(told(feed.take()), [r#"/nodes: []"#, r#"/pods: ["a"]"#]);
        assert!(feed.take().is_empty());
        let nothing = tokio::time::timeout(std::time::Duration::from_secs(60), feed.wait()).await;
        assert!(nothing.is_err(), "nothing has happened");
        let version = create(&store, &pods, "b");
        feed.wait().await;
        assert_eq!(told(feed.take()), [r#"/pods None -> Some("b")"#]);
        store.commit(&pods, &ObjectKey::cluster("b"), Expect::At(version), None).unwrap();
        assert_eq!(told(feed.catch_up()), [r#"/pods Some("b") -> None"#], "without any bell");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_missed_is_listed_anew() {
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
        assert_eq!(told(feed.take()), [r#"/pods: ["a", "b", "c"]"#]);
        create(&store, &pods, "d");
        feed.wait().await;
        assert_eq!(told(feed.take()), [r#"/pods None -> Some("d")"#]);
    }

    /// A controller that is busy while history is compacted used to get a list alone: a ReplicaSet whose only pod went
    /// meanwhile never got another.
    #[tokio::test(start_paused = true)]
    async fn objects_that_are_known_are_compared_with_a_new_list() {
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
        assert_eq!(told(feed.take()), [r#"/pods: ["gone", "other", "same"]"#]);
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
        assert_eq!(told(feed.take()), expected);
        store.compact(store.revision());
        assert!(told(feed.catch_up()).is_empty(), "nothing has changed since");
        let version = create("last", "6");
        assert_eq!(told(feed.catch_up()), [r#"/pods None -> Some("last")"#]);
        delete("last", version);
        create("behind", "7");
        store.compact(store.revision());
        let expected = [r#"/pods Some("last") -> None"#, r#"/pods None -> Some("behind")"#];
        assert_eq!(told(feed.catch_up()), expected);
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
        assert_eq!(told(feed.take()), [r#"/pods None -> Some("b")"#]);
        feed.leave(&pods);
        create(&store, &pods, "c");
        assert!(told(feed.catch_up()).is_empty());
        store.compact(store.revision());
        assert!(feed.follow_from(&pods, before).is_err());
    }
}
