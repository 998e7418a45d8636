//! Writes that the server refuses: they are tried again, and do not affect other objects.

use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster, key_of};

const PODS: Kind = ("v1", "Pod");
const NODES: Kind = ("v1", "Node");
const SETS: Kind = ("apps/v1", "ReplicaSet");
const DEPLOYMENTS: Kind = ("apps/v1", "Deployment");

fn workload(kind: &str, replicas: u32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "web", "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] } } } })
}

fn pod(name: &str, node: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] } })
}

fn is_running(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_deleted_does_not_keep_the_others() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(workload("ReplicaSet", 5)).await;
    let pods = it.until(PODS, |all| all.len() == 5 && all.iter().all(is_running)).await;
    // The pod with the lowest cost is deleted first.
    it.change(PODS, &key_of(&pods[2]), |it| {
        it["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] = "-5".into();
    })
    .await;
    let refused =
        it.server.faults().rule(Rule::on("delete").resource("pods").name(name(&pods[2])).refuse(403));
    it.change(SETS, "default/web", |it| it["spec"]["replicas"] = 2.into()).await;
    it.until(PODS, |all| all.len() == 3).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(PODS, &key_of(&pods[2])).is_some());
    refused.remove();
    it.until(PODS, |all| all.len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_adopted_does_not_keep_the_others() {
    let it = TestCluster::with(Settings::instant()).await;
    let refused =
        it.server.faults().rule(Rule::on("update").resource("pods").name("p1").part("").refuse(403));
    for index in 0..4 {
        let mut pod = pod(&format!("p{index}"), "node-1");
        pod["metadata"]["labels"] = json!({ "app": "web" });
        it.add(pod).await;
    }
    it.add(workload("ReplicaSet", 4)).await;
    let adopted = |it: &Value| it["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet";
    it.until(PODS, |all| all.iter().filter(|it| adopted(it)).count() == 3).await;
    refused.remove();
    it.until(PODS, |all| all.len() == 4 && all.iter().all(adopted)).await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_that_cannot_be_deleted_keeps_neither_the_others_nor_the_status() {
    let it = TestCluster::with(Settings::instant()).await;
    let mut deployment = workload("Deployment", 1);
    deployment["spec"]["revisionHistoryLimit"] = 10.into();
    it.add(deployment).await;
    let is_rolled_out = |it: &Value| {
        it["status"]["observedGeneration"] == it["metadata"]["generation"]
            && ["replicas", "updatedReplicas", "availableReplicas"]
                .iter()
                .all(|field| it["status"][field] == 1)
    };
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    let first = it.all(SETS).remove(0);
    for version in 1..4 {
        it.change(DEPLOYMENTS, "default/web", |it| {
            it["spec"]["template"]["spec"]["containers"][0]["image"] = format!("i:{version}").into();
        })
        .await;
        it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    }
    it.advance(Duration::from_secs(10)).await;
    assert_eq!(it.all(SETS).len(), 4);
    let refused = Rule::on("delete").resource("replicasets").name(name(&first)).refuse(403);
    let refused = it.server.faults().rule(refused);
    it.change(DEPLOYMENTS, "default/web", |it| it["spec"]["revisionHistoryLimit"] = 0.into()).await;
    it.until(SETS, |all| all.len() == 2).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    refused.remove();
    it.until_gone(SETS, &key_of(&first)).await;
}

#[tokio::test(start_paused = true)]
async fn slices_that_cannot_be_written_do_not_keep_the_endpoints() {
    let it = TestCluster::with(Settings::instant()).await;
    let refused = it.server.faults().rule(Rule::on("create").resource("endpointslices").refuse(403));
    it.add(
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } }),
    )
    .await;
    it.add(workload("ReplicaSet", 2)).await;
    let full = |it: &Value| it["subsets"][0]["addresses"].as_array().is_some_and(|it| it.len() == 2);
    it.until_one(("v1", "Endpoints"), "default/web", full).await;
    refused.remove();
    let ours = |it: &Value| it["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
    it.until(("discovery.k8s.io/v1", "EndpointSlice"), |all| all.iter().any(ours)).await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_keeps_its_endpoints_until_others_are_stored() {
    let it = TestCluster::with(Settings::instant()).await;
    let slices = ("discovery.k8s.io/v1", "EndpointSlice");
    let service = |ports: Value| {
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "default" },
            "spec": { "selector": { "app": "web" }, "ports": ports } })
    };
    let http = json!({ "name": "http", "port": 80 });
    it.add(service(json!([http]))).await;
    it.add(workload("ReplicaSet", 2)).await;
    let serves = |ports: usize| {
        move |all: &[Value]| {
            let ours = |it: &&Value| it["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
            let full = |it: &Value| {
                let count = |field: &str| it[field].as_array().map_or(0, Vec::len);
                (count("ports"), count("endpoints")) == (ports, 2)
            };
            let ours: Vec<&Value> = all.iter().filter(ours).collect();
            ours.len() == 1 && full(ours[0])
        }
    };
    it.until(slices, serves(1)).await;
    let refused = it.server.faults().rule(Rule::on("update").resource("endpointslices").refuse(403));
    let both = json!([http, { "name": "metrics", "port": 90 }]);
    it.change(("v1", "Service"), "default/web", |it| it["spec"]["ports"] = both.clone()).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(refused.fired() > 0 && serves(1)(&it.all(slices)), "{:?}", it.all(slices));
    refused.remove();
    it.until(slices, serves(2)).await;
}

#[tokio::test(start_paused = true)]
async fn an_account_that_cannot_be_created_does_not_keep_the_certificate() {
    let mut settings = Settings::instant();
    settings.root_certificate = Some("a certificate".to_owned());
    let it = TestCluster::with(settings).await;
    let refused = Rule::on("create").resource("serviceaccounts").namespace("a").refuse(403);
    it.server.faults().rule(refused);
    it.add(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "a" } })).await;
    it.until_one(("v1", "ConfigMap"), "a/kube-root-ca.crt", |_| true).await;
}

/// A conflict may have another reason than the uid.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_an_ended_pod_is_tried_again_after_a_conflict() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(pod("p", "node-1")).await;
    it.until_one(PODS, "default/p", is_running).await;
    it.delete(PODS, "default/p", DeleteParams::default()).await;
    let refused = it.server.faults().rule(Rule::on("delete").resource("pods").times(2).refuse(409));
    it.until_gone(PODS, "default/p").await;
    assert_eq!(refused.fired(), 2);
    let killing = it.all(("v1", "Event")).into_iter().filter(|it| it["reason"] == "Killing");
    assert_eq!(killing.count(), 1, "its containers are stopped once");
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_pod_of_a_removed_node_is_tried_again_after_a_conflict() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "extra" } })).await;
    it.add(pod("p", "extra")).await;
    it.until_one(PODS, "default/p", is_running).await;
    let refused = it.server.faults().rule(Rule::on("delete").resource("pods").times(2).refuse(409));
    it.delete(NODES, "extra", DeleteParams::default()).await;
    it.until_gone(PODS, "default/p").await;
    assert_eq!(refused.fired(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_could_not_be_reported_as_running_keeps_its_address() {
    let it = TestCluster::with(Settings::default()).await;
    it.until(NODES, |all| all.len() == 3).await;
    // The first report is that the kubelet has accepted the pod.
    let report = Rule::on("update").resource("pods").part("status").after(1).times(3).refuse(500);
    let refused = it.server.faults().rule(report);
    it.add(pod("p", "node-1")).await;
    let first = it.until_one(PODS, "default/p", is_running).await;
    it.add(pod("q", "node-1")).await;
    let second = it.until_one(PODS, "default/q", is_running).await;
    assert_eq!(refused.fired(), 3);
    assert_eq!([&first, &second].map(|it| it["status"]["podIP"].clone()), ["10.244.1.2", "10.244.1.3"]);
    // A pod that is deleted before the report does not keep an address either.
    let report = Rule::on("update").resource("pods").name("r").part("status").after(1).times(2).refuse(500);
    it.server.faults().rule(report);
    it.add(pod("r", "node-1")).await;
    it.advance(Duration::from_millis(1001)).await;
    it.delete(PODS, "default/r", DeleteParams::default().grace_period(Duration::ZERO)).await;
    it.advance(Duration::from_secs(60)).await;
    it.add(pod("s", "node-1")).await;
    let third = it.until_one(PODS, "default/s", is_running).await;
    assert_eq!(third["status"]["podIP"], "10.244.1.4");
}

/// Regression test: a webhook may deny with 404, which was taken as "the pod is gone".
#[tokio::test(start_paused = true)]
async fn a_pod_whose_status_was_refused_with_404_is_started_later() {
    let it = TestCluster::with(Settings::default()).await;
    let refused = Rule::on("update").resource("pods").name("p").part("status").refuse(404);
    let refused = it.server.faults().rule(refused);
    it.add(pod("p", "node-1")).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(refused.fired() > 0);
    refused.remove();
    it.until(PODS, |all| all.iter().all(is_running)).await;
}

/// Regression test: see the test above.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_removal_was_refused_with_404_is_removed_later() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(pod("p", "node-1")).await;
    it.until(PODS, |all| all.iter().all(is_running)).await;
    it.delete(PODS, "default/p", DeleteParams::default()).await;
    let refused = it.server.faults().rule(Rule::on("delete").resource("pods").name("p").refuse(404));
    it.advance(Duration::from_secs(60)).await;
    assert!(refused.fired() > 0 && it.get(PODS, "default/p").is_some());
    refused.remove();
    it.until_gone(PODS, "default/p").await;
}

/// Regression test: see the tests above.
#[tokio::test(start_paused = true)]
async fn a_deployment_whose_replica_set_was_refused_with_404_is_scaled_later() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(workload("Deployment", 1)).await;
    it.until(PODS, |all| all.len() == 1 && all.iter().all(is_running)).await;
    let refused = it.server.faults().rule(Rule::on("update").resource("replicasets").part("").refuse(404));
    it.change(DEPLOYMENTS, "default/web", |it| it["spec"]["replicas"] = 3.into()).await;
    it.advance(Duration::from_secs(10)).await;
    assert!(refused.fired() > 0);
    refused.remove();
    it.until(PODS, |all| all.len() == 3 && all.iter().all(is_running)).await;
}
