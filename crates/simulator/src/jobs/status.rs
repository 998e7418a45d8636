//! The status of a Job: its counters, and the pods that have ended and are not counted yet.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::condition;
use crate::json_access::{items, number, text};

/// The status of a Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Status {
    pub(super) active: i64,
    pub(super) ready: i64,
    pub(super) terminating: i64,
    pub(super) succeeded: i64,
    pub(super) failed: i64,
    pub(super) completed_indexes: String,
    pub(super) failed_indexes: Option<String>,
    /// The uids of pods that have ended and still have their finalizer.
    pub(super) uncounted_succeeded: Vec<String>,
    pub(super) uncounted_failed: Vec<String>,
    /// Empty before the start, and while the Job is suspended.
    pub(super) start: String,
    pub(super) completion: String,
    pub(super) conditions: Vec<Value>,
}

impl Status {
    pub(super) fn read(job: &Value) -> Self {
        let count = |pointer: &str| number(job, pointer).unwrap_or(0);
        let uids = |pointer: &str| {
            items(job, pointer).iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()
        };
        let word = |pointer: &str| text(job, pointer).to_owned();
        Self {
            active: count("/status/active"),
            ready: count("/status/ready"),
            terminating: count("/status/terminating"),
            succeeded: count("/status/succeeded"),
            failed: count("/status/failed"),
            completed_indexes: word("/status/completedIndexes"),
            failed_indexes: crate::json_access::at(job, "/status/failedIndexes")
                .and_then(Value::as_str)
                .map(str::to_owned),
            uncounted_succeeded: uids("/status/uncountedTerminatedPods/succeeded"),
            uncounted_failed: uids("/status/uncountedTerminatedPods/failed"),
            start: word("/status/startTime"),
            completion: word("/status/completionTime"),
            conditions: items(job, "/status/conditions").to_vec(),
        }
    }

    pub(super) fn json(&self) -> Value {
        let mut uncounted = json!({});
        for (field, uids) in [("succeeded", &self.uncounted_succeeded), ("failed", &self.uncounted_failed)] {
            if !uids.is_empty() {
                uncounted[field] = uids.clone().into();
            }
        }
        let mut status = json!({ "ready": self.ready, "terminating": self.terminating, "uncountedTerminatedPods": uncounted });
        for (field, count) in
            [("active", self.active), ("succeeded", self.succeeded), ("failed", self.failed)]
        {
            if count != 0 {
                status[field] = count.into();
            }
        }
        for (field, word) in [
            ("completedIndexes", &self.completed_indexes),
            ("startTime", &self.start),
            ("completionTime", &self.completion),
        ] {
            if !word.is_empty() {
                status[field] = word.as_str().into();
            }
        }
        if let Some(failed) = &self.failed_indexes {
            status["failedIndexes"] = failed.as_str().into();
        }
        if !self.conditions.is_empty() {
            status["conditions"] = self.conditions.clone().into();
        }
        status
    }

    /// Counts the pods whose finalizer is gone.
    pub(super) fn count(&mut self, tracked: &HashSet<String>, is_indexed: bool) {
        let take = |uids: &mut Vec<String>| {
            let before = uids.len();
            uids.retain(|it| tracked.contains(it));
            i64::try_from(before - uids.len()).unwrap_or(0)
        };
        let (succeeded, failed) = (take(&mut self.uncounted_succeeded), take(&mut self.uncounted_failed));
        // The indexes are the count of an indexed Job.
        if !is_indexed {
            self.succeeded = self.succeeded.saturating_add(succeeded);
        }
        self.failed = self.failed.saturating_add(failed);
    }

    /// Sets a condition. Returns true if that changed its status.
    pub(super) fn set_condition(
        &mut self,
        kind: &str,
        status: &str,
        reason: &str,
        message: &str,
        now: &str,
    ) -> bool {
        let known = self.conditions.iter().find(|it| text(it, "/type") == kind);
        if known.is_some_and(|it| text(it, "/status") == status && text(it, "/reason") == reason) {
            return false;
        }
        let changed = known.is_none_or(|it| text(it, "/status") != status);
        condition::set(&mut self.conditions, kind, status, reason, message, now);
        if let Some(condition) = self.conditions.iter_mut().find(|it| text(it, "/type") == kind) {
            condition["lastProbeTime"] = now.into();
        }
        changed
    }

    /// Returns a condition that is true.
    pub(super) fn condition(&self, kind: &str) -> Option<&Value> {
        self.conditions.iter().find(|it| text(it, "/type") == kind && text(it, "/status") == "True")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_it_is_written_and_pods_are_counted_once() {
        let written = json!({ "active": 1, "ready": 0, "terminating": 0, "failed": 2, "startTime": "t1",
            "uncountedTerminatedPods": { "succeeded": ["a", "b"], "failed": ["c"] } });
        let mut status = Status::read(&json!({ "status": written }));
        assert_eq!(status.json(), written);
        status.count(&HashSet::from(["b".to_owned()]), false);
        assert_eq!((status.succeeded, status.failed), (1, 3));
        assert_eq!(status.json()["uncountedTerminatedPods"], json!({ "succeeded": ["b"] }));
        assert!(status.set_condition("Suspended", "True", "JobSuspended", "Job suspended", "t2"));
        assert!(!status.set_condition("Suspended", "True", "JobSuspended", "Job suspended", "t3"));
        assert_eq!(status.condition("Suspended").unwrap()["lastTransitionTime"], "t2");
    }
}
