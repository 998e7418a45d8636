//! The collector: follows the served kinds, and processes one object at a time.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::{Client, Discovery, Error};
use dogwatch_controller::BoxError;
use dogwatch_core::{Gvk, Object, ResourceType};
use dogwatch_informer::{SharedInformer, Store};
use dogwatch_workqueue::WorkQueue;
use dogwatch_workqueue::limiter::ExponentialPerItem;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::action::{Deletion, Target};
use super::decide::{self, OwnerState, Verdict};
use super::definition::Definition;
use super::definition_follower::{DefinitionFollower, is_initial};
use super::deleted_kinds::DeletedKinds;
use super::graph::{CollectionName, Graph, Node};
use super::kinds::{self, Kinds};
use super::monitors::{Monitor, Monitors, Tracker};
use super::owners::{OwnerReader, Owners};
use super::tracked::{NAME, OwnerMeta, OwnerRef, Tracked, Uid};
use crate::component::{FIRST_RETRY, LONGEST_RETRY};
use crate::manager::FIELD_MANAGER;
use crate::recorder::{Event, Recorder};

/// The interval at which discovery is read without a known change, as in k8s.io/kubernetes v1.36.4
/// cmd/kube-controller-manager/app/core.go.
const DISCOVERY_PERIOD: Duration = Duration::from_secs(30);
/// The times after a change of a definition or an APIService at which discovery is read: a server
/// serves the change some time after it is stored.
const DISCOVERY_AFTER: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(5)];
/// The time for which the collector waits for the first lists. It starts without those that fail,
/// as kube-controller-manager does: one broken kind must not keep all garbage.
const SYNC_LIMIT: Duration = Duration::from_secs(30);
/// The time between the deletion of an owner and the removal of its finalizer, or the deletion of
/// its dependents. Caches of different kinds are not updated together: in this time they show the
/// dependents that were created before the deletion.
const SETTLE: Duration = Duration::from_millis(100);
/// The time after which an object is processed again if an owner exists that no cache has: its
/// deletion may never be observed.
const UNOBSERVED: Duration = Duration::from_secs(30);
/// The maximum number of events about the references of an object: the burst that client-go allows.
const MAX_EVENTS: usize = 25;

/// Collects garbage. Dropping it ends its caches.
pub(super) struct Collector {
    client: Client,
    recorder: Recorder,
    tracker: Arc<Tracker>,
    monitors: watch::Sender<Arc<Monitors>>,
    definitions: SharedInformer<Definition>,
    /// Only its changes matter: they announce that other kinds are served.
    _services: SharedInformer<Tracked>,
    /// Notified when other kinds may be served.
    served: Arc<Notify>,
    deleted_kinds: Arc<Mutex<DeletedKinds>>,
    owners: OwnerReader,
    /// The objects that cannot be processed before other kinds are served.
    unresolved: Mutex<BTreeSet<Uid>>,
    /// The moment at which each waiting owner, or dependent of one, was first processed.
    settling: crate::pauses::Pauses<Uid>,
}

/// The result of processing an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// It is processed again after this time.
    Again(Duration),
}

impl Collector {
    /// Starts to follow the kinds.
    pub(super) fn start(client: Client, recorder: Recorder) -> Result<Self, BoxError> {
        let limiter = ExponentialPerItem::new(FIRST_RETRY, LONGEST_RETRY);
        let queue = WorkQueue::builder().name(NAME).limiter(limiter).earliest_wins().build();
        let tracker = Arc::new(Tracker { graph: Mutex::new(Graph::default()), queue });
        let (served, deleted_kinds) = (Arc::new(Notify::new()), Arc::<Mutex<DeletedKinds>>::default());
        let definitions = {
            let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
            let resource = ResourceType::cluster(gvk, "customresourcedefinitions");
            SharedInformer::new(dogwatch_client::Api::<Definition>::dynamic(client.clone(), resource))
        };
        let follow = DefinitionFollower {
            tracker: Arc::clone(&tracker),
            served: Arc::clone(&served),
            deleted_kinds: Arc::clone(&deleted_kinds),
        };
        definitions.on_change(move |change| follow.changed(change))?;
        definitions.start();
        let services = {
            let gvk = Gvk::new("apiregistration.k8s.io", "v1", "APIService");
            let resource = ResourceType::cluster(gvk, "apiservices");
            SharedInformer::new(dogwatch_client::Api::<Tracked>::dynamic_metadata(client.clone(), resource))
        };
        let notify = Arc::clone(&served);
        services.on_change(move |change| {
            if !is_initial(change) {
                notify.notify_one();
            }
        })?;
        services.start();
        let owners = OwnerReader::new(
            client.clone(),
            Arc::clone(&tracker),
            Arc::clone(&served),
            Arc::clone(&deleted_kinds),
        );
        Ok(Self {
            client,
            recorder,
            tracker,
            monitors: watch::Sender::new(Arc::default()),
            definitions,
            _services: services,
            served,
            deleted_kinds,
            owners,
            unresolved: Mutex::default(),
            settling: crate::pauses::Pauses::default(),
        })
    }

    pub(super) fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    fn monitors(&self) -> Arc<Monitors> {
        Arc::clone(&self.monitors.borrow())
    }

    /// Reads discovery again and again. Returns only if it fails for the first time.
    pub(super) async fn follow_kinds(&self) -> Result<(), BoxError> {
        self.definitions.synced_within(SYNC_LIMIT).await?;
        // The existing definitions are known now.
        let mut discovery = Some(self.client.discover().await?);
        let mut rest = DISCOVERY_AFTER.iter().skip(1);
        loop {
            if let Some(discovery) = discovery.take() {
                self.apply(&discovery);
            }
            self.prune();
            let wait = rest.next().copied().unwrap_or(DISCOVERY_PERIOD);
            tokio::select! {
                // In fixed order, so that runs with the same seed are identical.
                biased;
                () = self.served.notified() => rest = DISCOVERY_AFTER.iter().skip(1),
                () = tokio::time::sleep(wait) => {}
            }
            match self.client.discover().await {
                Ok(found) => discovery = Some(found),
                Err(error) => tracing::debug!(%error, "cannot read the kinds; will retry"),
            }
        }
    }

    /// Removes objects that are gone from the collections that only grow otherwise.
    fn prune(&self) {
        let graph = self.tracker.graph.lock();
        self.settling.retain(|it| graph.node(it).is_some());
        self.unresolved.lock().retain(|it| graph.node(it).is_some());
    }

    /// Follows the kinds that are served now.
    fn apply(&self, discovery: &Discovery) {
        let (kinds, before) = (Kinds::new(discovery), self.monitors());
        // A definition may have been deleted while its kind was not served.
        let same = kinds == before.kinds && before.all.values().all(|it| it.is_served);
        if same && !before.all.is_empty() {
            return;
        }
        let mut all = BTreeMap::new();
        let mut given_up = Vec::new();
        for (name, resource) in &kinds.collected {
            let monitor = match before.all.get(name) {
                // A version that is still served shows the same objects.
                Some(known) if known.resource == *resource || kinds.serves_resource(&known.resource) => {
                    known.served(true)
                }
                known => {
                    given_up.extend(known.inspect(|it| it.give_up(&self.tracker)));
                    let monitor = Arc::new(Monitor::start(&self.client, resource, name, &self.tracker));
                    // Those that are gone in the meantime would otherwise stay in the graph.
                    let all = self.tracker.graph.lock().of_collection(name);
                    self.tracker.look(all.into_iter().collect());
                    monitor
                }
            };
            all.insert(Arc::clone(name), monitor);
        }
        for (name, left) in &before.all {
            if all.contains_key(name) {
                continue;
            }
            let Gvk { group, kind, .. } = &left.resource.gvk;
            // A kind that is missing in discovery is no proof that its objects are gone: a server
            // that starts, or an aggregated one that is replaced, lists fewer kinds for a while.
            // Nor is the deletion of a definition whose objects still exist.
            let is_deleted =
                !self.is_defined(&left.resource) && self.deleted_kinds.lock().contains(group, kind);
            if is_deleted {
                left.give_up(&self.tracker);
                self.tracker.forget_collection(name, left.is_namespaced());
                given_up.push(left);
            } else if left.is_synced() && left.is_empty() && !self.is_tracked(name) {
                // Nothing is known of its objects.
                left.give_up(&self.tracker);
                given_up.push(left);
            } else {
                all.insert(Arc::clone(name), left.served(false));
            }
        }
        let is_changed = kinds != before.kinds || all.len() != before.all.len();
        self.monitors.send_replace(Arc::new(Monitors { kinds, all }));
        // The deletion of an owner may not have arrived before its cache was given up. Dependents
        // that are processed from now on do not find it there.
        for monitor in given_up {
            let Gvk { group, kind, .. } = &monitor.resource.gvk;
            let owned = self.tracker.graph.lock().owned_by_kind(group, kind);
            self.tracker.look(owned);
        }
        if is_changed {
            self.owners.forget_absences();
            let unresolved = std::mem::take(&mut *self.unresolved.lock());
            self.tracker.look(unresolved.into_iter().collect());
        }
    }

    /// Returns true if the graph has objects of a collection.
    fn is_tracked(&self, collection: &CollectionName) -> bool {
        !self.tracker.graph.lock().of_collection(collection).is_empty()
    }

    /// Returns true if a resource has a definition, whether it is served or not.
    fn is_defined(&self, resource: &ResourceType) -> bool {
        let name = format!("{}.{}", resource.plural, resource.gvk.group);
        let definitions: Store<Definition> = self.definitions.store();
        definitions.get_named(None, &name).is_some()
    }

    /// Waits until the first lists are in the graph, or take too long.
    pub(super) async fn synced(&self) {
        let deadline = Instant::now().checked_add(SYNC_LIMIT);
        let mut monitors = self.monitors.subscribe();
        let known = monitors.wait_for(|it| !it.all.is_empty()).await.map(|it| Arc::clone(&it));
        let Ok(known) = known else { return };
        let all = async {
            for monitor in known.all.values() {
                monitor.synced().await;
            }
        };
        if tokio::time::timeout_at(deadline.unwrap_or_else(Instant::now), all).await.is_err() {
            tracing::warn!("not all kinds can be listed; their objects count as absent until they can");
        }
    }

    /// Returns an object unless it is certain without a request that nothing has to be done.
    pub(super) fn unsettled(&self, uid: &Uid) -> Option<Node> {
        let monitors = self.monitors();
        let mut graph = self.tracker.graph.lock();
        let Some(node) = graph.node(uid).cloned() else {
            self.settling.end(uid);
            return None;
        };
        let is_settled = || {
            let monitor = monitors.all.get(&node.collection)?;
            // Without that, the graph may have an object that is gone.
            monitor.cached(&node.object.key()?, uid)?;
            let meta = &node.object.meta;
            if meta.deleting {
                let waits = meta.waits_for_dependents() && !meta.orphans_dependents();
                let ends = !meta.waits_for_dependents() && !meta.orphans_dependents();
                return Some(ends || (waits && decide::is_blocked(uid, &graph)));
            }
            let is_solid = |owner: &OwnerRef| {
                let state = monitors.cached_owner(&node.object, owner);
                state == Some(OwnerState::Solid)
            };
            Some(meta.owners.iter().all(is_solid))
        };
        if is_settled().unwrap_or(false) {
            graph.set_processed(uid);
            return None;
        }
        Some(node)
    }

    /// Processes an object: reads it, decides, and writes.
    ///
    /// # Errors
    /// The first error. The object is to be processed again.
    pub(super) async fn process(&self, uid: &Uid) -> Result<Outcome, Error> {
        let Some(node) = self.tracker.graph.lock().node(uid).cloned() else { return Ok(Outcome::Done) };
        let monitors = self.monitors();
        // The objects of a kind that is not served cannot be changed.
        let Some(target) = monitors.target(&node) else { return Ok(self.unresolved(uid, &monitors)) };
        let live = match target.live().await {
            Ok(Some(live)) => live,
            Ok(None) => {
                self.gone(&target);
                return Ok(Outcome::Done);
            }
            Err(error) => return Err(self.owners.rediscover(error)),
        };
        let meta = live.meta();
        if meta.deleting {
            return self.process_deleting(&target, live, &meta).await;
        }
        let (states, is_observed) = match self.owners.states(&monitors, &node, &meta).await? {
            Owners::Known { states, are_observed } => (states, are_observed),
            Owners::Impossible => return Ok(Outcome::Done),
            Owners::Unknown => return Ok(self.unresolved(uid, &monitors)),
        };
        if states.contains(&OwnerState::Waiting)
            && let Some(rest) = self.settling.left(uid, SETTLE)
        {
            return Ok(Outcome::Again(rest));
        }
        let verdict = {
            let mut graph = self.tracker.graph.lock();
            graph.set_processed(uid);
            decide::decide_owned(&meta, &states, uid, &graph)
        };
        if node.fresh {
            let missing = meta.owners.iter().zip(&states).filter(|(_, it)| **it == OwnerState::Dangling);
            self.report_other_namespaces(&monitors, &target, &live, missing.map(|(it, _)| it)).await;
        }
        match verdict {
            Verdict::DropOwners(owners) => target.drop_owners(&owners).await?,
            Verdict::Delete { propagation, unblock } => {
                if target.delete(live, propagation, unblock).await? == Deletion::Gone {
                    self.gone(&target);
                }
            }
            Verdict::Keep | Verdict::StopWaiting | Verdict::Orphan(_) => {}
        }
        Ok(if is_observed { Outcome::Done } else { Outcome::Again(UNOBSERVED) })
    }

    /// Processes an object that is being deleted.
    async fn process_deleting(
        &self,
        target: &Target,
        live: super::tracked::Live,
        meta: &OwnerMeta,
    ) -> Result<Outcome, Error> {
        if !meta.waits_for_dependents() && !meta.orphans_dependents() {
            return Ok(Outcome::Done);
        }
        if let Some(rest) = self.settling.left(&target.uid, SETTLE) {
            return Ok(Outcome::Again(rest));
        }
        let monitors = self.monitors();
        // The dependents of a kind that was defined a moment ago may not be in the graph yet.
        if !monitors.all.values().all(|it| it.is_synced() || it.is_overdue(SYNC_LIMIT)) {
            return Ok(Outcome::Again(SETTLE));
        }
        let verdict = decide::decide_deleting(meta, &target.uid, &self.tracker.graph.lock());
        match verdict {
            Verdict::StopWaiting => target.stop_waiting(live).await?,
            Verdict::Orphan(uids) => {
                let (dependents, all_served) = self.dependents(&monitors, uids);
                target.orphan(dependents).await?;
                if !all_served {
                    // Without its owner, a dependent that still refers to it would be deleted as
                    // soon as it is served again.
                    return Ok(self.unresolved(&target.uid, &monitors));
                }
                target.stop_orphaning(live).await?;
            }
            Verdict::Keep | Verdict::DropOwners(_) | Verdict::Delete { .. } => {}
        }
        Ok(Outcome::Done)
    }

    /// Keeps an object until other kinds are served than these.
    fn unresolved(&self, uid: &Uid, monitors: &Arc<Monitors>) -> Outcome {
        self.unresolved.lock().insert(Arc::clone(uid));
        // If they have changed meanwhile, nothing else may process the object again.
        if Arc::ptr_eq(&self.monitors(), monitors) { Outcome::Done } else { Outcome::Again(SETTLE) }
    }

    /// Returns these dependents, and true if all of them are served.
    fn dependents(&self, monitors: &Monitors, uids: Vec<Uid>) -> (Vec<Target>, bool) {
        let graph = self.tracker.graph.lock();
        let (mut dependents, mut all_served) = (Vec::new(), true);
        for node in uids.iter().filter_map(|it| graph.node(it)) {
            match monitors.target(node) {
                Some(target) => dependents.push(target),
                None => all_served = false,
            }
        }
        (dependents, all_served)
    }

    /// Removes an object that is gone from the graph.
    fn gone(&self, target: &Target) {
        self.settling.end(&target.uid);
        self.tracker.forget(&target.uid, target.key.namespace().is_some());
    }

    /// Records an event if an owner exists, but in another namespace, which is an error of the
    /// client (k8s.io/kubernetes v1.36.4 pkg/controller/garbagecollector/graph_builder.go).
    async fn report_other_namespaces<'o>(
        &self,
        monitors: &Monitors,
        target: &Target,
        live: &super::tracked::Live,
        missing: impl Iterator<Item = &'o OwnerRef>,
    ) {
        let exists = |owner: &OwnerRef| {
            let resource = monitors.kinds.find(&owner.api_version, &owner.kind)?;
            monitors.all.get(&kinds::collection(resource)).map(|it| it.has_uid(&owner.uid))
        };
        let mut reported = HashSet::new();
        let misplaced = missing.filter(|it| reported.insert(&it.uid) && exists(it).unwrap_or(false));
        let misplaced: Vec<_> = misplaced.take(MAX_EVENTS).cloned().collect();
        let (namespace, gvk) = (target.key.namespace().unwrap_or_default(), &target.monitor.resource.gvk);
        let about = json!({ "apiVersion": gvk.api_version(), "kind": gvk.kind.as_str(), "metadata": {
            "name": target.key.name(), "namespace": target.key.namespace(), "uid": *target.uid,
            "resourceVersion": live.version() } });
        for OwnerRef { api_version, kind, name, uid, .. } in misplaced {
            let message = format!(
                "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist \
                 in namespace {namespace:?}"
            );
            let event = Event::warning("OwnerRefInvalidNamespace", message);
            self.recorder.record(FIELD_MANAGER, &about, event).await;
        }
    }
}

impl Monitors {
    /// Returns an object of the graph, if its kind is served.
    fn target(&self, node: &Node) -> Option<Target> {
        let monitor = self.all.get(&node.collection).filter(|it| it.is_served)?;
        Some(Target {
            monitor: Arc::clone(monitor),
            key: node.object.key()?,
            uid: Arc::clone(&node.object.uid),
        })
    }
}
