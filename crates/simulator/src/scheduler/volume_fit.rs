//! The volumes of pods: whether their claims are bound, and which nodes can reach their volumes.

use std::sync::Arc;

use dogwatch_client::Error;
use dogwatch_controller::ControllerBuilder;
use dogwatch_core::ObjectKey;
use serde_json::Value;

use crate::caches::Caches;
use crate::collection::{Collection, Writer};
use crate::index::claims_of;
use crate::json_access::{at, items, text};
use crate::node_fit::matches_term;
use crate::object::{JsonObject, Pod};
use crate::owner::is_deleting;
use crate::volumes::{class_of_claim, is_bound, waits_for_consumer};

/// The annotation with the node for which the volume of a claim is needed.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The claims and volumes that pods use.
#[derive(Debug)]
pub(super) struct Volumes {
    claims: Collection<JsonObject>,
    volumes: Collection<JsonObject>,
    classes: Collection<JsonObject>,
}

/// The volumes of one pod.
#[derive(Debug, Default)]
pub(super) struct VolumesOfPod {
    bound: Vec<Arc<JsonObject>>,
    /// The claims that are bound when the pod has a node.
    pub(super) waiting: Vec<ObjectKey>,
}

impl Volumes {
    pub(super) fn new(caches: &Caches) -> Self {
        Self { claims: caches.claims.get(), volumes: caches.volumes.get(), classes: caches.classes.get() }
    }

    /// Adds the collections to a controller; `waiting` returns the pods that wait for a claim.
    pub(super) fn watch<I: IntoIterator<Item = ObjectKey>>(
        &self,
        builder: ControllerBuilder<ObjectKey>,
        waiting: impl Fn(&JsonObject) -> I + Send + Sync + 'static,
    ) -> ControllerBuilder<ObjectKey> {
        let builder = builder.watches(&self.claims.informer, waiting);
        builder.needs(&self.volumes.informer).needs(&self.classes.informer)
    }

    /// Returns the volumes of a pod, or the reason why it cannot have a node yet.
    pub(super) fn of(&self, pod: &Pod) -> Result<VolumesOfPod, String> {
        let mut found = VolumesOfPod::default();
        for claim in claims_of(pod) {
            let Ok(key) = claim.parse::<ObjectKey>() else { continue };
            let name = key.name();
            let Some(claim) = self.claims.get(&key) else {
                return Err(format!("persistentvolumeclaim {name:?} not found"));
            };
            if is_deleting(&claim) {
                return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if is_bound(&claim) {
                let volume = self.volumes.get(&ObjectKey::cluster(text(&claim, "/spec/volumeName")));
                found.bound.extend(volume);
                continue;
            }
            let class = class_of_claim(&claim).and_then(|it| self.classes.get(&ObjectKey::cluster(it)));
            if !class.is_some_and(|it| waits_for_consumer(&it)) {
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
            found.waiting.push(key);
        }
        Ok(found)
    }

    /// Asks for the volumes of a pod on a node.
    pub(super) async fn select_node(
        &self,
        volumes: &VolumesOfPod,
        node: &str,
        writer: Writer<'_>,
    ) -> Result<(), Error> {
        for key in &volumes.waiting {
            let select = |it: &mut Value| {
                let known = it["metadata"]["annotations"].get(SELECTED_NODE).is_some();
                if !known {
                    it["metadata"]["annotations"][SELECTED_NODE] = node.into();
                }
                !known
            };
            self.claims.change(key, "", writer, select).await?;
        }
        Ok(())
    }
}

impl VolumesOfPod {
    /// Returns true if a node cannot reach one of the volumes.
    pub(super) fn conflict_with(&self, node: &Value) -> bool {
        self.bound.iter().any(|volume| {
            let required = at(volume, "/spec/nodeAffinity/required");
            required
                .is_some_and(|it| !items(it, "/nodeSelectorTerms").iter().any(|it| matches_term(it, node)))
        })
    }
}
