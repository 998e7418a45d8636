//! The garbage collector: deletes dependents after or before their owners, or orphans them, as a
//! deletion asks.
//!
//! ```text
//! changes of all collections ─► graph (owners) ─► process an object ─► decide ─► slots ─► write
//! ```
//!
//! The graph determines which objects to process. The existence of an owner is read from the store
//! at the moment of the decision, and every deletion has the uid and the version of that read as
//! preconditions. Before a finalizer is removed, the graph is updated with the changes of all
//! collections, so that no dependent is missed.
//!
//! Objects are processed one after the other, but their writes run at the same time: a webhook that
//! does not respond delays only the objects of one kind and namespace. An object has one write at a
//! time.
//!
//! The `mod` lines below are in layer order.

mod owner_meta;
mod graph;
mod decide;
mod slots;
mod action;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;

use super::background::{builtin, writer};
use super::feed::{Feed, FeedEvent};
use super::pending::Pending;
use crate::ApiError;
use crate::builtin;
use crate::cluster::Cluster;
use crate::custom::names;
use crate::kinds::json_access::text;
use crate::panics::{Panicked, caught, caught_in};
use crate::registry::{Catalog, Kind};
use crate::store::{CollectionName, Encoded};
use action::{Action, Actor, Dependent, Outcome, Writes};
use decide::{OwnerState, Verdict};
use graph::{Graph, Node, Uid};
use owner_meta::{OwnerMeta, OwnerRef};
use slots::{Group, Slots};

/// The name, for logs, metrics and health checks.
pub(super) const NAME: &str = "garbage-collector";

/// The delay after which the catalog is read again after a change of a definition, in case it was
/// updated a moment later.
const CATALOG_RECHECK: Duration = Duration::from_millis(100);

/// The maximum number of deleted kinds that are remembered.
const MAX_DELETED_KINDS: usize = 1_000;

/// Collects garbage. Never returns; dropping the future stops it safely.
pub(super) async fn run(cluster: Arc<Cluster>) {
    let writer = writer("generic-garbage-collector", "kube-controller-manager");
    let actor = Actor { cluster: &cluster, writer: &writer };
    let mut collector = Collector::new(&cluster);
    let mut writes = FuturesUnordered::new();
    loop {
        collector.absorb(false);
        if let Some(work) = collector.next() {
            match work {
                Work::Catalog => collector.refresh(),
                Work::Object(uid) => writes.extend(collector.start(uid).map(|it| write(actor, it))),
            }
            // The verbs often complete without waiting: such a write is done before the next object
            // is processed.
            while let Poll::Ready(Some(written)) = futures_util::poll!(writes.next()) {
                collector.finish(&written);
            }
            // Let other tasks run as well.
            tokio::task::yield_now().await;
            continue;
        }
        let any_free = collector.slots.any_free();
        tokio::select! {
            // In fixed order, so that runs with the same seed are identical. Writes come first: a
            // feed that always has changes must not keep them from being polled.
            biased;
            Some(written) = writes.next() => collector.finish(&written),
            () = collector.feed.wait() => {}
            () = collector.pending.due(), if any_free => {}
        }
    }
}

/// A write that has finished.
struct Written {
    action: Action,
    result: Result<Outcome, ApiError>,
}

/// Performs an action. A panic is a failure of that action only.
async fn write(actor: Actor<'_>, action: Action) -> Written {
    let result = caught(actor.perform(&action)).await;
    let result = result.unwrap_or_else(|panic| Err(panicked(actor.cluster, &action.uid, panic)));
    Written { action, result }
}

/// Reports a panic, and returns the error after which the object is retried.
fn panicked(cluster: &Cluster, uid: &Uid, panic: Panicked) -> ApiError {
    cluster.background().panicked(NAME);
    tracing::error!(controller = NAME, %uid, panic = panic.0, "a controller panicked; the object will be retried");
    ApiError::internal(panic.0)
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
    slots: Slots,
    /// True if objects that have waited for a slot come before other work next time.
    prefers_waiting: bool,
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
            slots: Slots::default(),
            prefers_waiting: false,
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
        let namespaced = kind.def.namespaced;
        match catalog.definition_of(kind) {
            Some(defined) => {
                let changes = self.feed.changes(collection);
                self.feed.leave(collection);
                self.apply(changes);
                let unserved = UnservedKind { definition_uid: defined.uid().to_owned(), namespaced };
                self.unserved.insert(Arc::clone(collection), unserved);
            }
            None => {
                let changes = self.feed.leave_with_changes(collection);
                self.apply(changes);
                self.forget_collection(collection, namespaced);
            }
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
            self.queue(look);
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
        self.graph.forget_kind(group, kind, namespaced, revision)
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
        let mut defines = false;
        for step in steps {
            let look = match step {
                FeedEvent::Listed(collection, objects) => self.list(&collection, &objects),
                FeedEvent::Changed(collection, change) => {
                    let is_definition = collection == self.definitions;
                    defines |= is_definition;
                    match (&change.after, &change.before) {
                        (None, Some(before)) if is_definition => {
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
            self.queue(look);
        }
        // Not before: the last changes of a kind that is left are later than all of these.
        if defines {
            self.refresh();
            self.pending.add_after(Work::Catalog, CATALOG_RECHECK);
        }
    }

    fn observe(&mut self, collection: &CollectionName, object: &Encoded) -> Vec<Uid> {
        let meta = OwnerMeta::read(object);
        self.graph.observe(collection, object.key(), object.uid(), object.version(), meta)
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

    /// Queues objects, except those that are processed anyway when they have a slot, or after their
    /// current write. There may be many of them, and an owner that waits for them is processed after
    /// each one.
    fn queue(&mut self, uids: Vec<Uid>) {
        for uid in uids {
            if !self.slots.keeps(&uid) {
                self.pending.add(Work::Object(uid));
            }
        }
    }

    /// Returns the next item of work, unless all slots are in use. Objects that have waited for a
    /// slot and other work take turns.
    fn next(&mut self) -> Option<Work> {
        if !self.slots.any_free() {
            return None;
        }
        self.prefers_waiting = !self.prefers_waiting;
        let (slots, pending) = (&mut self.slots, &mut self.pending);
        if self.prefers_waiting {
            slots.take().map(Work::Object).or_else(|| pending.take())
        } else {
            pending.take().or_else(|| slots.take().map(Work::Object))
        }
    }

    /// Processes an object. Returns the action to perform, for which it has a slot.
    fn start(&mut self, uid: Uid) -> Option<Action> {
        self.refresh();
        let group = self.graph.node(&uid).map(group_of);
        if group.as_ref().is_some_and(|it| !self.slots.admit(&uid, it)) {
            return None;
        }
        let processed = caught_in(|| self.process(&uid));
        match processed.unwrap_or_else(|panic| Err(panicked(self.cluster, &uid, panic))) {
            Ok(None) => {
                self.pending.forget(&Work::Object(uid));
                None
            }
            Ok(Some(action)) => {
                self.slots.start(&uid, &action.group());
                Some(action)
            }
            Err(refusal) => {
                self.retry(uid, &refusal);
                None
            }
        }
    }

    /// Releases the slot of an action. It is retried if it has failed.
    fn finish(&mut self, written: &Written) {
        let Written { action, result } = written;
        let again = self.slots.finish(&action.uid, &action.group());
        match result {
            Ok(outcome) => {
                self.pending.forget(&Work::Object(Arc::clone(&action.uid)));
                if *outcome == Outcome::Gone {
                    self.gone(&action.uid, action.stored.key());
                }
            }
            Err(refusal) => self.retry(Arc::clone(&action.uid), refusal),
        }
        if again {
            self.pending.add(Work::Object(Arc::clone(&action.uid)));
        }
    }

    fn retry(&mut self, uid: Uid, refusal: &ApiError) {
        tracing::debug!(%uid, %refusal, "failed; will retry");
        self.pending.retry(Work::Object(uid));
    }

    /// Processes an object: decides, and returns the action if there is something to write.
    fn process(&mut self, uid: &Uid) -> Result<Option<Action>, ApiError> {
        let Some(Node { collection, key, fresh, .. }) = self.graph.node(uid).cloned() else {
            return Ok(None);
        };
        let Some(kind) = self.kinds.get(&collection).cloned() else { return Ok(None) };
        let Some(stored) = self.cluster.get(&kind, &key).filter(|it| it.uid() == &**uid) else {
            self.gone(uid, &key);
            return Ok(None);
        };
        let meta = OwnerMeta::read(&stored);
        let mut missing = Vec::new();
        let verdict = if meta.deleting {
            self.absorb(true);
            decide::decide_deleting(&meta, uid, &self.graph)
        } else {
            let states = match self.states(&kind, &key, stored.version(), &meta) {
                Owners::Known(states) => states,
                Owners::Impossible => return Ok(None),
                Owners::Unknown(kind) => {
                    return Err(ApiError::internal(format!("no kind {kind:?} is served")));
                }
            };
            if states.contains(&OwnerState::Waiting) {
                self.absorb(true);
            }
            if fresh {
                let owners = meta.owners.iter().zip(&states).filter(|(_, it)| **it == OwnerState::Dangling);
                missing.extend(owners.map(|(it, _)| it.clone()));
            }
            decide::decide_owned(&meta, &states, uid, &self.graph)
        };
        self.graph.set_processed(uid);
        let writes = self.writes(verdict);
        Ok(writes.map(|writes| Action { uid: Arc::clone(uid), kind, stored, missing, writes }))
    }

    /// Returns the writes of a verdict, if there are any.
    fn writes(&mut self, verdict: Verdict) -> Option<Writes> {
        match verdict {
            Verdict::Keep => None,
            Verdict::StopWaiting => Some(Writes::StopWaiting),
            Verdict::DropOwners(owners) => Some(Writes::DropOwners(owners)),
            Verdict::Delete { propagation, unblock } => Some(Writes::Delete { propagation, unblock }),
            Verdict::Orphan(uids) => {
                let (mut dependents, mut unserved) = (Vec::new(), None);
                for uid in uids {
                    let Some(Node { collection, key, .. }) = self.graph.node(&uid) else { continue };
                    match self.kinds.get(collection) {
                        Some(kind) => {
                            dependents.push(Dependent { uid, kind: Arc::clone(kind), key: key.clone() });
                        }
                        None => unserved = Some(Arc::clone(collection)),
                    }
                }
                Some(Writes::Orphan { dependents, unserved })
            }
        }
    }

    fn gone(&mut self, uid: &Uid, key: &ObjectKey) {
        let look = self.graph.forget(uid, key.namespace().is_some());
        self.queue(look);
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
}

fn group_of(node: &Node) -> Group {
    Group::new(&node.collection, &node.key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::{DeleteOptions, ObjectRef, Writer};

    const WIDGETS: (&str, &str) = ("example.com/v1", "Widget");
    const MAPS: (&str, &str) = ("v1", "ConfigMap");

    struct Setup {
        cluster: Cluster,
        writer: Writer,
    }

    impl Setup {
        async fn new() -> Self {
            let source = crate::cluster::Source::seeded(1, "2026-01-02T03:04:05Z".parse().unwrap());
            let cluster = Cluster::new(source);
            cluster.bootstrap().await;
            let it = Self { cluster, writer: Writer::server("test") };
            it.define().await;
            it
        }

        async fn define(&self) {
            let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": { "name": "widgets.example.com" },
                "spec": { "group": "example.com", "scope": "Namespaced",
                    "names": { "plural": "widgets", "kind": "Widget" },
                    "versions": [{ "name": "v1", "served": true, "storage": true,
                        "schema": { "openAPIV3Schema": { "type": "object" } } }] } });
            self.cluster.add(definition, &self.writer).await.unwrap();
        }

        async fn change_definition(&self, change: fn(&mut Value)) {
            let kind = builtin(&self.cluster, "apiextensions.k8s.io", "v1", "customresourcedefinitions");
            let key = ObjectKey::cluster("widgets.example.com");
            let change = |it: &mut Value| {
                change(it);
                true
            };
            self.cluster.change(&ObjectRef::of(&kind, &key), &self.writer, change).await.unwrap();
        }

        /// Removes the definition at once, with all objects of its kind.
        async fn undefine(&self) {
            let kind = builtin(&self.cluster, "apiextensions.k8s.io", "v1", "customresourcedefinitions");
            let key = ObjectKey::cluster("widgets.example.com");
            let options = DeleteOptions::default();
            self.cluster.delete(&ObjectRef::of(&kind, &key), &options, &self.writer).await.unwrap();
            self.change_definition(|it| it["metadata"]["finalizers"] = json!([])).await;
            assert!(self.cluster.get(&kind, &key).is_none());
        }

        /// Creates an object with an owner of kind Widget, and returns its uid.
        async fn add(&self, of: (&str, &str), name: &str, owner: &str) -> String {
            let reference = json!({ "apiVersion": WIDGETS.0, "kind": WIDGETS.1, "name": "o", "uid": owner });
            let object = json!({ "apiVersion": of.0, "kind": of.1,
                "metadata": { "name": name, "namespace": "default", "ownerReferences": [reference] } });
            self.cluster.add(object, &self.writer).await.unwrap();
            let kind = self.cluster.catalog().kind_of(of.0, of.1).unwrap();
            let key = ObjectKey::namespaced("default", name);
            self.cluster.get(&kind, &key).unwrap().uid().to_owned()
        }

        async fn delete(&self, of: (&str, &str), name: &str) {
            let kind = self.cluster.catalog().kind_of(of.0, of.1).unwrap();
            let key = ObjectKey::namespaced("default", name);
            let options = DeleteOptions::default();
            self.cluster.delete(&ObjectRef::of(&kind, &key), &options, &self.writer).await.unwrap();
        }
    }

    /// Regression test: changes that were read before the kind was left were applied after its last
    /// ones. The object returned to the graph, and its owner waited for it for ever.
    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_deleted_while_its_kind_is_left_does_not_return_to_the_graph() {
        for undefines in [true, false] {
            let it = Setup::new().await;
            let mut collector = Collector::new(&it.cluster);
            collector.absorb(true);
            it.change_definition(|it| it["metadata"]["labels"] = json!({ "x": "y" })).await;
            let w = it.add(WIDGETS, "w", "u").await;
            let steps = collector.feed.catch_up();
            it.delete(WIDGETS, "w").await;
            if undefines {
                it.undefine().await;
            } else {
                it.change_definition(|it| it["spec"]["versions"][0]["served"] = false.into()).await;
            }
            collector.apply(steps);
            assert_eq!(collector.graph.node(&w), None, "{undefines}");
        }
    }

    /// Regression test: the kind was left between the list of its objects and the next step, and
    /// the list was dropped. The owners of these objects did not wait for them.
    #[tokio::test(start_paused = true)]
    async fn objects_of_a_kind_that_is_left_before_they_were_taken_are_in_the_graph() {
        let it = Setup::new().await;
        let w = it.add(WIDGETS, "w", "u").await;
        let mut collector = Collector::new(&it.cluster);
        it.change_definition(|it| it["spec"]["versions"][0]["served"] = false.into()).await;
        collector.refresh();
        assert!(collector.graph.node(&w).is_some());
        it.undefine().await;
        collector.refresh();
        assert_eq!(collector.graph.node(&w), None);
    }

    #[tokio::test(start_paused = true)]
    async fn owners_that_were_created_after_their_definition_was_deleted_are_not_gone() {
        for compacts in [false, true] {
            let it = Setup::new().await;
            it.add(MAPS, "before", "former").await;
            let mut collector = Collector::new(&it.cluster);
            collector.absorb(true);
            it.undefine().await;
            it.define().await;
            it.add(MAPS, "after", "current").await;
            if compacts {
                it.cluster.store().compact(it.cluster.store().revision());
            }
            collector.absorb(true);
            assert_eq!(collector.graph.gone("current"), None, "{compacts}");
            // The time of a deletion that was compacted is not known.
            assert_eq!(collector.graph.gone("former"), (!compacts).then_some(true));
        }
    }
}
