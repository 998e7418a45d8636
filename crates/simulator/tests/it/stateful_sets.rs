//! StatefulSets as their users see them.

use std::time::Duration;

use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster, key_of};

const SETS: Kind = ("apps/v1", "StatefulSet");
const REVISIONS: Kind = ("apps/v1", "ControllerRevision");
const PODS: Kind = ("v1", "Pod");
const CLAIMS: Kind = ("v1", "PersistentVolumeClaim");

fn stateful_set(replicas: u32, change: impl FnOnce(&mut Value)) -> Value {
    let mut set = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "db", "namespace": "default" },
        "spec": { "replicas": replicas, "serviceName": "dbs", "selector": { "matchLabels": { "app": "db" } },
            "template": { "metadata": { "labels": { "app": "db" } },
                "spec": { "containers": [{ "name": "c", "image": "i:1" }] } } } });
    change(&mut set["spec"]);
    set
}

/// Adds a template for claims.
fn with_claims(spec: &mut Value) {
    spec["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }]);
}

/// Returns true if `kubectl rollout status` would report success.
fn is_rolled_out(set: &Value) -> bool {
    let (status, replicas) = (&set["status"], &set["spec"]["replicas"]);
    status["observedGeneration"] == set["metadata"]["generation"]
        && status["readyReplicas"] == *replicas
        && status["updatedReplicas"] == *replicas
        && status["currentRevision"] == status["updateRevision"]
}

fn image(set: &mut Value, image: &str) {
    set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
}

fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect()
}

/// Returns the name and the image of each pod.
fn images(pods: &[Value]) -> Vec<String> {
    let image = |it: &Value| it["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    pods.iter().map(|it| format!("{} {}", it["metadata"]["name"].as_str().unwrap(), image(it))).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_start_in_order_with_stable_names_and_claims() {
    let it = TestCluster::with(Settings::default()).await;
    let start = tokio::time::Instant::now();
    it.add(stateful_set(3, with_claims)).await;
    it.until(PODS, |all| all.len() == 1).await;
    assert_eq!(names(&it.all(PODS)), ["db-0"]);
    let up = it.until_one(SETS, "default/db", is_rolled_out).await;
    assert!(start.elapsed() >= Duration::from_secs(3), "each pod waits until its predecessor is ready");
    assert_eq!(up["status"]["availableReplicas"], 3);
    assert_eq!(up["status"]["collisionCount"], 0);
    let pods = it.all(PODS);
    assert_eq!(names(&pods), ["db-0", "db-1", "db-2"]);
    assert_eq!(names(&it.all(CLAIMS)), ["data-db-0", "data-db-1", "data-db-2"]);
    for (index, pod) in pods.iter().enumerate() {
        let labels = &pod["metadata"]["labels"];
        assert_eq!(labels["statefulset.kubernetes.io/pod-name"], pod["metadata"]["name"]);
        assert_eq!(labels["apps.kubernetes.io/pod-index"], index.to_string());
        assert_eq!(labels["controller-revision-hash"], up["status"]["currentRevision"]);
        assert_eq!(
            (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
            (&pod["metadata"]["name"], &json!("dbs"))
        );
        let claim = &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
        assert_eq!(*claim, format!("data-db-{index}"));
    }
    let revisions = it.all(REVISIONS);
    assert_eq!(
        (names(&revisions), &revisions[0]["revision"]),
        (vec![up["status"]["currentRevision"].as_str().unwrap()], &json!(1))
    );
    let revision = it.server.revision();
    it.advance(Duration::from_secs(1000)).await;
    assert_eq!(it.server.revision(), revision, "nothing is left to do");
}

#[tokio::test(start_paused = true)]
async fn parallel_pods_start_at_once_and_a_deleted_pod_returns_under_its_name() {
    let it = TestCluster::with(Settings::default()).await;
    let start = tokio::time::Instant::now();
    it.add(stateful_set(3, |it| it["podManagementPolicy"] = "Parallel".into())).await;
    it.until_one(SETS, "default/db", is_rolled_out).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let former = it.get(PODS, "default/db-1").unwrap()["metadata"]["uid"].clone();
    it.delete(PODS, "default/db-1", DeleteParams::default()).await;
    it.until_one(PODS, "default/db-1", |it| it["metadata"]["uid"] != former).await;
    it.until_one(SETS, "default/db", is_rolled_out).await;
}

#[tokio::test(start_paused = true)]
async fn an_update_goes_from_the_last_pod_to_the_partition_and_can_be_undone() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(stateful_set(3, |it| {
        it["updateStrategy"] = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } });
    }))
    .await;
    it.until_one(SETS, "default/db", is_rolled_out).await;
    it.change(SETS, "default/db", |it| image(it, "i:2")).await;
    let half = it
        .until_one(SETS, "default/db", |it| {
            it["status"]["updatedReplicas"] == 1 && it["status"]["readyReplicas"] == 3
        })
        .await;
    assert_ne!(half["status"]["currentRevision"], half["status"]["updateRevision"]);
    assert_eq!(half["status"]["currentReplicas"], 2);
    it.advance(Duration::from_secs(100)).await;
    assert_eq!(images(&it.all(PODS)), ["db-0 i:1", "db-1 i:1", "db-2 i:2"]);
    // A pod below the partition returns at the old revision.
    it.delete(PODS, "default/db-0", DeleteParams::default()).await;
    it.advance(Duration::from_secs(100)).await;
    assert_eq!(images(&it.all(PODS)), ["db-0 i:1", "db-1 i:1", "db-2 i:2"]);
    it.change(SETS, "default/db", |it| {
        it["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0.into();
    })
    .await;
    let done = it.until_one(SETS, "default/db", is_rolled_out).await;
    assert_eq!(images(&it.all(PODS)), ["db-0 i:2", "db-1 i:2", "db-2 i:2"]);
    it.change(SETS, "default/db", |it| image(it, "i:1")).await;
    let back = it.until_one(SETS, "default/db", |it| {
        is_rolled_out(it) && it["status"]["currentRevision"] != done["status"]["currentRevision"]
    });
    let back = back.await;
    assert_eq!(back["status"]["currentRevision"], half["status"]["currentRevision"], "the revision returns");
    let mut numbers: Vec<_> = it.all(REVISIONS).iter().map(|it| it["revision"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn with_on_delete_only_deleted_pods_are_updated() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(stateful_set(2, |it| it["updateStrategy"] = json!({ "type": "OnDelete" }))).await;
    it.until_one(SETS, "default/db", |it| it["status"]["readyReplicas"] == 2).await;
    it.change(SETS, "default/db", |it| image(it, "i:2")).await;
    it.advance(Duration::from_secs(100)).await;
    assert_eq!(images(&it.all(PODS)), ["db-0 i:1", "db-1 i:1"]);
    it.delete(PODS, "default/db-1", DeleteParams::default()).await;
    it.until(PODS, |all| images(all) == ["db-0 i:1", "db-1 i:2"]).await;
}

#[tokio::test(start_paused = true)]
async fn scaling_down_goes_in_reverse_order_and_deletes_claims_if_asked_to() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(stateful_set(3, |it| {
        with_claims(it);
        it["persistentVolumeClaimRetentionPolicy"] =
            json!({ "whenScaled": "Delete", "whenDeleted": "Retain" });
    }))
    .await;
    it.until_one(SETS, "default/db", is_rolled_out).await;
    it.change(SETS, "default/db", |it| it["spec"]["replicas"] = 1.into()).await;
    it.until(PODS, |all| {
        let names = names(all);
        assert!(names.contains(&"db-1") || !names.contains(&"db-2"), "{names:?}");
        names == ["db-0"]
    })
    .await;
    it.until(CLAIMS, |all| names(all) == ["data-db-0"]).await;
    it.change(SETS, "default/db", |it| it["spec"]["replicas"] = 2.into()).await;
    it.until_one(SETS, "default/db", is_rolled_out).await;
    assert_eq!(names(&it.all(CLAIMS)), ["data-db-0", "data-db-1"]);
    it.delete(SETS, "default/db", DeleteParams::default()).await;
    it.until(PODS, |all| all.is_empty()).await;
    it.advance(Duration::from_secs(100)).await;
    assert_eq!(names(&it.all(CLAIMS)), ["data-db-0", "data-db-1"], "claims are kept with the set gone");
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_their_set_if_asked_to() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(stateful_set(2, |it| {
        with_claims(it);
        it["persistentVolumeClaimRetentionPolicy"] =
            json!({ "whenScaled": "Retain", "whenDeleted": "Delete" });
    }))
    .await;
    it.until_one(SETS, "default/db", is_rolled_out).await;
    it.change(SETS, "default/db", |it| it["spec"]["replicas"] = 1.into()).await;
    it.until(PODS, |all| names(all) == ["db-0"]).await;
    it.advance(Duration::from_secs(100)).await;
    assert_eq!(names(&it.all(CLAIMS)), ["data-db-0", "data-db-1"]);
    it.delete(SETS, "default/db", DeleteParams::default()).await;
    it.until(CLAIMS, |all| all.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn an_ended_pod_is_replaced_and_min_ready_seconds_delay_the_next_one() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(stateful_set(2, |it| it["minReadySeconds"] = 30.into())).await;
    it.until(PODS, |all| all.len() == 1).await;
    let start = tokio::time::Instant::now();
    it.until(PODS, |all| all.len() == 2).await;
    assert!(start.elapsed() >= Duration::from_secs(30), "{:?}", start.elapsed());
    it.until_one(SETS, "default/db", |it| it["status"]["availableReplicas"] == 2).await;
    let former = it.get(PODS, "default/db-0").unwrap()["metadata"]["uid"].clone();
    it.change_status(PODS, "default/db-0", |it| it["phase"] = "Failed".into()).await;
    it.until_one(PODS, "default/db-0", |it| it["metadata"]["uid"] != former).await;
    it.until_one(SETS, "default/db", |it| it["status"]["availableReplicas"] == 2).await;
}

#[tokio::test(start_paused = true)]
async fn the_requests_for_a_set_do_not_depend_on_other_sets_and_pods() {
    let mut counts = Vec::new();
    for others in [1, 20] {
        let it = TestCluster::with(Settings::instant()).await;
        let mut other = stateful_set(others, |it| it["podManagementPolicy"] = "Parallel".into());
        other["metadata"]["name"] = "other".into();
        other["spec"]["selector"]["matchLabels"]["app"] = "other".into();
        other["spec"]["template"]["metadata"]["labels"]["app"] = "other".into();
        it.add(other).await;
        it.until_one(SETS, "default/other", is_rolled_out).await;
        it.advance(Duration::from_secs(10)).await;
        it.server.request_log().clear();
        it.add(stateful_set(2, |_| ())).await;
        it.until_one(SETS, "default/db", is_rolled_out).await;
        it.advance(Duration::from_secs(10)).await;
        counts.push(it.server.requests().count());
    }
    assert_eq!(counts[0], counts[1]);
}

#[tokio::test(start_paused = true)]
async fn orphaned_pods_are_adopted_again() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(stateful_set(2, |_| ())).await;
    it.until_one(SETS, "default/db", is_rolled_out).await;
    it.delete(SETS, "default/db", DeleteParams::orphan()).await;
    it.until_gone(SETS, "default/db").await;
    let before: Vec<_> = it.all(PODS).iter().map(|it| it["metadata"]["uid"].clone()).collect();
    it.add(stateful_set(2, |_| ())).await;
    let set = it.until_one(SETS, "default/db", is_rolled_out).await;
    let pods = it.all(PODS);
    assert_eq!(pods.iter().map(|it| it["metadata"]["uid"].clone()).collect::<Vec<_>>(), before);
    assert!(pods.iter().all(|it| it["metadata"]["ownerReferences"][0]["uid"] == set["metadata"]["uid"]));
    assert_eq!(it.all(REVISIONS).iter().map(key_of).count(), 1, "the revision is adopted too");
}
