//! The placement of pods as their users see it.

use std::collections::BTreeMap;

use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster};

const PODS: Kind = ("v1", "Pod");
const SETS: Kind = ("apps/v1", "ReplicaSet");

fn replica_set(name: &str, replicas: u32, spec: Value) -> Value {
    let mut set = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": name, "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": spec } } });
    let containers = json!([{ "name": "c", "image": "i" }]);
    let spec = &mut set["spec"]["template"]["spec"];
    if spec.get("containers").is_none() {
        spec["containers"] = containers;
    }
    set
}

/// Returns the number of pods of each node; those without one have the empty name.
fn per_node(pods: &[Value], app: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods.iter().filter(|it| it["metadata"]["labels"]["app"] == app) {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        *counts.entry(node).or_default() += 1;
    }
    counts
}

/// Waits until this many pods have a node, and the others are reported.
async fn placed(it: &TestCluster, app: &str, placed: usize, waiting: usize) -> BTreeMap<String, usize> {
    let reported = |it: &Value| it["status"]["conditions"][0]["reason"] == "Unschedulable";
    let pods = it
        .until(PODS, |all| {
            let counts = per_node(all, app);
            let without = counts.get("").copied().unwrap_or(0);
            let all_reported = all.iter().filter(|it| it["spec"].get("nodeName").is_none()).all(reported);
            all_reported && without == waiting && counts.values().sum::<usize>() == placed + waiting
        })
        .await;
    per_node(&pods, app)
}

#[tokio::test(start_paused = true)]
async fn nodes_take_pods_until_their_resources_are_requested() {
    let it = TestCluster::with(Settings::instant()).await;
    // Each node has 8 CPUs.
    let large =
        json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "3" } } }] });
    it.add(replica_set("large", 8, large)).await;
    let counts = placed(&it, "large", 6, 2).await;
    assert!(["node-1", "node-2", "node-3"].iter().all(|it| counts[*it] == 2), "{counts:?}");
    let pods = it.all(PODS);
    let waiting = pods.iter().find(|it| it["spec"].get("nodeName").is_none()).unwrap();
    assert_eq!(waiting["status"]["conditions"][0]["message"], "0/3 nodes are available: 3 Insufficient cpu.");
    // A pod that leaves makes room.
    it.change(SETS, "default/large", |it| it["spec"]["replicas"] = 7.into()).await;
    placed(&it, "large", 6, 1).await;
    let running = it.all(PODS).into_iter().find(|it| it["spec"].get("nodeName").is_some()).unwrap();
    it.change(SETS, "default/large", |it| it["spec"]["replicas"] = 6.into()).await;
    placed(&it, "large", 6, 0).await;
    let key = format!("default/{}", running["metadata"]["name"].as_str().unwrap());
    it.delete(PODS, &key, DeleteParams::default()).await;
    it.until_gone(PODS, &key).await;
    placed(&it, "large", 6, 0).await;
}

#[tokio::test(start_paused = true)]
async fn pods_keep_apart_and_together_as_they_ask() {
    let it = TestCluster::with(Settings::instant()).await;
    let term = |app: &str, topology: &str| {
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": topology, "labelSelector": { "matchLabels": { "app": app } } }] })
    };
    let apart = json!({ "affinity": { "podAntiAffinity": term("apart", "kubernetes.io/hostname") } });
    it.add(replica_set("apart", 4, apart)).await;
    let counts = placed(&it, "apart", 3, 1).await;
    assert!(counts.values().all(|it| *it == 1), "{counts:?}");
    let together = json!({ "affinity": { "podAffinity": term("together", "topology.kubernetes.io/zone") } });
    it.add(replica_set("together", 5, together)).await;
    let all = it
        .until(PODS, |all| {
            per_node(all, "together").values().sum::<usize>() == 5
                && !per_node(all, "together").contains_key("")
        })
        .await;
    assert_eq!(per_node(&all, "together").len(), 1, "each node has a zone of its own");
    // The anti-affinity of pods with a node counts too.
    let avoided = json!({ "nodeSelector": { "kubernetes.io/hostname": "node-1" } });
    let mut set = replica_set("avoided", 1, avoided);
    set["spec"]["template"]["metadata"]["labels"]["app"] = "apart".into();
    set["spec"]["template"]["metadata"]["labels"]["avoided"] = "yes".into();
    set["spec"]["selector"] = json!({ "matchLabels": { "avoided": "yes" } });
    it.add(set).await;
    it.until(PODS, |all| {
        all.iter().any(|it| it["metadata"]["labels"]["avoided"] == "yes" && it["status"]["conditions"][0]["message"]
            == "0/3 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules, 2 node(s) didn't match Pod's node affinity/selector.")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_spread_within_the_skew() {
    let it = TestCluster::with(Settings::instant()).await;
    let spread = |app: &str, skew: u32| {
        json!({ "topologySpreadConstraints": [{ "maxSkew": skew, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": app } } }] })
    };
    it.add(replica_set("even", 7, spread("even", 1))).await;
    let counts = placed(&it, "even", 7, 0).await;
    assert!(counts.values().all(|it| (2..=3).contains(it)), "{counts:?}");
    // Only one of the nodes may have these pods, and the others count as empty.
    let mut narrow = spread("narrow", 2);
    narrow["tolerations"] = json!([]);
    narrow["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = "Ignore".into();
    narrow["nodeSelector"] = json!({ "kubernetes.io/hostname": "node-1" });
    it.add(replica_set("narrow", 3, narrow)).await;
    let counts = placed(&it, "narrow", 2, 1).await;
    assert_eq!(counts["node-1"], 2);
}
