//! Preemption: pods that are deleted so that one of higher priority has room.

use std::time::Duration;

use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster, key_of};

const PODS: Kind = ("v1", "Pod");
const EVENTS: Kind = ("v1", "Event");

/// A pod that requests this many CPUs. Each node has eight.
fn pod(name: &str, class: &str, cpu: u32) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": { "priorityClassName": class, "terminationGracePeriodSeconds": 5, "containers": [
            { "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu.to_string() } } }] } })
}

/// A cluster of some nodes with the priority classes `low`, `middle`, `high` and `polite`.
async fn cluster(nodes: usize, settings: Settings) -> TestCluster {
    let mut settings = settings;
    settings.nodes = nodes;
    let it = TestCluster::with(settings).await;
    it.simulator.ready().await;
    for (name, value, policy) in
        [("low", 1, ""), ("middle", 10, ""), ("high", 100, ""), ("polite", 100, "Never")]
    {
        let mut class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": { "name": name }, "value": value });
        if !policy.is_empty() {
            class["preemptionPolicy"] = policy.into();
        }
        it.add(class).await;
    }
    it
}

async fn add_running(it: &TestCluster, pod: Value) {
    let key = key_of(&pod);
    it.add(pod).await;
    it.until_one(PODS, &key, runs).await;
}

fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

fn names(all: &[Value]) -> Vec<String> {
    all.iter().map(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_high_priority_gets_the_room_of_the_least_important_ones() {
    let it = cluster(1, Settings::default()).await;
    add_running(&it, pod("middle", "middle", 3)).await;
    add_running(&it, pod("low", "low", 3)).await;
    let preemptor = it.add(pod("high", "high", 4)).await;
    let waiting =
        it.until_one(PODS, "default/high", |it| it["status"]["nominatedNodeName"] == "node-1").await;
    assert_eq!(waiting["status"]["conditions"][0]["reason"], "Unschedulable");
    let victim =
        it.until_one(PODS, "default/low", |it| it["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(victim["metadata"]["deletionGracePeriodSeconds"], 5, "it ends gracefully");
    let conditions = victim["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|it| it["type"] == "DisruptionTarget").unwrap();
    assert_eq!(
        (&target["reason"], &target["message"]),
        (
            &json!("PreemptionByScheduler"),
            &json!("default-scheduler: preempting to accommodate a higher priority pod")
        )
    );
    it.until_one(PODS, "default/high", runs).await;
    assert_eq!(names(&it.all(PODS)), ["high", "middle"]);
    let message =
        format!("Preempted by pod {} on node node-1", preemptor["metadata"]["uid"].as_str().unwrap());
    it.until(EVENTS, |all| all.iter().any(|it| it["reason"] == "Preempted" && it["message"] == *message))
        .await;
}

#[tokio::test(start_paused = true)]
async fn room_that_was_made_for_a_pod_is_not_given_to_a_less_important_one() {
    let it = cluster(1, Settings::default()).await;
    add_running(&it, pod("victim", "low", 8)).await;
    it.add(pod("high", "high", 8)).await;
    it.until_one(PODS, "default/high", |it| it["status"]["nominatedNodeName"] == "node-1").await;
    it.add(pod("late", "middle", 1)).await;
    it.until_one(PODS, "default/high", runs).await;
    it.advance(Duration::from_secs(30)).await;
    let late = it.get(PODS, "default/late").unwrap();
    assert_eq!(late["spec"].get("nodeName"), None, "{late}");
}

#[tokio::test(start_paused = true)]
async fn pods_of_equal_priority_and_those_that_never_preempt_wait() {
    let it = cluster(1, Settings::default()).await;
    add_running(&it, pod("first", "low", 8)).await;
    it.add(pod("equal", "low", 1)).await;
    it.add(pod("polite", "polite", 1)).await;
    it.add(pod("large", "high", 9)).await;
    it.advance(Duration::from_secs(60)).await;
    let all = it.all(PODS);
    assert_eq!(names(&all), ["equal", "first", "large", "polite"]);
    for pod in all.iter().filter(|it| it["metadata"]["name"] != "first") {
        assert_eq!(pod["status"].get("nominatedNodeName"), None, "{pod}");
        assert_eq!(pod["spec"].get("nodeName"), None, "{pod}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_node_is_chosen_on_which_no_budget_is_violated() {
    let it = cluster(2, Settings::default()).await;
    it.add(json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "guard", "namespace": "default" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "guarded" } } } }))
        .await;
    add_running(&it, pod("guarded", "low", 8)).await;
    add_running(&it, pod("free", "middle", 8)).await;
    it.until_one(("policy/v1", "PodDisruptionBudget"), "default/guard", |it| {
        it["status"]["currentHealthy"] == 1
    })
    .await;
    it.add(pod("high", "high", 8)).await;
    it.until_one(PODS, "default/high", runs).await;
    assert_eq!(names(&it.all(PODS)), ["guarded", "high"]);
    // Without another way, the budget does not protect its pods.
    it.add(pod("higher", "high", 8)).await;
    it.until_one(PODS, "default/higher", runs).await;
    assert_eq!(names(&it.all(PODS)), ["high", "higher"]);
}

#[tokio::test(start_paused = true)]
async fn pods_are_not_preempted_on_nodes_that_a_pod_may_not_have() {
    let it = cluster(2, Settings::default()).await;
    it.change(("v1", "Node"), "node-1", |it| it["metadata"]["labels"]["disk"] = "ssd".into()).await;
    let mut first = pod("first", "middle", 8);
    first["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    add_running(&it, first).await;
    add_running(&it, pod("second", "low", 8)).await;
    let mut picky = pod("picky", "high", 8);
    picky["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    it.add(picky).await;
    let placed = it.until_one(PODS, "default/picky", runs).await;
    assert_eq!(placed["spec"]["nodeName"], "node-1");
    assert_eq!(names(&it.all(PODS)), ["picky", "second"]);
}
