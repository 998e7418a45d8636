//! All objects of a collection with their kept states, sorted by key.
//!
//! The entries are in leaves of at most [`LARGEST_LEAF`], each reference-counted. A clone shares
//! all leaves, and a write copies only the leaf that it changes. So a list can walk a clone while
//! writers continue, and a fork costs one pointer per leaf. Each leaf knows the number of its
//! objects that exist now, so that counting a range adds up leaves instead of visiting objects.

use std::sync::Arc;

use dogwatch_core::ObjectKey;

use super::encoded::Encoded;

/// The maximum number of objects in a leaf: copying one takes microseconds, and 100,000 objects are
/// about a thousand leaves.
const LARGEST_LEAF: usize = 128;

/// The content of an object from a version on; `None` from its deletion on.
type State = (u64, Option<Arc<Encoded>>);

/// The objects of one collection, sorted by key.
///
/// Invariant: no leaf is empty, and the keys are strictly increasing within and across leaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    leaves: Vec<Arc<Leaf>>,
}

/// A contiguous run of objects.
#[derive(Clone, Debug, Default)]
struct Leaf {
    entries: Vec<(ObjectKey, States)>,
    /// The number of objects that exist now.
    live: usize,
}

/// The kept states of one object.
///
/// Invariant: the versions are strictly increasing, and `newest` has the largest.
#[derive(Clone, Debug)]
pub(super) struct States {
    newest: State,
    /// The states before `newest`, oldest first. Most objects have none, and then nothing is
    /// allocated.
    older: Vec<State>,
}

impl States {
    /// Returns the current object.
    pub(super) fn now(&self) -> Option<&Arc<Encoded>> {
        self.newest.1.as_ref()
    }

    /// Returns the version of the newest change.
    pub(super) fn changed_at(&self) -> u64 {
        self.newest.0
    }

    /// Returns the object at a version.
    pub(super) fn at(&self, version: u64) -> Option<&Arc<Encoded>> {
        if self.newest.0 <= version {
            return self.now();
        }
        let known = self.older.partition_point(|(at, _)| *at <= version);
        self.older[..known].last()?.1.as_ref()
    }

    /// Drops the states that only reads before a version need. Returns true if none is left.
    fn forget(&mut self, version: u64) -> bool {
        if self.newest.0 <= version {
            self.older = Vec::new();
            return self.newest.1.is_none();
        }
        // A read at the version sees the newest state at or before it.
        let known = self.older.partition_point(|(at, _)| *at <= version);
        let seen_as_absent = known > 0 && self.older[known - 1].1.is_none();
        self.older.drain(..if seen_as_absent { known } else { known.saturating_sub(1) });
        false
    }
}

impl Objects {
    /// Returns the states of an object.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&States> {
        let leaf = &self.leaves.get(self.leaf_of(key))?.entries;
        let at = leaf.binary_search_by(|(it, _)| it.cmp(key)).ok()?;
        Some(&leaf[at].1)
    }

    /// Adds a state, or a deletion, that is newer than all before. Returns the object before it.
    pub(super) fn write(
        &mut self,
        key: &ObjectKey,
        version: u64,
        after: Option<Arc<Encoded>>,
    ) -> Option<Arc<Encoded>> {
        let place = self.leaf_of(key);
        if self.leaves.is_empty() {
            self.leaves.push(Arc::default());
        }
        let leaf = Arc::make_mut(&mut self.leaves[place]);
        leaf.live += usize::from(after.is_some());
        let at = match leaf.entries.binary_search_by(|(it, _)| it.cmp(key)) {
            Ok(at) => {
                let states = &mut leaf.entries[at].1;
                debug_assert!(states.newest.0 < version, "versions are strictly increasing");
                let before = std::mem::replace(&mut states.newest, (version, after));
                let was = before.1.clone();
                leaf.live -= usize::from(was.is_some());
                states.older.push(before);
                return was;
            }
            Err(at) => at,
        };
        let states = States { newest: (version, after), older: Vec::new() };
        leaf.entries.insert(at, (key.clone(), states));
        if leaf.entries.len() > LARGEST_LEAF {
            // Keys that arrive in order fill their leaves instead of leaving each half empty.
            let in_order = at + 1 == leaf.entries.len();
            let tail = leaf.entries.split_off(if in_order { at } else { leaf.entries.len() / 2 });
            let tail = Leaf::of(tail);
            leaf.live -= tail.live;
            self.leaves.insert(place + 1, Arc::new(tail));
        }
        None
    }

    /// Drops the states of one object that only reads before a version need.
    pub(super) fn forget(&mut self, key: &ObjectKey, version: u64) {
        let place = self.leaf_of(key);
        let Some(shared) = self.leaves.get_mut(place) else { return };
        let Ok(at) = shared.entries.binary_search_by(|(it, _)| it.cmp(key)) else { return };
        let leaf = Arc::make_mut(shared);
        if leaf.entries[at].1.forget(version) {
            leaf.entries.remove(at);
            if leaf.entries.is_empty() {
                self.leaves.remove(place);
            }
        }
    }

    /// Returns the objects from the first whose key is not `before` the range. `before` must be
    /// monotonic: true for a prefix of the keys and false for the rest.
    pub(super) fn from<'a>(
        &'a self,
        before: &dyn Fn(&ObjectKey) -> bool,
    ) -> impl Iterator<Item = &'a (ObjectKey, States)> + use<'a> {
        let begun = self.leaves.partition_point(|it| before(it.first()));
        let first = begun.saturating_sub(1);
        let passed = self.leaves.get(first).map_or(0, |it| it.count_before(before));
        self.leaves[first..].iter().flat_map(|it| &it.entries).skip(passed)
    }

    /// Returns the number of objects that exist now and whose key is `before` a point in the order;
    /// `before` is as for [`Self::from`].
    pub(super) fn live_before(&self, before: &dyn Fn(&ObjectKey) -> bool) -> usize {
        let begun = self.leaves.partition_point(|it| before(it.first()));
        let Some((last, whole)) = self.leaves[..begun].split_last() else { return 0 };
        let passed = &last.entries[..last.count_before(before)];
        let in_last = passed.iter().filter(|(_, states)| states.now().is_some()).count();
        whole.iter().map(|it| it.live).sum::<usize>() + in_last
    }

    /// Returns the number of kept objects, including those that only older versions show.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.leaves.iter().map(|it| it.entries.len()).sum()
    }

    /// Returns true if no object exists now.
    pub(super) fn has_none(&self) -> bool {
        self.leaves.iter().all(|it| it.live == 0)
    }

    /// Returns the number of leaves that are not shared with another collection.
    #[cfg(test)]
    pub(super) fn unshared_leaves(&self, other: &Self) -> usize {
        let shared = |it: &&Arc<Leaf>| other.leaves.iter().any(|known| Arc::ptr_eq(known, it));
        self.leaves.iter().filter(|it| !shared(it)).count()
    }

    /// Returns the index of the leaf that has, or would have, a key.
    fn leaf_of(&self, key: &ObjectKey) -> usize {
        self.leaves.partition_point(|it| it.first() <= key).saturating_sub(1)
    }
}

impl Leaf {
    fn of(entries: Vec<(ObjectKey, States)>) -> Self {
        let live = entries.iter().filter(|(_, states)| states.now().is_some()).count();
        Self { entries, live }
    }

    fn first(&self) -> &ObjectKey {
        &self.entries.first().expect("no leaf is empty").0
    }

    fn count_before(&self, before: &dyn Fn(&ObjectKey) -> bool) -> usize {
        self.entries.partition_point(|(key, _)| before(key))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::encoded::Draft;
    use super::*;

    fn state(key: &ObjectKey, version: u64) -> Arc<Encoded> {
        let object = json!({ "metadata": { "name": key.name(), "namespace": key.namespace() } });
        Arc::new(Draft::new(&object, vec![]).expect("it has a name").at(version))
    }

    fn key(at: u16) -> ObjectKey {
        ObjectKey::namespaced(["a", "a-b", "b"][usize::from(at % 3)], &format!("o{at}"))
    }

    #[test]
    fn a_write_copies_one_leaf_of_what_a_clone_shares() {
        let mut objects = Objects::default();
        for at in 0..2000 {
            objects.write(&key(at), u64::from(at) + 1, Some(state(&key(at), u64::from(at) + 1)));
        }
        let shared = objects.clone();
        objects.write(&key(7), 3000, Some(state(&key(7), 3000)));
        assert_eq!((objects.unshared_leaves(&shared), objects.len()), (1, 2000));
        assert!(objects.leaves.len() > 15);
    }

    proptest! {
        /// Compares the leaves with a plain map: the same objects at each version, ranges and
        /// counts.
        #[test]
        fn leaves_hold_what_a_plain_map_holds(
            writes in proptest::collection::vec((0..400u16, any::<bool>()), 1..900),
            pivot in 0..400u16,
        ) {
            let (mut objects, mut model) = (Objects::default(), BTreeMap::new());
            for (version, (at, delete)) in (1..).zip(writes) {
                let key = key(at);
                let after = (!delete).then(|| state(&key, version));
                let before = objects.write(&key, version, after.clone());
                let known = model.insert(key.clone(), after).flatten();
                prop_assert_eq!(before.map(|it| it.version()), known.map(|it: Arc<Encoded>| it.version()));
                if delete && at % 2 == 0 {
                    objects.forget(&key, version);
                    model.remove(&key);
                }
            }
            let pivot = key(pivot);
            let versions = |states: Option<&Arc<Encoded>>| states.map(|it| it.version());
            let listed: Vec<_> =
                objects.from(&|it| *it < pivot).map(|(key, it)| (key.clone(), versions(it.now()))).collect();
            let expected: Vec<_> =
                model.range(pivot.clone()..).map(|(key, it)| (key.clone(), versions(it.as_ref()))).collect();
            prop_assert_eq!(listed, expected);
            let live = model.range(..pivot.clone()).filter(|(_, it)| it.is_some()).count();
            prop_assert_eq!(objects.live_before(&|it| *it < pivot), live);
            for (key, expected) in &model {
                prop_assert_eq!(versions(objects.get(key).and_then(States::now)), versions(expected.as_ref()));
            }
            prop_assert!(objects.leaves.iter().all(|it| !it.entries.is_empty()));
            prop_assert!(objects.leaves.iter().all(|it| it.live == Leaf::of(it.entries.clone()).live));
        }
    }
}
