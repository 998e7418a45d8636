//! The phases of volumes, and their end: a simulated volume whose claim is gone is deleted if its
//! class says so.

use std::sync::Arc;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{DeleteParams, ObjectKey};
use serde_json::{Value, json};

use super::matching::{PROVISIONED_BY, PROVISIONER, stamp, standard_class};
use crate::caches::Caches;
use crate::collection::{Collection, Writer};
use crate::component::Component;
use crate::environment::Environment;
use crate::json_access::{at, text};
use crate::object::JsonObject;
use crate::owner::is_deleting;

/// Reports the phases of volumes, and deletes those that nothing needs.
#[derive(Debug)]
pub(crate) struct VolumeReclaimer {
    claims: Collection<JsonObject>,
    volumes: Collection<JsonObject>,
    classes: Collection<JsonObject>,
    environment: Arc<Environment>,
}

impl VolumeReclaimer {
    pub(crate) fn new(caches: &Caches, environment: &Arc<Environment>) -> Self {
        Self {
            claims: caches.claims.get(),
            volumes: caches.volumes.get(),
            classes: caches.classes.get(),
            environment: Arc::clone(environment),
        }
    }

    /// Returns the phase of a volume.
    async fn phase(&self, volume: &Value) -> Result<&'static str, Error> {
        let Some(reference) = at(volume, "/spec/claimRef") else { return Ok("Available") };
        let uid = text(reference, "/uid");
        if uid.is_empty() {
            return Ok("Available");
        }
        let key = ObjectKey::from_parts(Some(text(reference, "/namespace")), text(reference, "/name"));
        let Ok(key) = key else { return Ok("Released") };
        let is_it = |it: &JsonObject| text(it, "/metadata/uid") == uid;
        if self.claims.get(&key).is_some_and(|it| is_it(&it)) {
            return Ok("Bound");
        }
        // The cache of claims may be behind.
        let live = self.claims.live(&key).await?;
        Ok(if live.is_some_and(|it| is_it(&it)) { "Bound" } else { "Released" })
    }
}

impl Component for VolumeReclaimer {
    const NAME: &'static str = "persistentvolume-reclaimer";

    /// Returns the controller, which processes the volume of a claim, before and after a change.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let of_claim = |claim: &JsonObject| {
            let name = text(claim, "/spec/volumeName");
            (!name.is_empty()).then(|| ObjectKey::cluster(name))
        };
        // A class that a client deletes comes back with the next start only.
        Controller::of(&self.volumes.informer)
            .watches(&self.claims.informer, of_claim)
            .needs(&self.classes.informer)
    }

    /// Creates the default class, if there is no class at all.
    fn prepare(
        &self,
    ) -> futures_util::future::BoxFuture<
        'static,
        Result<Option<dogwatch_informer::ScopedRegistration>, dogwatch_controller::BoxError>,
    > {
        let classes = self.classes.clone();
        Box::pin(async move {
            classes.informer.start();
            classes.informer.synced_within(std::time::Duration::from_secs(60)).await?;
            if classes.store.is_empty() {
                let context = Context::detached();
                let writer = Writer { manager: "dogwatch-simulator", context: &context };
                match classes.create(standard_class(), writer).await {
                    Err(error) if !error.is_already_exists() => return Err(error.into()),
                    _ => {}
                }
            }
            Ok(None)
        })
    }
}

impl Reconciler for VolumeReclaimer {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(volume) = self.volumes.get(key).filter(|it| !is_deleting(it)) else {
            return Ok(Action::Done);
        };
        let writer = Writer { manager: "kube-controller-manager", context };
        let phase = self.phase(&volume).await?;
        let now = stamp(self.environment.now());
        let report = |it: &mut Value| {
            let changed = text(it, "/status/phase") != phase
                && it["spec"]["claimRef"]["uid"] == volume["spec"]["claimRef"]["uid"];
            it["status"] = json!({ "phase": phase, "lastPhaseTransitionTime": now });
            changed
        };
        self.volumes.change(key, "status", writer, report).await?;
        let simulated =
            volume["metadata"]["annotations"].get(PROVISIONED_BY).is_some_and(|it| it == PROVISIONER);
        let policy = text(&volume, "/spec/persistentVolumeReclaimPolicy");
        if phase == "Released" && simulated && policy == "Delete" {
            self.volumes.delete(key, &DeleteParams::default(), writer).await?;
        }
        Ok(Action::Done)
    }
}
