//! The life of nodes: taints by conditions and leases, evictions by taints, and pods that have
//! ended.

use std::time::Duration;

use dogwatch_core::DeleteParams;
use dogwatch_simulator::{Settings, Simulator};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::test_cluster::{Kind, TestCluster, key_of};

const NODES: Kind = ("v1", "Node");
const PODS: Kind = ("v1", "Pod");
const EVENTS: Kind = ("v1", "Event");
const SLICES: Kind = ("discovery.k8s.io/v1", "EndpointSlice");
const SETS: Kind = ("apps/v1", "ReplicaSet");

fn replica_set(name: &str, replicas: u32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": name, "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] } } } })
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" }, "spec": spec });
    pod["spec"]["containers"] = json!([{ "name": "c", "image": "i" }]);
    pod
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|it| it["type"] == kind).unwrap_or(&Value::Null)
}

fn is_ready(object: &Value) -> bool {
    condition(object, "Ready")["status"] == "True"
}

/// Returns the taints of a node, as `key:effect` without the domain.
fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |it: &Value, field: &str| it[field].as_str().unwrap_or_default().to_owned();
    let short = |it: &Value| text(it, "key").trim_start_matches("node.kubernetes.io/").to_owned();
    taints.iter().map(|it| format!("{}:{}", short(it), text(it, "effect"))).collect()
}

async fn set_ready(it: &TestCluster, node: &str, status: &str) {
    it.change_status(NODES, node, |it| {
        let all = it["conditions"].as_array_mut().expect("a list of conditions");
        all.iter_mut().find(|it| it["type"] == "Ready").expect("the condition Ready")["status"] =
            status.into();
    })
    .await;
}

fn has_event(all: &[Value], reason: &str, message: &str) -> bool {
    all.iter().any(|it| it["reason"] == reason && it["message"] == message)
}

#[tokio::test(start_paused = true)]
async fn taints_of_a_node_follow_its_conditions_and_cordons() {
    let it = TestCluster::with(Settings::instant()).await;
    it.simulator.ready().await;
    it.until(NODES, |all| all.len() == 3 && all.iter().all(|it| taints(it).is_empty())).await;
    it.change(NODES, "node-1", |it| it["spec"]["unschedulable"] = true.into()).await;
    it.until_one(NODES, "node-1", |it| taints(it) == ["unschedulable:NoSchedule"]).await;
    it.change(NODES, "node-1", |it| it["spec"]["unschedulable"] = false.into()).await;
    it.until_one(NODES, "node-1", |it| taints(it).is_empty()).await;
    set_ready(&it, "node-1", "False").await;
    let tainted = ["not-ready:NoSchedule", "not-ready:NoExecute"];
    let node = it.until_one(NODES, "node-1", |it| taints(it) == tainted).await;
    assert!(node["spec"]["taints"][1]["timeAdded"].is_string());
    it.until(EVENTS, |all| has_event(all, "NodeNotReady", "Node node-1 status is now: NodeNotReady")).await;
    set_ready(&it, "node-1", "Unknown").await;
    let tainted = ["unreachable:NoSchedule", "unreachable:NoExecute"];
    it.until_one(NODES, "node-1", |it| taints(it) == tainted).await;
    set_ready(&it, "node-1", "True").await;
    it.until_one(NODES, "node-1", |it| taints(it).is_empty()).await;
    let all = it.all(NODES);
    assert!(all.iter().filter(|it| key_of(it) != "node-1").all(|it| taints(it).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_lost_node_are_not_ready_and_are_replaced_when_their_time_is_over() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } }),
    )
    .await;
    it.add(replica_set("web", 3)).await;
    it.until(PODS, |all| all.len() == 3 && all.iter().all(is_ready)).await;
    let on_lost = |it: &&Value| it["spec"]["nodeName"] == "node-1";
    let lost = key_of(it.all(PODS).iter().find(on_lost).expect("a pod on each node"));
    let start = Instant::now();
    set_ready(&it, "node-1", "Unknown").await;
    it.until_one(PODS, &lost, |it| !is_ready(it)).await;
    let ready = |all: &[Value]| {
        let ours = all.iter().filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
        let endpoints = ours.flat_map(|it| it["endpoints"].as_array().cloned().unwrap_or_default());
        endpoints.filter(|it| it["conditions"]["ready"] == true).count()
    };
    it.until(SLICES, |all| ready(all) == 2).await;
    it.until(EVENTS, |all| has_event(all, "NodeNotReady", "Node is not ready")).await;
    assert!(start.elapsed() < Duration::from_secs(1));
    it.advance(Duration::from_secs(290)).await;
    assert!(it.get(PODS, &lost).unwrap()["metadata"].get("deletionTimestamp").is_none());
    let evicted = it.until_one(PODS, &lost, |it| it["metadata"]["deletionTimestamp"].is_string()).await;
    let elapsed = start.elapsed();
    assert!((299..=301).contains(&elapsed.as_secs()), "{elapsed:?}");
    let target = condition(&evicted, "DisruptionTarget");
    assert_eq!(
        (&target["reason"], &target["message"]),
        (&json!("DeletionByTaintManager"), &json!("Taint manager: deleting due to NoExecute taint"))
    );
    let message = format!("Marking for deletion Pod {lost}");
    it.until(EVENTS, |all| has_event(all, "TaintManagerEviction", &message)).await;
    it.until_one(SETS, "default/web", |it| it["status"]["readyReplicas"] == 3).await;
    // The kubelet of a lost node cannot confirm that the containers have stopped.
    it.advance(Duration::from_secs(600)).await;
    assert!(it.get(PODS, &lost).is_some());
    set_ready(&it, "node-1", "True").await;
    it.until_gone(PODS, &lost).await;
    it.until(SLICES, |all| ready(all) == 3).await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_ready_again_with_their_node() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(pod("p", json!({ "nodeName": "node-2" }))).await;
    it.until_one(PODS, "default/p", is_ready).await;
    for status in ["False", "Unknown"] {
        set_ready(&it, "node-2", status).await;
        it.until_one(PODS, "default/p", |it| !is_ready(it)).await;
        it.advance(Duration::from_secs(100)).await;
        assert!(!is_ready(&it.get(PODS, "default/p").unwrap()), "{status}");
        set_ready(&it, "node-2", "True").await;
        it.until_one(PODS, "default/p", is_ready).await;
        let message = "Cancelling deletion of Pod default/p";
        it.until(EVENTS, |all| has_event(all, "TaintManagerEviction", message)).await;
    }
    it.advance(Duration::from_secs(600)).await;
    assert!(is_ready(&it.get(PODS, "default/p").expect("it stays")));
}

#[tokio::test(start_paused = true)]
async fn a_taint_evicts_pods_by_their_tolerations() {
    let it = TestCluster::with(Settings::instant()).await;
    let tolerating = |seconds: Option<u32>| {
        let toleration = json!({ "key": "maintenance", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds });
        json!({ "nodeName": "node-1", "tolerations": [toleration] })
    };
    it.add(pod("never", json!({ "nodeName": "node-1" }))).await;
    it.add(pod("minute", tolerating(Some(60)))).await;
    it.add(pod("always", tolerating(None))).await;
    it.add(pod("elsewhere", json!({ "nodeName": "node-2" }))).await;
    it.until(PODS, |all| all.len() == 4 && all.iter().all(is_ready)).await;
    let start = Instant::now();
    let taint = json!({ "key": "maintenance", "effect": "NoExecute" });
    it.change(NODES, "node-1", |it| it["spec"]["taints"] = json!([taint])).await;
    it.until_gone(PODS, "default/never").await;
    assert!(start.elapsed() < Duration::from_secs(1));
    it.advance(Duration::from_secs(59)).await;
    assert!(it.get(PODS, "default/minute").is_some());
    it.until_gone(PODS, "default/minute").await;
    assert_eq!(start.elapsed().as_secs(), 60);
    it.advance(Duration::from_secs(1000)).await;
    let left: Vec<String> = it.all(PODS).iter().map(key_of).collect();
    assert_eq!(left, ["default/always", "default/elsewhere"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_daemon_sets_stay_on_a_lost_node() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "d", "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": "d" } },
            "template": { "metadata": { "labels": { "app": "d" } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] } } } }))
        .await;
    it.until(PODS, |all| all.len() == 3 && all.iter().all(is_ready)).await;
    let mut before: Vec<String> = it.all(PODS).iter().map(key_of).collect();
    set_ready(&it, "node-1", "Unknown").await;
    it.until(PODS, |all| all.iter().filter(|it| is_ready(it)).count() == 2).await;
    it.advance(Duration::from_secs(1000)).await;
    let mut after: Vec<String> = it.all(PODS).iter().map(key_of).collect();
    before.sort();
    after.sort();
    assert_eq!(before, after);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_lease_is_not_renewed_is_lost_until_it_reports_again() {
    let it = TestCluster::with(Settings::instant()).await;
    it.simulator.ready().await;
    it.until(NODES, |all| all.len() == 3 && all.iter().all(is_ready)).await;
    let leases: Kind = ("coordination.k8s.io/v1", "Lease");
    let spec =
        |time: &str| json!({ "holderIdentity": "node-1", "leaseDurationSeconds": 40, "renewTime": time });
    it.advance(Duration::from_secs(10)).await;
    it.add(json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "node-1", "namespace": "kube-node-lease" }, "spec": spec("2026-01-02T03:04:15.000000Z") }))
        .await;
    it.advance(Duration::from_secs(40)).await;
    // 03:04:55; the lease was taken at 03:04:15, and is renewed once.
    let renewed = spec("2026-01-02T03:04:55.000000Z");
    it.change(leases, "kube-node-lease/node-1", |it| it["spec"] = renewed.clone()).await;
    it.advance(Duration::from_secs(49)).await;
    assert!(is_ready(&it.get(NODES, "node-1").unwrap()));
    let lost = it.until_one(NODES, "node-1", |it| !is_ready(it)).await;
    let ready = condition(&lost, "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"], &ready["message"]),
        (&json!("Unknown"), &json!("NodeStatusUnknown"), &json!("Kubelet stopped posting node status."))
    );
    assert_eq!(ready["lastTransitionTime"], "2026-01-02T03:05:45Z");
    assert_eq!(condition(&lost, "DiskPressure")["status"], "Unknown");
    it.until_one(NODES, "node-1", |it| taints(it) == ["unreachable:NoSchedule", "unreachable:NoExecute"])
        .await;
    let others = it.all(NODES);
    assert_eq!(others.iter().filter(|it| is_ready(it)).count(), 2, "nodes without a lease are not lost");
    let again = spec("2026-01-02T03:20:00.000000Z");
    it.change(leases, "kube-node-lease/node-1", |it| it["spec"] = again.clone()).await;
    set_ready(&it, "node-1", "True").await;
    it.until_one(NODES, "node-1", |it| taints(it).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_with_heartbeats_stay_ready() {
    let mut settings = Settings::instant();
    settings.heartbeat = Some(Duration::from_secs(10));
    let it = TestCluster::with(settings).await;
    it.simulator.ready().await;
    it.advance(Duration::from_secs(300)).await;
    assert!(it.all(NODES).iter().all(|it| is_ready(it) && taints(it).is_empty()));
    assert!(!it.all(EVENTS).iter().any(|it| it["reason"] == "NodeNotReady"));
}

/// The leases are older than the grace period when the new simulator starts.
#[tokio::test(start_paused = true)]
async fn a_new_simulator_gives_nodes_the_time_to_renew_their_leases() {
    let mut settings = Settings::instant();
    settings.heartbeat = Some(Duration::from_secs(10));
    let it = TestCluster::with(settings.clone()).await;
    it.simulator.ready().await;
    it.add(replica_set("web", 3)).await;
    it.until_one(SETS, "default/web", |it| it["status"]["readyReplicas"] == 3).await;
    let TestCluster { simulator, manager, at } = it;
    simulator.stop().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let builder = Simulator::builder(at.client.clone()).settings(settings);
    let simulator = builder.clock(at.server.clock()).start();
    let it = TestCluster { simulator, manager, at };
    it.advance(Duration::from_secs(120)).await;
    assert!(it.all(NODES).iter().all(|it| is_ready(it) && taints(it).is_empty()));
    assert!(!it.all(EVENTS).iter().any(|it| it["reason"] == "NodeNotReady"));
    assert!(it.all(PODS).iter().all(is_ready));
}

#[tokio::test(start_paused = true)]
async fn the_oldest_pods_that_have_ended_are_deleted_when_there_are_too_many() {
    let mut settings = Settings::instant();
    settings.ended_pods = 3;
    let it = TestCluster::with(settings).await;
    for index in 0..6 {
        it.add(pod(&format!("p{index}"), json!({ "restartPolicy": "Never" }))).await;
        it.advance(Duration::from_secs(2)).await;
    }
    it.add(pod("runs", json!({}))).await;
    it.until(PODS, |all| all.len() == 4).await;
    it.advance(Duration::from_secs(60)).await;
    let left: Vec<String> = it.all(PODS).iter().map(key_of).collect();
    assert_eq!(left, ["default/p3", "default/p4", "default/p5", "default/runs"]);
    it.delete(PODS, "default/p3", DeleteParams::default()).await;
    it.until_gone(PODS, "default/p3").await;
    it.advance(Duration::from_secs(60)).await;
    assert_eq!(it.all(PODS).len(), 3);
}

/// Only the pods of the node itself are looked at.
#[tokio::test(start_paused = true)]
async fn the_requests_for_a_lost_node_do_not_depend_on_the_pods_of_others() {
    let mut counts = Vec::new();
    for others in [1, 30] {
        let it = TestCluster::with(Settings::instant()).await;
        it.add(pod("p", json!({ "nodeName": "node-1" }))).await;
        for index in 0..others {
            it.add(pod(&format!("other-{index}"), json!({ "nodeName": "node-2" }))).await;
        }
        it.until(PODS, |all| all.len() > others && all.iter().all(is_ready)).await;
        it.advance(Duration::from_secs(10)).await;
        it.server.request_log().clear();
        set_ready(&it, "node-1", "Unknown").await;
        it.until_one(PODS, "default/p", |it| !is_ready(it)).await;
        it.advance(Duration::from_secs(10)).await;
        counts.push(it.server.requests().count());
    }
    assert_eq!(counts[0], counts[1]);
}
