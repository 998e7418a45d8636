//! A simulated cluster as its users see it: workloads start, roll out, scale and are deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster, key_of};

const DEPLOYMENTS: Kind = ("apps/v1", "Deployment");
const SETS: Kind = ("apps/v1", "ReplicaSet");
const PODS: Kind = ("v1", "Pod");
const NODES: Kind = ("v1", "Node");
const SERVICES: Kind = ("v1", "Service");
const ENDPOINTS: Kind = ("v1", "Endpoints");
const SLICES: Kind = ("discovery.k8s.io/v1", "EndpointSlice");
const ACCOUNTS: Kind = ("v1", "ServiceAccount");

const UNSELECTED: &str = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";

async fn simulated(settings: Settings) -> TestCluster {
    TestCluster::with(settings).await
}

fn deployment(name: &str, replicas: u32, image: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": { "containers": [
                { "name": "c", "image": image, "ports": [{ "name": "http", "containerPort": 8080 }] }] } } } })
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|it| it["type"] == kind).unwrap_or(&Value::Null)
}

/// Returns true if `kubectl rollout status` would report success.
fn is_rolled_out(deployment: &Value) -> bool {
    let (status, replicas) = (&deployment["status"], deployment["spec"]["replicas"].as_i64().unwrap_or(0));
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    count("observedGeneration") == deployment["metadata"]["generation"].as_i64().unwrap_or(0)
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|it| count(it) == replicas)
        && condition(deployment, "Progressing")["reason"] == "NewReplicaSetAvailable"
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

fn image(deployment: &mut Value, image: &str) {
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
}

fn labeled(objects: &[Value], app: &str) -> Vec<Value> {
    objects.iter().filter(|it| it["metadata"]["labels"]["app"] == app).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn simulated_nodes_alone_run_pods_but_no_workloads() {
    let it = simulated(Settings::only_nodes()).await;
    it.add(deployment("web", 3, "i:1")).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } }))
        .await;
    it.until_one(PODS, "default/p", is_ready).await;
    assert!(it.all(SETS).is_empty() && it.all(ACCOUNTS).is_empty());
    assert_eq!(it.all(PODS).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_is_reported_once() {
    let it = simulated(Settings::default()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default" },
        "spec": { "nodeSelector": { "no": "where" }, "containers": [{ "name": "c", "image": "i" }] } }))
        .await;
    it.until_one(PODS, "default/p", |it| condition(it, "PodScheduled")["message"] == UNSELECTED).await;
    let events = |it: &TestCluster| -> Vec<Value> {
        it.all(("v1", "Event")).into_iter().filter(|it| it["reason"] == "FailedScheduling").collect()
    };
    let reported = |it: &TestCluster| events(it).into_iter().filter(|it| it["message"] == UNSELECTED).count();
    it.change(NODES, "node-1", |it| it["metadata"]["labels"]["new"] = "one".into()).await;
    it.add(deployment("web", 1, "i:1")).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    assert_eq!(reported(&it), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_fails_when_its_deadline_has_passed() {
    let it = simulated(Settings::default()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default" },
        "spec": { "activeDeadlineSeconds": 30, "containers": [{ "name": "c", "image": "i" }] } }))
        .await;
    it.until_one(PODS, "default/p", is_ready).await;
    let start = tokio::time::Instant::now();
    let over = it.until_one(PODS, "default/p", |it| it["status"]["phase"] == "Failed").await;
    assert_eq!(over["status"]["reason"], "DeadlineExceeded");
    assert!(start.elapsed() >= Duration::from_secs(28) && start.elapsed() <= Duration::from_secs(31));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available() {
    let it = simulated(Settings::default()).await;
    let start = tokio::time::Instant::now();
    it.add(deployment("web", 3, "i:1")).await;
    let up = it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    let took = start.elapsed().as_millis();
    assert!((1000..1005).contains(&took), "as long as pods take to start, not {took} ms");
    assert_eq!(up["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(up["status"]["readyReplicas"], 3);
    assert_eq!(condition(&up, "Available")["reason"], "MinimumReplicasAvailable");
    let sets = it.all(SETS);
    assert_eq!((sets.len(), &sets[0]["status"]["availableReplicas"]), (1, &json!(3)));
    let hash = sets[0]["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(key_of(&sets[0]), format!("default/web-{hash}"));
    let pods = it.all(PODS);
    let mut nodes: Vec<_> = pods.iter().map(|it| it["spec"]["nodeName"].as_str().unwrap()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["node-1", "node-2", "node-3"]);
    for pod in &pods {
        assert!(key_of(pod).starts_with(&format!("default/web-{hash}-")));
        assert!(is_ready(pod) && pod["status"]["phase"] == "Running");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], sets[0]["metadata"]["uid"]);
        assert!(pod["status"]["podIP"].as_str().unwrap().starts_with("10.244."));
    }
    let revision = it.server.revision();
    it.advance(Duration::from_secs(1000)).await;
    assert_eq!(it.server.revision(), revision, "an idle cluster writes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_respects_max_surge_and_max_unavailable() {
    let it = simulated(Settings::default()).await;
    let mut wanted = deployment("web", 4, "i:1");
    wanted["spec"]["strategy"] = json!({ "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 1 } });
    it.add(wanted).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    let alive = |it: &Value| it["metadata"]["deletionTimestamp"].is_null();
    let before = it.server.revision();
    it.change(DEPLOYMENTS, "default/web", |it| image(it, "i:2")).await;
    let done = it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    assert_eq!(done["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    let mut sizes: Vec<_> = it.all(SETS).iter().map(|it| it["spec"]["replicas"].as_i64()).collect();
    sizes.sort();
    assert_eq!(sizes, [Some(0), Some(4)], "the old replica set stays, scaled to zero");
    for revision in before..=it.server.revision() {
        let pods = it.all_at(PODS, revision);
        let live: Vec<_> = pods.iter().filter(|it| alive(it)).collect();
        let ready = live.iter().filter(|it| is_ready(it)).count();
        assert!(live.len() <= 5 && ready >= 3, "{} live, {ready} ready", live.len());
    }
    let pods = it.all(PODS);
    assert!(pods.iter().filter(|it| alive(it)).all(|it| it["spec"]["containers"][0]["image"] == "i:2"));
}

#[tokio::test(start_paused = true)]
async fn a_rollback_reuses_the_old_replica_set_with_a_new_revision() {
    let it = simulated(Settings::instant()).await;
    it.add(deployment("web", 2, "i:1")).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    it.change(DEPLOYMENTS, "default/web", |it| image(it, "i:2")).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    it.change(DEPLOYMENTS, "default/web", |it| image(it, "i:1")).await;
    let back = it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    assert_eq!(back["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    let sets = it.all(SETS);
    assert_eq!(sets.len(), 2);
    let current = sets.iter().find(|it| it["spec"]["replicas"] == 2).unwrap();
    assert_eq!(current["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
}

#[tokio::test(start_paused = true)]
async fn old_replica_sets_are_kept_up_to_the_history_limit() {
    let it = simulated(Settings::instant()).await;
    let mut wanted = deployment("web", 1, "i:0");
    wanted["spec"]["revisionHistoryLimit"] = 2.into();
    it.add(wanted).await;
    for version in 1..6 {
        it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
        it.change(DEPLOYMENTS, "default/web", |it| image(it, &format!("i:{version}"))).await;
    }
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    it.advance(Duration::from_secs(5)).await;
    let mut revisions: Vec<_> = it
        .all(SETS)
        .iter()
        .map(|it| {
            it["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap().to_owned()
        })
        .collect();
    revisions.sort();
    assert_eq!(revisions, ["4", "5", "6"]);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scales_up_and_down_and_pauses() {
    let it = simulated(Settings::instant()).await;
    it.add(deployment("web", 1, "i:1")).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    for replicas in [5, 2, 0, 3] {
        it.change(DEPLOYMENTS, "default/web", |it| it["spec"]["replicas"] = replicas.into()).await;
        it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
        it.until(PODS, |all| all.len() == replicas).await;
    }
    it.change(DEPLOYMENTS, "default/web", |it| it["spec"]["paused"] = true.into()).await;
    it.until_one(DEPLOYMENTS, "default/web", |it| {
        condition(it, "Progressing")["reason"] == "DeploymentPaused"
    })
    .await;
    it.change(DEPLOYMENTS, "default/web", |it| image(it, "i:2")).await;
    it.change(DEPLOYMENTS, "default/web", |it| it["spec"]["replicas"] = 4.into()).await;
    it.until(PODS, |all| all.len() == 4).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(
        it.all(PODS).iter().all(|it| it["spec"]["containers"][0]["image"] == "i:1"),
        "a paused deployment scales but does not roll out"
    );
    it.change(DEPLOYMENTS, "default/web", |it| it["spec"]["paused"] = false.into()).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    it.until(PODS, |all| all.iter().all(|it| it["spec"]["containers"][0]["image"] == "i:2")).await;
}

#[tokio::test(start_paused = true)]
async fn recreate_deletes_all_old_pods_before_it_creates_new_ones() {
    let it = simulated(Settings::default()).await;
    let mut wanted = deployment("web", 2, "i:1");
    wanted["spec"]["strategy"] = json!({ "type": "Recreate" });
    it.add(wanted).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    let before = it.server.revision();
    it.change(DEPLOYMENTS, "default/web", |it| image(it, "i:2")).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    let (mut deleted, mut created) = (Vec::new(), Vec::new());
    let names = |revision| -> BTreeSet<String> { it.all_at(PODS, revision).iter().map(key_of).collect() };
    for revision in before..it.server.revision() {
        let (one, two) = (names(revision), names(revision + 1));
        deleted.extend(one.difference(&two).map(|_| revision));
        created.extend(two.difference(&one).map(|_| revision));
    }
    assert_eq!((deleted.len(), created.len()), (2, 2));
    assert!(deleted.iter().max() < created.iter().min());
}

#[tokio::test(start_paused = true)]
async fn a_stuck_rollout_reports_that_it_exceeded_its_deadline() {
    let it = simulated(Settings::default()).await;
    let mut wanted = deployment("web", 1, "i:1");
    wanted["spec"]["progressDeadlineSeconds"] = 60.into();
    wanted["spec"]["template"]["spec"]["nodeSelector"] = json!({ "no": "such" });
    it.add(wanted).await;
    let late = |it: &Value| condition(it, "Progressing")["reason"] == "ProgressDeadlineExceeded";
    it.until_one(DEPLOYMENTS, "default/web", late).await;
    let pod = &it.all(PODS)[0];
    assert_eq!(condition(pod, "PodScheduled")["reason"], "Unschedulable");
    assert_eq!(
        condition(pod, "PodScheduled")["message"],
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    );
    it.change(NODES, "node-2", |it| it["metadata"]["labels"]["no"] = "such".into()).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_deployment_deletes_its_replica_sets_and_pods() {
    let it = simulated(Settings::default()).await;
    it.add(deployment("web", 3, "i:1")).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    it.delete(DEPLOYMENTS, "default/web", DeleteParams::foreground()).await;
    it.until_gone(DEPLOYMENTS, "default/web").await;
    assert!(it.all(SETS).is_empty() && it.all(PODS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn orphaned_pods_are_adopted_by_a_new_replica_set() {
    let it = simulated(Settings::instant()).await;
    it.add(deployment("web", 2, "i:1")).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    let before: Vec<_> = it.all(PODS).iter().map(key_of).collect();
    it.delete(DEPLOYMENTS, "default/web", DeleteParams::orphan()).await;
    it.until_gone(DEPLOYMENTS, "default/web").await;
    let set = key_of(&it.all(SETS)[0]);
    it.delete(SETS, &set, DeleteParams::orphan()).await;
    it.until_gone(SETS, &set).await;
    it.advance(Duration::from_secs(10)).await;
    assert!(
        it.all(PODS).iter().all(|it| it["metadata"].get("ownerReferences").is_none_or(|it| it == &json!([])))
    );
    it.add(deployment("web", 2, "i:1")).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    let mut after: Vec<_> = it.all(PODS).iter().map(key_of).collect();
    after.sort();
    assert_eq!(after, before);
}

#[tokio::test(start_paused = true)]
async fn a_relabelled_pod_is_released_and_replaced() {
    let it = simulated(Settings::instant()).await;
    it.add(deployment("web", 2, "i:1")).await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    let one = key_of(&it.all(PODS)[0]);
    it.change(PODS, &one, |it| it["metadata"]["labels"]["app"] = "debug".into()).await;
    it.until(PODS, |all| labeled(all, "web").iter().filter(|it| is_ready(it)).count() == 2).await;
    let free = it.get(PODS, &one).expect("the pod stays");
    assert!(free["metadata"].get("ownerReferences").is_none_or(|it| it == &json!([])));
}

#[tokio::test(start_paused = true)]
async fn a_service_gets_endpoint_slices_and_endpoints() {
    let it = simulated(Settings::default()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": "http" }] } }))
        .await;
    let ours = |all: &[Value]| -> Vec<Value> {
        all.iter()
            .filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == "web")
            .cloned()
            .collect()
    };
    it.until(SLICES, |all| ours(all).len() == 1).await;
    it.add(deployment("web", 2, "i:1")).await;
    let count = |all: &[Value], condition: &str| -> usize {
        let all = ours(all);
        let endpoints = all.iter().flat_map(|it| it["endpoints"].as_array().cloned().unwrap_or_default());
        endpoints.filter(|it| it["conditions"][condition] == true).count()
    };
    let slices = ours(&it.until(SLICES, |all| count(all, "ready") == 2).await);
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0]["ports"], json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]));
    assert_eq!(
        slices[0]["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"],
        "endpointslice-controller.k8s.io"
    );
    let endpoint = &slices[0]["endpoints"][0];
    assert_eq!(endpoint["targetRef"]["kind"], "Pod");
    assert!(endpoint["zone"].as_str().unwrap().starts_with("zone-"));
    let full = |it: &Value| it["subsets"][0]["addresses"].as_array().is_some_and(|it| it.len() == 2);
    it.until_one(ENDPOINTS, "default/web", full).await;
    it.change(DEPLOYMENTS, "default/web", |it| it["spec"]["replicas"] = 1.into()).await;
    it.until(SLICES, |all| count(all, "terminating") == 1 && count(all, "ready") == 1).await;
    it.until(SLICES, |all| count(all, "terminating") == 0 && count(all, "ready") == 1).await;
    it.delete(SERVICES, "default/web", DeleteParams::default()).await;
    it.until(SLICES, |all| ours(all).is_empty()).await;
    it.until_gone(ENDPOINTS, "default/web").await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_waits_for_a_finalizer_keeps_its_endpoints() {
    let it = simulated(Settings::default()).await;
    it.add(
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "default",
            "finalizers": ["example.com/load-balancer"] },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } }),
    )
    .await;
    it.add(deployment("web", 2, "i:1")).await;
    let ready = |all: &[Value]| {
        let ours = all.iter().filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
        let endpoints = ours.flat_map(|it| it["endpoints"].as_array().cloned().unwrap_or_default());
        endpoints.filter(|it| it["conditions"]["ready"] == true).count()
    };
    it.until(SLICES, |all| ready(all) == 2).await;
    it.delete(SERVICES, "default/web", DeleteParams::default()).await;
    it.change(DEPLOYMENTS, "default/web", |it| it["spec"]["replicas"] = 1.into()).await;
    it.until(SLICES, |all| ready(all) == 1).await;
    it.change(SERVICES, "default/web", |it| it["metadata"]["finalizers"] = json!([])).await;
    it.until(SLICES, |all| ready(all) == 0).await;
    it.until_gone(ENDPOINTS, "default/web").await;
}

/// The slices are of type IPv4: an address of another family would make the server reject them.
#[tokio::test(start_paused = true)]
async fn a_pod_without_an_ipv4_address_is_left_out_of_the_endpoints() {
    let it = simulated(Settings::instant()).await;
    it.add(
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } }),
    )
    .await;
    let addresses = ["2001:db8::1", "172.18.9.9"].map(|it| json!({ "type": "InternalIP", "address": it }));
    it.add(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "dual" } })).await;
    it.change_status(NODES, "dual", |it| it["addresses"] = json!(addresses)).await;
    let add = async |name: &str, node: &str, on_host: bool| {
        it.add(json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "default", "labels": { "app": "web" } },
            "spec": { "nodeName": node, "hostNetwork": on_host, "containers": [{ "name": "c", "image": "i" }] } }))
            .await;
        it.until_one(PODS, &format!("default/{name}"), is_ready).await
    };
    add("six", "node-1", false).await;
    it.change_status(PODS, "default/six", |it| {
        it["podIP"] = "2001:db8::7".into();
        it["podIPs"] = json!([{ "ip": "2001:db8::7" }]);
    })
    .await;
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all
    };
    let listed = |all: &[Value]| -> Vec<String> {
        let ours = all.iter().filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
        let endpoints = ours.flat_map(|it| it["endpoints"].as_array().cloned().unwrap_or_default());
        sorted(endpoints.map(|it| it["addresses"][0].as_str().unwrap().to_owned()).collect())
    };
    let four = add("four", "node-1", false).await;
    let four = four["status"]["podIP"].as_str().unwrap();
    it.until(SLICES, |all| listed(all) == [four]).await;
    let host = add("host", "dual", true).await;
    assert_eq!(host["status"]["hostIPs"], json!([{ "ip": "2001:db8::1" }, { "ip": "172.18.9.9" }]));
    assert_eq!(host["status"]["podIPs"], host["status"]["hostIPs"]);
    let expected = sorted(["172.18.9.9", four].map(str::to_owned).to_vec());
    it.until(SLICES, |all| listed(all) == expected).await;
    let all = |it: &Value| {
        let addresses = it["subsets"][0]["addresses"].as_array().into_iter().flatten();
        sorted(addresses.map(|it| it["ip"].as_str().unwrap().to_owned()).collect()) == expected
    };
    it.until_one(ENDPOINTS, "default/web", all).await;
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_a_service_account_and_can_be_deleted() {
    let it = simulated(Settings::default()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "a" } })).await;
    it.until(ACCOUNTS, |all| all.len() == 5).await;
    it.delete(ACCOUNTS, "default/default", DeleteParams::default()).await;
    it.until(ACCOUNTS, |all| all.len() == 5).await;
    let mut wanted = deployment("web", 3, "i:1");
    wanted["metadata"]["namespace"] = "a".into();
    it.add(wanted).await;
    it.until_one(DEPLOYMENTS, "a/web", is_rolled_out).await;
    it.delete(("v1", "Namespace"), "a", DeleteParams::default()).await;
    it.until_gone(("v1", "Namespace"), "a").await;
    assert!(it.all(PODS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn nodes_are_ready_and_renew_their_leases_if_configured() {
    let mut settings = Settings::default();
    settings.nodes = 2;
    settings.heartbeat = Some(Duration::from_secs(10));
    let it = simulated(settings).await;
    let nodes = it.until(NODES, |all| all.len() == 2 && all.iter().all(is_ready)).await;
    assert_eq!(nodes.iter().map(key_of).collect::<Vec<_>>(), ["node-1", "node-2"]);
    let lease = ("coordination.k8s.io/v1", "Lease");
    let first = it.until_one(lease, "kube-node-lease/node-1", |_| true).await;
    let renewed = |it: &Value| it["spec"]["renewTime"] != first["spec"]["renewTime"];
    let next = it.until_one(lease, "kube-node-lease/node-1", renewed).await;
    assert_eq!(next["spec"]["renewTime"], "2026-01-02T03:04:15.000000Z");
}

/// The node lifecycle controller of kube-controller-manager sets the conditions of a node whose
/// lease is not renewed in time; only the kubelet sets them back.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_reported_as_lost_becomes_ready_again() {
    let mut settings = Settings::only_nodes();
    settings.heartbeat = Some(Duration::from_secs(10));
    let it = simulated(settings).await;
    it.until(NODES, |all| all.len() == 3 && all.iter().all(is_ready)).await;
    it.advance(Duration::from_secs(15)).await;
    let mine = json!({ "type": "Mine", "status": "Unknown", "reason": "NodeStatusUnknown" });
    it.change_status(NODES, "node-1", |status| {
        for condition in status["conditions"].as_array_mut().unwrap() {
            let (status, reason) = match condition["type"].as_str() {
                Some("DiskPressure") => ("True", "DiskIsFull"),
                _ => ("Unknown", "NodeStatusUnknown"),
            };
            condition["status"] = status.into();
            condition["reason"] = reason.into();
            condition["message"] = "Kubelet stopped posting node status.".into();
        }
        status["conditions"].as_array_mut().unwrap().push(mine.clone());
    })
    .await;
    let start = tokio::time::Instant::now();
    let node = it.until_one(NODES, "node-1", is_ready).await;
    assert!(start.elapsed() <= Duration::from_secs(10), "at the next heartbeat");
    let ready = condition(&node, "Ready");
    assert_eq!(
        (&ready["reason"], &ready["message"]),
        (&json!("KubeletReady"), &json!("kubelet is posting ready status"))
    );
    for field in ["lastHeartbeatTime", "lastTransitionTime"] {
        assert_eq!(ready[field], "2026-01-02T03:04:25Z", "{field}");
    }
    for (kind, status) in
        [("MemoryPressure", "False"), ("PIDPressure", "False"), ("DiskPressure", "True"), ("Mine", "Unknown")]
    {
        assert_eq!(condition(&node, kind)["status"], status, "{kind}");
    }
    let revision = node["metadata"]["resourceVersion"].clone();
    it.advance(Duration::from_secs(100)).await;
    assert_eq!(it.get(NODES, "node-1").unwrap()["metadata"]["resourceVersion"], revision);
}

#[tokio::test(start_paused = true)]
async fn the_seed_determines_the_cluster() {
    let mut all = Vec::new();
    for _ in 0..2 {
        let mut settings = Settings::default();
        settings.jitter = Duration::from_secs(3);
        let it = simulated(settings).await;
        it.add(deployment("web", 3, "i:1")).await;
        it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
        all.push(it.all(PODS));
    }
    assert_eq!(all[0], all[1], "including all versions");
}

/// There is no await between deletion and compaction, so no controller sees the deletion before
/// history is compacted: a later list alone does not show what was deleted.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_deletion_was_compacted_is_replaced() {
    let it = simulated(Settings::default()).await;
    it.add(deployment("web", 1, "i:1")).await;
    it.add(
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 8080 }] } }),
    )
    .await;
    it.until_one(DEPLOYMENTS, "default/web", is_rolled_out).await;
    it.advance(Duration::from_secs(10)).await;
    let first = key_of(&it.all(PODS)[0]);
    it.delete(PODS, &first, DeleteParams::default().grace_period(Duration::ZERO)).await;
    it.server.compact_history();
    let pods = it.until(PODS, |all| all.len() == 1 && key_of(&all[0]) != first && is_ready(&all[0])).await;
    let updated = |slice: &Value| slice["endpoints"][0]["targetRef"]["name"] == pods[0]["metadata"]["name"];
    it.until(SLICES, |all| all.iter().any(updated)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_when_its_node_is_created_later() {
    let it = simulated(Settings::only_nodes()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default" },
        "spec": { "nodeName": "late", "containers": [{ "name": "c", "image": "i" }] } }))
        .await;
    it.advance(Duration::from_secs(30)).await;
    assert_eq!(it.get(PODS, "default/p").unwrap()["status"]["phase"], "Pending");
    it.add(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "late" } })).await;
    let pod = it.until_one(PODS, "default/p", is_ready).await;
    // kube-apiserver rejects empty addresses.
    let addresses = ["hostIP", "hostIPs"].map(|field| pod["status"].get(field));
    assert_eq!(addresses, [None, None], "the node has no address");
    it.advance(Duration::from_secs(60)).await;
    assert!(is_ready(&it.get(PODS, "default/p").expect("the pod stays")));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_ends_although_the_nodes_of_its_pods_are_gone() {
    let it = simulated(Settings::only_nodes()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "a" } })).await;
    for (name, node) in [("p", "node-1"), ("q", "never")] {
        it.add(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "a" },
            "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] } }))
            .await;
    }
    it.until_one(PODS, "a/p", is_ready).await;
    it.delete(NODES, "node-1", DeleteParams::default()).await;
    it.delete(("v1", "Namespace"), "a", DeleteParams::default()).await;
    it.until_gone(("v1", "Namespace"), "a").await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_removed_node_fail_and_are_deleted_after_the_quarantine() {
    let it = simulated(Settings::only_nodes()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "extra" } })).await;
    it.add(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default",
        "finalizers": ["example.com/keep"] },
        "spec": { "nodeName": "extra", "containers": [{ "name": "c", "image": "i" }] } }))
        .await;
    it.until_one(PODS, "default/p", is_ready).await;
    it.delete(NODES, "extra", DeleteParams::default()).await;
    it.advance(Duration::from_secs(39)).await;
    assert!(is_ready(&it.get(PODS, "default/p").unwrap()), "the node may come back");
    let deleting = |it: &Value| !it["metadata"]["deletionTimestamp"].is_null();
    let pod = it.until_one(PODS, "default/p", deleting).await;
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByPodGC");
    it.change(PODS, "default/p", |it| it["metadata"]["finalizers"] = json!([])).await;
    it.until_gone(PODS, "default/p").await;
}
