//! The objects of a workload: found by index, adopted if they have no controller, and released if
//! the workload does not select them any more, as `ClaimObject` in k8s.io/kubernetes v1.36.4
//! pkg/controller/controller_ref_manager.go does.

use std::sync::Arc;

use dogwatch_client::Error;
use dogwatch_core::{LabelSelector, Object, ObjectKey};
use serde_json::Value;

use crate::collection::{Collection, FirstError, Writer};
use crate::index::{CONTROLLER, ORPHAN, SELECTOR, anchor, labels};
use crate::json_access::{items, text};
use crate::object::{JsonObject, Payload};
use crate::owner::{adopt, controller, controller_key, controls, is_deleting, release};
use crate::selector::of_workload;

/// A workload that claims its objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) workload: &'a Value,
    pub(crate) selector: &'a LabelSelector,
    /// The collection of the workload, in which its current state is looked up before an adoption.
    pub(crate) workloads: &'a Collection<JsonObject>,
    pub(crate) writer: Writer<'a>,
}

/// A workload that adds a finalizer to the objects that it adopts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WithFinalizer<'a> {
    claimant: Claimant<'a>,
    finalizer: &'static str,
}

impl<'a> Claimant<'a> {
    /// Adds a finalizer to the objects that are adopted.
    pub(crate) fn with_finalizer(self, finalizer: &'static str) -> WithFinalizer<'a> {
        WithFinalizer { claimant: self, finalizer }
    }

    /// Returns the objects of the workload after adopting and releasing some. `may_have` limits
    /// what it may have apart from its selector. Returns `None` if the cached workload is out of
    /// date: its key comes back when the cache shows what has become of it.
    pub(crate) async fn claim<T: Payload>(
        self,
        objects: &Collection<T>,
        may_have: impl Fn(&T) -> bool,
    ) -> Result<Option<Vec<Arc<T>>>, Error> {
        self.claim_by(objects, may_have, |it| adopt(self.workload, it)).await
    }

    async fn claim_by<T: Payload>(
        self,
        objects: &Collection<T>,
        may_have: impl Fn(&T) -> bool,
        adopt: impl Fn(&mut Value) -> bool + Send + Sync,
    ) -> Result<Option<Vec<Arc<T>>>, Error> {
        let alive = !is_deleting(self.workload);
        let matches = |it: &T| self.selector.matches(it.header().labels) && may_have(it);
        let (mut claimed, mut failed) = (Vec::new(), FirstError::default());
        for object in objects.found(CONTROLLER, text(self.workload, "/metadata/uid")) {
            // A reference to an owner in another namespace is invalid.
            if object.header().namespace != self.key.namespace() {
                continue;
            }
            if matches(&object) {
                claimed.push(object);
            } else if let Some(key) = object.key().filter(|_| alive) {
                let release = |it: &mut Value| release(self.workload, it);
                failed.keep(objects.change(&key, "", self.writer, release).await);
            }
        }
        let mut orphans =
            objects.found(ORPHAN, &anchor(self.key.namespace().unwrap_or_default(), self.selector));
        orphans.retain(|it| alive && !is_deleting(it) && matches(it));
        if !orphans.is_empty() && !self.workloads.may_adopt(self.key, self.workload).await? {
            return Ok(None);
        }
        for orphan in orphans {
            let Some(key) = orphan.key() else { continue };
            let adopted = objects.change(&key, "", self.writer, |it| adopt(it)).await;
            // Another client may have been faster.
            claimed.extend(failed.keep(adopted).flatten().filter(|it| controls(self.workload, it)));
        }
        failed.into_result()?;
        Ok(Some(claimed))
    }
}

impl WithFinalizer<'_> {
    /// Like [`Claimant::claim`].
    pub(crate) async fn claim<T: Payload>(
        self,
        objects: &Collection<T>,
        may_have: impl Fn(&T) -> bool,
    ) -> Result<Option<Vec<Arc<T>>>, Error> {
        let adopt = |it: &mut Value| {
            let adopted = adopt(self.claimant.workload, it);
            let mut finalizers = items(it, "/metadata/finalizers").to_vec();
            if adopted && !finalizers.iter().any(|it| it == self.finalizer) {
                finalizers.push(self.finalizer.into());
                it["metadata"]["finalizers"] = finalizers.into();
            }
            adopted
        };
        self.claimant.claim_by(objects, may_have, adopt).await
    }
}

/// Returns a function from an object to the workloads of a kind that a change of it concerns: its
/// controller, or without one, all whose selector matches it.
pub(crate) fn workloads_of<T: Payload>(
    workloads: &Collection<JsonObject>,
    kind: &'static str,
) -> impl Fn(&T) -> Vec<ObjectKey> + Send + Sync + 'static {
    workloads_selected_by(workloads, kind, of_workload)
}

/// Like [`workloads_of`], for a kind whose selectors `selector` returns.
pub(crate) fn workloads_selected_by<T: Payload>(
    workloads: &Collection<JsonObject>,
    kind: &'static str,
    selector: fn(&Value) -> Option<LabelSelector>,
) -> impl Fn(&T) -> Vec<ObjectKey> + Send + Sync + 'static {
    let workloads = workloads.clone();
    move |object: &T| {
        if controller(object).is_some() {
            return controller_key(object, kind).into_iter().collect();
        }
        let header = object.header();
        let candidates = labels(&header).into_iter().flat_map(|it| workloads.found(SELECTOR, &it));
        let selects = |it: &Arc<JsonObject>| selector(it).is_some_and(|it| it.matches(header.labels));
        candidates.filter(selects).filter_map(|it| it.key()).collect()
    }
}
