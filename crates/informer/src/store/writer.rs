//! The writer of a store: applies deltas to the newest state, publishes the result and returns the
//! changes.

use std::cmp::Ordering;
use std::sync::Arc;

use dogwatch_core::{Object, ObjectKey, ResourceVersion};

use super::handle::{StateCell, Store, Transaction};
use super::lookup::KeyRange;
use super::relist::{Relist, Staged, is_same_object, is_same_state, usable_key};
use super::state::{Measure, Part, StoreState};
use crate::change::{Change, Deleted};
use crate::delta::Delta;
use crate::rewind_count::RewindCount;

/// The single owner of a store's contents. Dropping it closes the store; the last state stays
/// readable.
///
/// It applies deltas as follows:
/// - The objects of a list are staged, and only those that differ from the held ones: an object of
///   the same uid and version is dropped and the held `Arc` stays. `End` switches to the list
///   atomically. The changes are, first, the objects that the list lacks as [`Deleted::Missed`],
///   then the updates and additions in the order of the list. Only objects of the first list are
///   marked as initial. Watch events between `Begin` and `End` become part of the list;
///   `Abort`, or another `Begin`, discards all of it.
/// - `Applied` is ignored if the held state of that object has the same version or a newer one, so
///   replays are harmless; but not if its version is newer than the store's.
/// - The same key with another uid is another object: it is reported as a [`Deleted::Missed`], then
///   an addition.
/// - `Deleted` of a key that is not held is ignored. A deletion of the held object, by its uid,
///   always applies, whatever its version is. A deletion of another object with that key is ignored
///   if it is older than the held state, and otherwise implies that the held object is deleted too.
/// - An object whose newest state could not be decoded keeps its known state, and is in
///   [`Store::undecodable`] until it is decoded again or deleted. A list that contains such an
///   object without a name does not infer any deletion.
/// - The version follows objects, deletions and bookmarks, and never goes back; only the end of a
///   list may set it to an older one. It is unset until the first list is complete.
///
/// ```
/// use dogwatch_core::ResourceVersion;
/// use dogwatch_informer::{Change, Delta, StoreWriter};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("settings".to_owned());
/// let end = Delta::End { version: ResourceVersion::new("7"), undecodable: Vec::new() };
///
/// let mut writer = StoreWriter::new();
/// let store = writer.store();
/// let mut changes = Vec::new();
/// writer.apply([Delta::Begin, Delta::Item(map), end], &mut changes);
/// assert!(matches!(&changes[..], [Change::Added { initial: true, .. }]));
/// assert_eq!(store.version(), ResourceVersion::new("7"));
/// ```
#[derive(Debug)]
pub struct StoreWriter<T: Object> {
    cell: Arc<StateCell<T>>,
    /// The separately written ranges: one for all keys, or one for each namespace. Their keys are
    /// disjoint.
    partitions: Vec<Partition<T>>,
}

/// A range of keys that is listed and watched as one.
#[derive(Debug)]
struct Partition<T> {
    range: KeyRange,
    /// The list that is being received. While there is one, no object of the range changes.
    relist: Option<Relist<T>>,
    /// The number of times that the server's history was reset. If the shown list is from before
    /// that, equal versions do not prove equal states.
    rewinds: u64,
    /// The progress of this partition.
    progress: Progress,
}

#[derive(Debug, Default)]
struct Progress {
    /// Unset until the first list is complete.
    version: ResourceVersion,
    /// Set once a list was complete.
    synced: bool,
    /// The number of rewinds before the list that is shown.
    rewinds: u64,
}

impl<T> Partition<T> {
    fn new(namespace: Option<&str>) -> Self {
        let range = KeyRange::new(namespace);
        Self { range, relist: None, rewinds: 0, progress: Progress::default() }
    }
}

impl<T: Object> StoreWriter<T> {
    /// Creates an empty store.
    #[expect(clippy::new_without_default, reason = "a default writer would be a store that is never filled")]
    pub fn new() -> Self {
        Self { cell: Arc::new(StateCell::new(1)), partitions: vec![Partition::new(None)] }
    }

    /// Creates an empty store of several distinct namespaces, each of which is written separately:
    /// see [`Self::apply_to`].
    ///
    /// The store is synced when all namespaces are. Its version is the oldest version of its
    /// namespaces, and unset until all are synced.
    pub fn of_namespaces<'n>(namespaces: impl IntoIterator<Item = &'n str>) -> Self {
        let partitions: Vec<_> = namespaces.into_iter().map(|it| Partition::new(Some(it))).collect();
        Self { cell: Arc::new(StateCell::new(partitions.len())), partitions }
    }

    /// Measures the memory of each object with a function, which must return the same for the same
    /// object. Must be called before the first delta.
    #[must_use]
    pub(crate) fn measured(self, measure: Option<Measure<T>>) -> Self {
        let mut transaction = self.cell.begin();
        transaction.next.memory = measure.is_some().then_some(0);
        transaction.next.measure = measure;
        transaction.publish();
        self
    }

    /// Returns a handle for readers.
    pub fn store(&self) -> Store<T> {
        Store::new(self.cell.clone())
    }

    /// Applies deltas in order, publishes the result of all of them atomically, and appends the
    /// changes to `changes` in order.
    ///
    /// Larger batches are cheaper: tree nodes that several deltas of one call touch are copied only
    /// once. `Resync` changes nothing.
    pub fn apply(&mut self, deltas: impl IntoIterator<Item = Delta<T>>, changes: &mut Vec<Change<T>>) {
        self.apply_to(0, deltas, changes);
    }

    /// Applies deltas of one namespace, given by its index in the argument of
    /// [`Self::of_namespaces`]. A list replaces the objects of that namespace only, and objects of
    /// other namespaces are skipped.
    ///
    /// # Panics
    /// Panics if there is no such namespace.
    pub fn apply_to(
        &mut self,
        partition: usize,
        deltas: impl IntoIterator<Item = Delta<T>>,
        changes: &mut Vec<Change<T>>,
    ) {
        let mut transaction = self.cell.begin();
        let Partition { range, relist, rewinds, progress } = &mut self.partitions[partition];
        let mut edit = Edit { state: &mut transaction.next, range, progress, changes, touched: false };
        for delta in deltas {
            match (delta, &mut *relist) {
                (Delta::Begin, relist) => {
                    *relist = Some(Relist::new(edit.state, edit.range, *rewinds, edit.progress.rewinds));
                }
                (Delta::Abort, relist) => *relist = None,
                (Delta::Item(object) | Delta::Applied(object), Some(relist)) => {
                    relist.add(&edit.state.objects, object);
                }
                (Delta::Deleted(object), Some(relist)) => relist.remove(&edit.state.objects, object),
                (Delta::Dropped(key), Some(relist)) => relist.forget(&edit.state.objects, &key),
                (Delta::End { version, undecodable }, relist) => match relist.take() {
                    Some(relist) => edit.switch(relist, version, &undecodable),
                    None => tracing::warn!(%version, "ignoring the end of a list that did not begin"),
                },
                (Delta::Item(object) | Delta::Applied(object), None) => edit.applied(object),
                (Delta::Deleted(object), None) => edit.deleted(object),
                (Delta::Dropped(key), None) => edit.dropped(&key),
                (Delta::Undecodable { key, version }, None) => edit.undecodable(&key, version),
                (Delta::Nameless, Some(relist)) => relist.infer_nothing(),
                (Delta::Undecodable { .. }, Some(_)) | (Delta::Nameless, None) => {
                    tracing::warn!("ignoring an undecodable object that is out of order");
                }
                (Delta::Bookmark(version), None) => edit.move_to(&version),
                (Delta::Rewound, _) => {
                    *rewinds = rewinds.saturating_add(1);
                    self.cell.rewinds[partition].raise_to(*rewinds);
                }
                // The end of the list carries its version.
                (Delta::Bookmark(_), Some(_)) | (Delta::Resync, _) => {}
            }
        }
        if edit.touched {
            publish(transaction, &self.partitions);
        }
    }

    /// Removes all objects of a namespace, given by its index, as if an empty list had been
    /// received. One whose first list is not complete stays so, and one whose history was reset
    /// still waits for a list of the new one.
    pub(crate) fn clear(&mut self, partition: usize, changes: &mut Vec<Change<T>>) {
        let mut transaction = self.cell.begin();
        let Partition { range, relist, progress, .. } = &mut self.partitions[partition];
        if !progress.synced {
            return;
        }
        *relist = None;
        let mut edit = Edit { state: &mut transaction.next, range, progress, changes, touched: false };
        let (version, rewinds) = (edit.progress.version.clone(), edit.progress.rewinds);
        let nothing = Relist::new(edit.state, edit.range, rewinds, rewinds);
        edit.switch(nothing, version, &[]);
        publish(transaction, &self.partitions);
    }

    /// Returns the counts that the reflectors of the partitions share with the store, in order.
    pub(crate) fn rewind_counts(&self) -> Vec<RewindCount> {
        self.cell.rewinds.to_vec()
    }
}

/// Publishes the edited state with the progress of all partitions.
fn publish<T: Object>(mut transaction: Transaction<'_, T>, partitions: &[Partition<T>]) {
    let next = &mut transaction.next;
    let all = partitions.iter().map(|it| &it.progress);
    next.synced = all.clone().all(|it| it.synced);
    next.rewinds = all.clone().map(|it| it.rewinds).sum();
    next.version = match next.synced {
        true => all.map(|it| &it.version).reduce(older).cloned().unwrap_or_default(),
        false => ResourceVersion::UNSET,
    };
    if partitions.len() > 1 {
        let part = |it: &Partition<T>| Part {
            prefix: it.range.from.clone(),
            version: it.progress.version.clone(),
            rewinds: it.progress.rewinds,
        };
        next.parts = partitions.iter().map(part).collect();
    }
    transaction.publish();
}

fn older<'v>(one: &'v ResourceVersion, other: &'v ResourceVersion) -> &'v ResourceVersion {
    if other.is_older_than(one) { other } else { one }
}

impl<T: Object> Drop for StoreWriter<T> {
    fn drop(&mut self) {
        let mut transaction = self.cell.begin();
        transaction.next.closed = true;
        transaction.publish();
    }
}

/// An edit of the next state.
struct Edit<'e, T> {
    state: &'e mut StoreState<T>,
    /// The keys that may change.
    range: &'e KeyRange,
    progress: &'e mut Progress,
    changes: &'e mut Vec<Change<T>>,
    /// Set if there is something to publish.
    touched: bool,
}

impl<T: Object> Edit<'_, T> {
    /// Switches to the state of a complete list.
    fn switch(
        &mut self,
        relist: Relist<T>,
        version: ResourceVersion,
        undecodable: &[(ObjectKey, ResourceVersion)],
    ) {
        let (initial, rewinds) = (!self.progress.synced, relist.rewinds);
        for missed in relist.missing(&self.state.objects, undecodable) {
            let key = usable_key(&*missed).expect("held objects have keys");
            self.state.take(&key);
            self.changes.push(Change::Deleted(Deleted::Missed(missed)));
        }
        self.forget_unreadable(undecodable);
        // Nearly every step is one change, and a list may have many.
        self.changes.reserve(relist.steps());
        for staged in relist.into_staged() {
            match staged {
                Staged::Put(object) => self.put(object, initial),
                Staged::Gone(object) => self.gone(object, false),
                Staged::Nothing => {}
            }
        }
        *self.progress = Progress { version, synced: true, rewinds };
        self.touched = true;
    }

    /// Marks only these objects of the range as undecodable.
    fn forget_unreadable(&mut self, now: &[(ObjectKey, ResourceVersion)]) {
        let known = self.state.undecodable.clone();
        for (key, _) in known.walk_from(&self.range.from).take_while(|(key, _)| self.range.has(key)) {
            self.state.set_unreadable(key, None);
        }
        for (key, version) in now {
            let key = key.as_str().as_bytes();
            if self.range.has(key) {
                let version = if version.is_unset() { known.get(key) } else { Some(version) };
                self.state.set_unreadable(key, Some(version.cloned().unwrap_or_default()));
            }
        }
    }

    /// Records that the newest state of an object could not be decoded.
    fn undecodable(&mut self, key: &ObjectKey, version: ResourceVersion) {
        let key = key.as_str().as_bytes();
        if self.range.has(key) {
            self.touched |= self.state.set_unreadable(key, Some(version));
        }
    }

    /// Records that the newest state of an object was decoded, or that the object is deleted.
    fn readable(&mut self, key: &[u8]) {
        self.touched |= self.state.set_unreadable(key, None);
    }

    fn applied(&mut self, object: T) {
        let Some(key) = usable_key(&object).filter(|it| self.range.has(it)) else { return };
        self.readable(&key);
        let version = object.version();
        let is_known = !self.is_newer_than_store(&version)
            && self.state.objects.get(&key).is_some_and(|held| {
                is_same_state(&**held, &object)
                    || is_same_object(&**held, &object) && version.is_older_than(&held.version())
            });
        if !is_known {
            self.put(Arc::new(object), false);
        }
        self.move_to(&version);
    }

    fn deleted(&mut self, object: T) {
        let version = object.version();
        if let Some(key) = usable_key(&object).filter(|it| self.range.has(it)) {
            self.readable(&key);
        }
        let is_newer = self.is_newer_than_store(&version);
        self.gone(Arc::new(object), is_newer);
        self.move_to(&version);
    }

    /// Applies a deletion of which only the key is known.
    fn dropped(&mut self, key: &ObjectKey) {
        let text = key.as_str().as_bytes();
        if self.range.has(text) {
            self.readable(text);
        }
        if !self.range.has(text) || self.state.objects.get(text).is_none() {
            return;
        }
        if let Some(held) = self.state.take(text) {
            self.touched = true;
            self.changes.push(Change::Deleted(Deleted::Missed(held)));
        }
    }

    fn put(&mut self, object: Arc<T>, initial: bool) {
        let Some(key) = usable_key(&*object) else { return };
        self.touched = true;
        match self.state.put(&key, &object) {
            None => self.changes.push(Change::Added { object, initial }),
            Some(old) if is_same_object(&*old, &*object) => {
                self.changes.push(Change::Updated { old, new: object });
            }
            Some(old) => {
                self.changes.push(Change::Deleted(Deleted::Missed(old)));
                self.changes.push(Change::Added { object, initial });
            }
        }
    }

    fn gone(&mut self, last: Arc<T>, is_newer: bool) {
        let Some(key) = usable_key(&*last).filter(|it| self.range.has(it)) else { return };
        let Some(held) = self.state.objects.get(&key) else { return };
        let (uid, held_uid) = (last.header().uid, held.header().uid);
        let is_held = uid == held_uid && !uid.is_empty();
        if !is_held && !is_newer && last.version().is_older_than(&held.version()) {
            return;
        }
        let is_same = is_same_object(&**held, &*last);
        let Some(held) = self.state.take(&key) else { return };
        self.touched = true;
        let deleted = if is_same { Deleted::Seen(last) } else { Deleted::Missed(held) };
        self.changes.push(Change::Deleted(deleted));
    }

    /// Returns true if a version is newer than the store's, so that the held state cannot be newer.
    /// A held object with a newer version than the store's was kept by a list that could not show
    /// it, and belongs to a history that the server has since reset.
    fn is_newer_than_store(&self, version: &ResourceVersion) -> bool {
        self.progress.version.is_older_than(version)
    }

    /// Advances the version, unless the new one is unset or known to be older.
    fn move_to(&mut self, version: &ResourceVersion) {
        let held = &self.progress.version;
        let is_newer = !matches!(version.compare(held), Some(Ordering::Less | Ordering::Equal));
        if self.progress.synced && version.is_exact() && is_newer && version != held {
            self.progress.version = version.clone();
            self.touched = true;
        }
    }
}
