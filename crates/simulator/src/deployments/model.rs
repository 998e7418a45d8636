//! A Deployment and its ReplicaSets, reduced to the numbers that decisions need.

use serde_json::Value;

use crate::int_or_percent::scaled;
use crate::json_access::{at, flag, number, text};
use crate::owner::is_deleting;

/// The annotation with the revision of a ReplicaSet or a Deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The annotation with the former revisions of a ReplicaSet.
pub(super) const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The annotation with the desired replicas of the Deployment when its ReplicaSet was sized.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The annotation with the largest number of replicas at that time.
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
/// The label that distinguishes the ReplicaSets of a Deployment.
pub(super) const HASH: &str = "pod-template-hash";

/// The desired state of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Desired {
    pub(super) replicas: i64,
    /// The number of additional replicas during a rollout.
    pub(super) surge: i64,
    /// The number of replicas that may be unavailable during a rollout.
    pub(super) unavailable: i64,
    /// True if old pods are removed before new ones are created.
    pub(super) recreate: bool,
    pub(super) paused: bool,
    /// The number of replicas in its status.
    pub(super) status_replicas: i64,
}

/// A ReplicaSet of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplicaSetState {
    pub(super) name: String,
    /// The desired number of pods.
    pub(super) replicas: i64,
    /// The number of pods in its status.
    pub(super) actual: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    pub(super) terminating: i64,
    pub(super) created: String,
    pub(super) revision: i64,
    pub(super) desired: Option<i64>,
    pub(super) maximum: Option<i64>,
    /// True if its status is about its current generation.
    pub(super) observed: bool,
    pub(super) deleting: bool,
}

impl Desired {
    pub(super) fn read(deployment: &Value) -> Self {
        let replicas = number(deployment, "/spec/replicas").unwrap_or(1);
        let recreate = text(deployment, "/spec/strategy/type") == "Recreate";
        let share = |field: &str, up: bool| {
            scaled(at(deployment, &format!("/spec/strategy/rollingUpdate/{field}")), replicas, up)
        };
        let (surge, mut unavailable) = (share("maxSurge", true), share("maxUnavailable", false));
        if surge == 0 && unavailable == 0 {
            // Rounding may make both zero, and the rollout could not proceed.
            unavailable = 1;
        }
        let (surge, unavailable) = if recreate { (0, 0) } else { (surge, unavailable.min(replicas)) };
        let status_replicas = number(deployment, "/status/replicas").unwrap_or(0);
        Self {
            replicas,
            surge,
            unavailable,
            recreate,
            paused: flag(deployment, "/spec/paused"),
            status_replicas,
        }
    }

    /// Returns the largest number of replicas during a rollout.
    pub(super) fn maximum(&self) -> i64 {
        self.replicas.saturating_add(self.surge).min(i64::from(i32::MAX))
    }
}

impl ReplicaSetState {
    pub(super) fn read(set: &Value) -> Self {
        let count = |pointer: &str| number(set, pointer).unwrap_or(0);
        let annotated = |name: &str| annotation(set, name).parse().ok();
        Self {
            name: text(set, "/metadata/name").to_owned(),
            replicas: number(set, "/spec/replicas").unwrap_or(1),
            actual: count("/status/replicas"),
            ready: count("/status/readyReplicas"),
            available: count("/status/availableReplicas"),
            terminating: count("/status/terminatingReplicas"),
            created: text(set, "/metadata/creationTimestamp").to_owned(),
            revision: annotated(REVISION).unwrap_or(0),
            desired: annotated(DESIRED),
            maximum: annotated(MAXIMUM),
            observed: count("/status/observedGeneration") >= count("/metadata/generation"),
            deleting: is_deleting(set),
        }
    }

    /// Returns a sort key that puts older ReplicaSets first.
    pub(super) fn age(&self) -> (&str, &str) {
        (&self.created, &self.name)
    }
}

/// Returns an annotation of an object; empty if absent.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["annotations"].get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_are_rounded_so_that_a_rollout_can_always_proceed() {
        for (replicas, surge, unavailable, expected) in [
            (10, json!("25%"), json!("25%"), (3, 2)),
            (1, json!("25%"), json!("25%"), (1, 0)),
            (3, json!(1), json!(0), (1, 0)),
            (4, json!(0), json!("10%"), (0, 1)),
            (0, json!("25%"), json!("25%"), (0, 0)),
            (2, json!(0), json!(5), (0, 2)),
            (200, json!("99999999999999999%"), json!(0), (i64::from(i32::MAX), 0)),
        ] {
            let deployment = json!({ "spec": { "replicas": replicas,
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } } } });
            let wanted = Desired::read(&deployment);
            assert_eq!((wanted.surge, wanted.unavailable), expected, "{deployment}");
        }
        let wanted = Desired::read(&json!({ "spec": { "replicas": 3, "strategy": { "type": "Recreate" } } }));
        assert_eq!((wanted.recreate, wanted.maximum()), (true, 3));
    }

    #[test]
    fn a_set_is_read_with_its_annotations() {
        let set = json!({ "metadata": { "name": "a", "generation": 2, "annotations": { REVISION: "7", DESIRED: "3" } },
            "spec": { "replicas": 2 }, "status": { "replicas": 1, "observedGeneration": 1 } });
        let set = ReplicaSetState::read(&set);
        assert_eq!((set.revision, set.desired, set.maximum), (7, Some(3), None));
        assert_eq!((set.replicas, set.actual, set.observed), (2, 1, false));
    }
}
