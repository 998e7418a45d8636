//! The simulator as a program uses it: its start, its health, its end, and servers that fail.

use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use dogwatch_client::{Client, Config};
use dogwatch_simulator::{Settings, Simulator};
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster, TestServer, add, client, key_of};

const PODS: Kind = ("v1", "Pod");
const SETS: Kind = ("apps/v1", "ReplicaSet");
const ALL: [&str; 21] = [
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "ephemeral-volume-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "kubelet",
    "node-lifecycle-controller",
    "nodes",
    "persistentvolume-controller",
    "persistentvolume-reclaimer",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "scheduler",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
];

fn replica_set(name: &str, replicas: u32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": name, "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] } } } })
}

fn are_ready(set: &Value) -> bool {
    set["status"]["readyReplicas"] == set["spec"]["replicas"]
}

#[tokio::test(start_paused = true)]
async fn health_names_every_component() {
    let it = TestCluster::with(Settings::default()).await;
    let names: Vec<_> = it.simulator.health().components().into_keys().collect();
    assert_eq!(names, ALL);
    it.add(replica_set("web", 2)).await;
    it.until_one(SETS, "default/web", are_ready).await;
    let healthy = |name: &str| {
        it.simulator.health().component(name).is_some_and(|it| it.panics == 0 && it.down.is_none())
    };
    assert!(ALL.into_iter().all(healthy));
    let nodes = TestCluster::with(Settings::only_nodes()).await;
    assert_eq!(
        nodes.simulator.health().components().into_keys().collect::<Vec<_>>(),
        ["kubelet", "nodes", "scheduler"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_component_that_cannot_work_is_down_until_it_can() {
    let server = ApiServer::builder().in_process().seed(1).start().await.unwrap();
    let refused = server.faults().rule(Rule::on("create").resource("nodes").refuse(403));
    let simulator = Simulator::builder(client(&server)).settings(Settings::instant()).start();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let down = simulator.health().component("nodes").and_then(|it| it.down);
    assert!(down.is_some(), "nodes cannot be created");
    assert_eq!(simulator.health().component("kubelet").and_then(|it| it.down), None);
    refused.remove();
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(simulator.health().component("nodes").and_then(|it| it.down), None);
}

#[tokio::test(start_paused = true)]
async fn a_component_is_down_until_its_caches_are_synced() {
    let server = ApiServer::builder().in_process().seed(1).start().await.unwrap();
    let refused = server.faults().rule(Rule::on("list").or("watch").resource("pods").refuse(500));
    let simulator = Simulator::builder(client(&server)).settings(Settings::instant()).start();
    let down = |name: &str| simulator.health().component(name).and_then(|it| it.down);
    for (after, reason) in [(10, "it is starting"), (120, "not synced"), (300, "not synced")] {
        tokio::time::sleep(Duration::from_secs(after)).await;
        assert_eq!(down("nodes"), None);
        for name in ["kubelet", "scheduler"] {
            assert!(down(name).is_some_and(|it| it.contains(reason)), "{name}: {:?}", down(name));
        }
    }
    refused.remove();
    tokio::time::timeout(Duration::from_secs(120), simulator.ready()).await.expect("all components work");
    assert!(ALL.into_iter().all(|it| down(it).is_none()));
}

#[tokio::test(start_paused = true)]
async fn workloads_become_ready_while_requests_fail_and_watches_end() {
    let it = TestCluster::with(Settings::default()).await;
    let rule = Rule::on("create").or("update").or("delete").resource("pods");
    let rule = rule.probability(0.3, 7).refuse(500);
    let failing = it.server.faults().rule(rule);
    for index in 0..5 {
        it.add(replica_set(&format!("web-{index}"), 3)).await;
        it.advance(Duration::from_millis(700)).await;
        it.server.faults().drop_watches();
    }
    it.until(SETS, |all| all.len() == 5 && all.iter().all(are_ready)).await;
    assert!(failing.fired() > 0);
    failing.remove();
    it.advance(Duration::from_secs(120)).await;
    assert_eq!(it.all(PODS).len(), 15, "no pod was created twice");
}

#[tokio::test(start_paused = true)]
async fn exactly_as_many_pods_are_deleted_as_there_are_too_many() {
    // Without a node, a deleted pod is gone at once, without a grace period.
    let mut settings = Settings::instant();
    settings.nodes = 0;
    let it = TestCluster::with(settings).await;
    it.add(replica_set("web", 20)).await;
    it.until(PODS, |all| all.len() == 20).await;
    it.advance(Duration::from_secs(10)).await;
    let before: Vec<String> = it.all(PODS).iter().map(key_of).collect();
    it.change(SETS, "default/web", |it| it["spec"]["replicas"] = 7.into()).await;
    it.until(PODS, |all| all.len() <= 7).await;
    it.advance(Duration::from_secs(10)).await;
    let after = it.all(PODS);
    assert_eq!(after.len(), 7);
    assert!(after.iter().all(|it| before.contains(&key_of(it))), "no pod was deleted and replaced");
}

#[tokio::test(start_paused = true)]
async fn a_new_simulator_continues_where_the_old_one_ended() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(replica_set("web", 3)).await;
    it.until_one(SETS, "default/web", are_ready).await;
    let TestCluster { simulator, manager, at } = it;
    simulator.stop().await;
    let revision = at.server.revision();
    let simulator = Simulator::builder(at.client.clone()).start();
    let it = TestCluster { simulator, manager, at };
    it.advance(Duration::from_secs(60)).await;
    assert_eq!(it.server.revision(), revision, "nothing has to be done");
    it.change(SETS, "default/web", |it| it["spec"]["replicas"] = 6.into()).await;
    it.until_one(SETS, "default/web", are_ready).await;
    let mut addresses: Vec<_> =
        it.all(PODS).iter().map(|it| it["status"]["podIP"].clone().to_string()).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 6, "addresses of existing pods are not given to others");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_simulator_ends_its_requests() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(replica_set("web", 1)).await;
    it.until_one(SETS, "default/web", are_ready).await;
    let TestCluster { simulator, at: TestServer { server, client }, .. } = it;
    drop(simulator);
    add(&client, replica_set("late", 1)).await;
    server.request_log().clear();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(server.requests().count() == 0, "{:?}", server.requests());
}

/// One change costs the same number of requests, however many other pods there are.
#[tokio::test(start_paused = true)]
async fn the_number_of_requests_for_a_change_does_not_depend_on_other_pods() {
    let mut counts = Vec::new();
    for others in [1, 30] {
        let it = TestCluster::with(Settings::instant()).await;
        it.add(replica_set("other", others)).await;
        it.until_one(SETS, "default/other", are_ready).await;
        it.advance(Duration::from_secs(10)).await;
        it.server.request_log().clear();
        it.add(replica_set("web", 1)).await;
        it.until_one(SETS, "default/web", are_ready).await;
        it.advance(Duration::from_secs(10)).await;
        counts.push(it.server.requests().count());
        let reports = it.server.requests().resource("pods").part("status");
        assert_eq!(reports.count(), 2, "the kubelet writes only changes: {reports:?}");
    }
    assert_eq!(counts[0], counts[1]);
}

/// With sockets, threads and the clock of the machine, as against any other server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_runs_on_any_server_that_it_can_reach() {
    let server = ApiServer::builder().tls(true).start().await.unwrap();
    let config = Config::from_kubeconfig_str(&server.kubeconfig(), &Default::default()).unwrap();
    let client = Client::new(config).unwrap();
    let simulator = Simulator::builder(client.clone()).settings(Settings::instant()).start();
    let it = TestServer { server, client };
    it.add(replica_set("web", 3)).await;
    it.until_one(SETS, "default/web", are_ready).await;
    simulator.stop().await;
}
