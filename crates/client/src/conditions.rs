//! Conditions to wait for: functions for [`Api::wait_for`](crate::Api::wait_for) and for tests.
//!
//! Each function takes the object, or `None` if it does not exist, and returns true once the object
//! is in the state that its name says.
//!
//! ```
//! use dogwatch_client::{Api, conditions};
//! use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
//! # let yaml = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: \
//! #     {name: documents.example.com}, spec: {group: example.com, scope: Namespaced, names: \
//! #     {plural: documents, kind: Document}, versions: [{name: v1, served: true, storage: true, \
//! #     schema: {openAPIV3Schema: {type: object}}}]}}";
//! # let server = builder.yaml(yaml).start().await?;
//! # let url = server.url().parse()?;
//! # let client = dogwatch_client::Client::from_service(url, "default", server.service());
//! let definitions = Api::<CustomResourceDefinition>::all(client);
//! definitions.wait_for("documents.example.com", conditions::is_crd_established).await?;
//! # Ok(())
//! # }
//! ```

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, DeploymentSpec, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Resource;

const TRUE: &str = "True";

/// Returns true if the definition is established: its objects can be created.
pub fn is_crd_established(definition: Option<&CustomResourceDefinition>) -> bool {
    let status = definition.and_then(|it| it.status.as_ref());
    let mut conditions = status.into_iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.any(|it| it.type_ == "Established" && it.status == TRUE)
}

/// Returns true if the pod is running: it has a node, and at least one container has started.
pub fn is_pod_running(pod: Option<&Pod>) -> bool {
    let status = pod.and_then(|it| it.status.as_ref());
    status.and_then(|it| it.phase.as_deref()) == Some("Running")
}

/// Returns true if the pod is ready: a Service may send it requests.
pub fn is_pod_ready(pod: Option<&Pod>) -> bool {
    let status = pod.and_then(|it| it.status.as_ref());
    let mut conditions = status.into_iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.any(|it| it.type_ == "Ready" && it.status == TRUE)
}

/// Returns true if all pods of the Deployment have its current template and are available, and none
/// of an older template is left.
///
/// The same check as `kubectl rollout status` makes.
pub fn is_deployment_rolled_out(deployment: Option<&Deployment>) -> bool {
    let Some((deployment, status)) = deployment.and_then(|it| Some((it, it.status.as_ref()?))) else {
        return false;
    };
    let wanted = optional::<DeploymentSpec>(&deployment.spec).and_then(|it| it.replicas).unwrap_or(1);
    let count = |it: Option<i32>| it.unwrap_or_default();
    is_observed(deployment.metadata.generation, status.observed_generation)
        && count(status.updated_replicas) >= wanted
        && count(status.replicas) <= count(status.updated_replicas)
        && count(status.available_replicas) >= count(status.updated_replicas)
}

/// Returns true if all pods of the StatefulSet have its current template and are ready.
pub fn is_stateful_set_rolled_out(set: Option<&StatefulSet>) -> bool {
    let Some((set, status)) = set.and_then(|it| Some((it, it.status.as_ref()?))) else { return false };
    let wanted = optional::<StatefulSetSpec>(&set.spec).and_then(|it| it.replicas).unwrap_or(1);
    is_observed(set.metadata.generation, status.observed_generation)
        && status.ready_replicas.unwrap_or_default() >= wanted
        && (status.update_revision == status.current_revision
            || status.updated_replicas.unwrap_or_default() >= wanted)
}

/// Returns true if the DaemonSet has an available pod with its current template on every node that
/// it selects.
pub fn is_daemon_set_rolled_out(set: Option<&DaemonSet>) -> bool {
    let Some((set, status)) = set.and_then(|it| Some((it, it.status.as_ref()?))) else { return false };
    is_observed(set.metadata.generation, status.observed_generation)
        && status.updated_number_scheduled.unwrap_or_default() >= status.desired_number_scheduled
        && status.number_available.unwrap_or_default() >= status.desired_number_scheduled
}

/// Returns true if the Job has completed successfully.
pub fn is_job_completed(job: Option<&Job>) -> bool {
    has_job_condition(job, "Complete")
}

/// Returns true if the Job has failed for good.
pub fn is_job_failed(job: Option<&Job>) -> bool {
    has_job_condition(job, "Failed")
}

/// Returns true if the claim is bound to a volume.
pub fn is_volume_claim_bound(claim: Option<&PersistentVolumeClaim>) -> bool {
    let status = claim.and_then(|it| it.status.as_ref());
    status.and_then(|it| it.phase.as_deref()) == Some("Bound")
}

/// Returns true if the namespace exists and is not being deleted.
pub fn is_namespace_active(namespace: Option<&Namespace>) -> bool {
    let status = namespace.and_then(|it| it.status.as_ref());
    status.and_then(|it| it.phase.as_deref()) == Some("Active")
}

/// Returns a condition that is true once the object with this uid is gone, also if another object
/// has taken its name.
///
/// ```
/// use dogwatch_client::{Api, conditions};
/// use dogwatch_core::DeleteParams;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: \
/// #     blue}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::default_namespaced(client);
/// let uid = maps.get("settings").await?.metadata.uid.unwrap_or_default();
/// maps.delete("settings", &DeleteParams::default()).await?;
/// maps.wait_for("settings", conditions::is_deleted(uid)).await?;
/// # Ok(())
/// # }
/// ```
pub fn is_deleted<K: Resource>(uid: impl Into<String>) -> impl Fn(Option<&K>) -> bool {
    let uid = uid.into();
    move |object| object.is_none_or(|it| it.meta().uid.as_ref() != Some(&uid))
}

/// Returns true if the controller of an object has seen its newest spec, so that the rest of the
/// status is about that spec.
fn is_observed(generation: Option<i64>, observed: Option<i64>) -> bool {
    observed.unwrap_or_default() >= generation.unwrap_or_default()
}

/// Returns a field that is optional in the types of some versions of Kubernetes and required in
/// those of others: the `spec` of workloads is required since 1.37. Programs choose the version.
fn optional<'a, T: 'a>(field: impl Into<Option<&'a T>>) -> Option<&'a T> {
    field.into()
}

fn has_job_condition(job: Option<&Job>, name: &str) -> bool {
    let status = job.and_then(|it| it.status.as_ref());
    let mut conditions = status.into_iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.any(|it| it.type_ == name && it.status == TRUE)
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn object<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn nothing_is_in_any_state_before_it_exists() {
        assert!(!is_crd_established(None) && !is_pod_running(None) && !is_pod_ready(None));
        assert!(!is_deployment_rolled_out(None) && !is_stateful_set_rolled_out(None));
        assert!(!is_daemon_set_rolled_out(None) && !is_job_completed(None) && !is_job_failed(None));
        assert!(!is_volume_claim_bound(None) && !is_namespace_active(None));
        assert!(is_deleted::<Pod>("uid")(None));
    }

    #[test]
    fn a_condition_counts_if_it_is_true() {
        for (status, expected) in [("True", true), ("False", false), ("Unknown", false)] {
            let pod = object(json!({ "status": { "conditions": [
                { "type": "PodScheduled", "status": "True" }, { "type": "Ready", "status": status },
            ] } }));
            assert_eq!(is_pod_ready(Some(&pod)), expected, "{status}");
            let job =
                object(json!({ "status": { "conditions": [{ "type": "Complete", "status": status }] } }));
            assert_eq!(
                (is_job_completed(Some(&job)), is_job_failed(Some(&job))),
                (expected, false),
                "{status}"
            );
            let definition = object(json!({
                "spec": { "group": "", "names": { "kind": "", "plural": "" }, "scope": "", "versions": [] },
                "status": { "conditions": [{ "type": "Established", "status": status }] },
            }));
            assert_eq!(is_crd_established(Some(&definition)), expected, "{status}");
        }
    }

    #[test]
    fn a_deployment_is_rolled_out_when_no_old_pod_is_left_and_the_new_ones_are_available() {
        let status = |generation, replicas, updated, available| {
            object::<Deployment>(json!({
                "metadata": { "generation": 2 },
                "spec": { "replicas": 3, "selector": {}, "template": {} },
                "status": {
                    "observedGeneration": generation, "replicas": replicas,
                    "updatedReplicas": updated, "availableReplicas": available,
                },
            }))
        };
        for (deployment, expected) in [
            (status(2, 3, 3, 3), true),
            (status(1, 3, 3, 3), false),
            (status(2, 4, 3, 3), false),
            (status(2, 3, 2, 3), false),
            (status(2, 3, 3, 2), false),
        ] {
            assert_eq!(is_deployment_rolled_out(Some(&deployment)), expected, "{:?}", deployment.status);
        }
    }

    #[test]
    fn sets_are_rolled_out_when_their_pods_are_ready_with_the_current_template() {
        let stateful = |ready, current| {
            object::<StatefulSet>(json!({
                "spec": { "replicas": 2, "selector": {}, "template": {}, "serviceName": "" },
                "status": { "replicas": 2, "readyReplicas": ready, "updatedReplicas": 1,
                    "currentRevision": current, "updateRevision": "b" },
            }))
        };
        assert!(is_stateful_set_rolled_out(Some(&stateful(2, "b"))));
        assert!(!is_stateful_set_rolled_out(Some(&stateful(1, "b"))));
        assert!(!is_stateful_set_rolled_out(Some(&stateful(2, "a"))));
        let daemon = |available| {
            object::<DaemonSet>(json!({ "status": {
                "currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2,
                "updatedNumberScheduled": 2, "numberAvailable": available,
            } }))
        };
        assert!(is_daemon_set_rolled_out(Some(&daemon(2))) && !is_daemon_set_rolled_out(Some(&daemon(1))));
    }

    #[test]
    fn another_object_of_the_same_name_means_that_the_first_is_deleted() {
        let pod: Pod = object(json!({ "metadata": { "uid": "one" } }));
        assert!(!is_deleted("one")(Some(&pod)));
        assert!(is_deleted("two")(Some(&pod)));
    }

    #[test]
    fn phases_are_compared() {
        let pod = object(json!({ "status": { "phase": "Running" } }));
        assert!(is_pod_running(Some(&pod)));
        let claim = object(json!({ "status": { "phase": "Pending" } }));
        assert!(!is_volume_claim_bound(Some(&claim)));
        let namespace = object(json!({ "status": { "phase": "Terminating" } }));
        assert!(!is_namespace_active(Some(&namespace)));
    }
}
