//! The history of one collection: every version of every object since the last compaction, and the order of changes.
//!
//! Reads at a version, lists that go on where they ended, and watches from the past all look at this one structure. It has
//! no lock and no clock; [`super::Store`] owns both.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use dogwatch_core::ObjectKey;

use super::encoded::Encoded;

/// A change to one object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Change {
    /// The version of the change.
    pub version: u64,
    /// The object before it; `None` when it came into being.
    pub before: Option<Arc<Encoded>>,
    /// The object after it; `None` when it is gone.
    pub after: Option<Arc<Encoded>>,
    /// What was before, with the version of the change: made once for all who are told so.
    last: OnceLock<Arc<Encoded>>,
}

impl Change {
    /// A change from one state to another.
    pub fn new(version: u64, before: Option<Arc<Encoded>>, after: Option<Arc<Encoded>>) -> Self {
        Self { version, before, after, last: OnceLock::new() }
    }

    /// The object before the change, with the version of it: what is shown to those who do not see it any more.
    pub fn last(&self) -> Option<&Arc<Encoded>> {
        let before = self.before.as_ref()?;
        Some(self.last.get_or_init(|| Arc::new(before.with_version(self.version))))
    }
}

/// What an object was from a version on; `None` from its deletion on.
type State = (u64, Option<Arc<Encoded>>);

/// One collection through time.
///
/// Invariants: the versions of an object and the changes are strictly increasing; every change that is kept has its states
/// kept, unless they are forgotten; nothing is kept of an object that was gone before `forgotten`, which is never before
/// `compacted`.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The states of each object, oldest first; `None` marks a deletion.
    objects: BTreeMap<ObjectKey, Vec<State>>,
    /// The changes since `compacted`, oldest first.
    changes: VecDeque<Arc<Change>>,
    /// How many changes were dropped from the front, so that a position in the log stays valid.
    dropped: u64,
    /// Nothing at or before this version can be asked for any more.
    compacted: u64,
    /// Nothing before this version can be listed any more; changes may still be kept.
    forgotten: u64,
}

/// The version asked for is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("version {asked} is no longer kept, {oldest} is the oldest")]
pub struct Compacted {
    /// What was asked for.
    pub asked: u64,
    /// What can be asked for.
    pub oldest: u64,
}

impl History {
    /// The object as it is now.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Encoded>> {
        self.objects.get(key)?.last()?.1.as_ref()
    }

    /// The objects at a version, in the order of their keys, behind a key where one is given.
    ///
    /// # Errors
    /// When the version is no longer kept.
    pub fn list_at<'a>(
        &'a self,
        version: u64,
        after: Option<&ObjectKey>,
    ) -> Result<impl Iterator<Item = &'a Arc<Encoded>> + use<'a>, Compacted> {
        let oldest = self.compacted.max(self.forgotten);
        if version < oldest {
            return Err(Compacted { asked: version, oldest });
        }
        let from = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone()));
        let states = self.objects.range((from, Bound::Unbounded));
        Ok(states.filter_map(move |(_, states)| {
            let kept = states.partition_point(|(at, _)| *at <= version);
            states[..kept].last()?.1.as_ref()
        }))
    }

    /// Writes a state, or a deletion. The version must be newer than all before.
    pub fn write(&mut self, key: &ObjectKey, version: u64, after: Option<Arc<Encoded>>) -> Arc<Change> {
        let states = self.objects.entry(key.clone()).or_default();
        let before = states.last().and_then(|(_, state)| state.clone());
        debug_assert!(states.last().is_none_or(|(at, _)| *at < version), "versions only grow");
        states.push((version, after.clone()));
        let change = Arc::new(Change::new(version, before, after));
        self.changes.push_back(Arc::clone(&change));
        change
    }

    /// The position in the log right behind a version: the first change that is newer.
    ///
    /// # Errors
    /// When changes newer than the version are no longer kept.
    pub fn position_after(&self, version: u64) -> Result<u64, Compacted> {
        if version < self.compacted {
            return Err(Compacted { asked: version, oldest: self.compacted });
        }
        let at = self.changes.partition_point(|it| it.version <= version);
        Ok(self.dropped + at as u64)
    }

    /// The change at a position: `Ok(None)` when it has not happened yet.
    ///
    /// # Errors
    /// When it is no longer kept.
    pub fn change(&self, position: u64) -> Result<Option<&Arc<Change>>, Compacted> {
        match position.checked_sub(self.dropped) {
            Some(at) => Ok(self.changes.get(usize::try_from(at).unwrap_or(usize::MAX))),
            None => Err(Compacted { asked: position, oldest: self.compacted }),
        }
    }

    /// How many changes are kept.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether no change is kept.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The oldest version that can be watched from.
    pub fn oldest(&self) -> u64 {
        self.compacted
    }

    /// Forgets the older half of the changes when there are more than that many, and all that only they need.
    pub fn shorten(&mut self, longest: usize) {
        if self.changes.len() > longest
            && let Some(middle) = self.changes.get(longest / 2).map(|it| it.version)
        {
            self.compact(middle);
        }
    }

    /// Forgets everything that only reads before this version need.
    pub fn compact(&mut self, version: u64) {
        if version <= self.compacted {
            return;
        }
        self.compacted = version;
        while self.changes.front().is_some_and(|it| it.version <= version) {
            self.changes.pop_front();
            self.dropped += 1;
        }
        self.forget(version);
    }

    /// Forgets all states that only lists before this version need. Watches can still begin before it.
    pub fn forget(&mut self, version: u64) {
        if version <= self.forgotten {
            return;
        }
        self.forgotten = version;
        self.objects.retain(|_, states| {
            // The newest state at or before the version is the one that a read at it sees.
            let first_kept = states.partition_point(|(at, _)| *at <= version).saturating_sub(1);
            states.drain(..first_kept);
            !matches!(states.as_slice(), [(at, None)] if *at <= version)
        });
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
        assert!(history.change(position + 1).expect("kept").is_none(), "not yet");
        assert!(history.change(0).is_err(), "no longer");
    }

    #[test]
    fn what_is_forgotten_cannot_be_listed_but_still_be_watched_from() {
        let mut history = History::default();
        for (name, version) in [("a", 1), ("b", 2), ("a", 3)] {
            history.write(&ObjectKey::cluster(name), version, Some(state(name, version)));
        }
        history.forget(3);
        assert_eq!(history.list_at(2, None).map(drop), Err(Compacted { asked: 2, oldest: 3 }));
        assert_eq!(versions(&history, 3), BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 2)]));
        let position = history.position_after(1).expect("kept");
        assert_eq!(history.change(position).expect("kept").map(|it| it.version), Some(2));
        history.compact(2);
        assert!(history.position_after(1).is_err() && history.list_at(3, None).is_ok());
    }

    #[test]
    fn a_log_that_grows_too_long_loses_its_older_half_and_no_object() {
        let mut history = History::default();
        for version in 1..=11 {
            let name = (version % 3).to_string();
            history.write(&ObjectKey::cluster(&name), version, Some(state(&name, version)));
            history.shorten(10);
        }
        assert_eq!((history.len(), history.oldest()), (5, 6));
        assert_eq!(versions(&history, 11).len(), 3);
    }

    proptest! {
        /// The promise of list and watch: a list at N and the changes behind it make a list at M, whatever was compacted before N.
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
                    (None, None) => prop_assert!(false, "a change of nothing"),
                }
                position += 1;
            }
            prop_assert_eq!(folded, versions(&history, to));
        }
    }
}
