//! The workload of the story, a Deployment called `web`: creates, scales and updates it, and reads
//! the states of its pods.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use dogwatch::api::PatchParams;
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Object};
use serde_json::json;

use super::connect::{FIELD_MANAGER, NAMESPACE};
use super::scene::Scene;
use super::tap::version_of;
use super::waiting::{until, until_some};

/// The name of the Deployment.
pub(super) const WEB: &str = "web";
/// Its images: first the one, then the other.
pub(super) const IMAGE: &str = "example.com/web:1";
pub(super) const NEW_IMAGE: &str = "example.com/web:2";
/// Its number of pods, unless a user scales it meanwhile.
pub(super) const REPLICAS: usize = 3;
/// The number of pods that the outages of the story add and remove.
pub(super) const STEP: usize = 2;

/// The reason if the Deployment does not exist.
const GONE: &str = "the Deployment web does not exist: it was deleted";

/// The pods that the Deployment asks for.
struct Wanted {
    replicas: usize,
    image: String,
}

/// Creates the Deployment, or gives it a new image. It does not set the replicas of an existing
/// one.
pub(super) async fn apply_image(scene: &Scene, image: &str) -> anyhow::Result<()> {
    let apply = PatchParams::apply(FIELD_MANAGER).force();
    deployments(scene).apply(WEB, &apply, &manifest(image)).await?;
    Ok(())
}

pub(super) async fn scale(scene: &Scene, replicas: usize) -> anyhow::Result<()> {
    let params = PatchParams::default().manager(FIELD_MANAGER);
    deployments(scene).set_replicas(WEB, &params, i32::try_from(replicas)?).await?;
    Ok(())
}

/// Returns the number of pods that the Deployment asks for now. A user can change it at any time.
///
/// # Errors
/// Returns an error if there is no Deployment, because a user has deleted it.
pub(super) fn replicas(scene: &Scene) -> anyhow::Result<usize> {
    Ok(wanted(scene).context(GONE)?.replicas)
}

/// Waits until the server has exactly the pods that the Deployment asks for, all of them ready and
/// with its image. Returns their number.
///
/// # Errors
/// Returns an error if there is no Deployment, or if that takes too long.
pub(super) async fn settled(scene: &Scene) -> anyhow::Result<usize> {
    let settled = || {
        let Some(wanted) = wanted(scene) else { return Some(Err(anyhow::anyhow!(GONE))) };
        let pods = own_pods(scene);
        let is_wanted = |it: &Pod| is_ready(it) && image_of(it) == Some(wanted.image.as_str());
        (pods.len() == wanted.replicas && pods.iter().all(is_wanted)).then_some(Ok(wanted.replicas))
    };
    until_some("the Deployment web has its pods, all of them ready", settled).await?
}

/// Returns the names of the ready pods of the Deployment, as the server stores them.
pub(super) fn ready_on_server(scene: &Scene) -> BTreeSet<String> {
    let pods = own_pods(scene);
    pods.iter().filter(|it| is_ready(it)).map(|it| name_of(it).to_owned()).collect()
}

/// Waits until the informer's cache equals the server.
pub(super) async fn cached(scene: &Scene) -> anyhow::Result<()> {
    until("the cache of the informer equals the server", || in_cache(scene) == stored(scene)).await
}

/// Returns true if a client knows each pod of the server in its last state. It may know pods that
/// are gone.
pub(super) fn are_known(scene: &Scene, known: &BTreeMap<String, u64>) -> bool {
    stored(scene).iter().all(|(name, version)| known.get(name) >= Some(version))
}

/// Returns the versions of the pods in the informer's cache, by name.
pub(super) fn in_cache(scene: &Scene) -> BTreeMap<String, u64> {
    let pods = scene.pods.store().snapshot();
    pods.iter().map(|it| (name_of(&**it).to_owned(), version_of(&**it))).collect()
}

/// Returns the versions of the pods on the server, by name.
fn stored(scene: &Scene) -> BTreeMap<String, u64> {
    pods_on_server(scene).iter().map(|it| (name_of(it).to_owned(), version_of(it))).collect()
}

/// Returns the pods of the namespace as the server stores them, without a request.
fn pods_on_server(scene: &Scene) -> Vec<Pod> {
    let objects = stored_objects(scene, "v1", "pods");
    let pods = objects.into_iter().filter_map(|it| serde_json::from_value::<Pod>(it).ok());
    pods.filter(|it| it.metadata.namespace.as_deref() == Some(NAMESPACE)).collect()
}

/// Waits until the reference client has received the newest state of every pod.
pub(super) async fn newest_event(scene: &Scene) -> anyhow::Result<()> {
    let reference = &scene.reference.tap;
    until("the reference client has received all events", || {
        !reference.is_connected() || stored(scene) == reference.pods()
    })
    .await
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

/// Returns the name of an object.
pub(super) fn name_of(object: &impl Object) -> &str {
    object.header().name
}

/// Returns the pods of the Deployment. A user may create others.
fn own_pods(scene: &Scene) -> Vec<Pod> {
    let mut pods = pods_on_server(scene);
    pods.retain(|it| it.metadata.labels.iter().flatten().any(|(key, value)| key == "app" && value == WEB));
    pods
}

/// Returns the objects of a resource as the server stores them, without a request.
fn stored_objects(scene: &Scene, api_version: &str, plural: &str) -> Vec<serde_json::Value> {
    // The version can expire between the two calls, by a button of the page: then there is a newer
    // one.
    let newest = || scene.server.objects_at(api_version, plural, scene.server.revision());
    std::iter::repeat_with(newest).take(10).flatten().next().unwrap_or_default()
}

/// Returns the Deployment's request as the server stores it, or `None` if it does not exist.
fn wanted(scene: &Scene) -> Option<Wanted> {
    let objects = stored_objects(scene, "apps/v1", "deployments");
    objects.iter().find_map(|it| {
        let (metadata, spec) = (&it["metadata"], &it["spec"]);
        let image = spec["template"]["spec"]["containers"][0]["image"].as_str()?;
        let replicas = spec["replicas"].as_u64().and_then(|it| usize::try_from(it).ok())?;
        let is_web = metadata["name"] == WEB && metadata["namespace"] == NAMESPACE;
        is_web.then(|| Wanted { replicas, image: image.to_owned() })
    })
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
