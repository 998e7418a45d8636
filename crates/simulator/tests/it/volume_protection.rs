//! Protection of claims and volumes in use.

use std::time::Duration;

use dogwatch_core::DeleteParams;
use serde_json::{Value, json};

use crate::managed_cluster::{ManagedCluster, NAMESPACES, PODS};
use crate::test_cluster::{Kind, TestServer};

const CLAIMS: Kind = ("v1", "PersistentVolumeClaim");
const CLASSES: Kind = ("storage.k8s.io/v1", "VolumeAttributesClass");
const VOLUMES: Kind = ("v1", "PersistentVolume");

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
    let it = ManagedCluster::start().await;
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
    let it = ManagedCluster::start().await;
    it.add(claim("default", "c")).await;
    it.add(claimant("default", "p", "c")).await;
    it.add(claimant("default", "other", "d")).await;
    it.delete(CLAIMS, "default/c", None).await;
    it.advance(Duration::from_secs(60)).await;
    let revision = it.server.revision();
    it.advance(Duration::from_secs(600)).await;
    assert!(it.get(CLAIMS, "default/c").is_some());
    assert_eq!(it.server.revision(), revision, "waiting writes nothing");
    let at_once = DeleteParams::default().grace_period(Duration::ZERO);
    TestServer::delete(&it, PODS, "default/p", at_once).await;
    it.until_gone(CLAIMS, "default/c").await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_deleted_unless_it_is_bound_to_an_existing_claim() {
    let it = ManagedCluster::start().await;
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
        it.change_part(VOLUMES, name, "status", |it| it["status"]["phase"] = "Bound".into()).await;
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

#[tokio::test(start_paused = true)]
async fn a_volume_attributes_class_stays_while_a_claim_names_it() {
    let it = ManagedCluster::start().await;
    for name in ["free", "used"] {
        it.add(json!({ "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
            "metadata": { "name": name }, "driverName": "d.example.com", "parameters": { "k": "v" } }))
            .await;
    }
    let mut claim = claim("default", "c");
    claim["spec"]["volumeAttributesClassName"] = "used".into();
    it.add(claim).await;
    for name in ["free", "used"] {
        it.delete(CLASSES, name, None).await;
    }
    it.until_gone(CLASSES, "free").await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(CLASSES, "used").is_some());
    it.delete(CLAIMS, "default/c", None).await;
    it.until_gone(CLASSES, "used").await;
}
