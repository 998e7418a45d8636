//! Defaults of the kinds that run pods: the group `apps`, jobs and cron jobs.

use serde_json::{Map, Value};

use super::pod::template;
use super::storage::claim as claim_defaults;
use crate::kinds::json_access::{each, fill, object, object_if_present};

type Object = Map<String, Value>;

/// Sets the defaults of a kind of the group `apps`.
pub(super) fn apps(kind: &str, map: &mut Object) {
    match kind {
        "Deployment" => deployment(map),
        "ReplicaSet" => {
            let spec = object(map, "spec");
            fill(spec, "replicas", 1);
            with_template(spec);
        }
        "StatefulSet" => stateful_set(map),
        "DaemonSet" => daemon_set(map),
        _ => {}
    }
}

fn with_template(spec: &mut Object) {
    template(object(spec, "template"));
}

fn deployment(map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    let strategy = object(spec, "strategy");
    fill(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        let rolling = object(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", "25%");
        fill(rolling, "maxSurge", "25%");
    }
    with_template(spec);
}

fn daemon_set(map: &mut Object) {
    // kube-apiserver has an internal field for it that is serialized as this annotation
    // (k8s.io/kubernetes v1.36.4 pkg/apis/apps/v1/conversion.go), so that an unset one is 0.
    fill(object(object(map, "metadata"), "annotations"), "deprecated.daemonset.template.generation", "0");
    let spec = object(map, "spec");
    fill(spec, "revisionHistoryLimit", 10);
    let strategy = object(spec, "updateStrategy");
    fill(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        let rolling = object(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", 1);
        fill(rolling, "maxSurge", 0);
    }
    with_template(spec);
}

fn stateful_set(map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "podManagementPolicy", "OrderedReady");
    let strategy = object(spec, "updateStrategy");
    if strategy.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
        fill(strategy, "type", "RollingUpdate");
        object(strategy, "rollingUpdate");
    }
    let rolls = strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate");
    if let Some(rolling) = object_if_present(strategy, "rollingUpdate").filter(|_| rolls) {
        fill(rolling, "partition", 0);
    }
    let retention = object(spec, "persistentVolumeClaimRetentionPolicy");
    fill(retention, "whenDeleted", "Retain");
    fill(retention, "whenScaled", "Retain");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    for claim in each(spec, "volumeClaimTemplates") {
        fill(claim, "kind", "PersistentVolumeClaim");
        fill(claim, "apiVersion", "v1");
        object(claim, "metadata");
        claim_defaults(claim);
    }
    with_template(spec);
}

/// Sets the defaults of a job.
pub(super) fn job(map: &mut Object) {
    let labels = map.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty())) {
        object(map, "metadata").entry("labels").or_insert(labels);
    }
    let spec = object(map, "spec");
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let limit = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    fill(spec, "backoffLimit", limit);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    fill(spec, "podReplacementPolicy", replacement);
    failure_policy(spec);
    template(object(spec, "template"));
}

fn failure_policy(spec: &mut Object) {
    let Some(policy) = object_if_present(spec, "podFailurePolicy") else { return };
    for rule in each(policy, "rules") {
        for pattern in each(rule, "onPodConditions") {
            fill(pattern, "status", "True");
        }
    }
}

/// Sets the defaults of a cron job. Its jobs get their own defaults when they are created, except
/// for those of the pod template.
pub(super) fn cron_job(map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
    let job = object(spec, "jobTemplate");
    let job = object(job, "spec");
    failure_policy(job);
    template(object(job, "template"));
}
