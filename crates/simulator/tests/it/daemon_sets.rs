//! DaemonSets as their users see them.

use std::time::Duration;

use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster};

const SETS: Kind = ("apps/v1", "DaemonSet");
const REVISIONS: Kind = ("apps/v1", "ControllerRevision");
const PODS: Kind = ("v1", "Pod");
const NODES: Kind = ("v1", "Node");

fn daemon_set(change: impl FnOnce(&mut Value)) -> Value {
    let mut set = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": "agent", "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": "agent" } },
            "template": { "metadata": { "labels": { "app": "agent" } },
                "spec": { "containers": [{ "name": "c", "image": "i:1" }] } } } });
    change(&mut set["spec"]);
    set
}

/// Returns true if `kubectl rollout status` would report success.
fn is_rolled_out(set: &Value) -> bool {
    let status = &set["status"];
    status["observedGeneration"] == set["metadata"]["generation"]
        && status["updatedNumberScheduled"] == status["desiredNumberScheduled"]
        && status["numberAvailable"] == status["desiredNumberScheduled"]
}

fn image(set: &mut Value, image: &str) {
    set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
}

/// Returns the node and the image of each pod that is not being deleted.
fn placed(pods: &[Value]) -> Vec<String> {
    let text = |it: &Value| it.as_str().unwrap_or("-").to_owned();
    let living = pods.iter().filter(|it| it["metadata"]["deletionTimestamp"].is_null());
    let placed = |it: &Value| {
        format!("{} {}", text(&it["spec"]["nodeName"]), text(&it["spec"]["containers"][0]["image"]))
    };
    let mut all: Vec<_> = living.map(placed).collect();
    all.sort();
    all
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

#[tokio::test(start_paused = true)]
async fn each_node_gets_a_pod_also_one_that_comes_later() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(daemon_set(|_| ())).await;
    let up = it.until_one(SETS, "default/agent", is_rolled_out).await;
    assert_eq!(placed(&it.all(PODS)), ["node-1 i:1", "node-2 i:1", "node-3 i:1"]);
    let mut status = up["status"].clone();
    status.as_object_mut().unwrap().remove("observedGeneration");
    assert_eq!(
        status,
        json!({ "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "numberMisscheduled": 0,
        "numberReady": 3, "updatedNumberScheduled": 3, "numberAvailable": 3 })
    );
    let mut node = it.get(NODES, "node-1").unwrap();
    node["metadata"] = json!({ "name": "late", "labels": { "kubernetes.io/hostname": "late" } });
    it.add(node.clone()).await;
    it.change_status(NODES, "late", |it| *it = node["status"].clone()).await;
    it.change(NODES, "late", |it| it["spec"]["taints"] = json!([])).await;
    it.until_one(SETS, "default/agent", |it| is_rolled_out(it) && it["status"]["numberReady"] == 4).await;
    let revision = it.server.revision();
    it.advance(Duration::from_secs(1000)).await;
    assert_eq!(it.server.revision(), revision, "nothing is left to do");
}

#[tokio::test(start_paused = true)]
async fn labels_and_taints_of_nodes_decide_where_pods_are() {
    let it = TestCluster::with(Settings::instant()).await;
    it.until(NODES, |all| all.len() == 3).await;
    it.change(NODES, "node-2", |it| it["metadata"]["labels"]["disk"] = "ssd".into()).await;
    it.add(daemon_set(|it| it["template"]["spec"]["nodeSelector"] = json!({ "disk": "ssd" }))).await;
    it.until_one(SETS, "default/agent", |it| it["status"]["numberReady"] == 1).await;
    assert_eq!(placed(&it.all(PODS)), ["node-2 i:1"]);
    it.change(NODES, "node-3", |it| it["metadata"]["labels"]["disk"] = "ssd".into()).await;
    it.change(NODES, "node-2", |it| it["metadata"]["labels"]["disk"] = "hdd".into()).await;
    it.until(PODS, |all| all.len() == 1 && placed(all) == ["node-3 i:1"]).await;
    // A pod may stay on a node that takes no more, and is then on the wrong one.
    let taint = |effect: &str| json!([{ "key": "mine", "effect": effect }]);
    it.change(NODES, "node-3", |it| it["spec"]["taints"] = taint("NoSchedule")).await;
    it.until_one(SETS, "default/agent", |it| it["status"]["numberMisscheduled"] == 1).await;
    assert_eq!(placed(&it.all(PODS)), ["node-3 i:1"]);
    it.change(NODES, "node-3", |it| it["spec"]["taints"] = taint("NoExecute")).await;
    it.until(PODS, |all| all.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_takes_one_node_at_a_time() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(daemon_set(|_| ())).await;
    it.until_one(SETS, "default/agent", is_rolled_out).await;
    it.change(SETS, "default/agent", |it| image(it, "i:2")).await;
    it.until_one(SETS, "default/agent", |set| {
        let ready = it.all(PODS).iter().filter(|it| is_ready(it)).count();
        assert!(ready >= 2, "{ready} pods are ready");
        is_rolled_out(set) && set["status"]["updatedNumberScheduled"] == 3
    })
    .await;
    assert_eq!(placed(&it.all(PODS)), ["node-1 i:2", "node-2 i:2", "node-3 i:2"]);
    let mut numbers: Vec<_> = it.all(REVISIONS).iter().map(|it| it["revision"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn with_a_surge_no_node_is_without_a_ready_pod() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(daemon_set(|it| {
        it["updateStrategy"] =
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } });
    }))
    .await;
    it.until_one(SETS, "default/agent", is_rolled_out).await;
    it.change(SETS, "default/agent", |it| image(it, "i:2")).await;
    it.until_one(SETS, "default/agent", |set| {
        let pods = it.all(PODS);
        for node in ["node-1", "node-2", "node-3"] {
            assert!(pods.iter().any(|it| it["spec"]["nodeName"] == node && is_ready(it)), "{node}");
        }
        is_rolled_out(set)
    })
    .await;
    it.until(PODS, |all| placed(all) == ["node-1 i:2", "node-2 i:2", "node-3 i:2"]).await;
}

#[tokio::test(start_paused = true)]
async fn with_on_delete_only_deleted_pods_are_updated() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(daemon_set(|it| it["updateStrategy"] = json!({ "type": "OnDelete" }))).await;
    it.until_one(SETS, "default/agent", is_rolled_out).await;
    it.change(SETS, "default/agent", |it| image(it, "i:2")).await;
    it.advance(Duration::from_secs(100)).await;
    let pods = it.all(PODS);
    assert_eq!(placed(&pods), ["node-1 i:1", "node-2 i:1", "node-3 i:1"]);
    let first = pods.iter().find(|it| it["spec"]["nodeName"] == "node-1").unwrap();
    let key = format!("default/{}", first["metadata"]["name"].as_str().unwrap());
    it.delete(PODS, &key, DeleteParams::default()).await;
    it.until(PODS, |all| placed(all) == ["node-1 i:2", "node-2 i:1", "node-3 i:1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_replaced_with_a_back_off() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(daemon_set(|it| {
        it["template"]["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": "node-1" })
    }))
    .await;
    let mut last = Value::Null;
    let mut times = Vec::new();
    for _ in 0..4 {
        let pods =
            it.until(PODS, |all| all.iter().any(|it| is_ready(it) && it["metadata"]["uid"] != last)).await;
        times.push(tokio::time::Instant::now());
        let pod = pods.iter().find(|it| it["metadata"]["uid"] != last).unwrap();
        last = pod["metadata"]["uid"].clone();
        let key = format!("default/{}", pod["metadata"]["name"].as_str().unwrap());
        it.change_status(PODS, &key, |it| it["phase"] = "Failed".into()).await;
    }
    let gaps: Vec<_> = times.windows(2).map(|it| (it[1] - it[0]).as_secs()).collect();
    assert_eq!(gaps, [0, 1, 2], "seconds between the replacements");
}
