//! The slots for writes: which objects are being written now, and which ones wait for a slot.
//!
//! A write calls webhooks, and one that does not respond holds its slot for up to 30 seconds. The
//! objects of one kind in one namespace are usually affected together, so they are a group that has
//! only a few of the slots. Knows nothing of the writes themselves.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use dogwatch_core::ObjectKey;

use super::graph::Uid;
use crate::store::CollectionName;

/// The number of slots. kube-controller-manager has 20 workers (`ConcurrentGCSyncs` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/garbagecollector/config/v1alpha1/defaults.go), which
/// stand still while 20 objects wait for a webhook. A waiting future costs less than a worker.
const SLOTS: usize = 100;
/// The maximum number of slots that one group has.
const SLOTS_PER_GROUP: usize = 4;

/// The objects of a collection in a namespace, or the cluster-scoped ones of a collection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    collection: CollectionName,
    namespace: Option<String>,
}

impl Group {
    /// Returns the group of an object.
    pub(super) fn new(collection: &CollectionName, key: &ObjectKey) -> Self {
        Self { collection: Arc::clone(collection), namespace: key.namespace().map(str::to_owned) }
    }
}

/// The use of the slots. Invariant: a group is open if and only if an object of it waits and the
/// group may have another slot.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// The objects that have a slot. True if one of them is to be processed again after its write.
    writing: HashMap<Uid, bool>,
    /// The objects that wait for a slot of their group.
    waiting: HashSet<Uid>,
    groups: BTreeMap<Group, GroupSlots>,
    open: BTreeSet<Group>,
    /// The group whose object was taken last.
    last: Option<Group>,
}

/// The slots of a group.
#[derive(Debug, Default)]
struct GroupSlots {
    used: usize,
    /// The objects that wait for a slot, in the order of their arrival, each once.
    waiting: VecDeque<Uid>,
}

impl Slots {
    /// Returns true if a slot is free. The group of an object may have none nevertheless.
    pub(super) fn any_free(&self) -> bool {
        self.writing.len() < SLOTS
    }

    /// Returns true if an object may be processed now. Otherwise it is kept until its group has a
    /// slot, or until its current write has finished.
    pub(super) fn admit(&mut self, uid: &Uid, group: &Group) -> bool {
        if self.keeps(uid) {
            return false;
        }
        let Some(slots) = self.groups.get_mut(group).filter(|it| it.used >= SLOTS_PER_GROUP) else {
            return true;
        };
        slots.waiting.push_back(Arc::clone(uid));
        self.waiting.insert(Arc::clone(uid));
        false
    }

    /// Returns true if a changed object need not be queued: it waits for a slot, or has one and is
    /// processed again after its write.
    pub(super) fn keeps(&mut self, uid: &Uid) -> bool {
        match self.writing.get_mut(uid) {
            Some(again) => {
                *again = true;
                true
            }
            None => self.waiting.contains(uid),
        }
    }

    /// Gives a slot to an object.
    pub(super) fn start(&mut self, uid: &Uid, group: &Group) {
        self.writing.insert(Arc::clone(uid), false);
        let slots = self.groups.entry(group.clone()).or_default();
        slots.used = slots.used.saturating_add(1);
        self.update(group);
    }

    /// Releases the slot of an object. Returns true if it is to be processed again.
    pub(super) fn finish(&mut self, uid: &Uid, group: &Group) -> bool {
        if let Some(slots) = self.groups.get_mut(group) {
            slots.used = slots.used.saturating_sub(1);
        }
        self.update(group);
        self.writing.remove(uid).unwrap_or_default()
    }

    /// Takes an object that has waited and whose group has a slot now, from each group in turn.
    pub(super) fn take(&mut self) -> Option<Uid> {
        let after = self.last.as_ref().and_then(|it| self.open.range((Excluded(it), Unbounded)).next());
        let group = after.or_else(|| self.open.first())?.clone();
        let slots = self.groups.get_mut(&group)?;
        let uid = slots.waiting.pop_front()?;
        self.waiting.remove(&uid);
        self.update(&group);
        self.last = Some(group);
        Some(uid)
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
        Group::new(&"/configmaps".into(), &ObjectKey::namespaced(namespace, "a"))
    }

    /// Returns uids of a group, which are `a-0`, `a-1` and so on.
    fn uids(namespace: &str, count: usize) -> Vec<Uid> {
        (0..count).map(|it| Uid::from(format!("{namespace}-{it}"))).collect()
    }

    /// Starts the objects that are admitted, and returns their number.
    fn admitted(slots: &mut Slots, namespace: &str, count: usize) -> usize {
        let start = |uid: &Uid| {
            let admitted = slots.admit(uid, &group(namespace));
            if admitted {
                slots.start(uid, &group(namespace));
            }
            admitted
        };
        uids(namespace, count).iter().map(start).filter(|it| *it).count()
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
    fn waiting_objects_are_taken_once_and_from_each_group_in_turn() {
        let mut slots = Slots::default();
        for namespace in ["a", "b"] {
            admitted(&mut slots, namespace, SLOTS_PER_GROUP + 2);
            let late = uids(namespace, SLOTS_PER_GROUP + 1).pop().expect("not empty");
            assert!(!slots.admit(&late, &group(namespace)), "it waits already");
        }
        assert_eq!(slots.take(), None, "all groups are full");
        for namespace in ["a", "b"] {
            assert!(!slots.finish(&uids(namespace, 1)[0], &group(namespace)));
        }
        // Objects that need no write take no slot.
        let taken: Vec<_> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken, ["a-4", "b-4", "a-5", "b-5"].map(Uid::from));
        for namespace in ["a", "b"] {
            for uid in uids(namespace, SLOTS_PER_GROUP).iter().skip(1) {
                assert!(!slots.finish(uid, &group(namespace)));
            }
        }
        assert!(
            slots.groups.is_empty()
                && slots.waiting.is_empty()
                && slots.writing.is_empty()
                && slots.open.is_empty()
        );
    }

    #[test]
    fn an_object_is_not_processed_during_its_write_but_afterwards() {
        let mut slots = Slots::default();
        let (uid, group) = (Uid::from("u"), group("a"));
        assert!(slots.admit(&uid, &group));
        slots.start(&uid, &group);
        assert!(!slots.admit(&uid, &group) && !slots.admit(&uid, &group));
        assert!(slots.finish(&uid, &group), "it has changed meanwhile");
        assert_eq!(slots.take(), None);
        assert!(slots.admit(&uid, &group));
    }
}
