//! The binder of claims: it finds a volume for each claim, or creates one in a simulated class.

use std::sync::Arc;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{Object, ObjectKey};
use serde_json::{Value, json};

use super::matching::{self, PROVISIONER, class_of_claim, default_class, waits_for_consumer};
use crate::caches::Caches;
use crate::collection::{Collection, Writer};
use crate::component::Component;
use crate::index::{CLASS, PENDING_CLASS};
use crate::json_access::{at, text};
use crate::object::JsonObject;
use crate::owner::is_deleting;
use crate::recorder::{Event, Recorder};

/// The name of the component, and of the source of its events.
const NAME: &str = "persistentvolume-controller";

/// Binds claims to volumes.
#[derive(Debug)]
pub(crate) struct ClaimBinder {
    claims: Collection<JsonObject>,
    volumes: Collection<JsonObject>,
    classes: Collection<JsonObject>,
    recorder: Recorder,
}

impl ClaimBinder {
    pub(crate) fn new(caches: &Caches, recorder: &Recorder) -> Self {
        Self {
            claims: caches.claims.get(),
            volumes: caches.volumes.get(),
            classes: caches.classes.get(),
            recorder: recorder.clone(),
        }
    }

    /// Returns the volume of a claim, after finding or creating one if it has none.
    async fn volume_of(
        &self,
        key: &ObjectKey,
        claim: &Value,
        writer: Writer<'_>,
    ) -> Result<Option<Arc<JsonObject>>, Error> {
        let named = text(claim, "/spec/volumeName");
        if !named.is_empty() {
            let volume = self.volumes.get(&ObjectKey::cluster(named));
            return Ok(volume.filter(|it| matching::is_for(it, claim)));
        }
        let Some(class_name) = class_of_claim(claim) else {
            // Without a default class, only volumes without a class match.
            return match self.set_default_class(key, writer).await? {
                true => Ok(None),
                false => Ok(self.find(claim, "")),
            };
        };
        let class = self.classes.get(&ObjectKey::cluster(class_name));
        let waits = class.as_ref().is_some_and(|it| waits_for_consumer(it));
        let has_consumer =
            claim["metadata"]["annotations"].get("volume.kubernetes.io/selected-node").is_some();
        if waits && !has_consumer {
            let message = "waiting for first consumer to be created before binding";
            self.wait(key, claim, "WaitForFirstConsumer", message, writer).await?;
            return Ok(None);
        }
        if let Some(volume) = self.find(claim, class_name) {
            return Ok(Some(volume));
        }
        match class.filter(|_| !class_name.is_empty()) {
            Some(class) if text(&class, "/provisioner") == PROVISIONER => {
                self.provision(claim, &class, writer).await.map(Some)
            }
            Some(class) => {
                let provisioner = text(&class, "/provisioner");
                let message = format!(
                    "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
                );
                self.wait(key, claim, "ExternalProvisioning", &message, writer).await?;
                Ok(None)
            }
            None => {
                let message = "no persistent volumes available for this claim and no storage class is set";
                self.wait(key, claim, "FailedBinding", message, writer).await?;
                Ok(None)
            }
        }
    }

    /// Returns the best volume of a class for a claim.
    fn find(&self, claim: &Value, class: &str) -> Option<Arc<JsonObject>> {
        let candidates = self.volumes.found(CLASS, class);
        let best = matching::best(claim, candidates.iter().map(|it| &***it))?;
        let name = text(best, "/metadata/name").to_owned();
        candidates.into_iter().find(|it| it.header().name == name)
    }

    /// Sets the class of a claim to the default one. Returns false if there is none.
    async fn set_default_class(&self, key: &ObjectKey, writer: Writer<'_>) -> Result<bool, Error> {
        let classes = self.classes.store.snapshot();
        let Some(class) = default_class(classes.iter().map(|it| &***it)) else { return Ok(false) };
        let name = text(class, "/metadata/name").to_owned();
        let set = |it: &mut Value| {
            let is_open = at(it, "/spec/storageClassName").is_none();
            if is_open {
                it["spec"]["storageClassName"] = name.as_str().into();
            }
            is_open
        };
        self.claims.change(key, "", writer, set).await?;
        Ok(true)
    }

    async fn provision(
        &self,
        claim: &Value,
        class: &Value,
        writer: Writer<'_>,
    ) -> Result<Arc<JsonObject>, Error> {
        let volume = matching::provisioned(claim, class);
        let name = text(&volume, "/metadata/name").to_owned();
        match self.volumes.create(volume, writer).await {
            Ok(volume) => {
                let message = format!("Successfully provisioned volume {name}");
                self.recorder
                    .record(PROVISIONER, claim, Event::normal("ProvisioningSucceeded", message))
                    .await;
                Ok(volume)
            }
            Err(error) if error.is_already_exists() => {
                let live = self.volumes.live(&ObjectKey::cluster(&name)).await?;
                live.filter(|it| matching::is_for(it, claim)).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Reports that a claim waits, once.
    async fn wait(
        &self,
        key: &ObjectKey,
        claim: &Value,
        reason: &'static str,
        message: &str,
        writer: Writer<'_>,
    ) -> Result<(), Error> {
        if text(claim, "/status/phase").is_empty() {
            let report = |it: &mut Value| {
                let is_new = text(it, "/status/phase").is_empty();
                it["status"]["phase"] = "Pending".into();
                is_new
            };
            self.claims.change(key, "status", writer, report).await?;
        }
        self.recorder.record(NAME, claim, Event::normal(reason, message.to_owned())).await;
        Ok(())
    }

    /// Binds a claim and a volume to each other.
    async fn bind(
        &self,
        key: &ObjectKey,
        claim: &Value,
        volume: &JsonObject,
        writer: Writer<'_>,
    ) -> Result<(), Error> {
        let volume_key = ObjectKey::cluster(volume.header().name);
        let bind = |it: &mut Value| matching::bind_volume(it, claim);
        let Some(volume) = self.volumes.change(&volume_key, "", writer, bind).await? else { return Ok(()) };
        // Another claim may have been faster.
        if text(&volume, "/spec/claimRef/uid") != text(claim, "/metadata/uid") {
            return Ok(());
        }
        let uid = text(claim, "/metadata/uid");
        let is_same = |it: &Value| text(it, "/metadata/uid") == uid;
        let bind = |it: &mut Value| is_same(it) && matching::bind_claim(it, volume_key.name());
        self.claims.change(key, "", writer, bind).await?;
        let report = |it: &mut Value| {
            let status = matching::bound_status(it, &volume);
            let changed = is_same(it) && it["status"] != status;
            it["status"] = status;
            changed
        };
        self.claims.change(key, "status", writer, report).await?;
        Ok(())
    }
}

impl Component for ClaimBinder {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes the claim of a volume; for a free volume and a
    /// class, the claims of that class that wait.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let waiting = |claims: &Collection<JsonObject>, class: &str| -> Vec<ObjectKey> {
            claims.found(PENDING_CLASS, class).iter().filter_map(|it| it.key()).collect()
        };
        let claims = self.claims.clone();
        let of_volume = move |volume: &JsonObject| -> Vec<ObjectKey> {
            match at(volume, "/spec/claimRef") {
                Some(it) => {
                    let key = ObjectKey::from_parts(Some(text(it, "/namespace")), text(it, "/name"));
                    key.into_iter().collect()
                }
                None => waiting(&claims, text(volume, "/spec/storageClassName")),
            }
        };
        let claims = self.claims.clone();
        let of_class = move |class: &JsonObject| -> Vec<ObjectKey> {
            let mut keys = waiting(&claims, class.header().name);
            keys.extend(waiting(&claims, ""));
            keys
        };
        Controller::of(&self.claims.informer)
            .watches(&self.volumes.informer, of_volume)
            .watches(&self.classes.informer, of_class)
    }
}

impl Reconciler for ClaimBinder {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(claim) = self.claims.get(key).filter(|it| !is_deleting(it)) else { return Ok(Action::Done) };
        let writer = Writer { manager: "kube-controller-manager", context };
        let is_bound = matching::is_bound(&claim);
        if let Some(volume) = self.volume_of(key, &claim, writer).await? {
            self.bind(key, &claim, &volume, writer).await?;
        } else if is_bound {
            // The cache of volumes may be behind.
            let volume = self.volumes.live(&ObjectKey::cluster(text(&claim, "/spec/volumeName"))).await?;
            if volume.is_some_and(|it| matching::is_for(&it, &claim)) {
                return Ok(Action::Done);
            }
            let lose = |it: &mut Value| {
                let changed = text(it, "/status/phase") != "Lost";
                it["status"] = json!({ "phase": "Lost" });
                changed
            };
            self.claims.change(key, "status", writer, lose).await?;
            let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!".to_owned();
            self.recorder.record(NAME, &claim, Event::warning("ClaimLost", message)).await;
        }
        Ok(Action::Done)
    }
}
