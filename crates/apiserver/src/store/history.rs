//! The history of one collection: all versions of every object since the last compaction, and the
//! order of changes.
//!
//! Reads at a version, continued lists, and watches from the past all use this one structure. It
//! has no lock and no clock; [`super::Store`] has the lock, and its callers know the time.

use std::collections::VecDeque;
use std::sync::Arc;

use dogwatch_core::ObjectKey;

use super::encoded::Encoded;
use super::known_state::KnownState;
use super::log::{Change, Log};
use super::objects::Objects;

/// One collection through time. A clone shares everything that is not written afterwards.
///
/// Invariants: the versions of an object are strictly increasing, and those of the changes never
/// decrease; the states of every kept change are kept, unless they are forgotten; nothing is kept
/// of an object that was deleted before `forgotten`, which is never before `compacted`.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The states of each object since `forgotten`.
    objects: Objects,
    /// The changes since `compacted`.
    log: Log,
    /// The oldest version that watches can start from.
    compacted: u64,
    /// The oldest version that can be listed; changes before it may still be kept.
    forgotten: u64,
    /// The versions strictly between two that cannot be read, oldest first. Always empty but for a
    /// copy of another server, which did not see every change: see [`Self::skip`].
    gaps: VecDeque<(u64, u64)>,
    /// Versions whose state is that of a revision, which is not before `forgotten`: in the order of
    /// these versions, each with the revision. Always empty but for a copy of another server, which
    /// may not have seen the versions themselves: see [`Self::confirm`].
    confirmed: VecDeque<(u64, u64)>,
}

/// The maximum number of gaps.
const MAX_GAPS: usize = 64;

/// The maximum number of confirmed versions. Each takes a list of the other server, so they last
/// for the minute until its next bookmark, in which clients read page after page.
const MAX_CONFIRMED: usize = 2048;

/// The error of reading a version that is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("version {asked} is no longer kept, {oldest} is the oldest")]
pub struct Compacted {
    /// The requested version.
    pub asked: u64,
    /// The oldest version that is available.
    pub oldest: u64,
}

impl History {
    /// Creates an empty collection that starts at a version: nothing before it can be read.
    pub fn beginning_at(version: u64) -> Self {
        Self { compacted: version, forgotten: version, ..Self::default() }
    }

    /// Returns true if no version can be read: the collection is closed until it begins again.
    pub fn is_closed(&self) -> bool {
        self.compacted == u64::MAX
    }

    /// Returns the current object.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Encoded>> {
        self.objects.get(key)?.now()
    }

    /// Returns the version of the newest change of an object, also if that is its deletion.
    pub fn changed_at(&self, key: &ObjectKey) -> Option<u64> {
        self.objects.get(key).map(|it| it.changed_at())
    }

    /// Returns the number of objects that exist now.
    pub fn object_count(&self) -> usize {
        self.objects.live_before(&|_| true)
    }

    /// Returns the object at a version.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is no longer kept.
    pub fn get_at(&self, version: u64, key: &ObjectKey) -> Result<Option<&Arc<Encoded>>, Compacted> {
        self.check_listed(version)?;
        Ok(self.objects.get(key).and_then(|it| it.at(version)))
    }

    /// Returns the objects at a version, sorted by key, after a key if one is given.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is no longer kept.
    pub fn list_at<'a>(
        &'a self,
        version: u64,
        after: Option<&ObjectKey>,
    ) -> Result<impl Iterator<Item = &'a Arc<Encoded>> + use<'a>, Compacted> {
        self.list_in(version, None, after)
    }

    /// Returns the objects of one or all namespaces at a version, sorted by key, after a key if one
    /// is given. The cost depends on the result, not on the size of the collection.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is no longer kept.
    pub fn list_in<'a>(
        &'a self,
        version: u64,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
    ) -> Result<impl Iterator<Item = &'a Arc<Encoded>> + use<'a>, Compacted> {
        self.check_listed(version)?;
        let range = Range::of(namespace, after);
        let entries = self.objects.from(&|key| range.begins_behind(key));
        let inside = entries.take_while(move |(key, _)| !range.ends_before(key));
        Ok(inside.filter_map(move |(_, states)| states.at(version)))
    }

    /// Returns the number of objects that [`Self::list_in`] returns. Costs much less than listing
    /// them.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is no longer kept.
    pub fn count_in(
        &self,
        version: u64,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
    ) -> Result<usize, Compacted> {
        self.check_listed(version)?;
        let range = Range::of(namespace, after);
        let begin = self.objects.live_before(&|key| range.begins_behind(key));
        let end = self.objects.live_before(&|key| !range.ends_before(key));
        let current = end.saturating_sub(begin);
        // The current count, minus the objects created since, plus those deleted since.
        if self.log.count_after(version) > current.max(LISTED_INSTEAD) {
            return Ok(self.list_in(version, namespace, after)?.count());
        }
        let since = self.log.after(version).filter(|it| it.key().is_some_and(|key| range.has(key)));
        let (created, deleted) = since.fold((0, 0), |(created, deleted), it| {
            (created + usize::from(it.before.is_none()), deleted + usize::from(it.after.is_none()))
        });
        Ok((current + deleted).saturating_sub(created))
    }

    /// Writes a state, or a deletion. The version must be newer than all before.
    pub fn write(&mut self, key: &ObjectKey, version: u64, after: Option<Arc<Encoded>>) -> Arc<Change> {
        self.write_with_last(key, version, after, None)
    }

    /// Writes as [`Self::write`]. `last` is the last state of a deleted object, if that is known.
    /// The version may be that of other objects.
    pub fn write_with_last(
        &mut self,
        key: &ObjectKey,
        version: u64,
        after: Option<Arc<Encoded>>,
        last: Option<Arc<Encoded>>,
    ) -> Arc<Change> {
        let before = self.objects.write(key, version, after.clone());
        let change = Change::new(version, before, after);
        let change = Arc::new(match last {
            Some(last) => change.with_last(last),
            None => change,
        });
        self.log.push(Arc::clone(&change));
        change
    }

    /// Adds an object that existed already when the collection began.
    pub fn fill(&mut self, object: Arc<Encoded>) {
        let key = object.key().clone();
        self.objects.write(&key, self.compacted, Some(object));
    }

    /// Excludes the versions between two, which is not the same as compaction: older ones can still
    /// be read.
    pub fn skip(&mut self, from: u64, to: u64) {
        if from.saturating_add(1) < to {
            self.gaps.push_back((from, to));
        }
        if self.gaps.len() > MAX_GAPS
            && let Some((_, end)) = self.gaps.front().copied()
        {
            self.compact(end);
        }
    }

    /// Records that the state at `version` is that of `revision`, an earlier version.
    pub fn confirm(&mut self, version: u64, revision: u64) {
        match self.confirmed.binary_search_by_key(&version, |it| it.0) {
            // The state at the later revision is kept for longer.
            Ok(at) => self.confirmed[at].1 = self.confirmed[at].1.max(revision),
            Err(at) => self.confirmed.insert(at, (version, revision)),
        }
        if self.confirmed.len() > MAX_CONFIRMED {
            self.confirmed.pop_front();
        }
    }

    /// Takes the confirmed versions of an earlier state of this history.
    pub fn take_confirmed(&mut self, earlier: &Self) {
        let kept = earlier.confirmed.iter().filter(|(_, revision)| *revision >= self.forgotten);
        self.confirmed = kept.copied().collect();
    }

    /// Returns the revision whose state a version has; `None` if that is not known. `newest` is the
    /// newest revision.
    pub fn revision_of(&self, version: u64, newest: u64) -> Option<u64> {
        let found = self.confirmed.binary_search_by_key(&version, |it| it.0).ok();
        // First, because the version may be in a gap.
        found.map(|at| self.confirmed[at].1).or((version <= newest).then_some(version))
    }

    /// Returns the newest state that is known. `newest` is the newest revision.
    pub fn known(&self, newest: u64) -> KnownState {
        match self.confirmed.back() {
            Some((version, snapshot)) if *version > newest => {
                KnownState { revision: newest, version: *version, snapshot: *snapshot }
            }
            _ => KnownState::at(newest),
        }
    }

    /// Returns the position in the log after a version: that of the first newer change.
    ///
    /// # Errors
    ///
    /// Returns an error if changes newer than the version are no longer kept.
    pub fn position_after(&self, version: u64) -> Result<u64, Compacted> {
        if version < self.compacted {
            return Err(Compacted { asked: version, oldest: self.compacted });
        }
        self.check_seen(version)?;
        Ok(self.log.position_after(version))
    }

    /// Returns the change at a position: `Ok(None)` if it has not happened yet.
    ///
    /// # Errors
    ///
    /// Returns an error if it is no longer kept.
    pub fn change(&self, position: u64) -> Result<Option<&Arc<Change>>, Compacted> {
        self.log.get(position).ok_or(Compacted { asked: position, oldest: self.compacted })
    }

    /// Returns the number of kept changes.
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// Returns true if no change is kept.
    pub fn is_empty(&self) -> bool {
        self.log.len() == 0
    }

    /// Returns an upper bound of the bytes that the kept changes hold. States that neighbouring
    /// changes share count twice.
    pub fn size(&self) -> usize {
        self.log.size()
    }

    /// Returns true if no object exists now.
    pub fn has_no_objects(&self) -> bool {
        self.objects.has_none()
    }

    /// Returns the oldest version that can be watched from.
    pub fn oldest(&self) -> u64 {
        self.compacted
    }

    /// Drops the oldest changes if there are more than `most`, or if they are larger than
    /// `largest`, and the states that only they need. Half of the limit is left, so that most
    /// writes have nothing to drop.
    pub fn shorten(&mut self, most: usize, largest: usize) {
        if (self.log.len() > most || self.log.size() > largest)
            && let Some(version) = self.log.excess(most / 2, largest / 2)
        {
            self.compact(version);
        }
    }

    /// Returns true if [`Self::trim`] would drop anything.
    pub fn can_trim(&self, version: u64) -> bool {
        self.log.oldest().is_some_and(|it| it.version <= version)
    }

    /// Drops the changes up to this version, and the states that only they need. A watch can still
    /// start at an older version if nothing has changed since: a client that follows a quiet
    /// collection does not have to list it again.
    pub fn trim(&mut self, version: u64) {
        self.forget(version);
        if let Some(dropped) = self.log.drop_to(version) {
            self.compacted = self.compacted.max(dropped);
        }
    }

    /// Drops everything that only reads before this version need.
    pub fn compact(&mut self, version: u64) {
        if version <= self.compacted {
            return;
        }
        self.trim(version);
        self.compacted = version;
        self.gaps.retain(|(_, to)| *to > version);
    }

    /// Drops all states that only lists before this version need.
    fn forget(&mut self, version: u64) {
        if version <= self.forgotten {
            return;
        }
        // Every replaced state has a change, and changes are kept for longer than states.
        for change in self.log.after(self.forgotten).take_while(|it| it.version <= version) {
            if let Some(key) = change.key() {
                self.objects.forget(key, version);
            }
        }
        self.forgotten = version;
        self.confirmed.retain(|(_, revision)| *revision >= version);
    }

    fn check_listed(&self, version: u64) -> Result<(), Compacted> {
        let oldest = self.compacted.max(self.forgotten);
        if version < oldest { Err(Compacted { asked: version, oldest }) } else { self.check_seen(version) }
    }

    /// Returns an error if the version is in a gap.
    fn check_seen(&self, version: u64) -> Result<(), Compacted> {
        let gap = self.gaps.iter().find(|(from, to)| *from < version && version < *to);
        gap.map_or(Ok(()), |(_, to)| Err(Compacted { asked: version, oldest: *to }))
    }
}

/// The number of changes since a version up to which going through them is cheap, whatever the size
/// of the collection.
const LISTED_INSTEAD: usize = 1000;

/// A range of keys: those of a namespace, after a key.
struct Range {
    /// The prefix of all keys of the namespace.
    prefix: Option<String>,
    after: Option<ObjectKey>,
}

impl Range {
    fn of(namespace: Option<&str>, after: Option<&ObjectKey>) -> Self {
        Self { prefix: namespace.map(|it| format!("{it}/")), after: after.cloned() }
    }

    /// Returns true if the key is before the range.
    fn begins_behind(&self, key: &ObjectKey) -> bool {
        self.after.as_ref().is_some_and(|it| key <= it)
            || self.prefix.as_deref().is_some_and(|it| key.as_str() < it)
    }

    /// Returns true if the key is after the range. Keys with one prefix are contiguous.
    fn ends_before(&self, key: &ObjectKey) -> bool {
        self.prefix.as_deref().is_some_and(|it| key.as_str() >= it && !key.as_str().starts_with(it))
    }

    fn has(&self, key: &ObjectKey) -> bool {
        !self.begins_behind(key) && !self.ends_before(key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::encoded::Draft;
    use super::*;

    fn state(name: &str, version: u64) -> Arc<Encoded> {
        let object = json!({ "metadata": { "name": name } });
        Arc::new(Draft::new(&object, vec![]).expect("it has a name").at(version))
    }

    fn versions(history: &History, version: u64) -> BTreeMap<String, u64> {
        let listed = history.list_at(version, None).expect("kept");
        listed.map(|it| (it.key().to_string(), it.version())).collect()
    }

    #[test]
    fn a_read_sees_the_state_at_its_version() {
        let mut history = History::default();
        let key = ObjectKey::cluster("a");
        history.write(&key, 5, Some(state("a", 5)));
        history.write(&key, 7, Some(state("a", 7)));
        history.write(&key, 9, None);
        for (at, expected) in
            [(4, None), (5, Some(5)), (6, Some(5)), (7, Some(7)), (8, Some(7)), (9, None), (99, None)]
        {
            assert_eq!(versions(&history, at).get("a").copied(), expected, "at {at}");
        }
        assert!(history.get(&key).is_none());
    }

    #[test]
    fn compaction_keeps_what_a_read_at_its_version_sees_and_drops_the_rest() {
        let mut history = History::default();
        for (name, version) in [("a", 1), ("b", 2), ("a", 3)] {
            history.write(&ObjectKey::cluster(name), version, Some(state(name, version)));
        }
        history.write(&ObjectKey::cluster("b"), 4, None);
        history.compact(4);
        assert_eq!(versions(&history, 4), BTreeMap::from([("a".to_owned(), 3)]));
        assert!(history.list_at(3, None).is_err() && history.position_after(3).is_err());
        assert!(history.is_empty() && history.objects.len() == 1, "a deleted object leaves nothing behind");
        history.write(&ObjectKey::cluster("c"), 5, Some(state("c", 5)));
        let position = history.position_after(4).expect("kept");
        assert_eq!(history.change(position).expect("kept").map(|it| it.version), Some(5));
        assert!(history.change(position + 1).expect("kept").is_none(), "it has not happened yet");
        assert!(history.change(0).is_err(), "it is no longer kept");
    }

    #[test]
    fn a_trimmed_collection_can_be_watched_from_its_last_change_on() {
        let mut history = History::default();
        for (name, version) in [("a", 1), ("b", 2), ("a", 3), ("a", 9)] {
            history.write(&ObjectKey::cluster(name), version, Some(state(name, version)));
        }
        assert!(!history.can_trim(0) && history.can_trim(1));
        history.trim(7);
        assert_eq!(history.list_at(6, None).map(drop), Err(Compacted { asked: 6, oldest: 7 }));
        assert_eq!(versions(&history, 7), BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 2)]));
        assert_eq!(history.position_after(2), Err(Compacted { asked: 2, oldest: 3 }));
        let position = history.position_after(3).expect("nothing happened between 3 and 7");
        assert_eq!(history.change(position).expect("kept").map(|it| it.version), Some(9));
        assert!(!history.can_trim(8));
    }

    #[test]
    fn a_log_that_is_too_long_loses_its_older_half_and_no_object() {
        let mut history = History::default();
        for version in 1..=11 {
            let name = (version % 3).to_string();
            history.write(&ObjectKey::cluster(&name), version, Some(state(&name, version)));
            history.shorten(10, usize::MAX);
        }
        assert_eq!((history.len(), history.oldest()), (5, 6));
        assert_eq!(versions(&history, 11).len(), 3);
    }

    /// Regression test: 300 versions of one ConfigMap of 1 MB took 300 MB for as long as the server
    /// ran, because only the number of changes was limited.
    #[test]
    fn a_log_of_large_objects_is_bounded_by_their_size() {
        let (mut history, largest) = (History::default(), 1 << 20);
        for version in 1..=500 {
            let data = "x".repeat(if version % 2 == 0 { 100_000 } else { 10 });
            let object = json!({ "metadata": { "name": "a" }, "data": data });
            let object = Draft::new(&object, vec![]).expect("it has a name").at(version);
            history.write(&ObjectKey::cluster("a"), version, Some(Arc::new(object)));
            history.shorten(100_000, largest);
            assert!(history.size() <= largest, "{} at {version}", history.size());
        }
        assert!(history.len() >= 4, "{}", history.len());
        assert_eq!(versions(&history, 500), BTreeMap::from([("a".to_owned(), 500)]));
    }

    /// A client that reads in protobuf must not make the log larger, whenever it reads.
    #[test]
    fn the_size_of_a_log_includes_protobuf_before_and_after_it_is_requested() {
        let (mut history, largest) = (History::default(), 1 << 20);
        let mut kept = 0;
        for version in 1..=300 {
            let object = json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": "a" },
                "data": { "k": "x".repeat(20_000) } });
            let object = Arc::new(Draft::new(&object, vec![]).expect("it has a name").at(version));
            let size = history.size();
            history.write(&ObjectKey::cluster("a"), version, Some(Arc::clone(&object)));
            assert!(history.size() - size >= 40_000, "JSON and protobuf");
            let before = history.size();
            kept += usize::from(version % 3 == 0 && object.protobuf().is_ok() && object.is_in_protobuf());
            assert_eq!(history.size(), before);
            history.shorten(100_000, largest);
            assert!(history.size() <= largest, "{} at {version}", history.size());
        }
        assert_eq!(kept, 100);
        history.compact(300);
        assert_eq!(history.size(), 0);
    }

    proptest! {
        /// The contract of list and watch: a list at N plus the changes up to M equals a list at M,
        /// whatever was compacted before N.
        #[test]
        fn list_at_n_plus_the_changes_up_to_m_is_list_at_m(
            writes in proptest::collection::vec((0..6u8, any::<bool>()), 1..60),
            split in any::<prop::sample::Index>(),
            end in any::<prop::sample::Index>(),
            compact in any::<prop::sample::Index>(),
        ) {
            let mut history = History::default();
            for (at, (name, delete)) in writes.iter().enumerate() {
                let (name, version) = (name.to_string(), at as u64 + 1);
                let after = (!delete).then(|| state(&name, version));
                if after.is_some() || history.get(&ObjectKey::cluster(&name)).is_some() {
                    history.write(&ObjectKey::cluster(&name), version, after);
                }
            }
            let mut points = [split, end, compact].map(|it| it.index(writes.len() + 1) as u64);
            points.sort_unstable();
            let [compacted, from, to] = points;
            history.compact(compacted);
            let mut folded = versions(&history, from);
            let mut position = history.position_after(from).expect("kept");
            let mut last = from;
            while let Some(change) = history.change(position).expect("kept") {
                if change.version > to {
                    break;
                }
                prop_assert!(change.version > last, "strictly increasing");
                last = change.version;
                match (&change.before, &change.after) {
                    (_, Some(after)) => { folded.insert(after.key().to_string(), after.version()); }
                    (Some(before), None) => { folded.remove(before.key().as_str()); }
                    (None, None) => prop_assert!(false, "a change has a state before or after"),
                }
                position += 1;
            }
            prop_assert_eq!(folded, versions(&history, to));
        }

        /// Compares lists and counts of a namespace with those of all namespaces, at every kept
        /// version.
        #[test]
        fn a_list_of_a_namespace_is_the_filtered_list_of_all(
            writes in proptest::collection::vec((0..4usize, 0..8u8, any::<bool>()), 1..80),
            compact in any::<prop::sample::Index>(),
            after in proptest::option::of((0..4usize, 0..8u8)),
        ) {
            let key = |space: usize, name: u8| {
                ObjectKey::namespaced(["a", "a-b", "a.b", "b"][space], &name.to_string())
            };
            let mut history = History::default();
            for (version, (space, name, delete)) in (1..).zip(&writes) {
                let key = key(*space, *name);
                let object = json!({ "metadata": { "name": key.name(), "namespace": key.namespace() } });
                let object = Draft::new(&object, vec![]).expect("it has a name").at(version);
                let after = (!delete).then(|| Arc::new(object));
                if after.is_some() || history.get(&key).is_some() {
                    history.write(&key, version, after);
                }
            }
            let oldest = compact.index(writes.len()) as u64;
            history.compact(oldest);
            let after = after.map(|(space, name)| key(space, name));
            for version in oldest..=writes.len() as u64 {
                for namespace in [None, Some("a"), Some("a-b"), Some("a.b"), Some("b"), Some("c")] {
                    let inside = |it: &&Arc<Encoded>| {
                        namespace.is_none_or(|wanted| it.key().namespace() == Some(wanted))
                            && after.as_ref().is_none_or(|after| it.key() > after)
                    };
                    let expected: Vec<_> =
                        history.list_at(version, None).expect("kept").filter(inside).map(|it| it.key()).collect();
                    let listed = history.list_in(version, namespace, after.as_ref()).expect("kept");
                    prop_assert_eq!(&listed.map(|it| it.key()).collect::<Vec<_>>(), &expected);
                    prop_assert_eq!(history.count_in(version, namespace, after.as_ref()), Ok(expected.len()));
                }
            }
        }
    }
}
