//! Pods that are deleted: the kubelet reports that their containers have ended before it removes
//! them.

use std::time::Duration;

use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster};

const DEPLOYMENTS: Kind = ("apps/v1", "Deployment");
const SETS: Kind = ("apps/v1", "ReplicaSet");
const PODS: Kind = ("v1", "Pod");
const NODES: Kind = ("v1", "Node");
const SLICES: Kind = ("discovery.k8s.io/v1", "EndpointSlice");

fn pod(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": "web" } },
        "spec": { "nodeName": "node-1", "containers": [{ "name": "c", "image": "i" }] } })
}

/// Returns a pod that stays when it is deleted.
fn held_pod(name: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["finalizers"] = json!(["example.com/keep"]);
    pod
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|it| it["type"] == kind).unwrap_or(&Value::Null)
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

fn has_failed(pod: &Value) -> bool {
    pod["status"]["phase"] == "Failed"
}

#[tokio::test(start_paused = true)]
async fn a_recreate_rollout_continues_although_finalizers_hold_the_old_pods() {
    let it = TestCluster::with(Settings::default()).await;
    let template = json!({ "metadata": { "labels": { "app": "web" }, "finalizers": ["example.com/keep"] },
        "spec": { "containers": [{ "name": "c", "image": "i:1" }] } });
    it.add(json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "replicas": 2, "strategy": { "type": "Recreate" }, "template": template,
            "selector": { "matchLabels": { "app": "web" } } } }))
        .await;
    it.until(PODS, |all| all.len() == 2 && all.iter().all(is_ready)).await;
    it.change(DEPLOYMENTS, "default/web", |it| {
        it["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2".into();
    })
    .await;
    let start = tokio::time::Instant::now();
    it.until(SETS, |all| all.len() == 2).await;
    assert!(start.elapsed() <= Duration::from_secs(60), "{:?}", start.elapsed());
    let pods = it.until(PODS, |all| all.iter().filter(|it| is_ready(it)).count() == 2).await;
    assert_eq!(pods.iter().filter(|it| has_failed(it)).count(), 2, "the old ones are held");
}

#[tokio::test(start_paused = true)]
async fn a_held_pod_leaves_the_endpoints_when_its_containers_have_ended() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } }),
    )
    .await;
    it.add(held_pod("p")).await;
    it.add(held_pod("forced")).await;
    let count = |all: &[Value]| -> usize {
        let ours = all.iter().filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
        ours.map(|it| it["endpoints"].as_array().map_or(0, Vec::len)).sum()
    };
    it.until(SLICES, |all| count(all) == 2).await;
    it.delete(PODS, "default/p", DeleteParams::default()).await;
    it.until(SLICES, |all| count(all) == 1).await;
    it.delete(PODS, "default/forced", DeleteParams::default().grace_period(Duration::ZERO)).await;
    it.until(SLICES, |all| count(all) == 0).await;
    for name in ["default/p", "default/forced"] {
        let pod = it.get(PODS, name).expect("a finalizer holds it");
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 0, "{name}");
        assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143, "{name}");
        let ready = ["Ready", "ContainersReady"].map(|it| condition(&pod, it)["status"].clone());
        assert_eq!((has_failed(&pod), ready), (true, [json!("False"), json!("False")]), "{name}");
    }
    let revision = it.server.revision();
    it.advance(Duration::from_secs(1000)).await;
    assert_eq!(it.server.revision(), revision, "nothing is left to do");
}

#[tokio::test(start_paused = true)]
async fn a_held_pod_fails_although_its_node_is_gone() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "extra" } })).await;
    let mut held = held_pod("p");
    held["spec"]["nodeName"] = "extra".into();
    it.add(held).await;
    it.until_one(PODS, "default/p", is_ready).await;
    it.delete(NODES, "extra", DeleteParams::default()).await;
    it.delete(PODS, "default/p", DeleteParams::default().grace_period(Duration::ZERO)).await;
    it.until_one(PODS, "default/p", has_failed).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_pod_is_one_status_and_one_deletion() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(pod("p")).await;
    it.until_one(PODS, "default/p", is_ready).await;
    it.advance(Duration::from_secs(10)).await;
    let before = it.server.revision();
    it.delete(PODS, "default/p", DeleteParams::default()).await;
    it.server.request_log().clear();
    it.until_gone(PODS, "default/p").await;
    it.advance(Duration::from_secs(10)).await;
    let pods = it.server.requests().resource("pods");
    assert_eq!(pods.count(), 2, "{pods:?}");
    let is_last = |revision: &u64| it.all_at(PODS, *revision).iter().all(has_failed);
    let ended = (before..it.server.revision()).find(is_last).expect("each state is kept");
    assert_eq!(it.all_at(PODS, ended).len(), 1, "it has failed before it is removed");
}
