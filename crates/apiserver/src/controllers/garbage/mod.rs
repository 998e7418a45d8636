//! The garbage collector: deletes dependents after or before their owners, or orphans them, as a
//! deletion asks.
//!
//! ```text
//! changes of all collections ─► graph (owners) ─► process an object ─► decide ─► write
//! ```
//!
//! The graph determines which objects to process. The existence of an owner is read from the store
//! at the moment of the decision, and every deletion has the uid and the version of that read as
//! preconditions. Before a finalizer is removed, the graph is updated with the changes of all
//! collections, so that no dependent is missed.
//!
//! The `mod` lines below are in layer order.

mod owner_meta;
mod graph;
mod decide;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::background::{builtin, writer};
use super::feed::{Feed, FeedEvent};
use super::finalizers;
use super::pending::Pending;
use super::recorder::{self, Event};
use crate::ApiError;
use crate::builtin;
use crate::cluster::{Cluster, DeleteOptions, ObjectRef, Propagation, Writer};
use crate::custom::names;
use crate::kinds::json_access::text;
use crate::panics::caught;
use crate::registry::{Catalog, Kind};
use crate::store::{CollectionName, Encoded};
use decide::{OwnerState, Verdict};
use graph::{Graph, Node, Uid};
use owner_meta::{FOREGROUND, ORPHAN, OwnerMeta, OwnerRef};

/// The name, for logs, metrics and health checks.
pub(super) const NAME: &str = "garbage-collector";

/// The delay after which the catalog is read again after a change of a definition, in case it was
/// updated a moment later.
const CATALOG_RECHECK: Duration = Duration::from_millis(100);

/// The maximum number of deleted kinds that are remembered.
const MAX_DELETED_KINDS: usize = 1_000;

/// Collects garbage. Never returns; dropping the future stops it safely.
pub(super) async fn run(cluster: Arc<Cluster>) {
    let mut collector = Collector::new(&cluster);
    loop {
        collector.absorb(false);
        if let Some(work) = collector.pending.take() {
            match &work {
                Work::Catalog => collector.refresh(),
                Work::Object(uid) => match caught(collector.process(uid)).await.unwrap_or_else(|panic| {
                    cluster.background().panicked(NAME);
                    tracing::error!(controller = NAME, %uid, panic = panic.0, "a controller panicked; the object will be retried");
                    Err(ApiError::internal(panic.0))
                }) {
                    Ok(()) => collector.pending.forget(&work),
                    Err(refusal) => {
                        tracing::debug!(%uid, %refusal, "failed; will retry");
                        collector.pending.retry(work);
                    }
                },
            }
            // The verbs often complete without waiting: let other tasks run as well.
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            // In fixed order, so that runs with the same seed are identical.
            biased;
            () = collector.feed.wait() => {}
            () = collector.pending.due() => {}
        }
    }
}

/// An item of work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Work {
    /// Reads the catalog of kinds again.
    Catalog,
    /// Processes an object.
    Object(Uid),
}

#[derive(Debug)]
struct Collector<'a> {
    cluster: &'a Cluster,
    feed: Feed,
    graph: Graph,
    pending: Pending<Work>,
    /// The kinds whose objects may be dependents, by collection, and the catalog that they are
    /// from.
    kinds: BTreeMap<CollectionName, Arc<Kind>>,
    catalog: Option<Arc<Catalog>>,
    /// The kinds that are defined but not served any more, by collection. Their objects still
    /// exist, and are still in the graph.
    unserved: BTreeMap<CollectionName, UnservedKind>,
    definitions: CollectionName,
    /// The kinds whose definition was deleted, by group and kind.
    deleted_kinds: BTreeMap<(String, String), DeletedKind>,
    writer: Writer,
}

/// A kind whose definition was deleted.
#[derive(Debug)]
struct DeletedKind {
    namespaced: bool,
    /// The version of the deletion.
    revision: u64,
}

/// A kind that is defined, but has no served version.
#[derive(Debug)]
struct UnservedKind {
    definition_uid: String,
    namespaced: bool,
}

/// The states of all owners of an object.
enum Owners {
    Known(Vec<OwnerState>),
    /// A cluster-scoped object cannot have an owner in a namespace; it is ignored.
    Impossible,
    /// The kind of an owner is not served now.
    Unknown(String),
}

impl<'a> Collector<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let definitions = builtin(cluster, "apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let mut collector = Self {
            cluster,
            feed: Feed::new(cluster.store().clone()),
            graph: Graph::default(),
            pending: Pending::default(),
            kinds: BTreeMap::new(),
            catalog: None,
            unserved: BTreeMap::new(),
            definitions: Arc::clone(&definitions.collection),
            deleted_kinds: BTreeMap::new(),
            writer: writer("generic-garbage-collector", "kube-controller-manager"),
        };
        // Every deletion of a definition matters, also one that is compacted before it is seen.
        collector.feed.follow_each(&definitions.collection);
        collector.read_deleted_kinds();
        collector.refresh();
        collector
    }

    /// Follows the kinds that are served now.
    fn refresh(&mut self) {
        let catalog = self.cluster.catalog();
        if self.catalog.as_ref().is_some_and(|it| Arc::ptr_eq(it, &catalog)) {
            return;
        }
        // Events are many and never dependents.
        let kinds = catalog.stored().into_iter().filter(|it| &*it.collection != "/events");
        let kinds = kinds.map(|it| (Arc::clone(&it.collection), it)).collect();
        let mut left = std::mem::replace(&mut self.kinds, kinds);
        left.retain(|collection, _| !self.kinds.contains_key(collection));
        self.leave_undefined(&catalog);
        left.iter().for_each(|(collection, kind)| self.leave(collection, kind, &catalog));
        self.kinds.keys().for_each(|it| self.feed.follow(it));
        self.catalog = Some(catalog);
        // Objects that wait for an owner of a kind that was not served may proceed now.
        self.pending.retry_all_now();
    }

    /// Stops following a kind that is not served any more. Its objects are gone if its definition
    /// was deleted.
    fn leave(&mut self, collection: &CollectionName, kind: &Kind, catalog: &Catalog) {
        let changes = self.feed.leave_with_changes(collection);
        self.apply(changes);
        let namespaced = kind.def.namespaced;
        match catalog.definition_of(kind) {
            Some(defined) => {
                let unserved = UnservedKind { definition_uid: defined.uid().to_owned(), namespaced };
                self.unserved.insert(Arc::clone(collection), unserved);
            }
            None => self.forget_collection(collection, namespaced),
        }
    }

    /// Removes the objects of kinds from the graph whose definition was deleted while they were not
    /// served. Owners would wait for them for ever.
    fn leave_undefined(&mut self, catalog: &Catalog) {
        let uids: HashSet<&str> = catalog.definitions().map(|it| it.uid()).collect();
        for (collection, kind) in std::mem::take(&mut self.unserved) {
            // Served again, maybe by another definition: the list of its objects, which comes next,
            // shows which ones are gone.
            if self.kinds.contains_key(&collection) {
                continue;
            }
            if uids.contains(&*kind.definition_uid) {
                self.unserved.insert(collection, kind);
            } else {
                self.forget_collection(&collection, kind.namespaced);
            }
        }
    }

    /// Removes the objects of a collection from the graph: they are gone.
    fn forget_collection(&mut self, collection: &CollectionName, namespaced: bool) {
        for uid in self.graph.of_collection(collection) {
            let look = self.graph.forget(&uid, namespaced);
            look.into_iter().for_each(|uid| self.pending.add(Work::Object(uid)));
        }
    }

    /// Finds the definitions that were deleted before the collector started, as far as the log
    /// reaches back.
    fn read_deleted_kinds(&mut self) {
        let store = self.cluster.store();
        let oldest = store.read(&self.definitions, |history, _| history.oldest());
        let Ok(mut cursor) = store.watch(&self.definitions, oldest) else { return };
        while let Ok(Some(change)) = cursor.try_next() {
            if let (None, Some(definition)) = (&change.after, &change.before) {
                self.forget_definition(&definition.to_value(), change.version);
            }
        }
    }

    /// Records that a definition was deleted, and all objects of its kind with it. The kind may
    /// never have been followed: it can come and go between two steps.
    fn forget_definition(&mut self, definition: &Value, revision: u64) -> Vec<Uid> {
        let (group, kind) = (text(definition, "/spec/group"), text(definition, "/status/acceptedNames/kind"));
        // The names of a definition that is not established may be those of another one.
        if kind.is_empty() || !names::is_true(definition, "Established") {
            return Vec::new();
        }
        // References to a kind of this name may be to objects of the built-in one, which are there.
        if builtin::resources().iter().any(|it| it.group == group && it.kind == kind) {
            return Vec::new();
        }
        let namespaced = text(definition, "/spec/scope") == "Namespaced";
        self.deleted_kinds.insert((group.to_owned(), kind.to_owned()), DeletedKind { namespaced, revision });
        if self.deleted_kinds.len() > MAX_DELETED_KINDS {
            let oldest = self.deleted_kinds.iter().min_by_key(|(_, it)| it.revision);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|it| self.deleted_kinds.remove(&it));
        }
        self.graph.forget_kind(group, kind, namespaced)
    }

    /// Returns `None` unless an owner of a kind that is not served is known to be gone, and true if
    /// it was in a namespace. `version` is that of the dependent: one that was written after the
    /// definition was deleted may name an owner that does not exist yet.
    fn gone_with_kind(&self, owner: &OwnerRef, version: u64) -> Option<bool> {
        let deleted = || {
            let (group, _) = owner.api_version.rsplit_once('/')?;
            let deleted = self.deleted_kinds.get(&(group.to_owned(), owner.kind.clone()))?;
            (version < deleted.revision).then_some(deleted.namespaced)
        };
        self.graph.gone(&owner.uid).or_else(deleted)
    }

    /// Applies changes to the graph: those of dirty collections, or of all.
    fn absorb(&mut self, everywhere: bool) {
        let steps = if everywhere { self.feed.catch_up() } else { self.feed.take() };
        self.apply(steps);
    }

    fn apply(&mut self, steps: Vec<FeedEvent>) {
        for step in steps {
            let look = match step {
                FeedEvent::Listed(collection, objects) => self.list(&collection, &objects),
                FeedEvent::Changed(collection, change) => {
                    if collection == self.definitions {
                        self.refresh();
                        self.pending.add_after(Work::Catalog, CATALOG_RECHECK);
                    }
                    match (&change.after, &change.before) {
                        (None, Some(before)) if collection == self.definitions => {
                            let mut look = self.forget_definition(&before.to_value(), change.version);
                            look.extend(self.graph.forget(before.uid(), false));
                            look
                        }
                        (Some(after), _) => self.observe(&collection, after),
                        (None, Some(before)) => {
                            self.graph.forget(before.uid(), before.key().namespace().is_some())
                        }
                        (None, None) => Vec::new(),
                    }
                }
            };
            look.into_iter().for_each(|uid| self.pending.add(Work::Object(uid)));
        }
    }

    fn observe(&mut self, collection: &CollectionName, object: &Encoded) -> Vec<Uid> {
        self.graph.observe(collection, object.key(), object.uid(), OwnerMeta::read(object))
    }

    /// Applies the whole content of a collection. Other objects may be gone, among them owners of
    /// any object, so all are processed.
    fn list(&mut self, collection: &CollectionName, objects: &[Arc<Encoded>]) -> Vec<Uid> {
        let mut look: Vec<Uid> = objects.iter().flat_map(|it| self.observe(collection, it)).collect();
        let there: HashSet<&str> = objects.iter().map(|it| it.uid()).collect();
        for uid in self.graph.of_collection(collection) {
            if !there.contains(&*uid) {
                let namespaced = self.graph.node(&uid).is_some_and(|it| it.key.namespace().is_some());
                look.extend(self.graph.forget(&uid, namespaced));
            }
        }
        look.extend(self.graph.all());
        look
    }

    /// Processes an object: decides and acts.
    async fn process(&mut self, uid: &Uid) -> Result<(), ApiError> {
        self.refresh();
        let Some(Node { collection, key, fresh, .. }) = self.graph.node(uid).cloned() else { return Ok(()) };
        let Some(kind) = self.kinds.get(&collection).cloned() else { return Ok(()) };
        let Some(stored) = self.cluster.get(&kind, &key).filter(|it| it.uid() == &**uid) else {
            self.gone(uid, &key);
            return Ok(());
        };
        let meta = OwnerMeta::read(&stored);
        let verdict = if meta.deleting {
            self.absorb(true);
            decide::decide_deleting(&meta, uid, &self.graph)
        } else {
            let states = match self.states(&kind, &key, stored.version(), &meta) {
                Owners::Known(states) => states,
                Owners::Impossible => return Ok(()),
                Owners::Unknown(kind) => {
                    return Err(ApiError::internal(format!("no kind {kind:?} is served")));
                }
            };
            if states.contains(&OwnerState::Waiting) {
                self.absorb(true);
            }
            if fresh && states.contains(&OwnerState::Dangling) {
                self.report_other_namespaces(&kind, &stored, &meta, &states).await;
            }
            decide::decide_owned(&meta, &states, uid, &self.graph)
        };
        self.graph.set_processed(uid);
        self.execute(verdict, &kind, &key, uid, &stored).await
    }

    async fn execute(
        &mut self,
        verdict: Verdict,
        kind: &Kind,
        key: &ObjectKey,
        uid: &Uid,
        stored: &Encoded,
    ) -> Result<(), ApiError> {
        match verdict {
            Verdict::Keep => Ok(()),
            Verdict::WaitFor(uids) => {
                uids.into_iter().for_each(|it| self.pending.add(Work::Object(it)));
                Ok(())
            }
            Verdict::StopWaiting => self.change(kind, key, uid, |it| drop_finalizer(it, FOREGROUND)).await,
            Verdict::DropOwners(owners) => self.change(kind, key, uid, |it| drop_owners(it, &owners)).await,
            Verdict::Orphan(dependents) => {
                for dependent in dependents {
                    self.orphan(&dependent, uid).await?;
                }
                self.change(kind, key, uid, |it| drop_finalizer(it, ORPHAN)).await
            }
            Verdict::Delete { propagation, unblock: false } => {
                self.delete(kind, key, uid, stored.version(), propagation).await
            }
            Verdict::Delete { propagation, unblock: true } => {
                self.change(kind, key, uid, unblock_owners).await?;
                match self.cluster.get(kind, key).filter(|it| it.uid() == &**uid) {
                    Some(now) => self.delete(kind, key, uid, now.version(), propagation).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Removes the reference to an owner from a dependent.
    ///
    /// # Errors
    /// An error if the kind of the dependent is not served now. Without its owner, the dependent
    /// would be deleted as soon as it is served again.
    async fn orphan(&self, dependent: &Uid, owner: &Uid) -> Result<(), ApiError> {
        let Some(node) = self.graph.node(dependent) else { return Ok(()) };
        let Some(kind) = self.kinds.get(&node.collection) else {
            return Err(ApiError::internal(format!("{} is not served", node.collection)));
        };
        let owner = [owner.to_string()];
        self.change(kind, &node.key, dependent, |it| drop_owners(it, &owner)).await
    }

    /// Changes an object, if it still has this uid.
    async fn change(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        uid: &Uid,
        mut change: impl FnMut(&mut Value) -> bool + Send,
    ) -> Result<(), ApiError> {
        let change = |it: &mut Value| it["metadata"]["uid"] == **uid && change(it);
        match self.cluster.change(&ObjectRef::of(kind, key), &self.writer, change).await {
            Err(refusal) if refusal.0.code != 404 => Err(refusal),
            _ => Ok(()),
        }
    }

    async fn delete(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        uid: &Uid,
        version: u64,
        propagation: Propagation,
    ) -> Result<(), ApiError> {
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(uid.to_string()),
            version: Some(version.to_string()),
            ..DeleteOptions::default()
        };
        match self.cluster.delete(&ObjectRef::of(kind, key), &options, &self.writer).await {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.0.code == 404 => {
                self.gone(uid, key);
                Ok(())
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn gone(&mut self, uid: &Uid, key: &ObjectKey) {
        let look = self.graph.forget(uid, key.namespace().is_some());
        look.into_iter().for_each(|it| self.pending.add(Work::Object(it)));
    }

    fn states(&self, kind: &Kind, key: &ObjectKey, version: u64, meta: &OwnerMeta) -> Owners {
        let catalog = self.cluster.catalog();
        let mut states = Vec::with_capacity(meta.owners.len());
        for owner in &meta.owners {
            let Some(owner_kind) = catalog.kind_of(&owner.api_version, &owner.kind) else {
                match self.gone_with_kind(owner, version) {
                    Some(true) if !kind.def.namespaced => return Owners::Impossible,
                    Some(_) => {
                        states.push(OwnerState::Dangling);
                        continue;
                    }
                    None => {}
                }
                return Owners::Unknown(format!("{}/{}", owner.api_version, owner.kind));
            };
            if owner_kind.def.namespaced && !kind.def.namespaced {
                return Owners::Impossible;
            }
            states.push(self.owner_state(&owner_kind, key, owner));
        }
        Owners::Known(states)
    }

    fn owner_state(&self, owner_kind: &Kind, dependent: &ObjectKey, owner: &OwnerRef) -> OwnerState {
        let namespace = dependent.namespace().filter(|_| owner_kind.def.namespaced);
        let found = ObjectKey::from_parts(namespace, &owner.name).ok();
        let found = found.and_then(|it| self.cluster.get(owner_kind, &it));
        match found.filter(|it| it.uid() == owner.uid) {
            None => OwnerState::Dangling,
            Some(it) if OwnerMeta::read(&it).waits_for_dependents() => OwnerState::Waiting,
            Some(_) => OwnerState::Solid,
        }
    }

    /// Records an event if an owner exists, but in another namespace, which is an error of the
    /// client (k8s.io/kubernetes v1.36.4 pkg/controller/garbagecollector/graph_builder.go).
    async fn report_other_namespaces(
        &self,
        kind: &Kind,
        stored: &Encoded,
        meta: &OwnerMeta,
        states: &[OwnerState],
    ) {
        let catalog = self.cluster.catalog();
        let namespace = stored.key().namespace().unwrap_or_default();
        let owners = meta.owners.iter().zip(states).filter(|(_, it)| **it == OwnerState::Dangling);
        let dangling: Vec<_> = owners
            .filter_map(|(it, _)| Some((it, catalog.kind_of(&it.api_version, &it.kind)?.collection.clone())))
            .collect();
        let mut by_collection: BTreeMap<&CollectionName, HashSet<&str>> = BTreeMap::new();
        for (owner, collection) in &dangling {
            by_collection.entry(collection).or_default().insert(&owner.uid);
        }
        // A collection is not indexed by uid: it is read once for all references into it.
        for (collection, uids) in &mut by_collection {
            let there = self.cluster.store().read(collection, |history, revision| {
                let all = history.list_at(revision, None).into_iter().flatten();
                all.filter_map(|it| uids.get(it.uid()).copied()).collect()
            });
            *uids = there;
        }
        if by_collection.values().all(HashSet::is_empty) {
            return;
        }
        // The names of an object are the same in all versions.
        let mut about = stored.to_value();
        about["apiVersion"] = kind.def.api_version().into();
        for (owner, collection) in &dangling {
            if !by_collection[collection].contains(owner.uid.as_str()) {
                continue;
            }
            let OwnerRef { api_version, kind: owner_kind, name, uid, .. } = owner;
            let message = format!(
                "ownerRef [{api_version}/{owner_kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist \
                 in namespace {namespace:?}"
            );
            let event = Event::warning("OwnerRefInvalidNamespace", message);
            recorder::record(self.cluster, &self.writer, &about, &event).await;
        }
    }
}

fn drop_finalizer(object: &mut Value, finalizer: &str) -> bool {
    finalizers::remove(object, "/metadata/finalizers", finalizer)
}

fn drop_owners(object: &mut Value, uids: &[String]) -> bool {
    let Some(metadata) = object["metadata"].as_object_mut() else { return false };
    let Some(list) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else { return false };
    let before = list.len();
    let uids: HashSet<&str> = uids.iter().map(String::as_str).collect();
    list.retain(|it| !it["uid"].as_str().is_some_and(|uid| uids.contains(uid)));
    let (after, changed) = (list.len(), list.len() < before);
    if after == 0 {
        metadata.remove("ownerReferences");
    }
    changed
}

fn unblock_owners(object: &mut Value) -> bool {
    let list = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let mut changed = false;
    for owner in list.into_iter().flatten().filter(|it| it["blockOwnerDeletion"] == true) {
        owner["blockOwnerDeletion"] = false.into();
        changed = true;
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_and_finalizers_are_removed_one_by_one_if_present() {
        let mut object = json!({ "metadata": { "finalizers": ["a", "b"],
            "ownerReferences": [{ "uid": "x", "blockOwnerDeletion": true }, { "uid": "y" }] } });
        assert!(drop_finalizer(&mut object, "a") && !drop_finalizer(&mut object, "a"));
        assert!(unblock_owners(&mut object) && !unblock_owners(&mut object));
        assert!(drop_owners(&mut object, &["x".to_owned()]) && !drop_owners(&mut object, &["x".to_owned()]));
        assert_eq!(
            object,
            json!({ "metadata": { "finalizers": ["b"], "ownerReferences": [{ "uid": "y" }] } })
        );
        assert!(drop_owners(&mut object, &["y".to_owned()]));
        assert_eq!(object, json!({ "metadata": { "finalizers": ["b"] } }), "an empty list is removed");
        let mut bare = json!({ "metadata": {} });
        assert!(
            !drop_owners(&mut bare, &[]) && !drop_finalizer(&mut bare, "a") && !unblock_owners(&mut bare)
        );
    }
}
