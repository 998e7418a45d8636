//! A Job and its pods, with the questions that its controller asks about them. Pure.

use jiff::Timestamp;
use serde_json::Value;

use super::failure_policy::{self, Decision};
use crate::condition;
use crate::json_access::{at, flag, items, number, text};
use crate::object::Pod;

/// The finalizer that keeps a pod until it is counted.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub(super) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// A Job, as it is specified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a>(pub(super) &'a Value);

impl<'a> Job<'a> {
    pub(super) fn is_finished(self) -> bool {
        ["Complete", "Failed"].iter().any(|it| condition::is_true(self.0, it))
    }

    pub(super) fn is_suspended(self) -> bool {
        flag(self.0, "/spec/suspend")
    }

    pub(super) fn is_indexed(self) -> bool {
        text(self.0, "/spec/completionMode") == "Indexed"
    }

    /// Returns true if pods are replaced only when they have ended, not while they terminate.
    pub(super) fn replaces_only_failed(self) -> bool {
        text(self.0, "/spec/podReplacementPolicy") == "Failed"
            || at(self.0, "/spec/podFailurePolicy").is_some()
    }

    pub(super) fn parallelism(self) -> i64 {
        number(self.0, "/spec/parallelism").unwrap_or(1)
    }

    pub(super) fn completions(self) -> Option<i64> {
        number(self.0, "/spec/completions")
    }

    pub(super) fn backoff_limit(self) -> i64 {
        number(self.0, "/spec/backoffLimit").unwrap_or(6)
    }

    pub(super) fn backoff_limit_per_index(self) -> Option<i64> {
        number(self.0, "/spec/backoffLimitPerIndex")
    }

    /// Returns the index of a pod, if it is a valid one.
    pub(super) fn index_of(self, pod: &Value) -> Option<i64> {
        let index: i64 = annotation(pod, INDEX).parse().ok()?;
        (0..self.completions().unwrap_or(i64::MAX)).contains(&index).then_some(index)
    }

    /// Returns true if a pod has failed, or will never end by itself.
    pub(super) fn has_failed(self, pod: &Pod) -> bool {
        text(pod, "/status/phase") == "Failed"
            || (!self.replaces_only_failed() && pod.is_deleting && !has_succeeded(pod))
    }

    pub(super) fn decide(self, pod: &Value) -> Decision {
        failure_policy::decide(self.0, pod)
    }

    pub(super) fn counts(self, pod: &Value) -> bool {
        self.decide(pod) != Decision::Ignore
    }

    /// Returns true if the index of a pod fails with it.
    pub(super) fn fails_index(self, pod: &Pod) -> bool {
        if !self.has_failed(pod) {
            return false;
        }
        match self.decide(pod) {
            Decision::FailIndex => true,
            Decision::Ignore => false,
            _ => self.backoff_limit_per_index().is_some_and(|it| failures(pod, INDEX_FAILURES) >= it),
        }
    }

    /// Returns true if the containers of pods that restart have failed too often.
    pub(super) fn restarts_too_often(self, pods: &[&Pod]) -> bool {
        if text(self.0, "/spec/template/spec/restartPolicy") != "OnFailure" {
            return false;
        }
        let statuses = |pod: &'_ Pod| {
            let all = items(pod, "/status/initContainerStatuses")
                .iter()
                .chain(items(pod, "/status/containerStatuses"));
            all.filter_map(|it| number(it, "/restartCount")).fold(0_i64, i64::saturating_add)
        };
        let runs = |it: &&&Pod| matches!(text(it, "/status/phase"), "Running" | "Pending");
        let restarts = pods.iter().filter(runs).map(|it| statuses(it)).fold(0_i64, i64::saturating_add);
        restarts >= self.backoff_limit().max(1)
    }

    /// Returns the seconds for which the Job may still be active, if it has a deadline.
    pub(super) fn seconds_left(self, start: &str, now: Timestamp) -> Option<i64> {
        let allowed = number(self.0, "/spec/activeDeadlineSeconds").filter(|_| !self.is_suspended())?;
        let start: Timestamp = start.parse().ok()?;
        Some(start.as_second().saturating_add(allowed).saturating_sub(now.as_second()))
    }
}

/// Returns true if a pod waits to be counted.
pub(super) fn is_tracked(pod: &Value) -> bool {
    items(pod, "/metadata/finalizers").iter().any(|it| it == FINALIZER)
}

pub(super) fn has_succeeded(pod: &Value) -> bool {
    text(pod, "/status/phase") == "Succeeded"
}

/// Returns the number of former failures of the index of a pod.
pub(super) fn failures(pod: &Value, kind: &str) -> i64 {
    annotation(pod, kind).parse::<i32>().map_or(0, |it| i64::from(it.max(0)))
}

/// Returns the time at which a pod has ended, as well as it is known: `getFinishedTime` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/job/backoff_utils.go.
pub(super) fn finish_time(pod: &Value) -> Option<Timestamp> {
    let time = |of: &Value, pointer: &str| text(of, pointer).parse::<Timestamp>().ok();
    let ends: Option<Vec<Timestamp>> = items(pod, "/status/containerStatuses")
        .iter()
        .map(|it| time(it, "/state/terminated/finishedAt"))
        .collect();
    if let Some(end) = ends.and_then(|it| it.into_iter().max()) {
        return Some(end);
    }
    let unready = condition::find(pod, "Ready").filter(|it| text(it, "/status") == "False");
    if let Some(since) = unready.and_then(|it| time(it, "/lastTransitionTime")) {
        return Some(since);
    }
    let grace = number(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    let deleted = time(pod, "/metadata/deletionTimestamp");
    let deleted = deleted.and_then(|it| it.checked_sub(jiff::SignedDuration::from_secs(grace)).ok());
    deleted.or_else(|| time(pod, "/metadata/creationTimestamp"))
}

fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["annotations"].get(name).and_then(Value::as_str).unwrap_or_default()
}
