//! Caches of different collections that do not change together: each decision that cannot be undone
//! is checked with the server.

use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster, key_of};

const PODS: Kind = ("v1", "Pod");
const SETS: Kind = ("apps/v1", "ReplicaSet");
const DEPLOYMENTS: Kind = ("apps/v1", "Deployment");

fn workload(kind: &str, replicas: u32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "web", "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] } } } })
}

fn are_ready(of: &Value) -> bool {
    of["status"]["readyReplicas"] == of["spec"]["replicas"]
}

/// The set is deleted, and its pods lose their owner, before the cache shows the deletion.
#[tokio::test(start_paused = true)]
async fn orphaned_pods_are_not_adopted_by_a_set_that_is_gone() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(workload("ReplicaSet", 2)).await;
    it.until_one(SETS, "default/web", are_ready).await;
    let before: Vec<String> = it.all(PODS).iter().map(key_of).collect();
    it.server.faults().rule(Rule::on("watch").resource("replicasets").lag(Duration::from_secs(1)));
    it.delete(SETS, "default/web", DeleteParams::orphan()).await;
    it.until_gone(SETS, "default/web").await;
    it.advance(Duration::from_secs(60)).await;
    let after = it.all(PODS);
    assert_eq!(after.iter().map(key_of).collect::<Vec<_>>(), before);
    assert!(after.iter().all(|it| it["metadata"].get("ownerReferences").is_none()), "{after:#?}");
}

#[tokio::test(start_paused = true)]
async fn orphaned_sets_are_not_adopted_by_a_deployment_that_is_gone() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(workload("Deployment", 2)).await;
    it.until_one(DEPLOYMENTS, "default/web", are_ready).await;
    let before: Vec<String> = it.all(PODS).iter().map(key_of).collect();
    it.server.faults().rule(Rule::on("watch").resource("deployments").lag(Duration::from_secs(1)));
    it.delete(DEPLOYMENTS, "default/web", DeleteParams::orphan()).await;
    it.until_gone(DEPLOYMENTS, "default/web").await;
    it.advance(Duration::from_secs(60)).await;
    assert_eq!((it.all(SETS).len(), it.all(PODS).iter().map(key_of).collect::<Vec<_>>()), (1, before));
}

/// The creation succeeded, its response was lost, and the cache does not show the set yet.
#[tokio::test(start_paused = true)]
async fn a_set_whose_creation_was_not_confirmed_is_no_hash_collision() {
    let it = TestCluster::with(Settings::instant()).await;
    it.server.faults().rule(Rule::on("watch").resource("replicasets").lag(Duration::from_secs(1)));
    it.server.faults().rule(Rule::on("create").resource("replicasets").times(1).reset_after());
    it.add(workload("Deployment", 2)).await;
    let deployment = it.until_one(DEPLOYMENTS, "default/web", are_ready).await;
    it.advance(Duration::from_secs(60)).await;
    assert_eq!((it.all(SETS).len(), it.all(PODS).len()), (1, 2));
    assert_eq!(deployment["status"].get("collisionCount"), None);
}

#[tokio::test(start_paused = true)]
async fn no_pods_are_created_twice_while_the_cache_of_pods_is_behind() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(workload("ReplicaSet", 1)).await;
    it.until_one(SETS, "default/web", are_ready).await;
    it.server.faults().rule(Rule::on("watch").resource("pods").pause());
    it.change(SETS, "default/web", |it| it["spec"]["replicas"] = 3.into()).await;
    it.advance(Duration::from_secs(60)).await;
    assert_eq!(it.all(PODS).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_kept_while_the_cache_of_nodes_is_behind() {
    let it = TestCluster::with(Settings::instant()).await;
    it.until(("v1", "Node"), |all| all.len() == 3).await;
    it.advance(Duration::from_secs(10)).await;
    it.server.faults().rule(Rule::on("watch").resource("nodes").pause());
    it.add(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "mine" } })).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default" },
        "spec": { "nodeName": "mine", "containers": [{ "name": "c", "image": "i" }] } }))
        .await;
    it.advance(Duration::from_secs(60)).await;
    let pod = it.get(PODS, "default/p").expect("its node exists");
    assert_ne!(pod["status"]["phase"], "Failed");
}

#[tokio::test(start_paused = true)]
async fn creations_that_were_refused_once_are_tried_again() {
    let it = TestCluster::with(Settings::instant()).await;
    let account = ("v1", "ServiceAccount");
    it.until_one(account, "default/default", |_| true).await;
    it.advance(Duration::from_secs(10)).await;
    it.server.faults().rule(Rule::on("create").resource("serviceaccounts").times(1).refuse(403));
    it.delete(account, "default/default", DeleteParams::default()).await;
    it.until_gone(account, "default/default").await;
    it.server.faults().rule(Rule::on("create").resource("pods").part("binding").times(1).refuse(409));
    it.add(workload("ReplicaSet", 1)).await;
    it.until_one(SETS, "default/web", are_ready).await;
    it.until_one(account, "default/default", |_| true).await;
}

#[tokio::test(start_paused = true)]
async fn three_hundred_nodes_are_registered() {
    let mut settings = Settings::instant();
    settings.nodes = 300;
    let it = TestCluster::with(settings).await;
    let all = it.until(("v1", "Node"), |all| all.len() == 300).await;
    let mut ranges: Vec<_> = all.iter().map(|it| it["spec"]["podCIDR"].to_string()).collect();
    ranges.sort();
    ranges.dedup();
    assert_eq!(ranges.len(), 300);
    it.advance(Duration::from_secs(60)).await;
    assert_eq!(it.simulator.health().component("nodes").and_then(|it| it.down), None);
}
