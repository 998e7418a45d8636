//! ReplicationControllers: their pods, their status, their events, and budgets for their pods.

use dogwatch_apiserver::faults::Rule;
use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster, key_of};

const CONTROLLERS: Kind = ("v1", "ReplicationController");
const PODS: Kind = ("v1", "Pod");
const EVENTS: Kind = ("v1", "Event");

fn controller(name: &str, replicas: u32) -> Value {
    json!({ "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "app": name },
            "template": { "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] } } } })
}

fn pod(name: &str, labels: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": labels },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } })
}

fn is_ready(controller: &Value) -> bool {
    controller["status"]["availableReplicas"] == controller["spec"]["replicas"]
        && controller["status"]["replicas"] == controller["spec"]["replicas"]
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_keeps_its_number_of_pods() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(controller("web", 3)).await;
    let ready = it.until_one(CONTROLLERS, "default/web", is_ready).await;
    assert_eq!(
        ready["status"],
        json!({ "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "observedGeneration": 1 })
    );
    let pods = it.all(PODS);
    let owner = &pods[0]["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["apiVersion"], &owner["kind"]), (&json!("v1"), &json!("ReplicationController")));
    it.delete(PODS, &key_of(&pods[0]), DeleteParams::default()).await;
    it.until_gone(PODS, &key_of(&pods[0])).await;
    it.until_one(CONTROLLERS, "default/web", is_ready).await;
    it.change(CONTROLLERS, "default/web", |it| it["spec"]["replicas"] = 1.into()).await;
    it.until_one(CONTROLLERS, "default/web", is_ready).await;
    let created = |it: &&Value| it["reason"] == "SuccessfulCreate";
    let all = it.until(EVENTS, |all| all.iter().filter(|it| it["reason"] == "SuccessfulDelete").count() == 2);
    let all = all.await;
    assert_eq!(all.iter().filter(created).count(), 4);
    let source = |it: &Value| it["source"]["component"] == "replication-controller";
    assert!(all.iter().filter(created).all(source));
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_adopts_and_releases_pods_by_their_labels() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(pod("found", json!({ "app": "web" }))).await;
    it.add(pod("other", json!({ "app": "db" }))).await;
    it.add(controller("web", 2)).await;
    it.until_one(CONTROLLERS, "default/web", is_ready).await;
    assert_eq!(it.all(PODS).len(), 3, "one was adopted, and one created");
    let kind_of_owner = |it: &Value| it["metadata"]["ownerReferences"][0]["kind"].clone();
    assert_eq!(kind_of_owner(&it.get(PODS, "default/found").unwrap()), "ReplicationController");
    assert_eq!(kind_of_owner(&it.get(PODS, "default/other").unwrap()), Value::Null);
    it.change(PODS, "default/found", |it| it["metadata"]["labels"] = json!({ "app": "old" })).await;
    it.until_one(PODS, "default/found", |it| it["metadata"].get("ownerReferences").is_none()).await;
    it.until(PODS, |all| all.len() == 4).await;
    it.until_one(CONTROLLERS, "default/web", is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_reports_that_pods_cannot_be_created() {
    let it = TestCluster::with(Settings::instant()).await;
    let refused = it.server.faults().rule(Rule::on("create").resource("pods").refuse(403));
    it.add(controller("web", 1)).await;
    let reason = |it: &Value| it["status"]["conditions"][0]["reason"].clone();
    it.until_one(CONTROLLERS, "default/web", |it| reason(it) == "FailedCreate").await;
    refused.remove();
    let ready = it.until_one(CONTROLLERS, "default/web", is_ready).await;
    assert_eq!(ready["status"].get("conditions"), None, "{ready}");
}

#[tokio::test(start_paused = true)]
async fn a_budget_knows_the_size_of_a_replication_controller() {
    let it = TestCluster::with(Settings::instant()).await;
    let budgets: Kind = ("policy/v1", "PodDisruptionBudget");
    it.add(json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "maxUnavailable": "50%", "selector": { "matchLabels": { "app": "web" } } } }))
        .await;
    it.add(controller("web", 4)).await;
    it.until_one(budgets, "default/web", |it| it["status"]["disruptionsAllowed"] == 2).await;
    it.change(CONTROLLERS, "default/web", |it| it["spec"]["replicas"] = 8.into()).await;
    it.until_one(budgets, "default/web", |it| it["status"]["disruptionsAllowed"] == 4).await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_replication_controller_that_is_deleted_are_collected() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(controller("web", 2)).await;
    it.until_one(CONTROLLERS, "default/web", is_ready).await;
    it.delete(CONTROLLERS, "default/web", DeleteParams::background()).await;
    it.until(PODS, <[Value]>::is_empty).await;
}
