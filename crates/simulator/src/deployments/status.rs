//! The status of a Deployment: counts, and the conditions `Available` and `Progressing`, as in
//! k8s.io/kubernetes v1.36.4 pkg/controller/deployment/sync.go and progress.go.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::model::{Desired, ReplicaSetState};
use crate::json_access::{flag, items, number, text};

/// The inputs of the status.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) deployment: &'a Value,
    pub(super) wanted: &'a Desired,
    /// The ReplicaSet of the current template.
    pub(super) new: Option<&'a ReplicaSetState>,
    pub(super) olds: &'a [ReplicaSetState],
    /// True if a ReplicaSet was just created.
    pub(super) created: bool,
    pub(super) now: Timestamp,
}

/// Returns the status, and the seconds after which it must be computed again even if nothing
/// changes.
pub(super) fn status(observed: Observed<'_>) -> (Value, Option<i64>) {
    let deployment = observed.deployment;
    let mut status = counts(observed);
    let mut conditions = items(deployment, "/status/conditions").to_vec();
    let now = observed.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let count = |field: &str| number(&status, field).unwrap_or(0);
    if count("/availableReplicas") >= observed.wanted.replicas - observed.wanted.unavailable {
        let message = "Deployment has minimum availability.";
        set(&mut conditions, "Available", "True", "MinimumReplicasAvailable", message, &now);
    } else {
        let message = "Deployment does not have minimum availability.";
        set(&mut conditions, "Available", "False", "MinimumReplicasUnavailable", message, &now);
    }
    let again = match deadline(deployment) {
        None => {
            conditions.retain(|it| text(it, "/type") != "Progressing");
            None
        }
        Some(deadline) => progress(observed, &status, &mut conditions, deadline, &now),
    };
    status["conditions"] = conditions.into();
    (status, again)
}

/// Returns true if a Deployment has reached its desired state, by a status.
pub(super) fn is_complete(deployment: &Value, wanted: &Desired, status: &Value) -> bool {
    let count = |field: &str| number(status, field).unwrap_or(0);
    ["/updatedReplicas", "/replicas", "/availableReplicas"].iter().all(|it| count(it) == wanted.replicas)
        && count("/observedGeneration") >= number(deployment, "/metadata/generation").unwrap_or(0)
}

/// Returns the seconds that a Deployment may go without progress.
fn deadline(deployment: &Value) -> Option<i64> {
    number(deployment, "/spec/progressDeadlineSeconds").filter(|it| *it != i64::from(i32::MAX))
}

fn counts(observed: Observed<'_>) -> Value {
    let all = || observed.olds.iter().chain(observed.new);
    let sum = |of: fn(&ReplicaSetState) -> i64| all().map(of).sum::<i64>();
    let available = sum(|it| it.available);
    let mut status = json!({ "terminatingReplicas": sum(|it| it.terminating) });
    for (field, count) in [
        ("observedGeneration", number(observed.deployment, "/metadata/generation").unwrap_or(0)),
        ("replicas", sum(|it| it.actual)),
        ("updatedReplicas", observed.new.map_or(0, |it| it.actual)),
        ("readyReplicas", sum(|it| it.ready)),
        ("availableReplicas", available),
        ("unavailableReplicas", (sum(|it| it.replicas) - available).max(0)),
    ] {
        if count != 0 {
            status[field] = count.into();
        }
    }
    if let Some(collisions) = number(observed.deployment, "/status/collisionCount") {
        status["collisionCount"] = collisions.into();
    }
    status
}

/// Sets the condition `Progressing`. Returns the seconds until its deadline may be exceeded.
fn progress(
    observed: Observed<'_>,
    status: &Value,
    conditions: &mut Vec<Value>,
    deadline: i64,
    now: &str,
) -> Option<i64> {
    let deployment = observed.deployment;
    let known = conditions.iter().find(|it| text(it, "/type") == "Progressing").cloned().unwrap_or_default();
    let reason = text(&known, "/reason");
    let about = match observed.new {
        Some(new) => format!("ReplicaSet {:?}", new.name),
        None => format!("Deployment {:?}", text(deployment, "/metadata/name")),
    };
    if flag(deployment, "/spec/paused") {
        if reason != "ProgressDeadlineExceeded" {
            set(conditions, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now);
        }
        return None;
    }
    begin(observed, &known, conditions, now);
    let count = |of: &Value, field: &str| number(of, field).unwrap_or(0);
    let settled = count(status, "/replicas") == count(status, "/updatedReplicas");
    if settled && reason == "NewReplicaSetAvailable" && !observed.created {
        return None;
    }
    if is_complete(deployment, observed.wanted, status) {
        let message = format!("{about} has successfully progressed.");
        set(conditions, "Progressing", "True", "NewReplicaSetAvailable", &message, now);
        return None;
    }
    if has_progressed(&deployment["status"], status) {
        let message = format!("{about} is progressing.");
        conditions.iter_mut().filter(|it| text(it, "/type") == "Progressing").for_each(|it| {
            // Progress updates the condition even if nothing else in it changes.
            it["reason"] = "".into();
        });
        set(conditions, "Progressing", "True", "ReplicaSetUpdated", &message, now);
        return Some(deadline.saturating_add(1));
    }
    let current = conditions.iter().find(|it| text(it, "/type") == "Progressing")?;
    if matches!(text(current, "/reason"), "NewReplicaSetAvailable" | "ProgressDeadlineExceeded") {
        return None;
    }
    let since: Timestamp = text(current, "/lastUpdateTime").parse().ok()?;
    let rest = since.as_second().saturating_add(deadline).saturating_sub(observed.now.as_second());
    if rest >= 0 {
        return Some(rest.saturating_add(1));
    }
    let message = format!("{about} has timed out progressing.");
    set(conditions, "Progressing", "False", "ProgressDeadlineExceeded", &message, now);
    None
}

/// Sets the condition `Progressing` if the rollout has just been resumed, or has a new ReplicaSet.
fn begin(observed: Observed<'_>, known: &Value, conditions: &mut Vec<Value>, now: &str) {
    let name = observed.new.map_or("", |it| it.name.as_str());
    if text(known, "/reason") == "DeploymentPaused" {
        set(conditions, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now);
    } else if observed.created {
        let message = format!("Created new replica set {name:?}");
        set(conditions, "Progressing", "True", "NewReplicaSetCreated", &message, now);
    } else if observed.new.is_some() && known.is_null() {
        let message = format!("Found new replica set {name:?}");
        set(conditions, "Progressing", "True", "FoundNewReplicaSet", &message, now);
    }
}

/// Returns true if a status shows progress over another.
fn has_progressed(before: &Value, after: &Value) -> bool {
    let count = |of: &Value, field: &str| number(of, field).unwrap_or(0);
    let grew = |field: &str| count(after, field) > count(before, field);
    let old = |of: &Value| count(of, "/replicas") - count(of, "/updatedReplicas");
    grew("/updatedReplicas")
        || old(after) < old(before)
        || grew("/readyReplicas")
        || grew("/availableReplicas")
}

/// Sets a condition, unless status and reason are the same. Its transition time changes only with
/// its status.
fn set(list: &mut Vec<Value>, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    let known = list.iter().position(|it| text(it, "/type") == kind);
    let mut new = json!({ "type": kind, "status": status, "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now });
    if let Some(at) = known {
        if text(&list[at], "/status") == status && text(&list[at], "/reason") == reason {
            return;
        }
        if text(&list[at], "/status") == status {
            new["lastTransitionTime"] = list[at]["lastTransitionTime"].clone();
        }
        list.remove(at);
    }
    list.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "web-1";

    fn deployment(status: Value) -> Value {
        json!({ "metadata": { "name": "web", "generation": 2 },
            "spec": { "replicas": 2, "progressDeadlineSeconds": 600, "strategy": { "rollingUpdate": { "maxSurge": 1 } } },
            "status": status })
    }

    fn set_of(replicas: i64, actual: i64, available: i64) -> ReplicaSetState {
        ReplicaSetState {
            name: NEW.to_owned(),
            replicas,
            actual,
            ready: available,
            available,
            ..ReplicaSetState::default()
        }
    }

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    fn status_at(
        deployment: &Value,
        new: &ReplicaSetState,
        created: bool,
        now: &str,
    ) -> (Value, Option<i64>) {
        let wanted = Desired::read(deployment);
        status(Observed { deployment, wanted: &wanted, new: Some(new), olds: &[], created, now: at(now) })
    }

    fn reason<'a>(status: &'a Value, kind: &str) -> &'a str {
        let found = items(status, "/conditions").iter().find(|it| text(it, "/type") == kind);
        found.map_or("-", |it| text(it, "/reason"))
    }

    #[test]
    fn a_deployment_progresses_from_created_to_available() {
        let mut it = deployment(json!({}));
        let mut reasons = Vec::new();
        for (new, created, now) in [
            (set_of(2, 0, 0), true, "00:00:00"),
            (set_of(2, 2, 0), false, "00:00:01"),
            (set_of(2, 2, 1), false, "00:00:02"),
            (set_of(2, 2, 2), false, "00:00:03"),
            (set_of(2, 2, 2), false, "00:00:04"),
        ] {
            let (status, again) = status_at(&it, &new, created, now);
            it["status"] = status.clone();
            let progress = reason(&status, "Progressing").to_owned();
            reasons.push((progress, reason(&status, "Available").to_owned(), again.is_some()));
        }
        let is = |progress: &str, available: &str, again| (progress.to_owned(), available.to_owned(), again);
        assert_eq!(
            reasons,
            [
                is("NewReplicaSetCreated", "MinimumReplicasUnavailable", true),
                is("ReplicaSetUpdated", "MinimumReplicasUnavailable", true),
                is("ReplicaSetUpdated", "MinimumReplicasUnavailable", true),
                is("NewReplicaSetAvailable", "MinimumReplicasAvailable", false),
                is("NewReplicaSetAvailable", "MinimumReplicasAvailable", false),
            ]
        );
        let counts = json!({ "observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
            "availableReplicas": 2, "terminatingReplicas": 0, "conditions": it["status"]["conditions"] });
        assert_eq!(it["status"], counts, "zero counts are left out");
        assert!(is_complete(&it, &Desired::read(&it), &it["status"]));
    }

    #[test]
    fn without_progress_the_deadline_is_exceeded_once() {
        let mut it = deployment(json!({}));
        it["status"] = status_at(&it, &set_of(2, 2, 0), true, "00:00:00").0;
        let (status, again) = status_at(&it, &set_of(2, 2, 0), false, "00:05:00");
        assert_eq!((reason(&status, "Progressing"), again), ("ReplicaSetUpdated", Some(301)));
        let (status, again) = status_at(&it, &set_of(2, 2, 0), false, "00:10:01");
        assert_eq!((reason(&status, "Progressing"), again), ("ProgressDeadlineExceeded", None));
    }

    #[test]
    fn pausing_stops_the_deadline() {
        let mut it = deployment(json!({}));
        it["status"] = status_at(&it, &set_of(2, 2, 0), true, "00:00:00").0;
        it["spec"]["paused"] = true.into();
        it["status"] = status_at(&it, &set_of(2, 2, 0), false, "00:01:00").0;
        assert_eq!(reason(&it["status"], "Progressing"), "DeploymentPaused");
        it["spec"]["paused"] = false.into();
        let (status, again) = status_at(&it, &set_of(2, 2, 0), false, "00:30:00");
        assert_eq!((reason(&status, "Progressing"), again), ("DeploymentResumed", Some(601)));
    }

    #[test]
    fn without_a_deadline_there_is_no_progressing_condition() {
        let mut it = deployment(json!({ "conditions": [{ "type": "Progressing", "status": "True" }] }));
        it["spec"]["progressDeadlineSeconds"] = json!(2_147_483_647);
        let (status, again) = status_at(&it, &set_of(2, 2, 0), false, "00:00:00");
        assert_eq!((reason(&status, "Progressing"), again), ("-", None));
    }
}
