//! The pods of a Job that have ended: each is counted once, even if the controller stops meanwhile.
//! Its uid goes into the status, then its finalizer goes, then the uid becomes a count
//! (`trackJobStatusAndRemoveFinalizers` in k8s.io/kubernetes v1.36.4
//! pkg/controller/job/job_controller.go). Pure.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::job::{Job, has_succeeded, is_tracked};
use super::plan::{End, Plan};
use super::status::Status;
use crate::json_access::text;
use crate::object::Pod;

/// The largest number of pods that are not counted yet: `MaxUncountedPods` in the same file.
const MOST_UNCOUNTED: usize = 500;

/// The pods to count after a plan was executed.
#[derive(Debug)]
pub(super) struct Tracking {
    /// The pods whose finalizers are removed.
    pub(super) release: Vec<Arc<Pod>>,
    /// The uids of the pods that have their finalizer.
    pub(super) tracked: HashSet<String>,
    /// True if all pods that have ended are included.
    pub(super) is_complete: bool,
}

/// Adds the pods that have ended to a status, and the preliminary condition of the end.
pub(super) fn track(
    job: Job<'_>,
    pods: &[Arc<Pod>],
    plan: &Plan,
    end: Option<&End>,
    status: &mut Status,
    now: &str,
) -> Tracking {
    let uid = |it: &Arc<Pod>| text(it, "/metadata/uid").to_owned();
    let tracked: HashSet<String> = pods.iter().filter(|it| is_tracked(it)).map(uid).collect();
    status.count(&tracked, job.is_indexed());
    let mut tracking = Tracking { release: Vec::new(), tracked, is_complete: true };
    let has_failed_end = end.is_some_and(|it| !it.success);
    let (mut new_indexes, mut known_bad): (BTreeSet<i64>, HashSet<String>) =
        (BTreeSet::new(), status.uncounted_failed.iter().cloned().collect());
    let known_good: HashSet<String> = status.uncounted_succeeded.iter().cloned().collect();
    let mut ordered: Vec<&Arc<Pod>> = pods.iter().filter(|it| is_tracked(it)).collect();
    ordered.sort_by_key(|it| job.index_of(it));
    for pod in ordered {
        let failed = job.has_failed(pod);
        if !(is_over(job, end) || has_succeeded(pod) || (failed && !is_kept(plan, job, pod))) {
            continue;
        }
        if new_indexes.len() + status.uncounted_succeeded.len() + status.uncounted_failed.len()
            >= MOST_UNCOUNTED
        {
            tracking.is_complete = false;
            break;
        }
        tracking.release.push(Arc::clone(pod));
        let (id, index) = (uid(pod), job.index_of(pod));
        let is_valid = !job.is_indexed() || index.is_some();
        if has_succeeded(pod) && !known_bad.contains(&id) {
            match index.filter(|_| job.is_indexed()) {
                Some(index) if !plan.counted_indexes.contains(index) => drop(new_indexes.insert(index)),
                None if !job.is_indexed() && !known_good.contains(&id) => status.uncounted_succeeded.push(id),
                _ => {}
            }
        } else if (failed || has_failed_end) && is_valid && job.counts(pod) && known_bad.insert(id.clone()) {
            status.uncounted_failed.push(id);
        }
    }
    if job.is_indexed() {
        let counted = plan.counted_indexes.with(&new_indexes);
        status.succeeded = counted.len();
        status.completed_indexes = counted.to_string();
        status.failed_indexes = plan.failed_indexes.as_ref().map(ToString::to_string);
    }
    if let Some(end) = end {
        let kind = if end.success { "SuccessCriteriaMet" } else { "FailureTarget" };
        if status.condition(kind).is_none() {
            status.set_condition(kind, "True", &end.reason, &end.message, now);
        }
    }
    tracking
}

/// Adds the final condition of the end to a status, once all pods are counted and gone. Returns
/// true if the Job is finished.
pub(super) fn finish(end: Option<&End>, status: &mut Status, now: &str) -> bool {
    let Some(end) = end else { return false };
    if status.terminating > 0 || !status.uncounted_succeeded.is_empty() || !status.uncounted_failed.is_empty()
    {
        return false;
    }
    let kind = if end.success { "Complete" } else { "Failed" };
    status.set_condition(kind, "True", &end.reason, &end.message, now);
    if end.success {
        now.clone_into(&mut status.completion);
    }
    true
}

fn is_over(job: Job<'_>, end: Option<&End>) -> bool {
    end.is_some() || job.0["metadata"].get("deletionTimestamp").is_some_and(|it| *it != Value::Null)
}

/// Returns true if a pod is kept until another one has its failures.
fn is_kept(plan: &Plan, job: Job<'_>, pod: &Arc<Pod>) -> bool {
    let kept = job.index_of(pod).and_then(|it| plan.kept.get(&it));
    kept.is_some_and(|it| text(it, "/metadata/uid") == text(pod, "/metadata/uid"))
}
