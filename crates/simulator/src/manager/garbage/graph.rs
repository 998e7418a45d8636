//! The owner graph by uid: the objects that have owners, or whose deletion depends on their
//! dependents.
//!
//! Only these are kept; the existence of other objects is read from the caches or the server. The
//! graph is updated with every change, in any order between collections, and returns the objects
//! that are to be processed because of it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::tracked::{OwnerMeta, OwnerRef, Tracked, Uid};

/// The name of a resource: its group and its plural, as `apps/deployments` or `/pods`.
pub(super) type CollectionName = Arc<str>;

/// An object in the graph.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) collection: CollectionName,
    /// The object, shared with the cache.
    pub(super) object: Arc<Tracked>,
    /// The first revision in which it was seen with this metadata.
    pub(super) since: Option<u64>,
    /// True until it is processed for the first time.
    pub(super) fresh: bool,
}

/// The owner graph. Invariant: a node is among the dependents of exactly the uids that its
/// references name.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<Uid, Node>,
    /// The dependents by the uid of an owner, which need not be a node, nor exist.
    dependents: HashMap<Uid, BTreeSet<Uid>>,
    /// The owners that are known to be gone, and whether they were in a namespace. The server need
    /// not be asked for them, and cannot be if their kind is not served any more. Invariant: each
    /// has dependents.
    gone: HashMap<Uid, bool>,
}

impl Graph {
    pub(super) fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Records that an object was processed.
    pub(super) fn set_processed(&mut self, uid: &str) {
        if let Some(node) = self.nodes.get_mut(uid) {
            node.fresh = false;
        }
    }

    /// Returns the objects that name this one as an owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = (&Uid, &Node)> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|it| self.nodes.get_key_value(it))
    }

    /// Returns the uids of a collection's nodes, in order.
    pub(super) fn of_collection(&self, collection: &CollectionName) -> BTreeSet<Uid> {
        let here = self.nodes.iter().filter(|(_, node)| node.collection == *collection);
        here.map(|(uid, _)| Arc::clone(uid)).collect()
    }

    /// Records the current state of an object. Returns the objects to process.
    pub(super) fn observe(&mut self, collection: &CollectionName, object: &Arc<Tracked>) -> Vec<Uid> {
        let meta = &object.meta;
        let kept = !meta.owners.is_empty() || meta.waits_for_dependents() || meta.orphans_dependents();
        match self.nodes.get_mut(&object.uid) {
            Some(node) if node.object.meta == *meta => {
                node.object = Arc::clone(object);
                return Vec::new();
            }
            None if !kept => return Vec::new(),
            _ => {}
        }
        let uid = Arc::clone(&object.uid);
        let before = self.nodes.remove(&uid);
        let nothing = OwnerMeta::default();
        let old = before.as_ref().map_or(&nothing, |it| &it.object.meta);
        self.unlink(&uid, &old.owners);
        let mut look = self.unblocked(&old.owners, &meta.owners);
        if kept {
            for owner in &meta.owners {
                self.dependents.entry(Arc::clone(&owner.uid)).or_default().insert(Arc::clone(&uid));
            }
            look.push(Arc::clone(&uid));
        }
        if meta.waits_for_dependents() && !old.waits_for_dependents() {
            look.extend(self.dependents(&uid).map(|(it, _)| Arc::clone(it)));
        }
        if kept {
            let (collection, object, since) = (Arc::clone(collection), Arc::clone(object), object.revision());
            let fresh = before.is_none_or(|it| it.fresh);
            self.nodes.insert(uid, Node { collection, object, since, fresh });
        }
        look
    }

    /// Returns `None` unless an owner is known to be gone, and true if it was in a namespace.
    pub(super) fn gone(&self, uid: &str) -> Option<bool> {
        self.gone.get(uid).copied()
    }

    /// Returns the objects that name an owner of a kind, in order.
    pub(super) fn owned_by_kind(&self, group: &str, kind: &str) -> Vec<Uid> {
        let is_it = |it: &OwnerRef| it.group() == group && *it.kind == *kind;
        let owned = self.nodes.iter().filter(|(_, it)| it.object.meta.owners.iter().any(is_it));
        let mut owned: Vec<_> = owned.map(|(uid, _)| Arc::clone(uid)).collect();
        // The order of a hash map differs between processes.
        owned.sort_unstable();
        owned
    }

    /// Removes an object that is gone. Returns the objects to process: its dependents, and owners
    /// that may have waited for it. `namespaced` is true if it was in a namespace.
    pub(super) fn forget(&mut self, uid: &str, namespaced: bool) -> Vec<Uid> {
        if let Some((owner, _)) = self.dependents.get_key_value(uid) {
            self.gone.insert(Arc::clone(owner), namespaced);
        }
        let mut look: Vec<Uid> = self.dependents(uid).map(|(it, _)| Arc::clone(it)).collect();
        if let Some((uid, node)) = self.nodes.remove_entry(uid) {
            self.unlink(&uid, &node.object.meta.owners);
            look.extend(self.unblocked(&node.object.meta.owners, &[]));
        }
        look
    }

    fn unlink(&mut self, uid: &Uid, owners: &[OwnerRef]) {
        for owner in owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                    self.gone.remove(&owner.uid);
                }
            }
        }
    }

    /// Returns the owners that a dependent no longer blocks, if they are in the graph.
    fn unblocked(&self, before: &[OwnerRef], after: &[OwnerRef]) -> Vec<Uid> {
        let still: HashSet<&Uid> = after.iter().filter(|it| it.blocks).map(|it| &it.uid).collect();
        let freed = before.iter().filter(|it| it.blocks && !still.contains(&it.uid));
        freed.filter_map(|it| Some(Arc::clone(self.nodes.get_key_value(&it.uid)?.0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(graph: &mut Graph, uid: &str, meta: OwnerMeta) -> Vec<String> {
        let mut look = graph.observe(&"/things".into(), &Tracked::test(uid, 1, meta));
        look.sort();
        look.iter().map(ToString::to_string).collect()
    }

    fn forget(graph: &mut Graph, uid: &str) -> Vec<String> {
        let mut look = graph.forget(uid, true);
        look.sort();
        look.iter().map(ToString::to_string).collect()
    }

    fn owned(owners: &[(&str, bool)]) -> OwnerMeta {
        OwnerMeta {
            owners: owners.iter().map(|(uid, it)| OwnerRef::to(uid, *it)).collect(),
            ..OwnerMeta::default()
        }
    }

    fn waiting() -> OwnerMeta {
        OwnerMeta { deleting: true, foreground: true, ..OwnerMeta::default() }
    }

    #[test]
    fn objects_without_owners_are_not_kept() {
        let mut graph = Graph::default();
        assert!(observe(&mut graph, "a", OwnerMeta::default()).is_empty());
        assert!(graph.nodes.is_empty());
        assert!(forget(&mut graph, "a").is_empty());
    }

    #[test]
    fn dependents_are_processed_when_they_appear_and_when_their_owner_is_gone() {
        let mut graph = Graph::default();
        assert_eq!(observe(&mut graph, "b", owned(&[("a", false)])), ["b"]);
        assert!(observe(&mut graph, "b", owned(&[("a", false)])).is_empty(), "nothing has changed");
        assert_eq!(observe(&mut graph, "c", owned(&[("a", false)])), ["c"]);
        assert_eq!(forget(&mut graph, "a"), ["b", "c"], "the owner need not be a node");
        assert!(forget(&mut graph, "b").is_empty());
        assert_eq!(forget(&mut graph, "a"), ["c"]);
    }

    #[test]
    fn an_owner_that_begins_to_wait_is_processed_with_its_dependents_and_again_when_they_stop_blocking() {
        let mut graph = Graph::default();
        observe(&mut graph, "b", owned(&[("a", true)]));
        observe(&mut graph, "c", owned(&[("a", true)]));
        observe(&mut graph, "d", owned(&[("a", false)]));
        assert_eq!(observe(&mut graph, "a", waiting()), ["a", "b", "c", "d"]);
        assert_eq!(observe(&mut graph, "b", owned(&[("a", false)])), ["a", "b"], "it no longer blocks");
        assert_eq!(forget(&mut graph, "c"), ["a"]);
        assert!(forget(&mut graph, "d").is_empty(), "it never blocked");
        assert_eq!(observe(&mut graph, "b", OwnerMeta::default()), Vec::<String>::new());
        assert!(graph.dependents("a").next().is_none());
        assert_eq!(graph.nodes.len(), 1);
    }

    #[test]
    fn gone_owners_are_remembered_while_they_have_dependents() {
        let mut graph = Graph::default();
        observe(&mut graph, "b", owned(&[("a", true)]));
        assert_eq!(graph.gone("a"), None);
        forget(&mut graph, "a");
        forget(&mut graph, "x");
        assert_eq!((graph.gone("a"), graph.gone("x")), (Some(true), None));
        forget(&mut graph, "b");
        assert!(graph.gone.is_empty());
    }

    #[test]
    fn dependents_are_found_by_the_kind_of_an_owner() {
        let mut graph = Graph::default();
        for (uid, api_version, kind) in
            [("1", "e.test/v1", "A"), ("2", "e.test/v2", "A"), ("3", "e.test/v1", "B"), ("4", "v1", "A")]
        {
            let owner =
                OwnerRef { api_version: api_version.into(), kind: kind.into(), ..OwnerRef::to("x", true) };
            observe(&mut graph, uid, OwnerMeta { owners: [owner].into(), ..OwnerMeta::default() });
        }
        assert_eq!(graph.owned_by_kind("e.test", "A"), ["1", "2"].map(Uid::from));
        assert_eq!(graph.owned_by_kind("", "A"), ["4"].map(Uid::from));
    }

    proptest::proptest! {
        /// After any sequence of changes, a node is a dependent of exactly the uids that it names.
        #[test]
        fn dependents_mirror_references(steps in proptest::collection::vec((0..6u8, 0..6u8, 0..6u8, 0..3u8), 0..60)) {
            let mut graph = Graph::default();
            for (uid, first, second, what) in steps {
                let owners = [(first.to_string(), true), (second.to_string(), false)];
                let owners: Vec<_> = owners.iter().map(|(it, blocks)| (it.as_str(), *blocks)).collect();
                match what {
                    0 => drop(forget(&mut graph, &uid.to_string())),
                    1 => drop(observe(&mut graph, &uid.to_string(), OwnerMeta::default())),
                    _ => drop(observe(&mut graph, &uid.to_string(), owned(&owners))),
                }
            }
            for owner in 0..6u8 {
                let owner = owner.to_string();
                let found: BTreeSet<_> = graph.dependents(&owner).map(|(it, _)| Arc::clone(it)).collect();
                let names = |node: &Node| node.object.meta.owners.iter().any(|it| *it.uid == *owner);
                let named: BTreeSet<_> =
                    graph.nodes.iter().filter(|(_, it)| names(it)).map(|(it, _)| Arc::clone(it)).collect();
                proptest::prop_assert_eq!(found, named);
            }
        }
    }
}
