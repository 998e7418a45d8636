//! HorizontalPodAutoscalers: the number of replicas that their targets get, and what they report.

use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use serde_json::{Value, json};

use crate::test_cluster::{Kind, TestCluster};

const AUTOSCALERS: Kind = ("autoscaling/v2", "HorizontalPodAutoscaler");
const DEPLOYMENTS: Kind = ("apps/v1", "Deployment");
const PODS: Kind = ("v1", "Pod");
const EVENTS: Kind = ("v1", "Event");
const LOAD: &str = "simulator.dogwatch.dev/cpu-load";
const USAGE: &str = "simulator.dogwatch.dev/cpu-usage";

fn deployment(name: &str, replicas: u32, annotations: Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": "default" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name }, "annotations": annotations },
                "spec": { "containers": [{ "name": "c", "image": "i",
                    "resources": { "requests": { "cpu": "100m" } } }] } } } })
}

/// An autoscaler of the Deployment `web`, for half of its CPU requests.
fn autoscaler(most: u32, more: Value) -> Value {
    let mut autoscaler = json!({ "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "minReplicas": 1, "maxReplicas": most,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": 50 } } }] } });
    for (field, value) in more.as_object().into_iter().flatten() {
        autoscaler["spec"][field] = value.clone();
    }
    autoscaler
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|it| it["type"] == kind).unwrap_or(&Value::Null)
}

/// Returns the status, the reason and the message of a condition.
fn words<'a>(object: &'a Value, kind: &str) -> [&'a str; 3] {
    ["status", "reason", "message"].map(|it| condition(object, kind)[it].as_str().unwrap_or_default())
}

fn has_replicas(count: u32) -> impl Fn(&Value) -> bool {
    move |it| it["spec"]["replicas"] == count && it["status"]["readyReplicas"] == count
}

async fn annotate(it: &TestCluster, of: Kind, key: &str, name: &str, value: &str) {
    it.change(of, key, |it| it["metadata"]["annotations"][name] = value.into()).await;
}

#[tokio::test(start_paused = true)]
async fn replicas_follow_the_load_and_go_down_after_the_stabilization_window() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(deployment("web", 2, json!({}))).await;
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(2)).await;
    it.add(autoscaler(10, json!({}))).await;
    // Without annotations, a pod uses half of its request.
    let steady = it.until_one(AUTOSCALERS, "default/web", |it| it["status"]["currentReplicas"] == 2).await;
    let resource = &steady["status"]["currentMetrics"][0]["resource"];
    assert_eq!(resource["current"], json!({ "averageUtilization": 50, "averageValue": "50m" }));
    assert_eq!(steady["status"]["desiredReplicas"], 2);
    assert_eq!(
        words(&steady, "AbleToScale"),
        ["True", "ReadyForNewScale", "recommended size matches current size"]
    );
    assert_eq!(
        words(&steady, "ScalingActive"),
        [
            "True",
            "ValidMetricFound",
            "the HPA was able to successfully calculate a replica count from cpu resource utilization \
            (percentage of request)"
        ]
    );
    assert_eq!(
        words(&steady, "ScalingLimited"),
        ["False", "DesiredWithinRange", "the desired count is within the acceptable range"]
    );
    annotate(&it, AUTOSCALERS, "default/web", LOAD, "400m").await;
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(8)).await;
    let event = |all: &[Value], message: &str| all.iter().any(|it| it["message"] == message);
    let first = "New size: 4; reason: cpu resource utilization (percentage of request) above target";
    let all = it.until(EVENTS, |all| event(all, first)).await;
    let found = all.iter().find(|it| it["message"] == first).unwrap();
    assert_eq!(
        (&found["reason"], &found["source"]["component"], &found["type"]),
        (&json!("SuccessfulRescale"), &json!("horizontal-pod-autoscaler"), &json!("Normal"))
    );
    it.advance(Duration::from_secs(30)).await;
    annotate(&it, AUTOSCALERS, "default/web", LOAD, "100m").await;
    it.advance(Duration::from_secs(240)).await;
    let waiting = it.get(AUTOSCALERS, "default/web").unwrap();
    assert_eq!(
        words(&waiting, "AbleToScale"),
        [
            "True",
            "ScaleDownStabilized",
            "recent recommendations were higher than current one, applying the highest recent \
            recommendation"
        ]
    );
    assert!(has_replicas(8)(&it.get(DEPLOYMENTS, "default/web").unwrap()));
    it.advance(Duration::from_secs(100)).await;
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(2)).await;
    it.until(EVENTS, |all| event(all, "New size: 2; reason: All metrics below target")).await;
    let calm = it.until_one(AUTOSCALERS, "default/web", |it| it["status"]["currentReplicas"] == 2).await;
    assert_eq!(words(&calm, "AbleToScale")[1], "ReadyForNewScale");
    assert!(calm["status"]["lastScaleTime"].is_string());
}

#[tokio::test(start_paused = true)]
async fn the_usage_of_a_pod_is_an_annotation_and_the_maximum_is_a_limit() {
    let it = TestCluster::with(Settings::default()).await;
    it.add(deployment("web", 1, json!({ USAGE: "80m" }))).await;
    let metric = json!([{ "type": "Resource", "resource": { "name": "cpu",
        "target": { "type": "AverageValue", "averageValue": "20m" } } }]);
    it.add(autoscaler(3, json!({ "metrics": metric }))).await;
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(3)).await;
    let limited = it
        .until_one(AUTOSCALERS, "default/web", |it| {
            it["status"]["currentReplicas"] == 3 && words(it, "ScalingLimited")[0] == "True"
        })
        .await;
    assert_eq!(
        words(&limited, "ScalingLimited"),
        ["True", "TooManyReplicas", "the desired replica count is more than the maximum replica count"]
    );
    let resource = &limited["status"]["currentMetrics"][0]["resource"];
    assert_eq!(resource["current"], json!({ "averageValue": "80m" }));
    // The maximum holds at once, without metrics.
    it.change(AUTOSCALERS, "default/web", |it| it["spec"]["maxReplicas"] = 2.into()).await;
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(2)).await;
    let message = "New size: 2; reason: Current number of replicas above Spec.MaxReplicas";
    it.until(EVENTS, |all| all.iter().any(|it| it["message"] == message)).await;
    it.until(PODS, |all| all.len() == 2).await;
    for pod in it.all(PODS) {
        let key = format!("default/{}", pod["metadata"]["name"].as_str().unwrap());
        annotate(&it, PODS, &key, USAGE, "much").await;
    }
    let invalid =
        it.until_one(AUTOSCALERS, "default/web", |it| words(it, "ScalingActive")[0] == "False").await;
    let [_, reason, message] = words(&invalid, "ScalingActive");
    assert_eq!(reason, "FailedGetResourceMetric");
    assert!(message.contains("cpu-usage of web-") && message.contains("\"much\""), "{message}");
}

#[tokio::test(start_paused = true)]
async fn the_minimum_holds_and_a_target_without_replicas_is_left_alone() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(deployment("web", 1, json!({}))).await;
    it.add(autoscaler(9, json!({ "minReplicas": 3 }))).await;
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(3)).await;
    let message = "New size: 3; reason: Current number of replicas below Spec.MinReplicas";
    it.until(EVENTS, |all| all.iter().any(|it| it["message"] == message)).await;
    it.change(DEPLOYMENTS, "default/web", |it| it["spec"]["replicas"] = 0.into()).await;
    let disabled = it
        .until_one(AUTOSCALERS, "default/web", |it| words(it, "ScalingActive")[1] == "ScalingDisabled")
        .await;
    assert_eq!(
        words(&disabled, "ScalingActive")[2],
        "scaling is disabled since the replica count of the target is zero"
    );
    it.advance(Duration::from_secs(120)).await;
    assert_eq!(it.get(DEPLOYMENTS, "default/web").unwrap()["spec"]["replicas"], 0);
}

#[tokio::test(start_paused = true)]
async fn policies_limit_the_speed_and_windows_of_zero_scale_at_once() {
    let it = TestCluster::with(Settings::instant()).await;
    let behavior = json!({
        "scaleUp": { "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 60 }] },
        "scaleDown": { "stabilizationWindowSeconds": 0,
            "policies": [{ "type": "Percent", "value": 100, "periodSeconds": 15 }] } });
    it.add(deployment("web", 2, json!({}))).await;
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(2)).await;
    let mut wanted = autoscaler(10, json!({ "behavior": behavior }));
    wanted["metadata"]["annotations"] = json!({ LOAD: "400m" });
    it.add(wanted).await;
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(3)).await;
    let start = tokio::time::Instant::now();
    let limited =
        it.until_one(AUTOSCALERS, "default/web", |it| words(it, "ScalingLimited")[1] == "ScaleUpLimit").await;
    assert_eq!(
        words(&limited, "ScalingLimited")[2],
        "the desired replica count is increasing faster than the maximum scale rate"
    );
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(4)).await;
    let elapsed = start.elapsed().as_secs();
    assert!((55..=80).contains(&elapsed), "one pod a minute: {elapsed} s");
    annotate(&it, AUTOSCALERS, "default/web", LOAD, "10m").await;
    let start = tokio::time::Instant::now();
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(1)).await;
    assert!(start.elapsed() <= Duration::from_secs(16), "without a window");
}

#[tokio::test(start_paused = true)]
async fn metrics_that_nothing_serves_are_reported_and_not_ignored() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(deployment("web", 2, json!({}))).await;
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(2)).await;
    let hits = json!({ "type": "Pods", "pods": { "metric": { "name": "hits" },
        "target": { "type": "AverageValue", "averageValue": "5" } } });
    it.add(autoscaler(10, json!({ "metrics": [hits] }))).await;
    let failed =
        it.until_one(AUTOSCALERS, "default/web", |it| words(it, "ScalingActive")[0] == "False").await;
    assert_eq!(
        words(&failed, "ScalingActive"),
        [
            "False",
            "FailedGetPodsMetric",
            "the HPA was unable to compute the replica count: unable to get metric hits: unable to fetch \
            metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
        ]
    );
    it.advance(Duration::from_secs(300)).await;
    let of = |reason: &str| it.all(EVENTS).iter().filter(|it| it["reason"] == reason).count();
    assert_eq!((of("FailedGetPodsMetric"), of("FailedComputeMetricsReplicas")), (1, 1), "recorded once");
    assert_eq!(it.get(DEPLOYMENTS, "default/web").unwrap()["spec"]["replicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_cannot_be_scaled_is_reported() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(autoscaler(10, json!({}))).await;
    let able = |it: &Value| words(it, "AbleToScale").map(str::to_owned);
    let missing = it.until_one(AUTOSCALERS, "default/web", |it| able(it)[0] == "False").await;
    let message = "the HPA controller was unable to get the target's current scale: deployments.apps \
        \"web\" not found";
    assert_eq!(able(&missing), ["False", "FailedGetScale", message]);
    let unknown = json!({ "apiVersion": "example.com/v1", "kind": "Robot", "name": "r" });
    it.change(AUTOSCALERS, "default/web", |it| it["spec"]["scaleTargetRef"] = unknown.clone()).await;
    let message = "the HPA controller was unable to get the target's current scale: no matches for kind \
        \"Robot\" in group \"example.com\"";
    it.until_one(AUTOSCALERS, "default/web", |it| able(it)[2] == message).await;
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    it.change(AUTOSCALERS, "default/web", |it| it["spec"]["scaleTargetRef"] = target.clone()).await;
    it.add(deployment("web", 2, json!({}))).await;
    it.until_one(AUTOSCALERS, "default/web", |it| able(it)[1] == "ReadyForNewScale").await;
    let refused =
        it.server.faults().rule(Rule::on("update").resource("deployments").part("scale").refuse(403));
    annotate(&it, AUTOSCALERS, "default/web", LOAD, "1").await;
    it.until_one(AUTOSCALERS, "default/web", |it| able(it)[1] == "FailedUpdateScale").await;
    refused.remove();
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(10)).await;
}

#[tokio::test(start_paused = true)]
async fn two_autoscalers_of_the_same_pods_do_not_work_against_each_other() {
    let it = TestCluster::with(Settings::instant()).await;
    it.add(deployment("web", 2, json!({}))).await;
    it.until_one(DEPLOYMENTS, "default/web", has_replicas(2)).await;
    it.add(autoscaler(10, json!({}))).await;
    let mut other = autoscaler(10, json!({}));
    other["metadata"]["name"] = "other".into();
    it.add(other).await;
    for key in ["default/web", "default/other"] {
        let found =
            it.until_one(AUTOSCALERS, key, |it| words(it, "ScalingActive")[1] == "AmbiguousSelector").await;
        assert_eq!(
            words(&found, "ScalingActive")[2],
            "pods by selector app=web are controlled by multiple HPAs: [default/other default/web]"
        );
    }
    it.delete(AUTOSCALERS, "default/other", DeleteParams::default()).await;
    it.until_one(AUTOSCALERS, "default/web", |it| words(it, "ScalingActive")[1] == "ValidMetricFound").await;
}

#[tokio::test(start_paused = true)]
async fn replication_controllers_and_custom_resources_can_be_targets() {
    let it = TestCluster::with(Settings::instant()).await;
    let template = deployment("old", 1, json!({}))["spec"]["template"].clone();
    it.add(json!({ "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": { "name": "old", "namespace": "default" },
        "spec": { "replicas": 1, "selector": { "app": "old" }, "template": template } }))
        .await;
    let mut wanted = autoscaler(5, json!({}));
    wanted["metadata"] = json!({ "name": "old", "namespace": "default", "annotations": { LOAD: "200m" } });
    wanted["spec"]["scaleTargetRef"] =
        json!({ "apiVersion": "v1", "kind": "ReplicationController", "name": "old" });
    it.add(wanted).await;
    let replicas = |it: &Value| it["spec"]["replicas"] == 4;
    it.until_one(("v1", "ReplicationController"), "default/old", replicas).await;
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    it.add(json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "robots.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "robots", "singular": "robot", "kind": "Robot", "listKind": "RobotList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema,
                "subresources": { "status": {}, "scale": { "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector" } } }] } }))
        .await;
    let robots: Kind = ("example.com/v1", "Robot");
    it.until_one(("apiextensions.k8s.io/v1", "CustomResourceDefinition"), "robots.example.com", |it| {
        condition(it, "Established")["status"] == "True"
    })
    .await;
    it.add(json!({ "apiVersion": "example.com/v1", "kind": "Robot",
        "metadata": { "name": "r", "namespace": "default" }, "spec": { "replicas": 1 } }))
        .await;
    let mut wanted = autoscaler(5, json!({ "minReplicas": 2 }));
    wanted["metadata"]["name"] = "robot".into();
    wanted["spec"]["scaleTargetRef"] =
        json!({ "apiVersion": "example.com/v1", "kind": "Robot", "name": "r" });
    it.add(wanted).await;
    it.until_one(robots, "default/r", |it| it["spec"]["replicas"] == 2).await;
    // Its selector is not set yet.
    let found = it
        .until_one(AUTOSCALERS, "default/robot", |it| words(it, "ScalingActive")[1] == "InvalidSelector")
        .await;
    assert_eq!(words(&found, "ScalingActive")[2], "the HPA target's scale is missing a selector");
}

/// The cost of an autoscaler that has nothing to do does not depend on the pods of others.
#[tokio::test(start_paused = true)]
async fn an_autoscaler_that_has_nothing_to_do_only_reads_the_scale_of_its_target() {
    for others in [1, 30] {
        let it = TestCluster::with(Settings::instant()).await;
        it.add(deployment("other", others, json!({}))).await;
        it.until_one(DEPLOYMENTS, "default/other", has_replicas(others)).await;
        it.add(deployment("web", 2, json!({}))).await;
        it.add(autoscaler(10, json!({}))).await;
        it.until_one(AUTOSCALERS, "default/web", |it| words(it, "ScalingActive")[0] == "True").await;
        it.advance(Duration::from_secs(60)).await;
        it.server.request_log().clear();
        it.advance(Duration::from_secs(150)).await;
        let scales = it.server.requests().resource("deployments").part("scale");
        assert_eq!(scales.count(), 10, "one read at each evaluation");
        let writes =
            it.server.requests().filter(|it| matches!(&*it.verb, "create" | "update" | "patch" | "delete"));
        assert_eq!(writes.count(), 0, "{writes:?}");
    }
}
