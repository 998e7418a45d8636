//! The merged backlog of a handler that is behind: consecutive updates of one object become one
//! update, and nothing else is merged.
//!
//! A handler that reads a merged backlog receives a shorter history that could have happened: every
//! addition with the state in which the object was added, one update from the oldest state that it
//! did not see to the newest, and every deletion. So it always learns that an object was created,
//! changed or deleted, with the first and last known labels and owners of the object; only the
//! states in between are dropped. An addition and a deletion do not cancel out: the writer or owner
//! of the object waits for its deletion even if the addition was never delivered.
//!
//! [`PendingChanges`] implements the rule, [`MergedChanges`] is the queue that applies it. Neither
//! knows of locks, tasks or handlers.

use std::collections::VecDeque;
use std::sync::Arc;

use dogwatch_core::Object;
use hashbrown::HashTable;
use tokio::time::Instant;

use crate::change::{Change, Deleted};

/// The pending changes of one object, at most from one addition to its deletion: a later object of
/// the same name has changes of its own.
#[derive(Debug)]
struct PendingChanges<T> {
    /// The state in which it was added, and whether the addition is an initial one.
    added: Option<(Arc<T>, bool)>,
    /// The oldest state that the handler would otherwise not see, and the newest.
    updated: Option<(Arc<T>, Arc<T>)>,
    deleted: Option<Deleted<T>>,
}

impl<T: Object> PendingChanges<T> {
    fn new(change: &Change<T>) -> Self {
        let mut pending = Self { added: None, updated: None, deleted: None };
        match change {
            Change::Added { object, initial } => pending.added = Some((Arc::clone(object), *initial)),
            Change::Updated { old, new } => pending.updated = Some((Arc::clone(old), Arc::clone(new))),
            Change::Deleted(last) => pending.deleted = Some(last.clone()),
        }
        pending
    }

    /// Merges a later change of the same object. Never called after a deletion.
    fn merge(&mut self, change: &Change<T>) {
        match change {
            Change::Deleted(last) => self.deleted = Some(last.clone()),
            // The store reports no addition of an object that it already shows. If it did, this
            // would still be a correct history.
            Change::Added { object: new, .. } | Change::Updated { new, .. } => match &mut self.updated {
                Some((_, newest)) => *newest = Arc::clone(new),
                None => {
                    let known = Arc::clone(self.newest());
                    // A resync of a state that is already pending adds nothing.
                    if !Arc::ptr_eq(&known, new) {
                        self.updated = Some((known, Arc::clone(new)));
                    }
                }
            },
        }
    }

    fn newest(&self) -> &Arc<T> {
        let deleted = self.deleted.as_ref().map(Deleted::last);
        let updated = || self.updated.as_ref().map(|(_, new)| new);
        let added = || self.added.as_ref().map(|(object, _)| object);
        deleted.or_else(updated).or_else(added).expect("it is created with a change")
    }

    /// Returns true if a change is of an object with the same name.
    fn concerns(&self, change: &Change<T>) -> bool {
        let known = match change {
            Change::Updated { old, .. } => old,
            other => other.object(),
        };
        // Nearly always the pending state itself, which saves a comparison of names.
        Arc::ptr_eq(known, self.newest()) || {
            let (one, other) = (self.newest().header(), known.header());
            one.name == other.name && one.namespace == other.namespace
        }
    }

    fn len(&self) -> usize {
        usize::from(self.added.is_some())
            + usize::from(self.updated.is_some())
            + usize::from(self.deleted.is_some())
    }

    /// Appends the changes to `to`, in order.
    fn report(self, to: &mut Vec<Change<T>>) {
        to.extend(self.added.map(|(object, initial)| Change::Added { object, initial }));
        to.extend(self.updated.map(|(old, new)| Change::Updated { old, new }));
        to.extend(self.deleted.map(Change::Deleted));
    }
}

/// The pending changes by object, in the order in which each object first had one.
///
/// It holds at most three changes for each object that existed since the handler last took changes.
///
/// Invariants: every slot whose object is not deleted has exactly one entry in `entries`, found by
/// the key of its object, and no other slot has one. So a name has at most one entry, and the slots
/// of earlier objects of that name are before it.
#[derive(Debug)]
pub(crate) struct MergedChanges<T> {
    slots: VecDeque<Slot<T>>,
    /// The number of the first slot; the others follow consecutively.
    first: u64,
    /// The slots that can still be merged into, by the hash of the object's key.
    entries: HashTable<Entry>,
    /// The number of changes in the slots.
    changes: usize,
}

#[derive(Debug)]
struct Slot<T> {
    pending: PendingChanges<T>,
    /// The sequence number of the object's first pending change.
    sequence: u64,
    /// The hash of the object's key.
    hash: u64,
    /// The time of the oldest change that was merged here.
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    /// The number of the slot.
    slot: u64,
}

impl<T> Default for MergedChanges<T> {
    fn default() -> Self {
        Self { slots: VecDeque::new(), first: 0, entries: HashTable::new(), changes: 0 }
    }
}

impl<T: Object> MergedChanges<T> {
    /// Adds a change. `sequence` is its sequence number, which must not decrease, and `hash` is
    /// that of its object's key.
    pub(crate) fn add(&mut self, sequence: u64, hash: u64, change: &Change<T>, since: Instant) {
        let Self { slots, first, entries, changes } = self;
        let concerned = |it: &Entry| {
            let slot = slots.get((it.slot - *first) as usize).filter(|_| it.hash == hash);
            slot.is_some_and(|slot| slot.pending.concerns(change))
        };
        let deleted = matches!(change, Change::Deleted(_));
        match entries.find_entry(hash, concerned) {
            Ok(entry) => {
                let slot = &mut slots[(entry.get().slot - *first) as usize];
                let before = slot.pending.len();
                slot.pending.merge(change);
                *changes += slot.pending.len() - before;
                if deleted {
                    entry.remove();
                }
            }
            Err(_) => {
                if !deleted {
                    let slot = *first + slots.len() as u64;
                    entries.insert_unique(hash, Entry { hash, slot }, |it| it.hash);
                }
                slots.push_back(Slot { pending: PendingChanges::new(change), sequence, hash, since });
                *changes += 1;
            }
        }
    }

    /// Takes all changes of the objects that wait longest, at most `limit` objects.
    pub(crate) fn take(&mut self, limit: usize, to: &mut Vec<Change<T>>) {
        for _ in 0..limit {
            let Some(slot) = self.slots.pop_front() else { return };
            let number = self.first;
            self.first += 1;
            self.changes -= slot.pending.len();
            if let Ok(entry) = self.entries.find_entry(slot.hash, |it| it.slot == number) {
                entry.remove();
            }
            slot.pending.report(to);
        }
    }

    /// Appends a backlog of later changes, merging the two.
    pub(crate) fn append(&mut self, later: Self) {
        let mut changes = Vec::with_capacity(3);
        for Slot { pending, sequence, hash, since } in later.slots {
            pending.report(&mut changes);
            for change in changes.drain(..) {
                self.add(sequence, hash, &change, since);
            }
        }
    }

    /// Returns the number of pending changes.
    pub(crate) fn len(&self) -> usize {
        self.changes
    }

    /// Returns the sequence number and the time of the object that waits longest.
    pub(crate) fn front(&self) -> Option<(u64, Instant)> {
        self.slots.front().map(|slot| (slot.sequence, slot.since))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap as Map;
    use std::hash::BuildHasher;

    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;

    fn map(name: &str, version: u64) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.metadata.namespace = Some("default".to_owned());
        map.metadata.resource_version = Some(version.to_string());
        Arc::new(map)
    }

    /// Parses a change: `+1` adds version 1, `!1` adds it as part of the initial list, `1>2`
    /// updates, `-2` deletes, `~2` deletes unseen.
    fn change(name: &str, text: &str) -> Change<ConfigMap> {
        let at = |text: &str| map(name, text.parse().expect("a version"));
        match text.split_at(1) {
            ("+", it) => Change::Added { object: at(it), initial: false },
            ("!", it) => Change::Added { object: at(it), initial: true },
            ("-", it) => Change::Deleted(Deleted::Seen(at(it))),
            ("~", it) => Change::Deleted(Deleted::Missed(at(it))),
            _ => {
                let (old, new) = text.split_once('>').expect("old and new");
                Change::Updated { old: at(old), new: at(new) }
            }
        }
    }

    fn text(change: &Change<ConfigMap>) -> String {
        let version = |it: &Arc<ConfigMap>| it.metadata.resource_version.clone().unwrap_or_default();
        match change {
            Change::Added { object, initial: false } => format!("+{}", version(object)),
            Change::Added { object, initial: true } => format!("!{}", version(object)),
            Change::Updated { old, new } => format!("{}>{}", version(old), version(new)),
            Change::Deleted(Deleted::Seen(last)) => format!("-{}", version(last)),
            Change::Deleted(Deleted::Missed(last)) => format!("~{}", version(last)),
        }
    }

    fn merged_changes(changes: &[Change<ConfigMap>]) -> MergedChanges<ConfigMap> {
        let hasher = hashbrown::DefaultHashBuilder::default();
        let mut merged_changes = MergedChanges::default();
        for (sequence, change) in changes.iter().enumerate() {
            // Few distinct hashes, so that different objects collide.
            let hash = hasher.hash_one(change.object().header().name) % 3;
            merged_changes.add(sequence as u64, hash, change, Instant::now());
        }
        merged_changes
    }

    #[test]
    fn only_updates_are_merged() {
        for (changes, reported) in [
            ("+1", "+1"),
            ("+1 1>2", "+1 1>2"),
            ("!1 1>2 2>3", "!1 1>3"),
            ("+1 -2", "+1 -2"),
            ("!1 1>2 ~2", "!1 1>2 ~2"),
            ("1>2 2>3", "1>3"),
            ("2>2 2>3", "2>3"),
            ("1>2 2>2", "1>2"),
            ("1>2 -3", "1>2 -3"),
            ("1>2 2>3 ~3", "1>3 ~3"),
            ("-1 +2", "-1 +2"),
            ("~1 +2 2>3 3>4", "~1 +2 2>4"),
            ("-1 +2 -3", "-1 +2 -3"),
            ("1>2 -3 +4 4>5 5>6 -6 +7", "1>2 -3 +4 4>6 -6 +7"),
            ("+1 -2 +3 -4", "+1 -2 +3 -4"),
        ] {
            let changes: Vec<_> = changes.split_whitespace().map(|it| change("a", it)).collect();
            let mut left = Vec::new();
            let mut waiting = merged_changes(&changes);
            let len = waiting.len();
            waiting.take(usize::MAX, &mut left);
            assert_eq!(left.iter().map(text).collect::<Vec<_>>().join(" "), reported);
            assert_eq!((len, waiting.len()), (left.len(), 0));
        }
    }

    /// An owner that wrote a child, or that lost it, has to learn that the child was deleted.
    #[test]
    fn the_changes_of_a_deleted_object_show_its_owners_before_and_after_the_update() {
        let owned = |version, owner: &str| {
            let mut it = ConfigMap::clone(&map("child", version));
            it.metadata.labels = Some([("owner".to_owned(), owner.to_owned())].into());
            Arc::new(it)
        };
        let (first, last) = (owned(1, "one"), owned(2, "other"));
        let mut left = Vec::new();
        let mut waiting = merged_changes(&[
            Change::Updated { old: first, new: Arc::clone(&last) },
            Change::Deleted(Deleted::Seen(last)),
        ]);
        waiting.take(usize::MAX, &mut left);
        let mut owners: Vec<_> = left
            .iter()
            .flat_map(|it| match it {
                Change::Updated { old, new } => vec![old, new],
                other => vec![other.object()],
            })
            .filter_map(|it| it.metadata.labels.as_ref()?.get("owner").cloned())
            .collect();
        owners.dedup();
        assert_eq!(owners, ["one", "other"]);
    }

    #[test]
    fn a_resync_of_a_pending_state_adds_nothing() {
        let (object, newer) = (map("a", 1), map("a", 2));
        let again = |it: &Arc<ConfigMap>| Change::Updated { old: it.clone(), new: it.clone() };
        let mut waiting = merged_changes(&[
            Change::Added { object: object.clone(), initial: true },
            again(&object),
            Change::Updated { old: object, new: newer.clone() },
            again(&newer),
        ]);
        let mut left = Vec::new();
        waiting.take(usize::MAX, &mut left);
        assert_eq!(left.iter().map(text).collect::<Vec<_>>(), ["!1", "1>2"]);
    }

    #[test]
    fn objects_are_reported_in_the_order_in_which_each_first_had_a_change() {
        let mut waiting = merged_changes(&[
            change("a", "1>2"),
            change("b", "+3"),
            change("c", "-4"),
            change("b", "-5"),
            change("a", "2>6"),
            change("b", "+7"),
        ]);
        assert_eq!(waiting.len(), 5);
        let mut taken = Vec::new();
        waiting.take(2, &mut taken);
        waiting.take(2, &mut taken);
        let taken: Vec<_> = taken.iter().map(|it| (it.object().header().name.to_owned(), text(it))).collect();
        let taken: Vec<_> = taken.iter().map(|(name, change)| (name.as_str(), change.as_str())).collect();
        assert_eq!(taken, [("a", "1>6"), ("b", "+3"), ("b", "-5"), ("c", "-4"), ("b", "+7")]);
        assert_eq!((waiting.len(), waiting.entries.len()), (0, 0));
    }

    /// Applies changes to a copy, as a handler that keeps one would.
    fn fold<'a>(copy: &mut Map<String, u64>, changes: impl IntoIterator<Item = &'a Change<ConfigMap>>) {
        for change in changes {
            let header = change.object().header();
            let (name, version) = (header.name.to_owned(), header.version.parse().expect("a number"));
            match change {
                Change::Added { .. } => assert_eq!(copy.insert(name, version), None, "added twice"),
                Change::Updated { old, .. } => {
                    let known = copy.insert(name, version);
                    assert_eq!(known.map(|it| it.to_string()).as_deref(), Some(old.header().version));
                    assert!(known <= Some(version), "versions went back");
                }
                Change::Deleted(_) => {
                    let known = copy.remove(&name);
                    assert!(known.is_some(), "deleted twice");
                    assert!(known <= Some(version), "versions went back");
                }
            }
        }
    }

    /// Generates a history of some objects that a server could have produced.
    fn history(steps: &[(u8, u8)]) -> Vec<Change<ConfigMap>> {
        let mut live = Map::new();
        let step = |(version, (name, what)): (usize, &(u8, u8))| {
            let name = name.to_string();
            let new = map(&name, version as u64 + 1);
            match (live.remove(&name), what) {
                (Some(old), 0) => Change::Deleted(Deleted::Seen(if version % 2 == 0 { old } else { new })),
                (Some(old), 1) => Change::Deleted(Deleted::Missed(old)),
                (Some(old), _) => {
                    live.insert(name, Arc::clone(&new));
                    Change::Updated { old, new }
                }
                (None, _) => {
                    live.insert(name, Arc::clone(&new));
                    Change::Added { object: new, initial: what % 2 == 0 }
                }
            }
        };
        steps.iter().enumerate().map(step).collect()
    }

    /// The facts that a reader which derives work from changes must not miss.
    #[derive(Debug, Default, PartialEq)]
    struct Facts {
        /// The newest reported state of each name, and whether it was a deletion.
        last: Map<String, (u64, bool)>,
        /// Each addition and each deletion with its state, sorted.
        ends: Vec<(String, String)>,
    }

    fn facts<'a>(changes: impl IntoIterator<Item = &'a Change<ConfigMap>>) -> Facts {
        let mut facts = Facts::default();
        for change in changes {
            let header = change.object().header();
            let (name, version) = (header.name.to_owned(), header.version.parse().expect("a number"));
            let updated = matches!(change, Change::Updated { .. });
            facts.last.insert(name.clone(), (version, matches!(change, Change::Deleted(_))));
            if !updated {
                facts.ends.push((name, text(change)));
            }
        }
        facts.ends.sort();
        facts
    }

    proptest! {
        /// Whenever the handler reads, it ends with the state of the store, its versions never go
        /// back, it receives every addition and every deletion once, and each changed name is
        /// reported in its newest state.
        #[test]
        fn merged_changes_lose_no_object_no_deletion_and_no_newest_state(
            steps in prop::collection::vec((0u8..4, 0u8..5), 1..60),
            looks in prop::collection::vec((0usize..60, 1usize..5), 0..10),
        ) {
            let history = history(&steps);
            let (mut every, mut merged, mut reported) = (Map::new(), Map::new(), Vec::new());
            fold(&mut every, &history);

            let mut waiting = MergedChanges::default();
            let hasher = hashbrown::DefaultHashBuilder::default();
            for (sequence, change) in history.iter().enumerate() {
                let hash = hasher.hash_one(change.object().header().name) % 3;
                waiting.add(sequence as u64, hash, change, Instant::now());
                prop_assert!(waiting.entries.len() <= 4);
                prop_assert_eq!(waiting.len(), waiting.slots.iter().map(|it| it.pending.len()).sum::<usize>());
                for (_, limit) in looks.iter().filter(|(at, _)| *at == sequence) {
                    let mut taken = Vec::new();
                    waiting.take(*limit, &mut taken);
                    fold(&mut merged, &taken);
                    reported.extend(taken);
                }
            }
            let mut taken = Vec::new();
            waiting.take(usize::MAX, &mut taken);
            fold(&mut merged, &taken);
            reported.extend(taken);
            prop_assert_eq!(merged, every);
            prop_assert_eq!(facts(&reported), facts(&history));
        }

        /// Appending a second backlog gives the same as adding its changes one by one.
        #[test]
        fn appending_is_adding(steps in prop::collection::vec((0u8..4, 0u8..5), 1..40), cut in 0usize..40) {
            let history = history(&steps);
            let cut = cut.min(history.len());
            let mut first = merged_changes(&history[..cut]);
            let mut second = MergedChanges::default();
            let hasher = hashbrown::DefaultHashBuilder::default();
            for (sequence, change) in history.iter().enumerate().skip(cut) {
                let hash = hasher.hash_one(change.object().header().name) % 3;
                second.add(sequence as u64, hash, change, Instant::now());
            }
            first.append(second);
            let (mut every, mut merged) = (Map::new(), Map::new());
            fold(&mut every, &history);
            let mut taken = Vec::new();
            first.take(usize::MAX, &mut taken);
            fold(&mut merged, &taken);
            prop_assert_eq!(merged, every);
            prop_assert_eq!(facts(&taken), facts(&history));
        }
    }
}
