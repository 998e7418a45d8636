//! Resource quotas with counted usage: limits and released usage.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Writer;
use crate::controllers::Controllers;
use serde_json::{Value, json};

use crate::tests::test_cluster::{TestCluster, key_of};

const MAPS: (&str, &str) = ("v1", "ConfigMap");
const QUOTAS: (&str, &str) = ("v1", "ResourceQuota");

/// Starts a cluster with all controllers and a namespace `a`.
async fn start() -> TestCluster {
    let it = TestCluster::with(Controllers::default()).await;
    it.add(namespace("a")).await;
    it
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn map(namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace } })
}

fn widget(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name, "namespace": "a" } })
}

fn quota(hard: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q", "namespace": "a" },
        "spec": { "hard": hard } })
}

async fn rejected(it: &TestCluster, object: Value) -> String {
    let writer = Writer::server("test");
    it.cluster.add(object, &writer).await.expect_err("rejected").0.message.clone()
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_existing_objects_and_releases_deleted_ones() {
    let it = start().await;
    it.add(namespace("b")).await;
    it.add(map("a", "one")).await;
    it.add(map("b", "elsewhere")).await;
    it.add(quota(json!({ "configmaps": "2", "pods": "5", "example.com/unknown": "1" }))).await;
    let counted = it.until_one(QUOTAS, "a/q", |it| it["status"]["used"]["configmaps"] == "1").await;
    assert_eq!(counted["status"]["hard"], counted["spec"]["hard"]);
    assert_eq!(counted["status"]["used"], json!({ "configmaps": "1", "pods": "0" }));
    it.add(map("a", "two")).await;
    let why = rejected(&it, map("a", "three")).await;
    assert!(
        why.contains("exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"),
        "{why}"
    );
    it.delete(MAPS, "a/one", None).await;
    it.until_one(QUOTAS, "a/q", |it| it["status"]["used"]["configmaps"] == "1").await;
    it.add(map("a", "three")).await;
    it.change(QUOTAS, "a/q", "", |it| it["spec"]["hard"] = json!({ "configmaps": "3" })).await;
    let raised = it.until_one(QUOTAS, "a/q", |it| it["status"]["hard"]["configmaps"] == "3").await;
    assert_eq!(raised["status"]["used"], json!({ "configmaps": "2" }));
    let revision = it.cluster.store().revision();
    it.advance(Duration::from_secs(3600)).await;
    assert_eq!(it.cluster.store().revision(), revision, "recounting writes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_custom_objects_whose_definition_is_created_later() {
    let it = start().await;
    it.add(quota(json!({ "count/widgets.example.com": "1" }))).await;
    it.until_one(QUOTAS, "a/q", |it| it["status"]["hard"].is_object()).await;
    it.add(json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } } }] } }))
        .await;
    it.until_one(QUOTAS, "a/q", |it| it["status"]["used"]["count/widgets.example.com"] == "0").await;
    it.add(widget("one")).await;
    assert!(rejected(&it, widget("two")).await.contains("exceeded quota"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_creations_do_not_exceed_a_quota_while_it_is_counted() {
    let it = start().await;
    it.add(quota(json!({ "configmaps": "5" }))).await;
    it.until_one(QUOTAS, "a/q", |it| it["status"]["used"]["configmaps"] == "0").await;
    for round in 0..2 {
        let made = (0..20).map(|number| {
            let cluster = Arc::clone(&it.cluster);
            let map = map("a", &format!("m{round}-{number}"));
            let writer = Writer::server("test");
            tokio::spawn(async move { cluster.add(map, &writer).await.is_ok() })
        });
        for task in made.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let created: Vec<_> =
            it.all(MAPS).into_iter().filter(|it| it["metadata"]["namespace"] == "a").collect();
        assert_eq!(created.len(), 5, "round {round}");
        it.delete(MAPS, &key_of(&created[0]), None).await;
        it.until_one(QUOTAS, "a/q", |it| it["status"]["used"]["configmaps"] == "4").await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_charge_of_a_failed_creation_is_released() {
    let it = start().await;
    it.add(map("a", "one")).await;
    it.add(quota(json!({ "configmaps": "2" }))).await;
    it.until_one(QUOTAS, "a/q", |it| it["status"]["used"]["configmaps"] == "1").await;
    assert!(rejected(&it, map("a", "one")).await.contains("already exists"));
    it.until_one(QUOTAS, "a/q", |it| it["status"]["used"]["configmaps"] == "1").await;
    it.add(map("a", "two")).await;
}
