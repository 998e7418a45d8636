//! The decision about an object, given the state of its owners and its dependents. The terms are
//! those of kube-controller-manager.

use dogwatch_core::Propagation;

use super::graph::Graph;
use super::tracked::{OwnerMeta, Uid};

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It exists and keeps its dependents.
    Solid,
    /// It is being deleted in the foreground and waits for its dependents.
    Waiting,
    /// It does not exist, or another object has its name.
    Dangling,
}

/// The action to take for an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No action, for example because it waits for dependents. Those are processed by themselves,
    /// from the moment in which it begins to wait.
    Keep,
    /// Removes its references to these owners.
    DropOwners(Vec<Uid>),
    /// Deletes it. With `unblock`, its references are made non-blocking first, since it may be part
    /// of a cycle.
    Delete { propagation: Propagation, unblock: bool },
    /// Removes its foreground finalizer: it waits for dependents, but none blocks it.
    StopWaiting,
    /// Removes the references to it from these dependents, then its finalizer.
    Orphan(Vec<Uid>),
}

/// Decides about an object that is being deleted.
pub(super) fn decide_deleting(meta: &OwnerMeta, uid: &str, graph: &Graph) -> Verdict {
    if meta.orphans_dependents() {
        return Verdict::Orphan(graph.dependents(uid).map(|(it, _)| it.clone()).collect());
    }
    if !meta.waits_for_dependents() {
        return Verdict::Keep;
    }
    // This runs after each dependent is gone. Processing the others each time would make the
    // deletion of an owner quadratic in the number of its dependents, and cut their back-off short.
    if is_blocked(uid, graph) { Verdict::Keep } else { Verdict::StopWaiting }
}

/// Returns true if an owner has to wait for a dependent in a foreground deletion.
pub(super) fn is_blocked(uid: &str, graph: &Graph) -> bool {
    let blocks = |meta: &OwnerMeta| meta.owners.iter().any(|it| *it.uid == *uid && it.blocks);
    graph.dependents(uid).any(|(_, node)| blocks(&node.object.meta))
}

/// Decides about an object that is not being deleted, given the state of each of its owners.
pub(super) fn decide_owned(meta: &OwnerMeta, states: &[OwnerState], uid: &str, graph: &Graph) -> Verdict {
    let owners = || meta.owners.iter().zip(states);
    if meta.owners.is_empty() {
        return Verdict::Keep;
    }
    if states.contains(&OwnerState::Solid) {
        let gone = owners().filter(|(_, owner_state)| **owner_state != OwnerState::Solid);
        let gone: Vec<_> = gone.map(|(owner, _)| owner.uid.clone()).collect();
        return if gone.is_empty() { Verdict::Keep } else { Verdict::DropOwners(gone) };
    }
    let mut dependents = graph.dependents(uid).peekable();
    if states.contains(&OwnerState::Waiting) && dependents.peek().is_some() {
        let unblock = dependents.any(|(_, node)| node.object.meta.waits_for_dependents());
        return Verdict::Delete { propagation: Propagation::Foreground, unblock };
    }
    let propagation = match meta {
        OwnerMeta { orphan: true, .. } => Propagation::Orphan,
        OwnerMeta { foreground: true, .. } => Propagation::Foreground,
        _ => Propagation::Background,
    };
    Verdict::Delete { propagation, unblock: false }
}

#[cfg(test)]
mod tests {
    use super::OwnerState::{Dangling, Solid, Waiting};
    use super::*;
    use crate::manager::garbage::tracked::{OwnerRef, Tracked};

    fn owned(owners: &[(&str, bool)]) -> OwnerMeta {
        OwnerMeta {
            owners: owners.iter().map(|(uid, it)| OwnerRef::to(uid, *it)).collect(),
            ..OwnerMeta::default()
        }
    }

    fn graph(nodes: &[(&str, OwnerMeta)]) -> Graph {
        let mut graph = Graph::default();
        for (uid, meta) in nodes {
            graph.observe(&"/things".into(), &Tracked::test(uid, 1, meta.clone()));
        }
        graph
    }

    fn delete(propagation: Propagation) -> Verdict {
        Verdict::Delete { propagation, unblock: false }
    }

    #[test]
    fn an_object_is_deleted_with_its_last_owner_and_loses_references_to_deleted_ones() {
        let meta = owned(&[("a", false), ("b", false), ("c", false)]);
        let drop_owners = |uids: &[&str]| Verdict::DropOwners(uids.iter().map(|it| Uid::from(*it)).collect());
        for (states, expected) in [
            ([Solid, Solid, Solid], Verdict::Keep),
            ([Solid, Dangling, Solid], drop_owners(&["b"])),
            ([Dangling, Waiting, Solid], drop_owners(&["a", "b"])),
            ([Dangling, Dangling, Dangling], delete(Propagation::Background)),
            ([Dangling, Waiting, Dangling], delete(Propagation::Background)),
        ] {
            assert_eq!(decide_owned(&meta, &states, "x", &Graph::default()), expected, "{states:?}");
        }
        assert_eq!(decide_owned(&OwnerMeta::default(), &[], "x", &Graph::default()), Verdict::Keep);
    }

    #[test]
    fn existing_finalizers_choose_the_propagation_policy() {
        let with = |orphan, foreground| OwnerMeta { orphan, foreground, ..owned(&[("a", false)]) };
        for (orphan, foreground, expected) in [
            (true, false, Propagation::Orphan),
            (false, true, Propagation::Foreground),
            (true, true, Propagation::Orphan),
        ] {
            let verdict = decide_owned(&with(orphan, foreground), &[Dangling], "x", &Graph::default());
            assert_eq!(verdict, delete(expected));
        }
    }

    #[test]
    fn a_dependent_of_a_waiting_owner_waits_for_its_own_dependents_too() {
        let graph = graph(&[("y", owned(&[("x", true)]))]);
        let verdict = decide_owned(&owned(&[("a", true)]), &[Waiting], "x", &graph);
        assert_eq!(verdict, delete(Propagation::Foreground));
    }

    #[test]
    fn a_cycle_of_waiting_objects_is_broken() {
        let waiting = OwnerMeta { deleting: true, foreground: true, ..owned(&[("x", true)]) };
        let graph = graph(&[("a", waiting)]);
        let verdict = decide_owned(&owned(&[("a", true)]), &[Waiting], "x", &graph);
        assert_eq!(verdict, Verdict::Delete { propagation: Propagation::Foreground, unblock: true });
    }

    #[test]
    fn a_deleted_object_waits_for_blocking_dependents_only() {
        let waiting = OwnerMeta { deleting: true, foreground: true, ..OwnerMeta::default() };
        let free = graph(&[("b", owned(&[("a", false)]))]);
        assert_eq!(decide_deleting(&waiting, "a", &free), Verdict::StopWaiting);
        let deep = OwnerMeta { deleting: true, foreground: true, ..owned(&[("a", true)]) };
        let blocked = graph(&[("b", owned(&[("a", true)])), ("c", owned(&[("a", false)])), ("d", deep)]);
        assert_eq!(decide_deleting(&waiting, "a", &blocked), Verdict::Keep);
        let going = OwnerMeta { deleting: true, ..owned(&[("a", true)]) };
        let ending = graph(&[("b", going)]);
        assert_eq!(decide_deleting(&waiting, "a", &ending), Verdict::Keep, "it is not gone yet");
        let leaving = OwnerMeta { deleting: true, orphan: true, ..OwnerMeta::default() };
        let all = ["b", "c", "d"].map(Uid::from).to_vec();
        assert_eq!(decide_deleting(&leaving, "a", &blocked), Verdict::Orphan(all));
        let deleted = OwnerMeta { deleting: true, ..OwnerMeta::default() };
        assert_eq!(decide_deleting(&deleted, "a", &blocked), Verdict::Keep);
    }
}
