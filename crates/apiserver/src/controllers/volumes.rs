//! Protection of claims and volumes: one that is being deleted is kept while it is in use.
//!
//! Every new claim and volume gets a protection finalizer, as from kube-apiserver's admission
//! plugin StorageObjectInUseProtection. This controller is the counterpart, which
//! kube-controller-manager has in pkg/controller/volume/pvcprotection and pvprotection: it removes
//! the finalizer of objects that are being deleted. Without it neither a claim nor its namespace
//! could be deleted.

use std::time::Duration;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::background::{builtin, writer};
use super::finalizers;
use super::pauses::Pauses;
use super::reconcile::{Next, Reconciler};
use crate::ApiError;
use crate::cluster::{Cluster, ObjectRef};
use crate::kinds::json_access::{at, items, number, text};
use crate::registry::Kind;
use crate::store::{CollectionName, Encoded};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
/// The time for which an object that is being deleted is left alone, so that a client that reads it
/// right after its delete request still finds it, as with kube-controller-manager.
const PAUSE: Duration = Duration::from_secs(1);

/// Removes the protection finalizers of claims and volumes that are being deleted and not in use.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// The objects that are being deleted.
    begun: Pauses,
}

impl Reconciler for Volumes {
    fn name(&self) -> &'static str {
        "volume-protection-controller"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        ["persistentvolumeclaims", "persistentvolumes"]
            .map(|plural| builtin(cluster, "", "v1", plural).collection.clone())
            .to_vec()
    }

    /// Claims have a namespace and volumes have none, so their keys are distinct.
    fn touched(
        &mut self,
        _: &Cluster,
        _: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        after.or(before).map(|it| it.key().clone()).into_iter().collect()
    }

    /// A claim waits for the pods of its namespace; a volume waits for claims of any namespace.
    fn concerns(&self, waiting: &ObjectKey, changed: &ObjectKey) -> bool {
        waiting.namespace().is_none() || waiting.namespace() == changed.namespace()
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let (plural, finalizer, manager) = match key.namespace() {
            Some(_) => ("persistentvolumeclaims", CLAIM_FINALIZER, "pvc-protection-controller"),
            None => ("persistentvolumes", VOLUME_FINALIZER, "pv-protection-controller"),
        };
        let kind = builtin(cluster, "", "v1", plural);
        let object = cluster.get(&kind, key).map(|it| it.to_value());
        let Some(object) = object.filter(|it| is_candidate(it, finalizer)) else {
            self.begun.end(key);
            return Ok(Next::touch());
        };
        if let Some(pause) = self.begun.left(key, PAUSE) {
            return Ok(Next::after(pause));
        }
        let since = cluster.store().revision();
        let (used, by) = match key.namespace() {
            Some(namespace) => {
                let pods = builtin(cluster, "", "v1", "pods");
                (is_claim_used(cluster, &pods, namespace, &object), pods)
            }
            None => {
                let claims = builtin(cluster, "", "v1", "persistentvolumeclaims");
                (is_volume_used(cluster, &claims, &object), claims)
            }
        };
        if used {
            return Ok(Next { waits_for: vec![by.collection.clone()], since, ..Next::touch() });
        }
        let uid = text(&object, "/metadata/uid");
        let release = |it: &mut Value| {
            text(it, "/metadata/uid") == uid && finalizers::remove(it, "/metadata/finalizers", finalizer)
        };
        let writer = writer(manager, "kube-controller-manager");
        cluster.change(&ObjectRef::of(&kind, key), &writer, release).await?;
        self.begun.end(key);
        Ok(Next::touch())
    }
}

/// Returns true if an object is being deleted and has the finalizer.
fn is_candidate(object: &Value, finalizer: &str) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some()
        && items(object, "/metadata/finalizers").iter().any(|it| it == finalizer)
}

fn is_claim_used(cluster: &Cluster, pods: &Kind, namespace: &str, claim: &Value) -> bool {
    cluster.list(pods, Some(namespace)).iter().any(|it| uses(&it.to_value(), claim))
}

/// Returns true if a pod uses a claim. A pod that is not on a node does not: no kubelet starts a
/// pod whose claim is being deleted.
fn uses(pod: &Value, claim: &Value) -> bool {
    if text(pod, "/spec/nodeName").is_empty() {
        return false;
    }
    let name = text(claim, "/metadata/name");
    let by_name = |volume: &Value| text(volume, "/persistentVolumeClaim/claimName") == name;
    // The claim of an ephemeral volume belongs to its pod, and need not outlive a pod whose
    // containers have stopped.
    let shut_down = at(pod, "/metadata/deletionTimestamp").is_some()
        && number(pod, "/metadata/deletionGracePeriodSeconds") == Some(0);
    let owned = items(claim, "/metadata/ownerReferences")
        .iter()
        .any(|it| it["controller"] == true && it["uid"] == pod["metadata"]["uid"]);
    let ephemeral = |volume: &Value| {
        let generated = format!("{}-{}", text(pod, "/metadata/name"), text(volume, "/name"));
        at(volume, "/ephemeral").is_some() && generated == name && owned && !shut_down
    };
    items(pod, "/spec/volumes").iter().any(|it| by_name(it) || ephemeral(it))
}

/// Returns true if a volume is bound to a claim that exists.
///
/// kube-controller-manager checks only the phase, since its binder takes a volume out of `Bound`
/// when the claim is gone. No binder runs here, so a volume whose phase a client has set would
/// never be deleted.
fn is_volume_used(cluster: &Cluster, claims: &Kind, volume: &Value) -> bool {
    if text(volume, "/status/phase") != "Bound" {
        return false;
    }
    let reference = |field: &str| text(volume, &format!("/spec/claimRef/{field}"));
    let key = ObjectKey::from_parts(Some(reference("namespace")), reference("name")).ok();
    let claim = key.and_then(|it| cluster.get(claims, &it));
    claim.is_some_and(|it| reference("uid").is_empty() || reference("uid") == it.uid())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_on_a_node_uses_the_claims_it_names_and_those_of_its_ephemeral_volumes() {
        let claim =
            |name: &str, owner: Value| json!({ "metadata": { "name": name, "ownerReferences": owner } });
        let mut pod = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "nodeName": "n", "volumes": [
            { "name": "v", "persistentVolumeClaim": { "claimName": "c" } }, { "name": "e", "ephemeral": {} }] } });
        let own = json!([{ "uid": "u", "controller": true }]);
        assert!(uses(&pod, &claim("c", json!([]))) && !uses(&pod, &claim("d", json!([]))));
        assert!(uses(&pod, &claim("p-e", own.clone())));
        assert!(!uses(&pod, &claim("p-e", json!([]))), "the pod does not own the claim");
        pod["metadata"]["deletionTimestamp"] = "t".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        assert!(!uses(&pod, &claim("p-e", own)) && uses(&pod, &claim("c", json!([]))));
        pod["spec"]["nodeName"] = "".into();
        assert!(!uses(&pod, &claim("c", json!([]))), "it is not on a node");
    }
}
