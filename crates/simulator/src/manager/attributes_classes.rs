//! Protection of volume attributes classes: one that is being deleted is kept while a claim or a
//! volume names it.
//!
//! The counterpart of a finalizer of kube-apiserver's admission plugin
//! StorageObjectInUseProtection, as `volumes.rs` for claims and volumes;
//! kube-controller-manager has it in k8s.io/kubernetes v1.36.4
//! pkg/controller/volume/vacprotection.

use std::time::Duration;

use dogwatch_client::{Api, Client, Error};
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{Gvk, ListParams, Object, ObjectKey, ResourceType};
use serde_json::Value;

use crate::collection::{Collection, Writer};
use crate::component::Component;
use crate::finalizers;
use crate::json_access::{items, text};
use crate::object::JsonObject;
use crate::owner::is_deleting;
use crate::pauses::Pauses;

const FINALIZER: &str = "kubernetes.io/vac-protection";
/// The time for which a class that is being deleted is left alone, as claims and volumes are.
const PAUSE: Duration = Duration::from_secs(1);
/// The time until a class that is in use is looked at again. Few classes are ever deleted, so there
/// is no cache of claims and volumes for them.
const AGAIN: Duration = Duration::from_secs(10);
/// The fields of a claim that name a class; a volume has the first.
const NAMES: [&str; 3] = [
    "/spec/volumeAttributesClassName",
    "/status/currentVolumeAttributesClassName",
    "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
];

/// Removes the protection finalizers of volume attributes classes that are being deleted and not in
/// use.
#[derive(Debug)]
pub(super) struct AttributesClasses {
    classes: Collection<JsonObject>,
    claims: Api<JsonObject>,
    volumes: Api<JsonObject>,
    begun: Pauses<ObjectKey>,
}

impl AttributesClasses {
    pub(super) fn new(client: &Client) -> Self {
        let classes = Gvk::new("storage.k8s.io", "v1", "VolumeAttributesClass");
        let classes = ResourceType::cluster(classes, "volumeattributesclasses");
        let claims =
            ResourceType::namespaced(Gvk::new("", "v1", "PersistentVolumeClaim"), "persistentvolumeclaims");
        let volumes = ResourceType::cluster(Gvk::new("", "v1", "PersistentVolume"), "persistentvolumes");
        Self {
            classes: Collection::new(client, classes, |it| it),
            claims: Api::dynamic(client.clone(), claims),
            volumes: Api::dynamic(client.clone(), volumes),
            begun: Pauses::default(),
        }
    }

    async fn is_used(&self, class: &str) -> Result<bool, Error> {
        for api in [&self.claims, &self.volumes] {
            let all = api.list_all(&ListParams::default()).await?;
            // One that cannot be decoded may use it.
            if !all.bad.is_empty() || all.items.iter().any(|it| names(it, class)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Component for AttributesClasses {
    const NAME: &'static str = "volumeattributesclass-protection-controller";

    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        Controller::of(&self.classes.informer).watches(&self.classes.informer, |it: &JsonObject| it.key())
    }
}

impl Reconciler for AttributesClasses {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let is_candidate = |it: &Value| {
            is_deleting(it) && items(it, "/metadata/finalizers").iter().any(|it| it == FINALIZER)
        };
        let Some(class) = self.classes.get(key).filter(|it| is_candidate(it)) else {
            self.begun.end(key);
            return Ok(Action::Done);
        };
        if let Some(pause) = self.begun.left(key, PAUSE) {
            return Ok(Action::RequeueAfter(pause));
        }
        if self.is_used(key.name()).await? {
            return Ok(Action::RequeueAfter(AGAIN));
        }
        let uid = text(&class, "/metadata/uid");
        let release = |it: &mut Value| {
            finalizers::is_same(it, uid) && finalizers::remove(it, "/metadata/finalizers", FINALIZER)
        };
        let writer = Writer { manager: super::FIELD_MANAGER, context };
        self.classes.change_live(key, "", writer, release).await?;
        self.begun.end(key);
        Ok(Action::Done)
    }
}

/// Returns true if a claim or a volume names a class.
fn names(object: &Value, class: &str) -> bool {
    NAMES.iter().any(|it| text(object, it) == class)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_names_the_class_that_it_has_and_the_one_that_it_gets() {
        for used in [
            json!({ "spec": { "volumeAttributesClassName": "gold" } }),
            json!({ "status": { "currentVolumeAttributesClassName": "gold" } }),
            json!({ "status": { "modifyVolumeStatus": { "targetVolumeAttributesClassName": "gold" } } }),
        ] {
            assert!(names(&used, "gold") && !names(&used, "silver"), "{used}");
        }
    }
}
