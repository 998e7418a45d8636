//! Claims and volumes as their users see them.

use std::time::Duration;

use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster};

const CLAIMS: Kind = ("v1", "PersistentVolumeClaim");
const VOLUMES: Kind = ("v1", "PersistentVolume");
const CLASSES: Kind = ("storage.k8s.io/v1", "StorageClass");
const PODS: Kind = ("v1", "Pod");

fn claim(name: &str, class: Option<&str>) -> Value {
    let mut claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = class.into();
    }
    claim
}

fn pod(name: &str, claim: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "image": "i" }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }] } })
}

fn is_bound(object: &Value) -> bool {
    object["status"]["phase"] == "Bound"
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_the_default_class_gets_a_volume_that_goes_with_it() {
    let it = TestCluster::with(Settings::instant()).await;
    it.until(CLASSES, |all| all.len() == 1).await;
    it.add(claim("data", None)).await;
    let bound = it.until_one(CLAIMS, "default/data", is_bound).await;
    assert_eq!(
        (&bound["spec"]["storageClassName"], &bound["status"]["capacity"]["storage"]),
        (&json!("standard"), &json!("1Gi"))
    );
    let name = bound["spec"]["volumeName"].as_str().unwrap();
    let volume = it.until_one(VOLUMES, name, is_bound).await;
    assert_eq!(volume["spec"]["claimRef"]["uid"], bound["metadata"]["uid"]);
    let revision = it.server.revision();
    it.advance(Duration::from_secs(1000)).await;
    assert_eq!(it.server.revision(), revision, "nothing is left to do");
    it.delete(CLAIMS, "default/data", DeleteParams::default()).await;
    it.until_gone(VOLUMES, name).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_a_user_is_bound_and_kept() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(claim("data", Some("manual"))).await;
    it.advance(Duration::from_secs(1)).await;
    assert!(!is_bound(&it.get(CLAIMS, "default/data").unwrap()));
    for (name, size) in [("small", "500Mi"), ("large", "10Gi")] {
        it.add(json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
            "spec": { "storageClassName": "manual", "capacity": { "storage": size }, "accessModes": ["ReadWriteOnce"],
                "hostPath": { "path": "/data" } } }))
            .await;
    }
    let bound = it.until_one(CLAIMS, "default/data", is_bound).await;
    assert_eq!(
        (&bound["spec"]["volumeName"], &bound["status"]["capacity"]["storage"]),
        (&json!("large"), &json!("10Gi"))
    );
    it.until_one(VOLUMES, "small", |it| it["status"]["phase"] == "Available").await;
    it.delete(CLAIMS, "default/data", DeleteParams::default()).await;
    it.until_one(VOLUMES, "large", |it| it["status"]["phase"] == "Released").await;
}

#[tokio::test(start_paused = true)]
async fn a_class_may_wait_for_the_first_pod_and_pods_wait_for_their_volumes() {
    let it = TestCluster::with(Settings::instant()).await;
    it.until(CLASSES, |all| all.len() == 1).await;
    it.add(
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "local" },
        "provisioner": "simulator.dogwatch.dev/volumes", "volumeBindingMode": "WaitForFirstConsumer" }),
    )
    .await;
    it.add(claim("data", Some("local"))).await;
    it.add(pod("lost", "none")).await;
    it.advance(Duration::from_secs(10)).await;
    assert!(!is_bound(&it.get(CLAIMS, "default/data").unwrap()));
    it.add(pod("user", "data")).await;
    it.until_one(CLAIMS, "default/data", is_bound).await;
    it.until_one(PODS, "default/user", |it| it["status"]["phase"] == "Running").await;
    let lost = it.get(PODS, "default/lost").unwrap();
    assert_eq!(
        lost["status"]["conditions"][0]["message"],
        "0/3 nodes are available: persistentvolumeclaim \"none\" not found."
    );
    it.add(claim("none", None)).await;
    let mut scratch = pod("scratch", "unused");
    scratch["spec"]["volumes"] = json!([{ "name": "data", "ephemeral": { "volumeClaimTemplate": {
        "spec": claim("", None)["spec"] } } }]);
    it.add(scratch).await;
    it.until_one(PODS, "default/scratch", |it| it["status"]["phase"] == "Running").await;
    assert!(is_bound(&it.get(CLAIMS, "default/scratch-data").unwrap()));
    it.until_one(PODS, "default/lost", |it| it["status"]["phase"] == "Running").await;
}
