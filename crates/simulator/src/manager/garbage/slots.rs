//! The slots for requests: how many objects of each group are processed now, and which ones wait.
//!
//! A write calls webhooks, and one that does not respond holds its slot for up to 30 seconds. The
//! objects of one kind in one namespace are usually affected together, so they are a group that has
//! only a few of the slots. Knows nothing of the requests themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use super::graph::CollectionName;

/// The number of slots. kube-controller-manager has 20 workers (`ConcurrentGCSyncs` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/garbagecollector/config/v1alpha1/defaults.go), which
/// stand still while 20 objects wait for a webhook. A waiting future costs less than a worker.
const SLOTS: usize = 100;
/// The maximum number of slots that one group has.
const SLOTS_PER_GROUP: usize = 4;

/// The objects of a collection in a namespace, or the cluster-scoped ones of a collection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) collection: CollectionName,
    pub(super) namespace: Option<String>,
}

/// The use of the slots by items. Invariant: a group is open if and only if an item of it waits and
/// the group may have another slot.
#[derive(Debug)]
pub(super) struct Slots<T> {
    used: usize,
    groups: BTreeMap<Group, GroupSlots<T>>,
    open: BTreeSet<Group>,
    /// The group whose item was taken last.
    last: Option<Group>,
}

/// The slots of a group.
#[derive(Debug)]
struct GroupSlots<T> {
    used: usize,
    /// The items that wait for a slot, in the order of their arrival.
    waiting: VecDeque<T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { used: 0, groups: BTreeMap::new(), open: BTreeSet::new(), last: None }
    }
}

impl<T> Default for GroupSlots<T> {
    fn default() -> Self {
        Self { used: 0, waiting: VecDeque::new() }
    }
}

impl<T> Slots<T> {
    /// Returns true if a slot is free. The group of an item may have none nevertheless.
    pub(super) fn any_free(&self) -> bool {
        self.used < SLOTS
    }

    /// Gives a slot to an item and returns it. If its group has none, the item waits.
    pub(super) fn admit(&mut self, group: &Group, item: T) -> Option<T> {
        let slots = self.groups.entry(group.clone()).or_default();
        if slots.used >= SLOTS_PER_GROUP {
            slots.waiting.push_back(item);
            return None;
        }
        slots.used = slots.used.saturating_add(1);
        self.used = self.used.saturating_add(1);
        self.update(group);
        Some(item)
    }

    /// Releases the slot of an item.
    pub(super) fn finish(&mut self, group: &Group) {
        if let Some(slots) = self.groups.get_mut(group) {
            slots.used = slots.used.saturating_sub(1);
            self.used = self.used.saturating_sub(1);
        }
        self.update(group);
    }

    /// Takes an item that has waited and whose group has a slot now, from each group in turn. It
    /// has no slot yet.
    pub(super) fn take(&mut self) -> Option<T> {
        let after = self.last.as_ref().and_then(|it| self.open.range((Excluded(it), Unbounded)).next());
        let group = after.or_else(|| self.open.first())?.clone();
        let item = self.groups.get_mut(&group)?.waiting.pop_front()?;
        self.update(&group);
        self.last = Some(group);
        Some(item)
    }

    fn update(&mut self, group: &Group) {
        let Some(slots) = self.groups.get(group) else { return };
        let is_open = slots.used < SLOTS_PER_GROUP && !slots.waiting.is_empty();
        if slots.used == 0 && slots.waiting.is_empty() {
            self.groups.remove(group);
        }
        if is_open {
            self.open.insert(group.clone());
        } else {
            self.open.remove(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(namespace: &str) -> Group {
        Group { collection: "/configmaps".into(), namespace: Some(namespace.to_owned()) }
    }

    /// Offers the items `a-0`, `a-1` and so on of a group, and returns the number that got a slot.
    fn admitted(slots: &mut Slots<String>, namespace: &str, count: usize) -> usize {
        let offered = (0..count).map(|it| format!("{namespace}-{it}"));
        offered.filter_map(|it| slots.admit(&group(namespace), it)).count()
    }

    #[test]
    fn a_group_leaves_slots_to_others() {
        let mut slots = Slots::default();
        assert_eq!(admitted(&mut slots, "a", 1_000), SLOTS_PER_GROUP);
        assert_eq!(admitted(&mut slots, "b", 2), 2);
        assert!(slots.any_free());
        for index in 0..SLOTS {
            admitted(&mut slots, &format!("n{index}"), 1);
        }
        assert!(!slots.any_free());
    }

    #[test]
    fn waiting_items_are_taken_once_and_from_each_group_in_turn() {
        let mut slots = Slots::default();
        for namespace in ["a", "b"] {
            admitted(&mut slots, namespace, SLOTS_PER_GROUP + 2);
        }
        assert_eq!(slots.take(), None, "all groups are full");
        for namespace in ["a", "b"] {
            slots.finish(&group(namespace));
        }
        // Items that need no request take no slot.
        let taken: Vec<_> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken, ["a-4", "b-4", "a-5", "b-5"]);
        for namespace in ["a", "b"] {
            (1..SLOTS_PER_GROUP).for_each(|_| slots.finish(&group(namespace)));
        }
        assert!(slots.groups.is_empty() && slots.open.is_empty() && slots.used == 0);
    }
}
