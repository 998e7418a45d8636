//! The writes that carry out the verdict about an object.
//!
//! Each write names the uid and the version of the state that was decided about, and may take long,
//! since it calls webhooks. Knows nothing of the graph.

use std::collections::HashSet;
use std::sync::Arc;

use dogwatch_client::Error;
use dogwatch_client::api::Patch;
use dogwatch_core::{DeleteParams, ObjectKey, PatchParams, Preconditions, Propagation};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::monitors::Monitor;
use super::tracked::{FOREGROUND, Live, ORPHAN, Uid};
use crate::manager::FIELD_MANAGER;

/// The number of attempts to change an object that others change at the same time.
const ATTEMPTS: usize = 5;
/// The number of dependents that are orphaned at the same time.
const CONCURRENT_ORPHANINGS: usize = 8;

/// An object on the server.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) monitor: Arc<Monitor>,
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
}

/// The result of a deletion that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    Accepted,
    /// The object does not exist any more.
    Gone,
}

impl Target {
    /// Returns the object as the server has it now, if it still has this uid.
    ///
    /// # Errors
    /// If the server cannot say: then the kind may not be served any more.
    pub(super) async fn live(&self) -> Result<Option<Live>, Error> {
        match self.monitor.api.at(&self.key).get(self.key.name()).await {
            Ok(found) => Ok(Some(found).filter(|it| it.uid() == &*self.uid)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes references to these owners.
    pub(super) async fn drop_owners(&self, owners: &[Uid]) -> Result<(), Error> {
        self.change(None, |it| without_owners(it, owners)).await.map(drop)
    }

    /// Removes the foreground finalizer.
    pub(super) async fn stop_waiting(&self, live: Live) -> Result<(), Error> {
        self.change(Some(live), |it| without_finalizer(it, FOREGROUND)).await.map(drop)
    }

    /// Removes the references from these dependents, and returns true if that succeeded for all.
    /// Then the finalizer of the object can be removed. The order matters: a dependent that still
    /// refers to the object when that is gone would be deleted.
    ///
    /// # Errors
    /// The first error; all dependents are tried.
    pub(super) async fn orphan(&self, dependents: Vec<Self>) -> Result<(), Error> {
        let owner = [Uid::clone(&self.uid)];
        let (mut waiting, mut failed) = (dependents.iter(), None);
        let mut running = FuturesUnordered::new();
        loop {
            // A write is much larger than a dependent, so only those that run are created.
            let free = CONCURRENT_ORPHANINGS.saturating_sub(running.len());
            running.extend(waiting.by_ref().take(free).map(|it| it.drop_owners(&owner)));
            match running.next().await {
                Some(Ok(())) => {}
                Some(Err(error)) => drop(failed.get_or_insert(error)),
                None => return failed.map_or(Ok(()), Err),
            }
        }
    }

    /// Removes the orphan finalizer.
    pub(super) async fn stop_orphaning(&self, live: Live) -> Result<(), Error> {
        self.change(Some(live), |it| without_finalizer(it, ORPHAN)).await.map(drop)
    }

    /// Deletes the object, if it is still in this state. With `unblock`, its references are made
    /// non-blocking first, since it may be part of a cycle.
    pub(super) async fn delete(
        &self,
        mut live: Live,
        propagation: Propagation,
        unblock: bool,
    ) -> Result<Deletion, Error> {
        if unblock {
            match self.change(Some(live), with_unblocked_owners).await? {
                Some(changed) => live = changed,
                None => return Ok(Deletion::Gone),
            }
        }
        let mut preconditions = Preconditions::uid(&*self.uid);
        preconditions.resource_version = Some(live.version().to_owned());
        let mut params = DeleteParams::default().preconditions(preconditions);
        params.propagation = Some(propagation);
        match self.monitor.api.at(&self.key).delete(self.key.name(), &params).await {
            Ok(_) => Ok(Deletion::Accepted),
            // The code does not say whether the object is gone: a webhook may deny with 404.
            Err(error) => match self.live().await? {
                Some(_) => Err(error),
                None => Ok(Deletion::Gone),
            },
        }
    }

    /// Patches the metadata of the object with the fields that `change` returns, on the version
    /// that they follow from, and again after a conflict. Returns the object after the change, or
    /// `None` if it is gone.
    async fn change(
        &self,
        known: Option<Live>,
        change: impl Fn(&Live) -> Option<Value>,
    ) -> Result<Option<Live>, Error> {
        let (mut current, mut attempt) = (known, 0_usize);
        loop {
            let live = match current.take() {
                Some(live) => live,
                None => match self.live().await? {
                    Some(live) => live,
                    None => return Ok(None),
                },
            };
            let Some(mut metadata) = change(&live) else { return Ok(Some(live)) };
            metadata["uid"] = (*self.uid).into();
            metadata["resourceVersion"] = live.version().into();
            let (api, params) =
                (self.monitor.api.at(&self.key), PatchParams::default().manager(FIELD_MANAGER));
            let patch = json!({ "metadata": metadata });
            let error = match api.patch(self.key.name(), &params, Patch::Merge(&patch)).await {
                Ok(patched) => return Ok(Some(patched)),
                Err(error) => error,
            };
            // Another write was first, or the object is gone, or the write is denied.
            match self.live().await? {
                None => return Ok(None),
                Some(now) if error.is_conflict() && attempt < ATTEMPTS => current = Some(now),
                Some(_) => return Err(error),
            }
            attempt = attempt.saturating_add(1);
        }
    }
}

/// Returns true if an error says that an object does not exist, and not that its kind is not
/// served: that response is not a `Status`, or does not name the object.
pub(super) fn is_absent(error: &Error) -> bool {
    error.status().is_some_and(|it| {
        let names_object = it.details.as_ref().is_some_and(|it| !it.name.is_empty());
        it.is_not_found() && names_object && !it.is_unexpected_server_response()
    })
}

fn without_owners(live: &Live, uids: &[Uid]) -> Option<Value> {
    let uids: HashSet<&str> = uids.iter().map(|it| &**it).collect();
    let is_one = |it: &&Value| it["uid"].as_str().is_some_and(|uid| uids.contains(uid));
    let left: Vec<_> = live.owners().iter().filter(|it| !is_one(it)).collect();
    // A patch with `null` removes the field.
    let patched = if left.is_empty() { Value::Null } else { json!(left) };
    (left.len() < live.owners().len()).then(|| json!({ "ownerReferences": patched }))
}

fn without_finalizer(live: &Live, finalizer: &str) -> Option<Value> {
    let left: Vec<_> = live.finalizers().iter().filter(|it| *it != finalizer).collect();
    let patched = if left.is_empty() { Value::Null } else { json!(left) };
    (left.len() < live.finalizers().len()).then(|| json!({ "finalizers": patched }))
}

fn with_unblocked_owners(live: &Live) -> Option<Value> {
    let (mut owners, mut changed) = (live.owners().to_vec(), false);
    for owner in owners.iter_mut().filter(|it| it["blockOwnerDeletion"] == true) {
        owner["blockOwnerDeletion"] = false.into();
        changed = true;
    }
    changed.then(|| json!({ "ownerReferences": owners }))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn references_and_finalizers_are_removed_one_by_one_if_present() {
        let live = |metadata: Value| Live::deserialize(json!({ "metadata": metadata })).unwrap();
        let object = live(json!({ "finalizers": ["a", "b"],
            "ownerReferences": [{ "uid": "x", "blockOwnerDeletion": true }, { "uid": "y" }] }));
        assert_eq!(without_finalizer(&object, "a"), Some(json!({ "finalizers": ["b"] })));
        assert_eq!(without_finalizer(&object, "c"), None);
        assert_eq!(
            with_unblocked_owners(&object),
            Some(json!({ "ownerReferences": [{ "uid": "x", "blockOwnerDeletion": false }, { "uid": "y" }] }))
        );
        assert_eq!(
            without_owners(&object, &["x".into()]),
            Some(json!({ "ownerReferences": [{ "uid": "y" }] }))
        );
        assert_eq!(without_owners(&object, &["z".into()]), None);
        let none_left = without_owners(&object, &["x".into(), "y".into()]);
        assert_eq!(none_left, Some(json!({ "ownerReferences": null })), "an empty list is removed");
        let bare = live(json!({}));
        assert_eq!(without_owners(&bare, &[]), None);
        assert_eq!((without_finalizer(&bare, "a"), with_unblocked_owners(&bare)), (None, None));
    }
}
