//! The workload of the story, a Deployment called `web`: creates, scales and updates it, and reads
//! the states of its pods.

use std::collections::BTreeMap;

use dogwatch::api::PatchParams;
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Object, Store};
use serde_json::json;

use super::connect::{FIELD_MANAGER, NAMESPACE};
use super::scene::Scene;
use super::tap::version_of;
use super::waiting::until;

/// The name of the Deployment.
pub(super) const WEB: &str = "web";
/// Its images: first the one, then the other.
pub(super) const IMAGE: &str = "example.com/web:1";
pub(super) const NEW_IMAGE: &str = "example.com/web:2";
/// Its number of pods, and its number of pods for a while.
pub(super) const REPLICAS: i32 = 3;
pub(super) const MORE_REPLICAS: i32 = 5;

/// Creates the Deployment, or gives it a new image. It does not set the replicas of an existing one.
pub(super) async fn apply_image(scene: &Scene, image: &str) -> anyhow::Result<()> {
    let apply = PatchParams::apply(FIELD_MANAGER).force();
    deployments(scene).apply(WEB, &apply, &manifest(image)).await?;
    Ok(())
}

pub(super) async fn scale(scene: &Scene, replicas: i32) -> anyhow::Result<()> {
    let params = PatchParams::default().manager(FIELD_MANAGER);
    deployments(scene).set_replicas(WEB, &params, replicas).await?;
    Ok(())
}

/// Waits until the server has exactly this many pods, all of them ready and with this image.
pub(super) async fn settled(scene: &Scene, replicas: usize, image: &str) -> anyhow::Result<()> {
    let what = format!("{replicas} ready pods with image {image}");
    until(&what, || {
        let pods = pods_on_server(scene);
        pods.len() == replicas && pods.iter().all(|it| is_ready(it) && image_of(it) == Some(image))
    })
    .await
}

/// Returns the pods of the namespace as the server stores them, without a request.
pub(super) fn pods_on_server(scene: &Scene) -> Vec<Pod> {
    let objects = scene.server.objects_at("v1", "pods", scene.server.revision()).unwrap_or_default();
    let pods = objects.into_iter().filter_map(|it| serde_json::from_value::<Pod>(it).ok());
    pods.filter(|it| it.metadata.namespace.as_deref() == Some(NAMESPACE)).collect()
}

/// Waits until the reference client has received the newest state of every pod. Returns the version
/// of the newest event.
pub(super) async fn newest_event(scene: &Scene) -> anyhow::Result<u64> {
    until("the reference client has received all events", || {
        let pods = pods_on_server(scene);
        let stored = pods.iter().map(|it| (name_of(it).to_owned(), version_of(it)));
        stored.collect::<BTreeMap<_, _>>() == scene.reference.tap.pods()
    })
    .await?;
    Ok(scene.reference.tap.newest())
}

/// Returns true if a pod is ready and not terminating.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    let is_ready = conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
    is_ready && !is_terminating(pod)
}

pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Returns the node of a pod, if it is scheduled.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Returns the number of ready pods in a cache.
pub(super) fn ready_pods(pods: &Store<Pod>) -> usize {
    pods.snapshot().iter().filter(|it| is_ready(it)).count()
}

/// Returns the name of an object.
pub(super) fn name_of(object: &impl Object) -> &str {
    object.header().name
}

fn image_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.containers.first()?.image.as_deref()
}

fn deployments(scene: &Scene) -> Api<Deployment> {
    Api::namespaced(scene.client.clone(), NAMESPACE)
}

fn manifest(image: &str) -> serde_json::Value {
    json!({ "spec": {
        "selector": { "matchLabels": { "app": WEB } },
        "template": {
            "metadata": { "labels": { "app": WEB } },
            "spec": { "containers": [{ "name": WEB, "image": image }] },
        },
    } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminating_pod_is_not_ready() {
        let ready = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
        for (pod, expected) in [
            (json!({ "status": ready }), true),
            (json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }), false),
            (json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "status": ready }), false),
            (json!({}), false),
        ] {
            assert_eq!(is_ready(&serde_json::from_value(pod).expect("a pod")), expected);
        }
    }
}
