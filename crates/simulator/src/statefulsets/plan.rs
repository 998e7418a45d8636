//! The next steps for a StatefulSet, as `updateStatefulSet` in k8s.io/kubernetes v1.36.4
//! pkg/controller/statefulset/stateful_set_control.go takes them. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::identity::{ordinal_in, ordinals};
use crate::json_access::{number, text};
use crate::object::Pod;
use crate::revisions::REVISION_LABEL;

/// A step, in the order of execution.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Create the pod with an ordinal, at the revision that the set had before or at the new one.
    Create { ordinal: i64, updated: bool },
    /// Create the missing claims of a pod.
    Claim { ordinal: i64, pod: Arc<Pod> },
    /// Restore the identity of a pod, and the owners of its claims.
    Restore { ordinal: i64, pod: Arc<Pod> },
    /// Update the owners of the claims of a pod that is about to be deleted.
    Release { ordinal: i64, pod: Arc<Pod> },
    /// Delete a pod.
    Delete(Arc<Pod>),
}

/// The inputs of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) set: &'a Value,
    pub(super) pods: &'a [Arc<Pod>],
    /// The name of the revision of the current template.
    pub(super) update_revision: &'a str,
    pub(super) now: Timestamp,
}

/// The steps for a StatefulSet.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// True if the last step deletes a pod of the former revision, so that it no longer counts.
    pub(super) replaces: bool,
}

/// The pods of a set, by ordinal.
struct Members<'a> {
    observed: Observed<'a>,
    /// One pod at a time, in the order of ordinals.
    is_ordered: bool,
    wanted: BTreeMap<i64, Option<Arc<Pod>>>,
    /// The pods beyond the size of the set, by ordinal.
    condemned: BTreeMap<i64, Arc<Pod>>,
}

/// Returns the next steps.
pub(super) fn plan(observed: Observed<'_>) -> Plan {
    let (members, mut plan) = (Members::new(observed), Plan::default());
    if !members.keep(&mut plan.steps) {
        return plan;
    }
    let release =
        |(ordinal, pod): (&i64, &Arc<Pod>)| Step::Release { ordinal: *ordinal, pod: Arc::clone(pod) };
    plan.steps.extend(members.condemned.iter().rev().map(release));
    if !members.shrink(&mut plan.steps) {
        return plan;
    }
    if text(observed.set, "/spec/updateStrategy/type") != "OnDelete"
        && let Some(outdated) = members.outdated()
    {
        plan.steps.push(Step::Delete(outdated));
        plan.replaces = true;
    }
    plan
}

/// Returns the time until the next pod has been ready for long enough.
pub(super) fn next_available(observed: Observed<'_>) -> Option<Duration> {
    let seconds = min_ready(observed.set);
    let rest = observed.pods.iter().filter_map(|it| it.available_after(seconds, observed.now));
    rest.filter(|it| !it.is_zero()).min()
}

impl<'a> Members<'a> {
    fn new(observed: Observed<'a>) -> Self {
        let (mut wanted, mut condemned): (BTreeMap<_, _>, _) =
            (ordinals(observed.set).map(|it| (it, None)).collect(), BTreeMap::new());
        for pod in observed.pods {
            let Some(ordinal) = ordinal_in(observed.set, text(pod, "/metadata/name")) else { continue };
            match wanted.get_mut(&ordinal) {
                Some(place) => *place = Some(Arc::clone(pod)),
                None => drop(condemned.insert(ordinal, Arc::clone(pod))),
            }
        }
        let is_ordered = text(observed.set, "/spec/podManagementPolicy") != "Parallel";
        Self { observed, is_ordered, wanted, condemned }
    }

    /// Creates missing pods, and replaces those that have ended. Returns true if further steps may
    /// be taken.
    fn keep(&self, steps: &mut Vec<Step>) -> bool {
        for (&ordinal, pod) in &self.wanted {
            let Some(pod) = pod else {
                steps.push(Step::Create { ordinal, updated: self.starts_updated(ordinal) });
                if self.is_ordered {
                    return false;
                }
                continue;
            };
            if pod.has_ended {
                if !pod.is_deleting {
                    steps.push(Step::Delete(Arc::clone(pod)));
                }
                if self.is_ordered {
                    return false;
                }
                continue;
            }
            if text(pod, "/status/phase") == "Pending" {
                steps.push(Step::Claim { ordinal, pod: Arc::clone(pod) });
            }
            if self.is_ordered && !self.is_settled(pod) {
                return false;
            }
            steps.push(Step::Restore { ordinal, pod: Arc::clone(pod) });
        }
        true
    }

    /// Deletes pods beyond the size of the set. Returns true if further steps may be taken.
    fn shrink(&self, steps: &mut Vec<Step>) -> bool {
        let all = self.wanted.values().flatten().chain(self.condemned.values());
        let unavailable = if self.wanted.values().any(Option::is_none) {
            None
        } else {
            all.into_iter().find(|it| !self.is_available(it)).map(|it| text(it, "/metadata/uid"))
        };
        for pod in self.condemned.values().rev() {
            let is_first_unavailable = unavailable == Some(text(pod, "/metadata/uid"));
            if !pod.is_deleting && (!self.is_ordered || self.is_settled(pod) || is_first_unavailable) {
                steps.push(Step::Delete(Arc::clone(pod)));
            }
            if self.is_ordered {
                return false;
            }
        }
        true
    }

    /// Returns the pod with the highest ordinal that has a former template, if all pods after it
    /// are available.
    fn outdated(&self) -> Option<Arc<Pod>> {
        let first = ordinals(self.observed.set).start.saturating_add(self.partition());
        for pod in self.wanted.range(first..).rev().map(|(_, pod)| pod) {
            let pod = pod.as_ref()?;
            if revision(pod) != self.observed.update_revision && !pod.is_deleting {
                return Some(Arc::clone(pod));
            }
            if !self.is_available(pod) {
                return None;
            }
        }
        None
    }

    /// Returns true if a new pod gets the current template. Without `rollingUpdate`, as with
    /// `OnDelete`, all do.
    fn starts_updated(&self, ordinal: i64) -> bool {
        ordinal >= ordinals(self.observed.set).start.saturating_add(self.partition())
    }

    fn partition(&self) -> i64 {
        number(self.observed.set, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0).max(0)
    }

    /// Returns true if the pods after this one need not wait for it.
    fn is_settled(&self, pod: &Pod) -> bool {
        text(pod, "/status/phase") == "Running" && self.is_available(pod)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        let rest = pod.available_after(min_ready(self.observed.set), self.observed.now);
        !pod.is_deleting && rest.is_some_and(|it| it.is_zero())
    }
}

/// Returns the name of the revision of a pod.
pub(super) fn revision(pod: &Pod) -> &str {
    pod["metadata"]["labels"][REVISION_LABEL].as_str().unwrap_or_default()
}

/// Returns the seconds for which a pod has to be ready before it is available.
pub(super) fn min_ready(set: &Value) -> i64 {
    number(set, "/spec/minReadySeconds").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(change: impl FnOnce(&mut Value)) -> Value {
        let mut set = json!({ "metadata": { "name": "db" }, "spec": { "replicas": 3,
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } } } });
        change(&mut set["spec"]);
        set
    }

    fn pod(ordinal: i64, change: impl FnOnce(&mut Value)) -> Arc<Pod> {
        let mut pod = json!({ "metadata": { "name": format!("db-{ordinal}"), "uid": ordinal.to_string(),
                "labels": { REVISION_LABEL: "new" } },
            "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z" }] } });
        change(&mut pod);
        Arc::new(Pod::from(pod))
    }

    fn ready(ordinal: i64) -> Arc<Pod> {
        pod(ordinal, |_| ())
    }

    fn pending(ordinal: i64) -> Arc<Pod> {
        pod(ordinal, |it| it["status"] = json!({ "phase": "Pending" }))
    }

    fn old(ordinal: i64) -> Arc<Pod> {
        pod(ordinal, |it| it["metadata"]["labels"][REVISION_LABEL] = "old".into())
    }

    fn deleting(ordinal: i64) -> Arc<Pod> {
        pod(ordinal, |it| it["metadata"]["deletionTimestamp"] = "t".into())
    }

    /// The creations and deletions of a plan, as `+2`, `+2old` and `-2`.
    fn steps(set: &Value, pods: &[Arc<Pod>]) -> String {
        let now = "2026-01-01T00:00:30Z".parse().unwrap();
        let plan = plan(Observed { set, pods, update_revision: "new", now });
        let step = |it: &Step| match it {
            Step::Create { ordinal, updated: true } => Some(format!("+{ordinal}")),
            Step::Create { ordinal, updated: false } => Some(format!("+{ordinal}old")),
            Step::Delete(pod) => Some(format!("-{}", text(pod, "/metadata/uid"))),
            _ => None,
        };
        plan.steps.iter().filter_map(step).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_start_one_after_the_other_or_all_at_once() {
        let ordered = set(|_| ());
        for (pods, expected) in [
            (vec![], "+0"),
            (vec![pending(0)], ""),
            (vec![ready(0)], "+1"),
            (vec![ready(0), ready(1), pending(2)], ""),
            (vec![ready(1), ready(2)], "+0"),
            (vec![deleting(0), ready(1)], ""),
            (vec![pod(0, |it| it["status"]["phase"] = "Failed".into()), ready(1)], "-0"),
        ] {
            assert_eq!(steps(&ordered, &pods), expected, "{pods:?}");
        }
        let parallel = set(|it| it["podManagementPolicy"] = "Parallel".into());
        assert_eq!(steps(&parallel, &[pending(1)]), "+0 +2");
        let failed = pod(0, |it| it["status"]["phase"] = "Failed".into());
        assert_eq!(steps(&parallel, &[failed, pending(1)]), "-0 +2");
        let slow = set(|it| it["minReadySeconds"] = 60.into());
        assert_eq!(steps(&slow, &[ready(0)]), "", "it is ready, but not available yet");
    }

    #[test]
    fn the_pods_with_the_highest_ordinals_leave_first() {
        let one = set(|it| it["replicas"] = 1.into());
        for (pods, expected) in [
            (vec![ready(0), ready(1), ready(2)], "-2"),
            (vec![ready(0), ready(1), deleting(2)], ""),
            (vec![ready(0), pending(1), ready(2)], "-2"),
            (vec![ready(0), ready(1), pending(2)], "-2"),
            (vec![ready(0), pending(1), pending(2)], ""),
            (vec![pending(0), ready(1)], ""),
        ] {
            assert_eq!(steps(&one, &pods), expected, "{pods:?}");
        }
        let parallel = set(|it| {
            it["replicas"] = 1.into();
            it["podManagementPolicy"] = "Parallel".into();
        });
        assert_eq!(steps(&parallel, &[ready(0), pending(1), deleting(2), ready(3)]), "-3 -1");
    }

    #[test]
    fn a_rolling_update_replaces_one_pod_at_a_time_down_to_the_partition() {
        let all = set(|_| ());
        for (pods, expected) in [
            (vec![old(0), old(1), old(2)], "-2"),
            (vec![old(0), old(1), pending(2)], ""),
            (vec![old(0), old(1), ready(2)], "-1"),
            (vec![ready(0), ready(1), ready(2)], ""),
        ] {
            assert_eq!(steps(&all, &pods), expected, "{pods:?}");
        }
        let partition = set(|it| it["updateStrategy"]["rollingUpdate"]["partition"] = 2.into());
        assert_eq!(steps(&partition, &[old(0), old(1), ready(2)]), "");
        assert_eq!(steps(&partition, &[old(0)]), "+1old");
        assert_eq!(steps(&partition, &[old(0), old(1)]), "+2");
        let by_hand = set(|it| it["updateStrategy"] = json!({ "type": "OnDelete" }));
        assert_eq!(steps(&by_hand, &[old(0), old(1), old(2)]), "");
        assert_eq!(steps(&by_hand, &[old(0), old(1)]), "+2");
    }

    #[test]
    fn ordinals_may_start_later() {
        let later = set(|it| {
            it["ordinals"] = json!({ "start": 5 });
            it["replicas"] = 1.into();
        });
        assert_eq!(steps(&later, &[]), "+5");
        assert_eq!(steps(&later, &[ready(0), ready(5)]), "-0");
    }
}
