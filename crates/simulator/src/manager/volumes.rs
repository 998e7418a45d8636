//! Protection of claims and volumes: one that is being deleted is kept while it is in use.
//!
//! kube-apiserver's admission plugin StorageObjectInUseProtection gives every new claim and volume
//! a protection finalizer. This controller is the counterpart, which kube-controller-manager has in
//! k8s.io/kubernetes v1.36.4 pkg/controller/volume/pvcprotection and pvprotection: it removes the
//! finalizer of objects that are being deleted and not in use. Without it neither a claim nor its
//! namespace could be deleted.
//!
//! As there, the caches are asked first, and the server before a finalizer is removed: a cache may
//! not show yet what uses the object.

use std::time::Duration;

use dogwatch_client::{Api, Client, Error};
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{Gvk, Header, Labels, ListParams, Object, ObjectKey, ResourceType};
use dogwatch_informer::{Index, SharedInformer};
use serde::Deserialize;
use serde_json::Value;

use crate::collection::{Collection, Writer};
use crate::component::Component;
use crate::finalizers;
use crate::json_access::{items, text};
use crate::object::JsonObject;
use crate::owner::is_deleting;
use crate::pauses::Pauses;

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
/// The time for which an object that is being deleted is left alone, so that a client that reads it
/// right after its delete request still finds it, as with kube-controller-manager.
const PAUSE: Duration = Duration::from_secs(1);
/// Pods on nodes, and volumes, by the key of a claim that they name.
const CLAIM: &str = "claim";

/// Removes the protection finalizers of claims and volumes that are being deleted and not in use.
#[derive(Debug)]
pub(super) struct Volumes {
    claims: Collection<JsonObject>,
    volumes: Collection<JsonObject>,
    pods: SharedInformer<Claimant>,
    /// Reads the pods of a namespace from the server.
    live_pods: Api<Claimant>,
    /// The objects that are being deleted. Claims have a namespace and volumes have none, so their
    /// keys are distinct.
    begun: Pauses<ObjectKey>,
}

/// A pod, as far as its use of claims is concerned.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Claimant {
    metadata: ClaimantMeta,
    spec: ClaimantSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimantMeta {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimantSpec {
    node_name: Option<String>,
    volumes: Option<Vec<PodVolume>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodVolume {
    name: String,
    persistent_volume_claim: Option<NamedClaim>,
    ephemeral: Option<EphemeralVolume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NamedClaim {
    claim_name: String,
}

/// The source of an ephemeral volume; only its presence matters.
#[derive(Clone, Debug, Default, Deserialize)]
struct EphemeralVolume {}

impl Object for Claimant {
    fn header(&self) -> Header<'_> {
        let ClaimantMeta { name, namespace, uid, resource_version, .. } = &self.metadata;
        Header {
            name,
            namespace: Some(namespace.as_str()).filter(|it| !it.is_empty()),
            uid,
            version: resource_version,
            labels: Labels::EMPTY,
        }
    }
}

impl Volumes {
    pub(super) fn new(client: &Client) -> Self {
        let claims =
            ResourceType::namespaced(Gvk::new("", "v1", "PersistentVolumeClaim"), "persistentvolumeclaims");
        let volumes = ResourceType::cluster(Gvk::new("", "v1", "PersistentVolume"), "persistentvolumes");
        let pods = ResourceType::namespaced(Gvk::new("", "v1", "Pod"), "pods");
        let live_pods = Api::<Claimant>::dynamic(client.clone(), pods);
        let by_claim = Index::new(CLAIM, |pod: &Claimant| pod.claims().into_iter().map(String::from));
        let by_reference = Index::new(CLAIM, |volume: &JsonObject| claim_of_volume(volume).map(String::from));
        Self {
            claims: Collection::new(client, claims, |it| it),
            volumes: Collection::new(client, volumes, |it| it.index(by_reference)),
            pods: SharedInformer::builder(live_pods.clone()).index(by_claim).build(),
            live_pods,
            begun: Pauses::default(),
        }
    }

    async fn is_used(&self, key: &ObjectKey, object: &Value) -> Result<bool, Error> {
        match key.namespace() {
            Some(namespace) => self.is_claim_used(key, namespace, object).await,
            None => self.is_volume_used(object).await,
        }
    }

    async fn is_claim_used(&self, key: &ObjectKey, namespace: &str, claim: &Value) -> Result<bool, Error> {
        let cached = self.pods.store().by_index(CLAIM, key.as_str());
        if cached.expect("indexes are added with the informer").iter().any(|it| it.uses(claim)) {
            return Ok(true);
        }
        let pods = self.live_pods.clone().in_namespace(namespace).list_all(&ListParams::default()).await?;
        // A pod that cannot be decoded may use it.
        Ok(!pods.bad.is_empty() || pods.items.iter().any(|it| it.uses(claim)))
    }

    /// Returns true if a volume is bound to a claim that exists.
    ///
    /// kube-controller-manager checks only the phase, since its binder takes a volume out of
    /// `Bound` when the claim is gone. A simulated cluster has no binder, so a volume whose phase a
    /// client has set would never be deleted.
    async fn is_volume_used(&self, volume: &Value) -> Result<bool, Error> {
        if text(volume, "/status/phase") != "Bound" {
            return Ok(false);
        }
        let Some(key) = claim_of_volume(volume) else { return Ok(false) };
        let uid = text(volume, "/spec/claimRef/uid");
        let is_it = |claim: &JsonObject| uid.is_empty() || claim["metadata"]["uid"] == uid;
        if self.claims.get(&key).is_some_and(|it| is_it(&it)) {
            return Ok(true);
        }
        Ok(self.claims.live(&key).await?.is_some_and(|it| is_it(&it)))
    }
}

impl Component for Volumes {
    const NAME: &'static str = "volume-protection-controller";

    /// Returns the controller, which processes a claim and a volume when it has changed, a claim
    /// when a pod that names it has changed, and a volume when the claim that it names has changed.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let volumes = self.volumes.store.clone();
        let bound = move |claim: &JsonObject| {
            let found = claim.key().map(|it| volumes.index_keys(CLAIM, it.as_str()));
            found.and_then(Result::ok).unwrap_or_default()
        };
        Controller::of(&self.claims.informer)
            .watches(&self.claims.informer, bound)
            .watches(&self.volumes.informer, |it: &JsonObject| it.key())
            .watches(&self.pods, Claimant::claims)
    }
}

impl Reconciler for Volumes {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let (collection, finalizer) = match key.namespace() {
            Some(_) => (&self.claims, CLAIM_FINALIZER),
            None => (&self.volumes, VOLUME_FINALIZER),
        };
        let Some(object) = collection.get(key).filter(|it| is_candidate(it, finalizer)) else {
            self.begun.end(key);
            return Ok(Action::Done);
        };
        if let Some(pause) = self.begun.left(key, PAUSE) {
            return Ok(Action::RequeueAfter(pause));
        }
        // The change of the pod or the claim that uses it processes it again.
        if self.is_used(key, &object).await? {
            return Ok(Action::Done);
        }
        let uid = text(&object, "/metadata/uid");
        let release = |it: &mut Value| {
            finalizers::is_same(it, uid) && finalizers::remove(it, "/metadata/finalizers", finalizer)
        };
        let writer = Writer { manager: super::FIELD_MANAGER, context };
        collection.change_live(key, "", writer, release).await?;
        self.begun.end(key);
        Ok(Action::Done)
    }
}

impl Claimant {
    /// Returns the claims that the pod uses as far as it says: the claim of an ephemeral volume
    /// must be owned by the pod as well. A pod that is not on a node uses none: no kubelet starts a
    /// pod whose claim is being deleted.
    fn claims(&self) -> Vec<ObjectKey> {
        if self.spec.node_name.as_deref().unwrap_or_default().is_empty() {
            return Vec::new();
        }
        let names = self.volumes().filter_map(|it| self.claim_name(it));
        names.filter_map(|it| ObjectKey::from_parts(Some(&self.metadata.namespace), &it).ok()).collect()
    }

    fn volumes(&self) -> impl Iterator<Item = &PodVolume> {
        self.spec.volumes.iter().flatten()
    }

    fn claim_name(&self, volume: &PodVolume) -> Option<String> {
        match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(self.generated(volume)),
            (None, None) => None,
        }
    }

    /// Returns the name of the claim of an ephemeral volume.
    fn generated(&self, volume: &PodVolume) -> String {
        format!("{}-{}", self.metadata.name, volume.name)
    }

    /// Returns true if the pod uses a claim of its namespace.
    fn uses(&self, claim: &Value) -> bool {
        if self.spec.node_name.as_deref().unwrap_or_default().is_empty() {
            return false;
        }
        let name = text(claim, "/metadata/name");
        let by_name =
            |it: &PodVolume| it.persistent_volume_claim.as_ref().is_some_and(|it| it.claim_name == name);
        // The claim of an ephemeral volume belongs to its pod, and need not outlive a pod whose
        // containers have stopped.
        let meta = &self.metadata;
        let shut_down = meta.deletion_timestamp.is_some() && meta.deletion_grace_period_seconds == Some(0);
        let owned = items(claim, "/metadata/ownerReferences")
            .iter()
            .any(|it| it["controller"] == true && it["uid"] == meta.uid.as_str());
        let ephemeral =
            |it: &PodVolume| it.ephemeral.is_some() && owned && !shut_down && self.generated(it) == name;
        self.volumes().any(|it| by_name(it) || ephemeral(it))
    }
}

/// Returns true if an object is being deleted and has the finalizer.
fn is_candidate(object: &Value, finalizer: &str) -> bool {
    is_deleting(object) && items(object, "/metadata/finalizers").iter().any(|it| it == finalizer)
}

/// Returns the key of the claim that a volume names.
fn claim_of_volume(volume: &Value) -> Option<ObjectKey> {
    let reference = |field: &str| text(volume, field);
    ObjectKey::from_parts(Some(reference("/spec/claimRef/namespace")), reference("/spec/claimRef/name")).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_on_a_node_uses_the_claims_it_names_and_those_of_its_ephemeral_volumes() {
        let claim =
            |name: &str, owner: Value| json!({ "metadata": { "name": name, "ownerReferences": owner } });
        let mut pod = json!({ "metadata": { "name": "p", "namespace": "n", "uid": "u" },
            "spec": { "nodeName": "n", "volumes": [
                { "name": "v", "persistentVolumeClaim": { "claimName": "c" } }, { "name": "e", "ephemeral": {} }] } });
        let read = |pod: &Value| Claimant::deserialize(pod).unwrap();
        let uses = |pod: &Value, claim: &Value| read(pod).uses(claim);
        let own = json!([{ "uid": "u", "controller": true }]);
        assert_eq!(read(&pod).claims().iter().map(ObjectKey::as_str).collect::<Vec<_>>(), ["n/c", "n/p-e"]);
        assert!(uses(&pod, &claim("c", json!([]))) && !uses(&pod, &claim("d", json!([]))));
        assert!(uses(&pod, &claim("p-e", own.clone())));
        assert!(!uses(&pod, &claim("p-e", json!([]))), "the pod does not own the claim");
        pod["metadata"]["deletionTimestamp"] = "t".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        assert!(!uses(&pod, &claim("p-e", own)) && uses(&pod, &claim("c", json!([]))));
        pod["spec"]["nodeName"] = "".into();
        assert!(!uses(&pod, &claim("c", json!([]))), "it is not on a node");
        assert!(read(&pod).claims().is_empty());
    }
}
