//! PodDisruptionBudgets, and the evictions that they admit.

use dogwatch_client::Api;
use dogwatch_core::{Gvk, ResourceType, WriteParams};
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster};

const BUDGETS: Kind = ("policy/v1", "PodDisruptionBudget");
const DEPLOYMENTS: Kind = ("apps/v1", "Deployment");
const PODS: Kind = ("v1", "Pod");

fn budget(spec: Value) -> Value {
    let mut budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "web", "namespace": "default" }, "spec": spec });
    budget["spec"]["selector"] = json!({ "matchLabels": { "app": "web" } });
    budget
}

fn deployment(replicas: u32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] } } } })
}

/// Evicts a pod. Returns the code of the answer if it is an error.
async fn evict(it: &TestCluster, pod: &str) -> Option<u16> {
    let resource = ResourceType::namespaced(Gvk::new("", "v1", "Pod"), "pods");
    let pods = Api::<Value>::dynamic(it.client.clone(), resource).in_namespace("default");
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod } });
    let evicted: Result<Value, _> =
        pods.create_subresource(pod, "eviction", &WriteParams::default(), &eviction).await;
    evicted.err().map(|it| it.status().map_or(0, |it| it.code))
}

#[tokio::test(start_paused = true)]
async fn evictions_stop_when_the_budget_is_spent_and_go_on_when_pods_are_ready_again() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(budget(json!({ "minAvailable": 2 }))).await;
    it.add(deployment(3)).await;
    let full = it.until_one(BUDGETS, "default/web", |it| it["status"]["disruptionsAllowed"] == 1).await;
    let count = |field: &str| full["status"][field].as_i64().unwrap();
    assert_eq!((count("currentHealthy"), count("desiredHealthy"), count("expectedPods")), (3, 2, 3));
    assert_eq!(full["status"]["conditions"][0]["reason"], "SufficientPods");
    let pods = it.all(PODS);
    let names: Vec<_> = pods.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(evict(&it, names[0]).await, None);
    assert_eq!(evict(&it, names[1]).await, Some(429));
    it.until_one(BUDGETS, "default/web", |it| it["status"]["disruptionsAllowed"] == 0).await;
    it.until_one(BUDGETS, "default/web", |it| it["status"]["disruptionsAllowed"] == 1).await;
    assert_eq!(evict(&it, names[1]).await, None);
}

#[tokio::test(start_paused = true)]
async fn shares_are_of_the_size_of_the_workload() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(budget(json!({ "maxUnavailable": "25%" }))).await;
    it.add(deployment(4)).await;
    it.until_one(BUDGETS, "default/web", |it| it["status"]["disruptionsAllowed"] == 1).await;
    it.change(DEPLOYMENTS, "default/web", |it| it["spec"]["replicas"] = 8.into()).await;
    let grown = it.until_one(BUDGETS, "default/web", |it| it["status"]["disruptionsAllowed"] == 2).await;
    assert_eq!(
        (&grown["status"]["expectedPods"], &grown["status"]["desiredHealthy"]),
        (&json!(8), &json!(6))
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_known_size_nothing_is_allowed() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(budget(json!({ "maxUnavailable": 1 }))).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default",
        "labels": { "app": "web" }, "ownerReferences": [
            { "apiVersion": "example.com/v1", "kind": "Robot", "name": "r", "uid": "u", "controller": true }] },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } }))
        .await;
    let failed = it
        .until_one(BUDGETS, "default/web", |it| it["status"]["conditions"][0]["reason"] == "SyncFailed")
        .await;
    assert_eq!(failed["status"]["disruptionsAllowed"], 0);
}
