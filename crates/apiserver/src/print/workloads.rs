//! Rows of the kinds that run pods: the groups `apps` and `batch`.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::cell::{condition, containers, labels, name, selector};
use crate::kinds::json_access::{at, flag, items, number, text};

/// Returns the cells of an object if this module prints its kind.
pub(super) fn cells(plural: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let age = age::since_creation(object, now);
    let first = name(object);
    let [names, images] = containers(object, "/spec/template/spec");
    let chosen = Value::from(selector(object, "/spec/selector"));
    let count = |pointer: &str| number(object, pointer).unwrap_or(0);
    let status = |field: &str| Value::from(count(&format!("/status/{field}")));
    let ready = format!("{}/{}", count("/status/readyReplicas"), count("/spec/replicas"));
    Some(match plural {
        "deployments" => {
            let (updated, available) = (status("updatedReplicas"), status("availableReplicas"));
            vec![first, ready.into(), updated, available, age, names, images, chosen]
        }
        "replicasets" => {
            let wanted = count("/spec/replicas").into();
            vec![first, wanted, status("replicas"), status("readyReplicas"), age, names, images, chosen]
        }
        "statefulsets" => vec![first, ready.into(), age, names, images],
        "daemonsets" => vec![
            first,
            status("desiredNumberScheduled"),
            status("currentNumberScheduled"),
            status("numberReady"),
            status("updatedNumberScheduled"),
            status("numberAvailable"),
            labels(object, "/spec/template/spec/nodeSelector").into(),
            age,
            names,
            images,
            chosen,
        ],
        "controllerrevisions" => vec![first, owner(object).into(), count("/revision").into(), age],
        "jobs" => {
            let state = job_state(object).into();
            vec![
                first,
                state,
                completions(object).into(),
                lasted(object, now).into(),
                age,
                names,
                images,
                chosen,
            ]
        }
        "cronjobs" => cron_job(object, age, now),
        _ => return None,
    })
}

fn owner(object: &Value) -> String {
    let owners = items(object, "/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|owner| flag(owner, "/controller")) else {
        return "<none>".to_owned();
    };
    let kind = text(owner, "/kind").to_lowercase();
    let name = text(owner, "/name");
    match text(owner, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn job_state(job: &Value) -> &'static str {
    let first = ["Complete", "Failed"].into_iter().find(|kind| condition(job, kind));
    let deleted = at(job, "/metadata/deletionTimestamp").map(|_| "Terminating");
    let later =
        || ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter().find(|kind| condition(job, kind));
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

fn cron_job(object: &Value, age: Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/jobTemplate/spec/template/spec");
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
        name(object),
        text(object, "/spec/schedule").into(),
        at(object, "/spec/timeZone").and_then(Value::as_str).unwrap_or("<none>").into(),
        suspended.into(),
        items(object, "/status/active").len().into(),
        last.into(),
        age,
        names,
        images,
        selector(object, "/spec/jobTemplate/spec/selector").into(),
    ]
}
