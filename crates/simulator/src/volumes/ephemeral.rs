//! Ephemeral volumes: each has a claim that its pod owns.

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched};
use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use crate::caches::Caches;
use crate::collection::{Collection, FirstError, Writer};
use crate::component::Component;
use crate::json_access::{at, items, text};
use crate::object::{JsonObject, Pod};
use crate::owner::reference;

/// Creates the claims of ephemeral volumes.
#[derive(Debug)]
pub(crate) struct EphemeralVolumes {
    pods: Collection<Pod>,
    claims: Collection<JsonObject>,
}

impl EphemeralVolumes {
    pub(crate) fn new(caches: &Caches) -> Self {
        Self { pods: caches.pods.get(), claims: caches.claims.get() }
    }
}

impl Component for EphemeralVolumes {
    const NAME: &'static str = "ephemeral-volume-controller";

    /// Returns the controller, which processes pods with ephemeral volumes.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let concerned = Predicate::matching(|pod: &Pod| ephemeral(pod).next().is_some());
        Controller::of(Watched::new(&self.pods.informer).when(concerned)).needs(&self.claims.informer)
    }
}

impl Reconciler for EphemeralVolumes {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(pod) = self.pods.get(key).filter(|it| it.is_active()) else { return Ok(Action::Done) };
        let writer = Writer { manager: "kube-controller-manager", context };
        let mut failed = FirstError::default();
        for volume in ephemeral(&pod) {
            let claim = claim_of(&pod, volume);
            let name = text(&claim, "/metadata/name");
            let known = ObjectKey::from_parts(key.namespace(), name).ok().and_then(|it| self.claims.get(&it));
            if known.is_none() {
                match self.claims.create(claim, writer).await {
                    Err(error) if error.is_already_exists() => {}
                    created => drop(failed.keep(created)),
                }
            }
        }
        failed.into_result()?;
        Ok(Action::Done)
    }
}

fn ephemeral(pod: &Value) -> impl Iterator<Item = &Value> {
    items(pod, "/spec/volumes").iter().filter(|it| at(it, "/ephemeral/volumeClaimTemplate").is_some())
}

/// Returns the claim of an ephemeral volume.
fn claim_of(pod: &Value, volume: &Value) -> Value {
    let template = &volume["ephemeral"]["volumeClaimTemplate"];
    let name = format!("{}-{}", text(pod, "/metadata/name"), text(volume, "/name"));
    let mut metadata = json!({ "name": name, "namespace": pod["metadata"]["namespace"],
        "ownerReferences": [reference(pod)] });
    for field in ["labels", "annotations"] {
        if let Some(value) = at(template, &format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_of_a_volume_has_the_names_of_both_and_goes_with_the_pod() {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "n", "uid": "u" },
            "spec": { "volumes": [{ "name": "tmp", "emptyDir": {} }, { "name": "scratch", "ephemeral": {
                "volumeClaimTemplate": { "metadata": { "labels": { "a": "b" } }, "spec": { "accessModes": ["ReadWriteOnce"] } } } }] } });
        let volumes: Vec<_> = ephemeral(&pod).collect();
        assert_eq!(volumes.len(), 1);
        let claim = claim_of(&pod, volumes[0]);
        assert_eq!(
            (&claim["metadata"]["name"], &claim["metadata"]["labels"]["a"]),
            (&json!("p-scratch"), &json!("b"))
        );
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(claim["spec"]["accessModes"][0], "ReadWriteOnce");
    }
}
