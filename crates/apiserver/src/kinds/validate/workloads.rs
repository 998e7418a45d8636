//! Validation of the kinds that run pods: the group `apps`, replication controllers, jobs and cron
//! jobs.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Value, json};

use super::check::{
    FieldErrors, at_most_100_percent, forbidden, immutable, invalid, invalid_string, not_negative,
    number_or_percent, one_of, required, unsupported,
};
use super::{cron, pod, selector};
use crate::kinds::json_access::{at, entries, flag, items, number, text};
use crate::kinds::names;
use crate::{FieldError, FieldErrorKind};

const UNMATCHED: &str = "`selector` does not match template `labels`";
const FIXED_STATEFUL_SET: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

/// Validates a new object of one of these kinds.
pub(super) fn create(out: &mut FieldErrors, kind: &str, object: &Value) {
    let spec = &object["spec"];
    match kind {
        "Deployment" => deployment(out, spec),
        "ReplicaSet" => {
            not_negative(out, spec, "/replicas", "spec.replicas");
            not_negative(out, spec, "/minReadySeconds", "spec.minReadySeconds");
            selected_template(out, spec, "deployment", true);
        }
        "StatefulSet" => stateful_set(out, spec),
        "DaemonSet" => daemon_set(out, spec),
        "ReplicationController" => replication_controller(out, spec),
        "Job" => job(out, object),
        "CronJob" => {
            cron_job_name(out, object);
            cron_job(out, object);
        }
        "ControllerRevision" => match object.get("data") {
            None | Some(Value::Null) => required(out, "data", "data is mandatory"),
            Some(Value::Object(_)) => {}
            Some(_) => required(out, "data", "data must be a valid JSON object"),
        },
        _ => {}
    }
}

/// Validates the new state of an object of one of these kinds.
pub(super) fn update(out: &mut FieldErrors, kind: &str, new: &Value, old: &Value) {
    if kind == "ControllerRevision" {
        not_negative(out, new, "/revision", "revision");
        if new.get("data") != old.get("data") {
            invalid(out, "data", &new["data"], "field is immutable");
        }
        return;
    }
    match kind {
        // kube-apiserver does not check the length of the name again, for CronJobs that are older
        // than the limit.
        "CronJob" => cron_job(out, new),
        _ => create(out, kind, new),
    }
    match kind {
        "Deployment" | "ReplicaSet" | "DaemonSet" => fixed_selector(out, new, old),
        "StatefulSet" => {
            let fixed = |object: &Value| -> Vec<(String, Value)> {
                let free = [
                    "replicas",
                    "ordinals",
                    "template",
                    "updateStrategy",
                    "revisionHistoryLimit",
                    "persistentVolumeClaimRetentionPolicy",
                    "minReadySeconds",
                ];
                entries(object, "/spec")
                    .filter(|(key, _)| !free.contains(key))
                    .map(|(key, value)| (key.to_owned(), value.clone()))
                    .collect()
            };
            if fixed(new) != fixed(old) {
                forbidden(out, "spec", FIXED_STATEFUL_SET);
            }
        }
        "Job" => job_update(out, new, old),
        _ => {}
    }
}

fn fixed_selector(out: &mut FieldErrors, new: &Value, old: &Value) {
    if at(new, "/spec/selector") != at(old, "/spec/selector") {
        selector::invalid_selector(out, &new["spec"]["selector"], "spec.selector", "field is immutable");
    }
}

/// Validates a selector and the template that it must select.
fn selected_template(out: &mut FieldErrors, spec: &Value, of: &str, must_select: bool) {
    let labels = at(spec, "/template/metadata/labels");
    let template = match of {
        "statefulset" => stateful_template(spec),
        _ => Cow::Borrowed(&spec["template"]),
    };
    let mut right = true;
    match at(spec, "/selector") {
        None => {
            if must_select {
                required(out, "spec.selector", "");
            }
            right = false;
        }
        Some(chosen) => {
            let before = out.count();
            selector::check(out, chosen, "spec.selector");
            if out.count() > before {
                selector::invalid_selector(out, chosen, "spec.selector", "invalid label selector");
                return pod::template(out, &template, "spec.template");
            }
            if selector::is_empty(chosen) {
                selector::invalid_selector(
                    out,
                    chosen,
                    "spec.selector",
                    &format!("empty selector is invalid for {of}"),
                );
            } else {
                right = selector::selects(chosen, labels);
            }
        }
    }
    if !right {
        let shown = labels.cloned().unwrap_or_default();
        invalid(out, "spec.template.metadata.labels", &shown, UNMATCHED);
    }
    pod::template(out, &template, "spec.template");
    restart_policy_always(out, spec);
    if at(spec, "/template/spec/activeDeadlineSeconds").is_some() && of == "deployment" {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        forbidden(out, "spec.template.spec.activeDeadlineSeconds", detail);
    }
}

fn restart_policy_always(out: &mut FieldErrors, spec: &Value) {
    let policy = text(spec, "/template/spec/restartPolicy");
    if matches!(policy, "OnFailure" | "Never") {
        unsupported(out, "spec.template.spec.restartPolicy", &policy.into(), &["Always"]);
    }
}

/// Reports a problem with a value in kube-apiserver's notation.
fn report(out: &mut FieldErrors, kind: FieldErrorKind, field: &str, value: &str, detail: &str) {
    out.push(FieldError::with_value(field, kind, value, detail));
}

fn deployment(out: &mut FieldErrors, spec: &Value) {
    not_negative(out, spec, "/replicas", "spec.replicas");
    selected_template(out, spec, "deployment", true);
    let rolling = "/strategy/rollingUpdate";
    match text(spec, "/strategy/type") {
        "Recreate" if at(spec, rolling).is_some() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            forbidden(out, "spec.strategy.rollingUpdate", detail);
        }
        "Recreate" => {}
        "RollingUpdate" => rolling_deployment(out, spec),
        other => {
            let value = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            let detail = "supported values: \"Recreate\", \"RollingUpdate\"";
            report(out, FieldErrorKind::NotSupported, "spec.strategy", &value, detail);
        }
    }
    for key in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        not_negative(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
    let ready = number(spec, "/minReadySeconds").unwrap_or(0);
    if let Some(deadline) = number(spec, "/progressDeadlineSeconds").filter(|it| *it <= ready) {
        let detail = "must be greater than minReadySeconds";
        invalid(out, "spec.progressDeadlineSeconds", &deadline.into(), detail);
    }
}

fn rolling_deployment(out: &mut FieldErrors, spec: &Value) {
    let (pointer, field) = ("/strategy/rollingUpdate", "spec.strategy.rollingUpdate");
    for key in ["maxUnavailable", "maxSurge"] {
        number_or_percent(out, spec, &format!("{pointer}/{key}"), &format!("{field}.{key}"));
    }
    at_most_100_percent(out, spec, &format!("{pointer}/maxUnavailable"), &format!("{field}.maxUnavailable"));
    let none = |key: &str| is_zero(at(spec, &format!("{pointer}/{key}")));
    if none("maxUnavailable") && none("maxSurge") {
        let value = spec["strategy"]["rollingUpdate"]["maxUnavailable"].clone();
        invalid(out, &format!("{field}.maxUnavailable"), &value, "may not be 0 when `maxSurge` is 0");
    }
}

/// Returns true if a number or percentage is zero.
fn is_zero(value: Option<&Value>) -> bool {
    value.is_some_and(|value| value.as_i64() == Some(0) || value.as_str() == Some("0%"))
}

fn stateful_set(out: &mut FieldErrors, spec: &Value) {
    let policy = text(spec, "/podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        invalid(out, "spec.podManagementPolicy", &policy.into(), "must be 'OrderedReady' or 'Parallel'");
    }
    let rolling = at(spec, "/updateStrategy/rollingUpdate");
    match text(spec, "/updateStrategy/type") {
        "RollingUpdate" => {
            let field = "spec.updateStrategy.rollingUpdate.partition";
            not_negative(out, spec, "/updateStrategy/rollingUpdate/partition", field);
        }
        "OnDelete" => {
            if let Some(rolling) = rolling {
                let partition = number(rolling, "/partition").unwrap_or(0);
                let most = rolling.get("maxUnavailable").cloned().unwrap_or_default();
                let value = format!("{{\"Partition\":{partition},\"MaxUnavailable\":{most}}}");
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                report(out, FieldErrorKind::Invalid, "spec.updateStrategy.rollingUpdate", &value, detail);
            }
        }
        other => {
            let value = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            report(out, FieldErrorKind::Invalid, "spec.updateStrategy", &value, detail);
        }
    }
    for key in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        not_negative(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
    for key in ["whenDeleted", "whenScaled"] {
        let key = format!("persistentVolumeClaimRetentionPolicy/{key}");
        if at(spec, &format!("/{key}")).is_some() {
            let field = format!("spec.{}", key.replace('/', "."));
            one_of(out, spec, &format!("/{key}"), &field, &["Retain", "Delete"]);
        }
    }
    selected_template(out, spec, "statefulset", true);
}

/// Returns the template of a StatefulSet as its pods will be: with a volume for each claim
/// template, which replaces a volume of the same name, and without hostname and subdomain, which
/// the controller sets for each pod.
fn stateful_template(spec: &Value) -> Cow<'_, Value> {
    let template = &spec["template"];
    let claims = items(spec, "/volumeClaimTemplates");
    let replaced = ["hostname", "subdomain"].iter().any(|key| template["spec"].get(key).is_some());
    if claims.is_empty() && !replaced {
        return Cow::Borrowed(template);
    }
    let mut template = template.clone();
    if let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) {
        pod.remove("hostname");
        pod.remove("subdomain");
        let mut volumes: Vec<Value> = Vec::new();
        let mut names = HashSet::new();
        for claim in claims {
            let name = text(claim, "/metadata/name");
            if names.insert(name) {
                volumes.push(json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }));
            }
        }
        let own = pod.get("volumes").and_then(Value::as_array).into_iter().flatten();
        let replaced = |it: &Value| it["name"].as_str().is_some_and(|name| names.contains(name));
        let kept: Vec<_> = own.filter(|it| !replaced(it)).cloned().collect();
        volumes.extend(kept);
        pod.insert("volumes".to_owned(), volumes.into());
    }
    Cow::Owned(template)
}

fn daemon_set(out: &mut FieldErrors, spec: &Value) {
    selected_template(out, spec, "daemonset", false);
    for key in ["minReadySeconds", "revisionHistoryLimit"] {
        not_negative(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
    let (pointer, field) = ("/updateStrategy/rollingUpdate", "spec.updateStrategy.rollingUpdate");
    match text(spec, "/updateStrategy/type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            for key in ["maxUnavailable", "maxSurge"] {
                number_or_percent(out, spec, &format!("{pointer}/{key}"), &format!("{field}.{key}"));
                at_most_100_percent(out, spec, &format!("{pointer}/{key}"), &format!("{field}.{key}"));
            }
            let surge = at(spec, &format!("{pointer}/maxSurge"));
            match (is_zero(at(spec, &format!("{pointer}/maxUnavailable"))), is_zero(surge)) {
                (true, true) => {
                    required(out, &format!("{field}.maxUnavailable"), "cannot be 0 when maxSurge is 0")
                }
                (false, false) => {
                    let value = surge.cloned().unwrap_or_default();
                    let detail = "may not be set when maxUnavailable is non-zero";
                    invalid(out, &format!("{field}.maxSurge"), &value, detail);
                }
                _ => {}
            }
        }
        other => {
            let value = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            let detail = "supported values: \"RollingUpdate\", \"OnDelete\"";
            report(out, FieldErrorKind::NotSupported, "spec.updateStrategy", &value, detail);
        }
    }
}

fn replication_controller(out: &mut FieldErrors, spec: &Value) {
    not_negative(out, spec, "/minReadySeconds", "spec.minReadySeconds");
    let chosen = json!({"matchLabels": spec["selector"]});
    if selector::is_empty(&chosen) {
        required(out, "spec.selector", "");
    }
    not_negative(out, spec, "/replicas", "spec.replicas");
    let Some(template) = at(spec, "/template") else {
        return required(out, "spec.template", "");
    };
    let labels = at(template, "/metadata/labels");
    if !selector::is_empty(&chosen) && !selector::selects(&chosen, labels) {
        let value = labels.cloned().unwrap_or_default();
        invalid(out, "spec.template.metadata.labels", &value, UNMATCHED);
    }
    pod::template(out, template, "spec.template");
    restart_policy_always(out, spec);
}

fn job(out: &mut FieldErrors, job: &Value) {
    generated_selector(out, job);
    selected_job(out, &job["spec"]);
}

fn selected_job(out: &mut FieldErrors, spec: &Value) {
    job_spec(out, spec, "spec");
    let labels = at(spec, "/template/metadata/labels");
    match at(spec, "/selector") {
        None => required(out, "spec.selector", ""),
        Some(chosen) => selector::check(out, chosen, "spec.selector"),
    }
    if !at(spec, "/selector").is_some_and(|chosen| selector::selects(chosen, labels)) {
        let value = labels.cloned().unwrap_or_default();
        invalid(out, "spec.template.metadata.labels", &value, UNMATCHED);
    }
}

/// Checks that a job without a manual selector selects by its uid and nothing else.
fn generated_selector(out: &mut FieldErrors, job: &Value) {
    let Some(chosen) = at(job, "/spec/selector").filter(|_| !flag(job, "/spec/manualSelector")) else {
        return;
    };
    let uid = text(job, "/metadata/uid");
    let expected = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    let older = json!({"matchLabels": {"controller-uid": uid}});
    if *chosen != expected && *chosen != older {
        selector::invalid_selector(out, chosen, "spec.selector", "`selector` not auto-generated");
    }
}

fn job_spec(out: &mut FieldErrors, spec: &Value, field: &str) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(out, spec, &format!("/{key}"), &format!("{field}.{key}"));
    }
    if let Some(mode) = at(spec, "/completionMode") {
        one_of(out, spec, "/completionMode", &format!("{field}.completionMode"), &["NonIndexed", "Indexed"]);
        if mode == "Indexed" && at(spec, "/completions").is_none() {
            let detail = "when completion mode is Indexed";
            required(out, &format!("{field}.completions"), detail);
        }
    }
    failure_policy(out, spec, field);
    pod::template(out, &spec["template"], &format!("{field}.template"));
    match text(spec, "/template/spec/restartPolicy") {
        "Always" => {
            let detail = "valid values: \"OnFailure\", \"Never\"";
            required(out, &format!("{field}.template.spec.restartPolicy"), detail);
        }
        policy @ "OnFailure" if at(spec, "/podFailurePolicy").is_some() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            invalid(out, &format!("{field}.template.spec.restartPolicy"), &policy.into(), detail);
        }
        "OnFailure" | "Never" => {}
        other => {
            let field = format!("{field}.template.spec.restartPolicy");
            unsupported(out, &field, &other.into(), &["OnFailure", "Never"]);
        }
    }
}

fn failure_policy(out: &mut FieldErrors, spec: &Value, field: &str) {
    for (index, rule) in items(spec, "/podFailurePolicy/rules").iter().enumerate() {
        let path = format!("{field}.podFailurePolicy.rules[{index}]");
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        let action = text(rule, "/action");
        match action {
            "" => {
                let detail = r#"valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#;
                required(out, &format!("{path}.action"), detail);
            }
            "FailIndex" if at(spec, "/backoffLimitPerIndex").is_none() => {
                let detail = "requires the backoffLimitPerIndex to be set";
                invalid(out, &format!("{path}.action"), &action.into(), detail);
            }
            _ => one_of(out, rule, "/action", &format!("{path}.action"), &actions),
        }
        let conditions = items(rule, "/onPodConditions");
        for (index, condition) in conditions.iter().enumerate() {
            let path = format!("{path}.onPodConditions[{index}]");
            let kind = text(condition, "/type");
            invalid_string(out, &format!("{path}.type"), kind, names::qualified(kind));
            match text(condition, "/status") {
                "" => {
                    let detail = r#"valid values: ["False" "True" "Unknown"]"#;
                    required(out, &format!("{path}.status"), detail);
                }
                _ => {
                    let known = ["False", "True", "Unknown"];
                    one_of(out, condition, "/status", &format!("{path}.status"), &known);
                }
            }
        }
        let detail = match (at(rule, "/onExitCodes").is_some(), conditions.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        out.push(FieldError::new(path, FieldErrorKind::Invalid, detail));
    }
}

fn job_update(out: &mut FieldErrors, new: &Value, old: &Value) {
    // kube-apiserver validates the spec twice, and reports its problems twice.
    selected_job(out, &new["spec"]);
    let elastic = text(new, "/spec/completionMode") == "Indexed"
        && number(new, "/spec/completions") == number(new, "/spec/parallelism");
    if !elastic {
        immutable(out, new, old, "/spec/completions", "spec.completions");
    }
    fixed_selector(out, new, old);
    let suspended = flag(old, "/spec/suspend") && at(old, "/status/startTime").is_none();
    if !suspended {
        immutable(out, new, old, "/spec/template", "spec.template");
    }
    for key in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(out, new, old, &format!("/spec/{key}"), &format!("spec.{key}"));
    }
}

fn cron_job_name(out: &mut FieldErrors, object: &Value) {
    let name = text(object, "/metadata/name");
    // The controller appends 11 characters, a hyphen and a timestamp, to make the name of a job,
    // which is limited to 63 (k8s.io/kubernetes v1.36.4 pkg/apis/batch/validation/validation.go).
    if name.len() > 52 {
        invalid(out, "metadata.name", &name.into(), "must be no more than 52 characters");
    }
}

fn cron_job(out: &mut FieldErrors, object: &Value) {
    let spec = &object["spec"];
    cron::schedule(out, spec);
    not_negative(out, spec, "/startingDeadlineSeconds", "spec.startingDeadlineSeconds");
    one_of(out, spec, "/concurrencyPolicy", "spec.concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
    job_spec(out, &spec["jobTemplate"]["spec"], "spec.jobTemplate.spec");
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        not_negative(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stateful_set(mount: &str, volumes: &Value) -> Value {
        json!({ "spec": { "serviceName": "s", "podManagementPolicy": "OrderedReady",
            "updateStrategy": { "type": "RollingUpdate" }, "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "a" } }, "spec": {
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
                "hostname": "NOT A LABEL", "volumes": volumes,
                "containers": [{ "name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
                    "volumeMounts": [{ "name": mount, "mountPath": "/data" }] }] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } } } }] } })
    }

    fn problems(object: &Value) -> Vec<String> {
        let mut out = FieldErrors::default();
        create(&mut out, "StatefulSet", object);
        out.iter().map(|it| it.to_string()).collect()
    }

    #[test]
    fn the_length_of_the_name_of_a_cron_job_is_checked_on_creation_only() {
        let job = json!({ "metadata": { "name": "c".repeat(53) }, "spec": { "schedule": "* * * * *" } });
        let limit = |out: &FieldErrors| out.iter().any(|it| it.to_string().contains("52 characters"));
        let mut out = FieldErrors::default();
        create(&mut out, "CronJob", &job);
        assert!(limit(&out), "{out:?}");
        let mut out = FieldErrors::default();
        update(&mut out, "CronJob", &job, &job);
        assert!(!limit(&out), "{out:?}");
    }

    #[test]
    fn a_claim_template_is_a_volume_of_the_pods_of_a_stateful_set() {
        assert_eq!(problems(&stateful_set("data", &json!([]))), [""; 0]);
        let own = json!([{ "name": "data", "emptyDir": {} }, { "name": "other", "emptyDir": {} }]);
        assert_eq!(problems(&stateful_set("data", &own)), [""; 0], "the claim replaces the volume");
        assert_eq!(problems(&stateful_set("other", &own)), [""; 0]);
        let wrong = problems(&stateful_set("dta", &own));
        let expected = r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "dta""#;
        assert_eq!(wrong, [expected]);
        let mut bad = stateful_set("data", &json!([]));
        bad["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] = "Data".into();
        let wrong = problems(&bad);
        assert!(wrong.iter().any(|it| it.starts_with("spec.template.spec.volumes[0].name: ")), "{wrong:?}");
    }
}
