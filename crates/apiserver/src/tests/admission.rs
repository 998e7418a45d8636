//! Admission by quotas and plugins, as a client sees it. The recorded scenarios have the messages.

use std::sync::Arc;
use std::time::Duration;

use crate::AdmissionPlugin;
use crate::cluster::{Cluster, Source, Writer};
use crate::controllers::Controllers;
use serde_json::{Value, json};

use crate::tests::test_cluster::TestCluster;

const QUOTAS: (&str, &str) = ("v1", "ResourceQuota");

fn pod(name: &str, requests: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": requests } }] } })
}

/// Starts a cluster with a quota whose usage was counted.
async fn with_quota(hard: Value, used: Value) -> TestCluster {
    let it = TestCluster::with(Controllers::none()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q", "namespace": "default" },
        "spec": { "hard": hard } }))
        .await;
    it.change(QUOTAS, "default/q", "status", |it| {
        it["status"] = json!({ "hard": it["spec"]["hard"], "used": used });
    })
    .await;
    it
}

async fn refused(it: &TestCluster, object: Value) -> (u16, String) {
    let refusal = it.cluster.add(object, &Writer::server("test")).await.expect_err("refused");
    (refusal.0.code, refusal.0.message.clone())
}

fn used(it: &TestCluster) -> Value {
    it.get(QUOTAS, "default/q").expect("exists")["status"]["used"].clone()
}

#[tokio::test]
async fn creations_are_charged_and_rejected_beyond_the_quota() {
    let it = with_quota(json!({ "pods": "2", "cpu": "1" }), json!({ "pods": "0", "cpu": "0" })).await;
    it.add(pod("a", json!({ "cpu": "700m" }))).await;
    assert_eq!(used(&it), json!({ "pods": "1", "cpu": "700m" }));
    let (code, message) = refused(&it, pod("b", json!({ "cpu": "400m" }))).await;
    assert_eq!(
        (code, message.as_str()),
        (
            403,
            r#"pods "b" is forbidden: exceeded quota: q, requested: cpu=400m, used: cpu=700m, limited: cpu=1"#
        )
    );
    assert_eq!(used(&it), json!({ "pods": "1", "cpu": "700m" }), "a rejected object is not charged");
    let (_, message) = refused(&it, pod("b", json!({}))).await;
    assert_eq!(message, r#"pods "b" is forbidden: failed quota: q: must specify cpu for: c"#);
}

#[tokio::test]
async fn a_dry_run_is_checked_against_the_quota_but_not_charged() {
    let it = with_quota(json!({ "secrets": "1" }), json!({ "secrets": "0" })).await;
    let secret = |name: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "default" } });
    let dry_run = Writer { dry_run: true, ..Writer::server("test") };
    it.cluster.add(secret("a"), &dry_run).await.expect("within the quota");
    assert_eq!(used(&it), json!({ "secrets": "0" }));
    it.add(secret("a")).await;
    let refusal = it.cluster.add(secret("b"), &dry_run).await.expect_err("too many");
    assert_eq!(refusal.0.code, 403);
}

#[tokio::test]
async fn concurrent_creations_do_not_exceed_the_quota() {
    let it = with_quota(json!({ "configmaps": "5" }), json!({ "configmaps": "0" })).await;
    let made = (0..20).map(|number| {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": format!("m{number}"), "namespace": "default" } });
        let cluster = std::sync::Arc::clone(&it.cluster);
        tokio::spawn(async move { cluster.add(map, &Writer::server("test")).await.is_ok() })
    });
    let mut count = 0;
    for task in made.collect::<Vec<_>>() {
        count += usize::from(task.await.unwrap());
    }
    assert_eq!((count, used(&it)), (5, json!({ "configmaps": "5" })));
}

#[tokio::test]
async fn a_quota_without_counted_usage_limits_nothing() {
    let it = TestCluster::with(Controllers::none()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "q", "namespace": "default" },
        "spec": { "hard": { "pods": "0" } } }))
        .await;
    it.add(pod("a", json!({}))).await;
}

#[tokio::test]
async fn pods_get_the_defaults_of_the_limit_range_and_must_stay_within_it() {
    let it = TestCluster::with(Controllers::none()).await;
    it.add(json!({ "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "r", "namespace": "default" },
        "spec": { "limits": [{ "type": "Container", "default": { "cpu": "500m" }, "max": { "cpu": "600m" } }] } }))
        .await;
    let given = it.add(pod("a", json!({}))).await;
    let resources = &given["spec"]["containers"][0]["resources"];
    assert_eq!(*resources, json!({ "limits": { "cpu": "500m" }, "requests": { "cpu": "500m" } }));
    assert_eq!(given["status"]["qosClass"], "Burstable");
    assert_eq!(
        given["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    let mut greedy = pod("b", json!({}));
    greedy["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": "1" } });
    let (code, message) = refused(&it, greedy).await;
    let expected = r#"pods "b" is forbidden: maximum cpu usage per Container is 600m, but limit is 1"#;
    assert_eq!(code, 403);
    assert!(message.starts_with(expected), "{message}");
}

#[tokio::test]
async fn pods_get_the_overhead_of_their_runtime_class_which_must_exist() {
    let it = TestCluster::with(Controllers::none()).await;
    it.add(json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "small" },
        "handler": "h", "overhead": { "podFixed": { "cpu": "10m" } } }))
        .await;
    let classed = |class: &str| {
        let mut pod = pod("a", json!({}));
        pod["spec"]["runtimeClassName"] = class.into();
        pod
    };
    let (code, message) = refused(&it, classed("absent")).await;
    assert_eq!(
        (code, message.as_str()),
        (403, r#"pods "a" is forbidden: pod rejected: RuntimeClass "absent" not found"#)
    );
    assert_eq!(it.add(classed("small")).await["spec"]["overhead"], json!({ "cpu": "10m" }));
}

/// Returns a cluster with plugins switched.
async fn with_plugins(plugins: &[(AdmissionPlugin, bool)]) -> Arc<Cluster> {
    let source = Source::seeded(1, "2026-01-02T03:04:05Z".parse().expect("a time"));
    let cluster = Cluster::new(source);
    let cluster = plugins.iter().fold(cluster, |cluster, (plugin, on)| cluster.with_plugin(*plugin, *on));
    cluster.bootstrap().await;
    Arc::new(cluster)
}

async fn created(cluster: &Cluster, object: Value) -> Value {
    let kind = cluster.catalog().kind_of("v1", object["kind"].as_str().unwrap()).expect("served");
    cluster.add(object, &Writer::server("test")).await.expect("created").object.to_value(&kind)
}

#[tokio::test]
async fn a_plugin_that_is_off_neither_changes_nor_rejects_objects() {
    use AdmissionPlugin::{DefaultTolerationSeconds, NamespaceLifecycle, PodSecurity, Priority};
    let off = [DefaultTolerationSeconds, NamespaceLifecycle, PodSecurity, Priority].map(|it| (it, false));
    let cluster = with_plugins(&off).await;
    let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    created(
        &cluster,
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "n", "labels": labels } }),
    )
    .await;
    for namespace in ["n", "missing"] {
        let mut pod = pod("a", json!({}));
        pod["metadata"]["namespace"] = namespace.into();
        pod["spec"]["priorityClassName"] = "none".into();
        let stored = created(&cluster, pod).await;
        assert_eq!((stored["spec"].get("priority"), stored["spec"].get("tolerations")), (None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_default_account_and_is_rejected_if_it_does_not_appear() {
    let cluster = with_plugins(&[(AdmissionPlugin::ServiceAccount, true)]).await;
    let begin = tokio::time::Instant::now();
    let refusal = cluster.add(pod("a", json!({})), &Writer::server("test")).await.expect_err("no account");
    assert_eq!(
        refusal.0.message,
        r#"pods "a" is forbidden: error looking up service account default/default: serviceaccount "default" not found"#
    );
    assert!(begin.elapsed() < Duration::from_secs(5));
    let waiting = tokio::spawn({
        let cluster = Arc::clone(&cluster);
        async move { created(&cluster, pod("a", json!({}))).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": "default" } });
    created(&cluster, account).await;
    let pod = waiting.await.unwrap();
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    let mount = &pod["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["name"], pod["spec"]["volumes"][0]["name"]);
}
