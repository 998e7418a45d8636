//! Jobs.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::core::pod::defaults;
use crate::kinds::core::pod::template::{UNMATCHED, template};
use crate::kinds::fields::{Field, SelectableFields};
use crate::kinds::json_access::{
    Object, at, each, fill, flag, items, number, object, object_if_present, text,
};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::validate::check::{
    FieldErrors, immutable, invalid, invalid_string, not_negative, one_of, required, unsupported,
};
use crate::kinds::validate::selector;
use crate::kinds::validate::status::counts;
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind Job.
pub(crate) static RULES: KindRules = KindRules {
    group: "batch",
    kind: "Job",
    plural: "jobs",
    traits: KindTraits {
        has_generation: true,
        orphans_by_default: true,
        has_status: true,
        ..KindTraits::COMMON
    },
    default: defaults,
    prepare_create: |job, _, _| {
        generate_job_selector(job);
        Ok(())
    },
    prepare_status: |job, _| {
        job.as_object_mut().into_iter().for_each(defaults::default_labels);
    },
    validate_create: job,
    validate_update: Some(|out, new, old| {
        job(out, new);
        job_update(out, new, old);
    }),
    validate_status: |out, object, _| counts(out, object, &["active", "succeeded", "failed"], &[]),
    pod_spec: Some("/spec/template/spec"),
    deletion_warning: Some(JOB_WARNING),
    fields: SelectableFields {
        unknown: |label| format!("field label {label:?} not supported for Job"),
        ..SelectableFields::of(&[Field::number("status.successful", "/status/succeeded")])
    },
    cells,
    ..COMMON
};

const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
     remove them or set propagationPolicy=Orphan to suppress this warning";

/// Sets the defaults of a job.
fn defaults(_: &str, map: &mut Object) {
    defaults::default_labels(map);
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
    default_failure_policy(spec);
    defaults::template(object(spec, "template"));
}

/// Sets the defaults of the pod failure policy of a job.
pub(super) fn default_failure_policy(spec: &mut Object) {
    let Some(policy) = object_if_present(spec, "podFailurePolicy") else { return };
    for rule in each(policy, "rules") {
        for pattern in each(rule, "onPodConditions") {
            fill(pattern, "status", "True");
        }
    }
}

/// Makes a job select its pods by its uid, unless `manualSelector` is set (k8s.io/kubernetes
/// v1.36.4 pkg/registry/batch/job/strategy.go).
fn generate_job_selector(job: &mut Value) {
    if flag(job, "/spec/manualSelector") {
        return;
    }
    let name = text(job, "/metadata/name").to_owned();
    let uid = text(job, "/metadata/uid").to_owned();
    // Labels that were defaulted from the template share its map in kube-apiserver
    // (`SetDefaults_Job` in k8s.io/kubernetes v1.36.4 pkg/apis/batch/v1/defaults.go), and therefore
    // get the generated ones too; labels set by the user stay unchanged.
    let shared = at(job, "/metadata/labels") == at(job, "/spec/template/metadata/labels");
    let Some(map) = job.as_object_mut() else { return };
    let spec = object(map, "spec");
    let labels = object(object(object(spec, "template"), "metadata"), "labels");
    for (key, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        labels.entry(key).or_insert(value.as_str().into());
    }
    let labels = labels.clone();
    let selector = object(object(spec, "selector"), "matchLabels");
    selector.entry("batch.kubernetes.io/controller-uid").or_insert(uid.into());
    if shared {
        object(map, "metadata").insert("labels".to_owned(), labels.into());
    }
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

/// Validates the spec of a job, on its own or in a cron job.
pub(super) fn job_spec(out: &mut FieldErrors, spec: &Value, field: &str) {
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
    template(out, &spec["template"], &format!("{field}.template"));
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
    // The spec is validated, and its problems are reported, twice: `ValidateUpdate` in
    // k8s.io/kubernetes v1.36.4 pkg/registry/batch/job/strategy.go.
    selected_job(out, &new["spec"]);
    let elastic = text(new, "/spec/completionMode") == "Indexed"
        && number(new, "/spec/completions") == number(new, "/spec/parallelism");
    if !elastic {
        immutable(out, new, old, "/spec/completions", "spec.completions");
    }
    selector::fixed_selector(out, new, old);
    let suspended = flag(old, "/spec/suspend") && at(old, "/status/startTime").is_none();
    if !suspended {
        immutable(out, new, old, "/spec/template", "spec.template");
    }
    for key in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(out, new, old, &format!("/spec/{key}"), &format!("spec.{key}"));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = cells::containers(object, "/spec/template/spec");
    vec![
        cells::name(object),
        job_state(object).into(),
        completions(object).into(),
        lasted(object, now).into(),
        age::since_creation(object, now),
        names,
        images,
        cells::selector(object, "/spec/selector").into(),
    ]
}

fn job_state(job: &Value) -> &'static str {
    let first = ["Complete", "Failed"].into_iter().find(|kind| cells::condition(job, kind));
    let deleted = at(job, "/metadata/deletionTimestamp").map(|_| "Terminating");
    let later = || {
        ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
            .into_iter()
            .find(|kind| cells::condition(job, kind))
    };
    first.or(deleted).or_else(later).unwrap_or("Running")
}

fn completions(job: &Value) -> String {
    let done = number(job, "/status/succeeded").unwrap_or(0);
    match (number(job, "/spec/completions"), number(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{done}/1 of {parallel}"),
        (None, _) => format!("{done}/1"),
    }
}

fn lasted(job: &Value, now: Timestamp) -> String {
    let time = |pointer: &str| text(job, pointer).parse::<Timestamp>().ok();
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => age::human(end.unwrap_or(now).as_second() - start.as_second()),
    }
}
