//! The status of a StatefulSet.

use serde_json::{Value, json};

use super::identity::ordinal_in;
use super::plan::{Observed, min_ready, revision};
use crate::json_access::{number, text};

/// The revisions that the status names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revisions<'a> {
    pub(super) current: &'a str,
    pub(super) update: &'a str,
    pub(super) collisions: i64,
}

/// Returns the status. `replaced` is true if a pod of the current revision was just deleted.
pub(super) fn status(observed: Observed<'_>, revisions: Revisions<'_>, replaced: bool) -> Value {
    let set = observed.set;
    let (mut all, mut ready, mut available, mut current, mut updated) = (0_i64, 0_i64, 0_i64, 0_i64, 0_i64);
    for pod in observed.pods {
        if ordinal_in(set, text(pod, "/metadata/name")).is_none() {
            continue;
        }
        all += 1;
        let rest = pod.available_after(min_ready(set), observed.now);
        if let Some(rest) = rest.filter(|_| text(pod, "/status/phase") == "Running") {
            ready += 1;
            available += i64::from(rest.is_zero());
        }
        if !pod.is_deleting {
            current += i64::from(revision(pod) == revisions.current);
            updated += i64::from(revision(pod) == revisions.update);
        }
    }
    current = current.saturating_sub(i64::from(replaced));
    let wanted = number(set, "/spec/replicas").unwrap_or(1);
    let mut current_revision = revisions.current;
    let rolls = text(set, "/spec/updateStrategy/type") != "OnDelete";
    if rolls && [all, ready, updated] == [wanted; 3] {
        (current, current_revision) = (updated, revisions.update);
    }
    let mut status = json!({ "replicas": all, "availableReplicas": available,
        "currentRevision": current_revision, "updateRevision": revisions.update,
        "collisionCount": revisions.collisions });
    let generation = number(set, "/metadata/generation").unwrap_or(0);
    for (field, count) in [
        ("observedGeneration", generation),
        ("readyReplicas", ready),
        ("currentReplicas", current),
        ("updatedReplicas", updated),
    ] {
        if count != 0 {
            status[field] = count.into();
        }
    }
    if let Some(conditions) = set["status"].get("conditions") {
        status["conditions"] = conditions.clone();
    }
    status
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::object::Pod;
    use crate::revisions::REVISION_LABEL;

    fn pod(ordinal: i64, revision: &str, phase: &str) -> Arc<Pod> {
        Arc::new(Pod::from(json!({
            "metadata": { "name": format!("db-{ordinal}"), "labels": { REVISION_LABEL: revision } },
            "status": { "phase": phase, "conditions": [{ "type": "Ready", "lastTransitionTime": "2026-01-01T00:00:10Z",
                "status": if phase == "Running" { "True" } else { "False" } }] } })))
    }

    #[test]
    fn an_update_is_complete_when_all_pods_are_ready_at_the_new_revision() {
        let set = json!({ "metadata": { "name": "db", "generation": 2 }, "spec": { "replicas": 2 } });
        let of = |pods: &[Arc<Pod>], replaced| {
            let now = "2026-01-01T00:01:00Z".parse().unwrap();
            let observed = Observed { set: &set, pods, update_revision: "new", now };
            status(observed, Revisions { current: "old", update: "new", collisions: 0 }, replaced)
        };
        let begun = of(&[pod(0, "old", "Running"), pod(1, "old", "Running")], true);
        let expected = json!({ "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 1,
            "currentRevision": "old", "updateRevision": "new", "collisionCount": 0, "observedGeneration": 2 });
        assert_eq!(begun, expected);
        let half = of(&[pod(0, "old", "Running"), pod(1, "new", "Pending")], false);
        assert_eq!((&half["currentReplicas"], &half["updatedReplicas"]), (&json!(1), &json!(1)));
        assert_eq!((&half["readyReplicas"], &half["currentRevision"]), (&json!(1), &json!("old")));
        let done = of(&[pod(0, "new", "Running"), pod(1, "new", "Running")], false);
        assert_eq!((&done["currentReplicas"], &done["currentRevision"]), (&json!(2), &json!("new")));
    }
}
