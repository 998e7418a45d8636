//! Objects that the cluster protects or restores: claims and volumes in use, the service of the API
//! server.

use std::time::Duration;

use crate::cluster::{DeleteOptions, ObjectRef, Writer};
use crate::controllers::Controllers;
use serde_json::{Value, json};

use crate::tests::test_cluster::TestCluster;

const NAMESPACES: (&str, &str) = ("v1", "Namespace");
const CLAIMS: (&str, &str) = ("v1", "PersistentVolumeClaim");
const VOLUMES: (&str, &str) = ("v1", "PersistentVolume");
const SERVICES: (&str, &str) = ("v1", "Service");
const SLICES: (&str, &str) = ("discovery.k8s.io/v1", "EndpointSlice");

async fn start() -> TestCluster {
    TestCluster::with(Controllers::default()).await
}

fn claim(namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name, "namespace": namespace },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } })
}

/// Returns a pod on a node that uses a claim.
fn claimant(namespace: &str, name: &str, claim: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace },
        "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }] } })
}

#[tokio::test(start_paused = true)]
async fn an_unused_claim_is_deleted_and_so_is_its_namespace() {
    let it = start().await;
    it.add(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "a" } })).await;
    it.add(claim("a", "c")).await;
    it.delete(CLAIMS, "a/c", None).await;
    let going = it.get(CLAIMS, "a/c").expect("the claim can be read right after its deletion");
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    it.until_gone(CLAIMS, "a/c").await;
    it.add(claim("a", "d")).await;
    it.delete(NAMESPACES, "a", None).await;
    it.until_gone(NAMESPACES, "a").await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_stays_until_its_pod_is_gone() {
    let it = start().await;
    it.add(claim("default", "c")).await;
    it.add(claimant("default", "p", "c")).await;
    it.add(claimant("default", "other", "d")).await;
    it.delete(CLAIMS, "default/c", None).await;
    it.advance(Duration::from_secs(60)).await;
    let revision = it.cluster.store().revision();
    it.advance(Duration::from_secs(600)).await;
    assert!(it.get(CLAIMS, "default/c").is_some());
    assert_eq!(it.cluster.store().revision(), revision, "waiting writes nothing");
    let (kind, key) = (it.kind("v1", "Pod"), "default/p".parse().unwrap());
    let options = DeleteOptions { grace: Some(0), ..Default::default() };
    let place = ObjectRef::of(&kind, &key);
    let kubelet = Writer::server("kubelet");
    it.cluster.delete(&place, &options, &kubelet).await.expect("deleted");
    it.until_gone(CLAIMS, "default/c").await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_deleted_unless_it_is_bound_to_an_existing_claim() {
    let it = start().await;
    let volume = |name: &str, claim: Option<&str>| {
        let mut volume = json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
            "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/x" } } });
        if let Some(claim) = claim {
            volume["spec"]["claimRef"] = json!({ "namespace": "default", "name": claim });
        }
        volume
    };
    it.add(claim("default", "c")).await;
    it.add(volume("free", None)).await;
    for (name, claim) in [("bound", "c"), ("widowed", "none")] {
        it.add(volume(name, Some(claim))).await;
        it.change(VOLUMES, name, "status", |it| it["status"]["phase"] = "Bound".into()).await;
    }
    for name in ["free", "bound", "widowed"] {
        it.delete(VOLUMES, name, None).await;
    }
    it.until_gone(VOLUMES, "free").await;
    it.until_gone(VOLUMES, "widowed").await;
    it.advance(Duration::from_secs(600)).await;
    assert!(it.get(VOLUMES, "bound").is_some());
    it.delete(CLAIMS, "default/c", None).await;
    it.until_gone(VOLUMES, "bound").await;
}

/// The interval is `DefaultEndpointReconcilerInterval` in k8s.io/kubernetes v1.36.4
/// pkg/controlplane/instance.go.
#[tokio::test(start_paused = true)]
async fn the_service_of_the_api_server_is_restored_within_ten_seconds() {
    let it = TestCluster::with(Controllers::of_server()).await;
    let before = it.get(SERVICES, "default/kubernetes").unwrap();
    it.delete(SERVICES, "default/kubernetes", None).await;
    it.delete(SLICES, "default/kubernetes", None).await;
    assert!(it.get(SERVICES, "default/kubernetes").is_none());
    it.advance(Duration::from_secs(10)).await;
    let after = it.get(SERVICES, "default/kubernetes").expect("restored");
    assert_eq!(after["spec"], before["spec"]);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(it.get(SLICES, "default/kubernetes").is_some());
    it.delete(SLICES, "default/kubernetes", None).await;
    it.advance(Duration::from_secs(10)).await;
    assert!(it.get(SLICES, "default/kubernetes").is_some(), "the slice alone is restored, too");
}
