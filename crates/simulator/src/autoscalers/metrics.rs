//! The metrics of an autoscaler: the number of replicas that each of them asks for, and its value.
//! Metrics that an adapter would serve fail as they do in a cluster without one.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::limits::tolerances;
use super::proposal::{Metric, Proposal, Target};
use super::usage::{Measured, of_pods};
use crate::json_access::{at, entries, items, number, text};
use crate::object::Pod;
use crate::quantity::{parse, written};

/// The facts by which the metrics of an autoscaler are evaluated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) autoscaler: &'a Value,
    pub(super) pods: &'a [&'a Pod],
    /// The number of replicas that the target should have now.
    pub(super) current: i64,
    pub(super) now: Timestamp,
}

/// A metric that asks for a number of replicas.
#[derive(Debug, PartialEq)]
pub(super) struct Evaluated {
    pub(super) replicas: i64,
    /// The name in messages.
    pub(super) name: String,
    /// The value, as the status has it.
    pub(super) status: Value,
}

/// A metric that cannot be evaluated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The reason, of the condition and of the event.
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// The message with its metric, for the summary of all.
    pub(super) summary: String,
}

/// Evaluates a metric, as `computeReplicasForMetric` in k8s.io/kubernetes v1.36.4
/// pkg/controller/podautoscaler/horizontal.go does.
pub(super) fn evaluate(metric: &Value, observed: Observed<'_>) -> Result<Evaluated, Failure> {
    let namespace = text(observed.autoscaler, "/metadata/namespace");
    let failure = |reason: &'static str, subject: String, message: String| {
        let summary = format!("failed to get {subject} metric value: {message}");
        Failure { reason, message, summary }
    };
    match text(metric, "/type") {
        "Resource" => {
            let name = text(metric, "/resource/name");
            of_resource(&metric["resource"], None, observed)
                .map(|(replicas, metric_name, current)| Evaluated {
                    replicas,
                    name: metric_name,
                    status: json!({ "type": "Resource", "resource": { "name": name, "current": current } }),
                })
                .map_err(|it| failure("FailedGetResourceMetric", format!("{name} resource"), it))
        }
        "ContainerResource" => {
            let (name, container) =
                (text(metric, "/containerResource/name"), text(metric, "/containerResource/container"));
            of_resource(&metric["containerResource"], Some(container), observed)
                .map(|(replicas, metric_name, current)| Evaluated {
                    replicas,
                    name: metric_name,
                    status: json!({ "type": "ContainerResource", "containerResource": {
                        "name": name, "container": container, "current": current } }),
                })
                .map_err(|it| {
                    failure("FailedGetContainerResourceMetric", format!("{container} container"), it)
                })
        }
        "Pods" => {
            let message = no_custom_metrics(&format!("metric {}", text(metric, "/pods/metric/name")));
            Err(failure("FailedGetPodsMetric", "pods".to_owned(), message))
        }
        "Object" => Err(failure("FailedGetObjectMetric", "object".to_owned(), of_object(metric, namespace))),
        "External" => {
            let subject = format!("{} external", text(metric, "/external/metric/name"));
            Err(failure("FailedGetExternalMetric", subject, of_external(metric, namespace)))
        }
        other => {
            let message = format!("unknown metric source type {other:?}");
            Err(Failure { reason: "InvalidMetricSourceType", summary: message.clone(), message })
        }
    }
}

/// Returns the number of replicas for a resource of pods or containers, the name of the metric, and
/// its value.
fn of_resource(
    source: &Value,
    container: Option<&str>,
    observed: Observed<'_>,
) -> Result<(i64, String, Value), String> {
    let measured = Measured { resource: text(source, "/name"), container };
    let resource = measured.resource;
    let average = text(source, "/target/averageValue");
    let (target, kind) = match (average, number(source, "/target/averageUtilization")) {
        ("", Some(percent)) => (Target::Utilization(percent), "utilization"),
        ("", None) => {
            return Err("invalid resource metric source: neither an average utilization target nor an \
                average value (usage) target was set"
                .to_owned());
        }
        (average, _) => (Target::AverageValue(parse(average).unwrap_or(0)), "usage"),
    };
    let metric = Metric {
        measured,
        target,
        tolerances: tolerances(&observed.autoscaler["spec"]),
        current: observed.current,
    };
    let failed = |it: String| format!("failed to get {resource} {kind}: {it}");
    let unavailable = |it: String| failed(format!("unable to get metrics for resource {resource}: {it}"));
    let uses = of_pods(observed.autoscaler, observed.pods, measured).map_err(unavailable)?;
    let Proposal { replicas, utilization, average } = metric.propose(&uses, observed.now).map_err(failed)?;
    let mut current = json!({ "averageValue": written(average) });
    let name = match utilization {
        Some(percent) => {
            current["averageUtilization"] = percent.into();
            format!("{resource} resource utilization (percentage of request)")
        }
        None => format!("{resource} resource"),
    };
    Ok((replicas, name, current))
}

fn no_custom_metrics(of: &str) -> String {
    format!(
        "unable to get {of}: unable to fetch metrics from custom metrics API: no custom metrics API \
        (custom.metrics.k8s.io) registered"
    )
}

fn of_object(metric: &Value, namespace: &str) -> String {
    let (name, described) = (text(metric, "/object/metric/name"), &metric["object"]["describedObject"]);
    let (kind, object) = (text(described, "/kind"), text(described, "/name"));
    let missing = "unable to fetch metrics from custom metrics API: no custom metrics API \
        (custom.metrics.k8s.io) registered";
    // The error and the name stand in this order in kube-controller-manager.
    let message = format!("unable to get metric {name}: {kind} on {namespace} {object}/{missing}");
    match text(metric, "/object/target/averageValue") {
        "" => message,
        _ => format!("failed to get {name} object metric: {message}"),
    }
}

fn of_external(metric: &Value, namespace: &str) -> String {
    let name = text(metric, "/external/metric/name");
    let selector = at(metric, "/external/metric/selector").map_or("nil".to_owned(), go_selector);
    let message = format!(
        "unable to get external metric {namespace}/{name}/{selector}: unable to fetch metrics from \
        external metrics API: the server could not find the requested resource \
        (get {name}.external.metrics.k8s.io)"
    );
    match text(metric, "/external/target/averageValue") {
        "" => format!("failed to get external metric {name}: {message}"),
        _ => format!("failed to get {name} external metric: {message}"),
    }
}

/// Returns a selector as Go formats it.
fn go_selector(selector: &Value) -> String {
    let mut labels: Vec<String> = entries(selector, "/matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    labels.sort();
    let terms: String = items(selector, "/matchExpressions")
        .iter()
        .map(|it| {
            let values: Vec<&str> = items(it, "/values").iter().filter_map(Value::as_str).collect();
            let (key, operator) = (text(it, "/key"), text(it, "/operator"));
            let values = values.join(" ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    let labels = labels.concat();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
        MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(metric: Value) -> Result<Evaluated, Failure> {
        let pod = Pod::from(json!({ "metadata": { "name": "p" },
            "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] },
            "status": { "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } }));
        let autoscaler = json!({ "metadata": { "name": "web", "namespace": "n" }, "spec": {} });
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let observed = Observed { autoscaler: &autoscaler, pods: &[&pod], current: 1, now };
        evaluate(&metric, observed)
    }

    #[test]
    fn a_resource_has_a_name_and_a_value_for_each_target() {
        let resource =
            |target: Value| json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
        let found = evaluated(resource(json!({ "averageUtilization": 20 }))).unwrap();
        assert_eq!((found.replicas, &*found.name), (3, "cpu resource utilization (percentage of request)"));
        assert_eq!(
            found.status["resource"]["current"],
            json!({ "averageUtilization": 50, "averageValue": "500m" })
        );
        let found = evaluated(resource(json!({ "averageValue": "100m" }))).unwrap();
        assert_eq!((found.replicas, &*found.name), (5, "cpu resource"));
        assert_eq!(found.status["resource"]["current"], json!({ "averageValue": "500m" }));
        let failure = evaluated(resource(json!({}))).unwrap_err();
        assert!(failure.message.starts_with("invalid resource metric source"), "{failure:?}");
        let container = json!({ "type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": "c", "target": { "averageUtilization": 50 } } });
        let found = evaluated(container.clone()).unwrap();
        assert_eq!((found.replicas, &found.status["containerResource"]["container"]), (1, &json!("c")));
        let mut other = container;
        other["containerResource"]["container"] = "d".into();
        let failure = evaluated(other).unwrap_err();
        assert_eq!(failure.reason, "FailedGetContainerResourceMetric");
        assert_eq!(
            failure.summary,
            "failed to get d container metric value: failed to get cpu utilization: unable to get metrics \
            for resource cpu: container d not present in metrics for pod /p"
        );
    }

    #[test]
    fn metrics_of_other_apis_fail_with_the_messages_of_a_cluster_without_them() {
        for (metric, reason, expected) in [
            (
                json!({ "type": "Pods", "pods": { "metric": { "name": "hits" } } }),
                "FailedGetPodsMetric",
                "failed to get pods metric value: unable to get metric hits: unable to fetch metrics from \
                custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
            ),
            (
                json!({ "type": "Object", "object": { "metric": { "name": "hits" },
                    "describedObject": { "kind": "Ingress", "name": "main" } } }),
                "FailedGetObjectMetric",
                "failed to get object metric value: unable to get metric hits: Ingress on n main/unable to \
                fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) \
                registered",
            ),
            (
                json!({ "type": "External", "external": { "metric": { "name": "jobs",
                    "selector": { "matchLabels": { "queue": "a" } } }, "target": { "averageValue": "3" } } }),
                "FailedGetExternalMetric",
                "failed to get jobs external metric value: failed to get jobs external metric: unable to \
                get external metric n/jobs/&LabelSelector{MatchLabels:map[string]string{queue: a,},\
                MatchExpressions:[]LabelSelectorRequirement{},}: unable to fetch metrics from external \
                metrics API: the server could not find the requested resource \
                (get jobs.external.metrics.k8s.io)",
            ),
            (json!({ "type": "Odd" }), "InvalidMetricSourceType", "unknown metric source type \"Odd\""),
        ] {
            let failure = evaluated(metric).unwrap_err();
            assert_eq!((failure.reason, &*failure.summary), (reason, expected));
        }
    }
}
