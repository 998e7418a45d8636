//! The writes that carry out the verdict about an object.
//!
//! Each write calls webhooks and may take long, so several actions run at the same time. They read
//! the store, and know nothing of the graph.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::graph::Uid;
use super::owner_meta::{FOREGROUND, ORPHAN, OwnerRef};
use super::slots::Group;
use crate::ApiError;
use crate::cluster::{Cluster, DeleteOptions, ObjectRef, Propagation, Writer};
use crate::controllers::finalizers;
use crate::controllers::recorder::{self, Event};
use crate::registry::Kind;
use crate::store::{CollectionName, Encoded};

/// The action for an object.
#[derive(Debug)]
pub(super) struct Action {
    pub(super) uid: Uid,
    pub(super) kind: Arc<Kind>,
    /// The object as it was when the action was decided.
    pub(super) stored: Arc<Encoded>,
    /// The owners that do not exist, unless they are in another namespace. That is reported.
    pub(super) missing: Vec<OwnerRef>,
    pub(super) writes: Writes,
}

/// The writes of an action.
#[derive(Debug)]
pub(super) enum Writes {
    /// Removes references to these owners.
    DropOwners(Vec<String>),
    /// Deletes the object. With `unblock`, its references are made non-blocking first.
    Delete { propagation: Propagation, unblock: bool },
    /// Removes the foreground finalizer.
    StopWaiting,
    /// Removes the references from all dependents, then the finalizer. The order matters: a
    /// dependent that still refers to the object when that is gone would be deleted.
    Orphan {
        dependents: Vec<Dependent>,
        /// The collection of a dependent that cannot be changed now, because it is not served.
        /// Without its owner, the dependent would be deleted as soon as it is served again.
        unserved: Option<CollectionName>,
    },
}

/// A dependent of the object of an action.
#[derive(Debug)]
pub(super) struct Dependent {
    pub(super) uid: Uid,
    pub(super) kind: Arc<Kind>,
    pub(super) key: ObjectKey,
}

/// The result of an action that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    /// The object does not exist any more.
    Gone,
}

/// The access to the cluster that all actions share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) writer: &'a Writer,
}

impl Action {
    /// Returns the group of its object.
    pub(super) fn group(&self) -> Group {
        Group::new(&self.kind.collection, self.stored.key())
    }
}

impl Actor<'_> {
    /// Performs an action.
    ///
    /// # Errors
    /// The error of the first write that failed. Later writes of the action are not attempted.
    pub(super) async fn perform(self, action: &Action) -> Result<Outcome, ApiError> {
        let Action { uid, kind, stored, missing, writes } = action;
        let key = stored.key();
        if !missing.is_empty() {
            self.report_other_namespaces(kind, stored, missing).await;
        }
        match writes {
            Writes::DropOwners(owners) => self.change(kind, key, uid, |it| drop_owners(it, owners)).await,
            Writes::StopWaiting => self.change(kind, key, uid, |it| drop_finalizer(it, FOREGROUND)).await,
            Writes::Delete { propagation, unblock: false } => {
                self.delete(kind, key, uid, stored.version(), *propagation).await
            }
            Writes::Delete { propagation, unblock: true } => {
                self.change(kind, key, uid, unblock_owners).await?;
                match self.cluster.get(kind, key).filter(|it| it.uid() == &**uid) {
                    Some(now) => self.delete(kind, key, uid, now.version(), *propagation).await,
                    None => Ok(Outcome::Written),
                }
            }
            Writes::Orphan { dependents, unserved } => {
                let owner = [uid.to_string()];
                for Dependent { uid, kind, key } in dependents {
                    self.change(kind, key, uid, |it| drop_owners(it, &owner)).await?;
                }
                if let Some(collection) = unserved {
                    return Err(ApiError::internal(format!("{collection} is not served")));
                }
                self.change(kind, key, uid, |it| drop_finalizer(it, ORPHAN)).await
            }
        }
    }

    /// Changes an object, if it still has this uid.
    async fn change(
        self,
        kind: &Kind,
        key: &ObjectKey,
        uid: &Uid,
        mut change: impl FnMut(&mut Value) -> bool + Send,
    ) -> Result<Outcome, ApiError> {
        let change = |it: &mut Value| it["metadata"]["uid"] == **uid && change(it);
        match self.cluster.change(&ObjectRef::of(kind, key), self.writer, change).await {
            Err(refusal) if self.exists(kind, key, uid) => Err(refusal),
            _ => Ok(Outcome::Written),
        }
    }

    async fn delete(
        self,
        kind: &Kind,
        key: &ObjectKey,
        uid: &Uid,
        version: u64,
        propagation: Propagation,
    ) -> Result<Outcome, ApiError> {
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(uid.to_string()),
            version: Some(version.to_string()),
            ..DeleteOptions::default()
        };
        match self.cluster.delete(&ObjectRef::of(kind, key), &options, self.writer).await {
            Ok(_) => Ok(Outcome::Written),
            Err(refusal) if self.exists(kind, key, uid) => Err(refusal),
            Err(_) => Ok(Outcome::Gone),
        }
    }

    /// Returns true if an object still exists. The code of an error does not say so: a webhook may
    /// deny a request with 404.
    fn exists(self, kind: &Kind, key: &ObjectKey, uid: &Uid) -> bool {
        self.cluster.get(kind, key).is_some_and(|it| it.uid() == &**uid)
    }

    /// Records an event if an owner exists, but in another namespace, which is an error of the
    /// client (k8s.io/kubernetes v1.36.4 pkg/controller/garbagecollector/graph_builder.go).
    async fn report_other_namespaces(self, kind: &Kind, stored: &Encoded, missing: &[OwnerRef]) {
        let catalog = self.cluster.catalog();
        let namespace = stored.key().namespace().unwrap_or_default();
        let dangling: Vec<_> = missing
            .iter()
            .filter_map(|it| Some((it, catalog.kind_of(&it.api_version, &it.kind)?.collection.clone())))
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
            recorder::record(self.cluster, self.writer, &about, &event).await;
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
