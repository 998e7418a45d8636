//! CronJobs.

use jiff::Timestamp;
use serde_json::Value;

use super::job::{default_failure_policy, job_spec};
use super::schedule;
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::core::pod::defaults;
use crate::kinds::json_access::{Object, at, fill, items, object, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, invalid, not_negative, one_of};

/// The rules of the kind CronJob.
pub(crate) static RULES: KindRules = KindRules {
    group: "batch",
    kind: "CronJob",
    plural: "cronjobs",
    traits: KindTraits { has_generation: true, has_status: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: defaults,
    validate_create: |out, object| {
        name(out, object);
        cron_job(out, object);
    },
    // `ValidateCronJobUpdate` in k8s.io/kubernetes v1.36.4 pkg/apis/batch/validation/validation.go
    // does not check the length of the name again, for CronJobs that are older than the limit.
    validate_update: Some(|out, new, _| cron_job(out, new)),
    pod_spec: Some("/spec/jobTemplate/spec/template/spec"),
    cells,
    ..COMMON
};

/// Sets the defaults of a cron job. Its jobs get their own defaults when they are created, except
/// for those of the pod template.
fn defaults(_: &str, map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
    let job = object(spec, "jobTemplate");
    let job = object(job, "spec");
    default_failure_policy(job);
    defaults::template(object(job, "template"));
}

fn name(out: &mut FieldErrors, object: &Value) {
    let name = text(object, "/metadata/name");
    // The controller appends 11 characters, a hyphen and a timestamp, to make the name of a job,
    // which is limited to 63 (k8s.io/kubernetes v1.36.4 pkg/apis/batch/validation/validation.go).
    if name.len() > 52 {
        invalid(out, "metadata.name", &name.into(), "must be no more than 52 characters");
    }
}

fn cron_job(out: &mut FieldErrors, object: &Value) {
    let spec = &object["spec"];
    schedule::schedule(out, spec);
    not_negative(out, spec, "/startingDeadlineSeconds", "spec.startingDeadlineSeconds");
    one_of(out, spec, "/concurrencyPolicy", "spec.concurrencyPolicy", &["Allow", "Forbid", "Replace"]);
    job_spec(out, &spec["jobTemplate"]["spec"], "spec.jobTemplate.spec");
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        not_negative(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let age = age::since_creation(object, now);
    let [names, images] = cells::containers(object, "/spec/jobTemplate/spec/template/spec");
    let suspended = match at(object, "/spec/suspend").and_then(Value::as_bool) {
        None => "<unset>",
        Some(true) => "True",
        Some(false) => "False",
    };
    let last = match text(object, "/status/lastScheduleTime") {
        "" => "<none>".to_owned(),
        time => age::since(time, now),
    };
    vec![
        cells::name(object),
        text(object, "/spec/schedule").into(),
        at(object, "/spec/timeZone").and_then(Value::as_str).unwrap_or("<none>").into(),
        suspended.into(),
        items(object, "/status/active").len().into(),
        last.into(),
        age,
        names,
        images,
        cells::selector(object, "/spec/jobTemplate/spec/selector").into(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_length_of_the_name_of_a_cron_job_is_checked_on_creation_only() {
        let job = json!({ "metadata": { "name": "c".repeat(53) }, "spec": { "schedule": "* * * * *" } });
        let limit = |out: &FieldErrors| out.iter().any(|it| it.to_string().contains("52 characters"));
        let mut out = FieldErrors::default();
        (RULES.validate_create)(&mut out, &job);
        assert!(limit(&out), "{out:?}");
        let mut out = FieldErrors::default();
        RULES.validate_update.expect("updates have rules of their own")(&mut out, &job, &job);
        assert!(!limit(&out), "{out:?}");
    }
}
