//! What waits for a handler that is busy, merged: at most one thing to tell per object, and nothing told that would be wrong.
//!
//! [`merge`] is the rule, [`Folded`] the queue that applies it. Neither knows of locks, tasks or handlers.

use std::collections::VecDeque;
use std::sync::Arc;

use dogwatch_core::Object;
use hashbrown::HashTable;
use tokio::time::Instant;

use crate::change::{Change, Deleted};

/// What a handler still has to be told of one object.
#[derive(Debug)]
pub(crate) enum Pending<T> {
    /// One change.
    One(Change<T>),
    /// It went, and another of the same name came. The two are never one update: they are two objects.
    Replaced(Deleted<T>, Arc<T>),
}

/// Adds one more change of the same object to what is pending. `None`: there is nothing left to tell.
///
/// The handler has seen nothing of what is pending. Told the result instead of the parts, it ends with the same state.
pub(crate) fn merge<T>(pending: Pending<T>, next: &Change<T>) -> Option<Pending<T>> {
    use Change::{Added, Updated};
    use Pending::{One, Replaced};
    Some(match (pending, next) {
        (One(Added { initial, .. }), Added { object: new, .. } | Updated { new, .. }) => {
            One(Added { object: Arc::clone(new), initial })
        }
        (One(Added { .. }), Change::Deleted(_)) => return None,
        (One(Updated { old, .. }), Added { object: new, .. } | Updated { new, .. }) => {
            One(Updated { old, new: Arc::clone(new) })
        }
        (One(Updated { .. } | Change::Deleted(_)), Change::Deleted(last)) => {
            One(Change::Deleted(last.clone()))
        }
        (One(Change::Deleted(gone)) | Replaced(gone, _), Added { object: new, .. } | Updated { new, .. }) => {
            Replaced(gone, Arc::clone(new))
        }
        // The second of the name came and went unseen.
        (Replaced(gone, _), Change::Deleted(_)) => One(Change::Deleted(gone)),
    })
}

impl<T: Object> Pending<T> {
    fn object(&self) -> &Arc<T> {
        match self {
            Self::One(change) => change.object(),
            Self::Replaced(_, new) => new,
        }
    }

    /// Whether a change is of the same object.
    fn concerns(&self, change: &Change<T>) -> bool {
        let known = match change {
            Change::Updated { old, .. } => old,
            other => other.object(),
        };
        // Nearly always the very state that is pending, which saves a look at the object itself.
        Arc::ptr_eq(known, self.object()) || {
            let (one, other) = (self.object().header(), known.header());
            one.name == other.name && one.namespace == other.namespace
        }
    }

    /// Hands out what is to be told, in order.
    fn tell(self, to: &mut Vec<Change<T>>) {
        match self {
            Self::One(change) => to.push(change),
            Self::Replaced(gone, object) => {
                to.push(Change::Deleted(gone));
                to.push(Change::Added { object, initial: false });
            }
        }
    }
}

/// Pending changes by object, in the order in which each object first had one.
///
/// Invariants: every slot with something pending has exactly one entry in `entries`, found by the key of its object, and no other slot
/// has one. The first slot has something pending. At most half of the slots have nothing, beyond a few.
#[derive(Debug)]
pub(crate) struct Folded<T> {
    slots: VecDeque<Slot<T>>,
    /// The number of the first slot; the others follow.
    first: u64,
    /// The slots, by the hash of the object's key.
    entries: HashTable<Entry>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Nothing, where additions and deletions made nothing of each other.
    pending: Option<Pending<T>>,
    /// The place in the line of changes at which the object came in.
    place: u64,
    /// The hash of the object's key.
    hash: u64,
    /// When the oldest of what was merged here came.
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    /// The number of the slot.
    slot: u64,
}

/// So many slots without anything pending are never too many.
const FEW: usize = 64;

impl<T> Default for Folded<T> {
    fn default() -> Self {
        Self { slots: VecDeque::new(), first: 0, entries: HashTable::new() }
    }
}

impl<T: Object> Folded<T> {
    /// Adds a change. `place` is not smaller than that of any change before it, `hash` that of its object's key.
    pub(crate) fn add(&mut self, place: u64, hash: u64, change: &Change<T>, since: Instant) {
        let Self { slots, first, entries } = self;
        let concerned = |it: &Entry| {
            let slot = slots.get((it.slot - *first) as usize).filter(|_| it.hash == hash);
            slot.and_then(|slot| slot.pending.as_ref()).is_some_and(|pending| pending.concerns(change))
        };
        let Ok(entry) = entries.find_entry(hash, concerned) else {
            let slot = *first + slots.len() as u64;
            entries.insert_unique(hash, Entry { hash, slot }, |it| it.hash);
            slots.push_back(Slot { pending: Some(Pending::One(change.clone())), place, hash, since });
            return;
        };
        let slot = &mut slots[(entry.get().slot - *first) as usize];
        slot.pending = slot.pending.take().and_then(|pending| merge(pending, change));
        if slot.pending.is_none() {
            entry.remove();
            self.tidy();
        }
    }

    /// Takes what is to be told of the objects that wait longest, at most of `limit` of them.
    pub(crate) fn take(&mut self, limit: usize, to: &mut Vec<Change<T>>) {
        for _ in 0..limit {
            let Some(slot) = self.slots.pop_front() else { return };
            let number = self.first;
            self.first += 1;
            if let Ok(entry) = self.entries.find_entry(slot.hash, |it| it.slot == number) {
                entry.remove();
            }
            if let Some(pending) = slot.pending {
                pending.tell(to);
            }
            self.tidy();
        }
    }

    /// Lets go of slots without anything pending, where they are first or too many.
    fn tidy(&mut self) {
        while self.slots.front().is_some_and(|it| it.pending.is_none()) {
            self.slots.pop_front();
            self.first += 1;
        }
        if self.slots.len() > 2 * self.entries.len() + FEW {
            self.slots.retain(|it| it.pending.is_some());
            self.entries.clear();
            for (number, slot) in (self.first..).zip(&self.slots) {
                let entry = Entry { hash: slot.hash, slot: number };
                self.entries.insert_unique(slot.hash, entry, |it| it.hash);
            }
        }
    }

    /// Puts what is pending there behind what is pending here, merged. Everything there came later.
    pub(crate) fn append(&mut self, later: Self) {
        let mut changes = Vec::with_capacity(2);
        for slot in later.slots {
            if let Some(pending) = slot.pending {
                pending.tell(&mut changes);
            }
            for change in changes.drain(..) {
                self.add(slot.place, slot.hash, &change, slot.since);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The place of the object that waits longest, and since when it does.
    pub(crate) fn front(&self) -> Option<(u64, Instant)> {
        self.slots.front().map(|slot| (slot.place, slot.since))
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

    /// `+1` adds version 1, `!1` adds it as one of the first list, `1>2` updates, `-2` deletes, `~2` deletes unseen.
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

    fn folded(changes: &[Change<ConfigMap>]) -> Folded<ConfigMap> {
        let hasher = hashbrown::DefaultHashBuilder::default();
        let mut folded = Folded::default();
        for (place, change) in changes.iter().enumerate() {
            // Few hashes, so that different objects share some.
            let hash = hasher.hash_one(change.object().header().name) % 3;
            folded.add(place as u64, hash, change, Instant::now());
        }
        folded
    }

    #[test]
    fn merging_keeps_the_meaning() {
        for (changes, told) in [
            ("+1", "+1"),
            ("+1 1>2", "+2"),
            ("!1 1>2 2>3", "!3"),
            ("+1 -2", ""),
            ("!1 1>2 ~2", ""),
            ("1>2 2>3", "1>3"),
            ("2>2 2>3", "2>3"),
            ("1>2 2>2", "1>2"),
            ("1>2 -3", "-3"),
            ("1>2 ~2", "~2"),
            ("-1 +2", "-1 +2"),
            ("~1 +2 2>3", "~1 +3"),
            ("-1 +2 -3", "-1"),
            ("-1 +2 -3 +4", "-1 +4"),
            ("1>2 -3 +4", "-3 +4"),
            ("+1 -2 +3", "+3"),
            ("+1 -2 +3 -4", ""),
        ] {
            let changes: Vec<_> = changes.split_whitespace().map(|it| change("a", it)).collect();
            let mut left = Vec::new();
            folded(&changes).take(usize::MAX, &mut left);
            assert_eq!(left.iter().map(text).collect::<Vec<_>>().join(" "), told);
        }
    }

    #[test]
    fn objects_are_told_in_the_order_in_which_each_first_had_a_change() {
        let mut waiting = folded(&[
            change("a", "1>2"),
            change("b", "+3"),
            change("c", "-4"),
            change("b", "-5"),
            change("a", "2>6"),
            change("b", "+7"),
        ]);
        assert_eq!(waiting.len(), 3);
        let mut told = Vec::new();
        waiting.take(2, &mut told);
        waiting.take(2, &mut told);
        let told: Vec<_> = told.iter().map(|it| (it.object().header().name.to_owned(), text(it))).collect();
        let told: Vec<_> = told.iter().map(|(name, change)| (name.as_str(), change.as_str())).collect();
        assert_eq!(told, [("a", "1>6"), ("c", "-4"), ("b", "+7")]);
        assert_eq!((waiting.len(), waiting.entries.len()), (0, 0));
    }

    /// What a handler that keeps a copy has after it was told.
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

    /// A history of some objects that a server could have made.
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

    proptest! {
        /// Wherever the handler happens to look, it ends where it would have ended, and never takes a step back.
        #[test]
        fn merged_changes_lead_to_the_same_state(
            steps in prop::collection::vec((0u8..4, 0u8..5), 1..60),
            looks in prop::collection::vec((0usize..60, 1usize..5), 0..10),
        ) {
            let history = history(&steps);
            let (mut every, mut merged) = (Map::new(), Map::new());
            fold(&mut every, &history);

            let mut waiting = Folded::default();
            let hasher = hashbrown::DefaultHashBuilder::default();
            for (place, change) in history.iter().enumerate() {
                let hash = hasher.hash_one(change.object().header().name) % 3;
                waiting.add(place as u64, hash, change, Instant::now());
                prop_assert!(waiting.len() <= 4 && waiting.slots.len() <= 2 * waiting.len() + FEW);
                prop_assert_eq!(waiting.len(), waiting.entries.len());
                for (_, limit) in looks.iter().filter(|(at, _)| *at == place) {
                    let mut told = Vec::new();
                    waiting.take(*limit, &mut told);
                    fold(&mut merged, &told);
                }
            }
            let mut told = Vec::new();
            waiting.take(usize::MAX, &mut told);
            fold(&mut merged, &told);
            prop_assert_eq!(merged, every);
        }

        /// Two lines, put together, are as one.
        #[test]
        fn appending_is_adding(steps in prop::collection::vec((0u8..4, 0u8..5), 1..40), cut in 0usize..40) {
            let history = history(&steps);
            let cut = cut.min(history.len());
            let mut first = folded(&history[..cut]);
            let mut second = Folded::default();
            let hasher = hashbrown::DefaultHashBuilder::default();
            for (place, change) in history.iter().enumerate().skip(cut) {
                let hash = hasher.hash_one(change.object().header().name) % 3;
                second.add(place as u64, hash, change, Instant::now());
            }
            first.append(second);
            let (mut every, mut merged) = (Map::new(), Map::new());
            fold(&mut every, &history);
            let mut told = Vec::new();
            first.take(usize::MAX, &mut told);
            fold(&mut merged, &told);
            prop_assert_eq!(merged, every);
        }
    }
}
