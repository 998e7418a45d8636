//! The owners of an object: their states in the caches, or on the server.
//!
//! An absence is certain only if a watch or the server reported it. Absences that the server
//! reported are remembered until other kinds are served.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use dogwatch_client::{Api, Client, Error};
use dogwatch_core::{Object, ObjectKey, ResourceType, Scope};
use futures_util::future::try_join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::action::is_absent;
use super::decide::OwnerState;
use super::deleted_kinds::DeletedKinds;
use super::graph::{CollectionName, Node};
use super::kinds;
use super::monitors::{Monitors, Tracker};
use super::tracked::{OwnerMeta, OwnerRef, Tracked};

/// The number of owners of an object that are read at the same time.
const CONCURRENT_READS: usize = 8;
/// The maximum number of absent owners that are remembered.
const MAX_ABSENT: usize = 1_000;

/// Finds the states of owners.
pub(super) struct OwnerReader {
    client: Client,
    tracker: Arc<Tracker>,
    /// Notified when other kinds may be served.
    served: Arc<Notify>,
    deleted_kinds: Arc<Mutex<DeletedKinds>>,
    /// References to owners that the server was asked for in vain, with the namespace of the
    /// dependent. The uid is not enough: a reference may have the name of another object.
    absent: Mutex<HashSet<String>>,
}

/// The states of all owners of an object.
pub(super) enum Owners {
    Known {
        states: Vec<OwnerState>,
        /// True if the caches have all that exist.
        are_observed: bool,
    },
    /// A cluster-scoped object cannot have an owner in a namespace; it is ignored.
    Impossible,
    /// The kind of an owner is not served now.
    Unknown,
}

/// The state of an owner, as far as it is known without a request.
enum KnownOwner {
    State(OwnerState),
    Impossible,
    Unknown,
    /// The server has to be asked, with this resource.
    Ask(ResourceType),
}

impl OwnerReader {
    /// Creates a reader that remembers no absence.
    pub(super) fn new(
        client: Client,
        tracker: Arc<Tracker>,
        served: Arc<Notify>,
        deleted_kinds: Arc<Mutex<DeletedKinds>>,
    ) -> Self {
        Self { client, tracker, served, deleted_kinds, absent: Mutex::default() }
    }

    /// Returns the states of all owners of an object.
    pub(super) async fn states(
        &self,
        monitors: &Monitors,
        node: &Node,
        meta: &OwnerMeta,
    ) -> Result<Owners, Error> {
        let mut states = Vec::with_capacity(meta.owners.len());
        // By what is asked for: an object may name an owner many times.
        let mut asked: BTreeMap<String, (&OwnerRef, ResourceType, Vec<usize>)> = BTreeMap::new();
        for (at, owner) in meta.owners.iter().enumerate() {
            match self.known_owner(monitors, node, owner) {
                KnownOwner::State(state) => states.push(state),
                KnownOwner::Impossible => return Ok(Owners::Impossible),
                KnownOwner::Unknown => return Ok(Owners::Unknown),
                KnownOwner::Ask(resource) => {
                    states.push(OwnerState::Dangling);
                    let key = absent_key(&node.object, owner);
                    asked.entry(key).or_insert_with(|| (owner, resource, Vec::new())).2.push(at);
                }
            }
        }
        let (mut are_observed, mut asked) = (true, asked.into_values());
        loop {
            // A few at a time: a reference is much smaller than the request for it.
            let some: Vec<_> = asked.by_ref().take(CONCURRENT_READS).collect();
            if some.is_empty() {
                return Ok(Owners::Known { states, are_observed });
            }
            let read = some.iter().map(|(owner, resource, _)| self.live_owner(node, owner, resource.clone()));
            for (state, (.., places)) in try_join_all(read).await?.into_iter().zip(&some) {
                are_observed &= state == OwnerState::Dangling;
                for place in places {
                    if let Some(known) = states.get_mut(*place) {
                        *known = state;
                    }
                }
            }
        }
    }

    /// Returns the state of an owner as far as it is known without a request. An absence is known
    /// only if the deletion was observed.
    fn known_owner(&self, monitors: &Monitors, node: &Node, owner: &OwnerRef) -> KnownOwner {
        let is_namespaced = node.object.is_namespaced();
        let was_namespaced = |gone: Option<bool>| match gone {
            Some(true) if !is_namespaced => Some(KnownOwner::Impossible),
            Some(_) => Some(KnownOwner::State(OwnerState::Dangling)),
            None => None,
        };
        let gone = self.tracker.graph.lock().gone(&owner.uid);
        if let Some(known) = was_namespaced(gone) {
            return known;
        }
        let Some(resource) = monitors.kinds.find(&owner.api_version, &owner.kind) else {
            // References to a kind that is served in another version cannot be resolved, but their
            // owners exist.
            let is_served = monitors.kinds.serves(owner.group(), &owner.kind);
            let gone = if is_served { None } else { self.deleted_kinds.lock().has(owner, node.since) };
            return was_namespaced(gone).unwrap_or(KnownOwner::Unknown);
        };
        if resource.scope == Scope::Namespaced && !is_namespaced {
            return KnownOwner::Impossible;
        }
        if let Some(state) = monitors.cached_owner(&node.object, owner) {
            return KnownOwner::State(state);
        }
        if self.absent.lock().contains(&absent_key(&node.object, owner)) {
            return KnownOwner::State(OwnerState::Dangling);
        }
        KnownOwner::Ask(resource.clone())
    }

    /// Asks the server for an owner.
    async fn live_owner(
        &self,
        node: &Node,
        owner: &OwnerRef,
        resource: ResourceType,
    ) -> Result<OwnerState, Error> {
        // The name of an owner can be any text, and that of one that cannot be requested is no
        // proof of its absence. kube-controller-manager fails in its client, and keeps the
        // dependent.
        let Some(key) = owner_key(&node.object, owner, &resource) else { return Ok(OwnerState::Solid) };
        let api = Api::<Tracked>::dynamic_metadata(self.client.clone(), resource).at(&key);
        match api.get(key.name()).await {
            Ok(found) if found.uid == owner.uid => return Ok(OwnerState::of(&found.meta)),
            Ok(_) => {}
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(self.rediscover(error)),
        }
        let mut absent = self.absent.lock();
        if absent.len() >= MAX_ABSENT {
            absent.clear();
        }
        absent.insert(absent_key(&node.object, owner));
        Ok(OwnerState::Dangling)
    }

    /// Forgets the absences that the server reported.
    pub(super) fn forget_absences(&self) {
        self.absent.lock().clear();
    }

    /// Reads discovery again if an error says that a kind is not served any more.
    pub(super) fn rediscover(&self, error: Error) -> Error {
        if error.is_not_found() {
            self.served.notify_one();
        }
        error
    }
}

impl Monitors {
    /// Returns the state of an owner that the caches have.
    pub(super) fn cached_owner(&self, dependent: &Tracked, owner: &OwnerRef) -> Option<OwnerState> {
        let resource = self.kinds.find(&owner.api_version, &owner.kind)?;
        let collection: CollectionName = kinds::collection(resource);
        let found = self.all.get(&collection)?.cached(&owner_key(dependent, owner, resource)?, &owner.uid)?;
        Some(OwnerState::of(&found.meta))
    }
}

impl OwnerState {
    fn of(meta: &OwnerMeta) -> Self {
        if meta.waits_for_dependents() { Self::Waiting } else { Self::Solid }
    }
}

/// Returns the key of an owner. One in a namespace is in that of its dependent.
fn owner_key(dependent: &Tracked, owner: &OwnerRef, resource: &ResourceType) -> Option<ObjectKey> {
    let namespace = dependent.header().namespace.filter(|_| resource.scope == Scope::Namespaced);
    // A namespaced owner of a cluster-scoped object cannot be looked up.
    if resource.scope == Scope::Namespaced && namespace.is_none() {
        return None;
    }
    ObjectKey::from_parts(namespace, &owner.name).ok()
}

fn absent_key(dependent: &Tracked, owner: &OwnerRef) -> String {
    let OwnerRef { api_version, kind, name, uid, .. } = owner;
    let namespace = dependent.header().namespace.unwrap_or_default();
    format!("{namespace}/{api_version}/{kind}/{name}/{uid}")
}
