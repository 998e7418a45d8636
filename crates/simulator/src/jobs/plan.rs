//! The next steps for a Job: whether it is finished, and the pods to create and delete, as
//! `syncJob` and `manageJob` in k8s.io/kubernetes v1.36.4
//! pkg/controller/job/job_controller.go decide. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::failure_policy::Decision;
use super::indexes::Indexes;
use super::job::{IGNORED_FAILURES, INDEX_FAILURES, Job, failures, finish_time, has_succeeded, is_tracked};
use super::pods::{NewPod, surplus};
use super::status::Status;
use crate::json_access::{at, items, number, text};
use crate::object::Pod;

/// The largest number of pods that are created or deleted at once, and the delays before a failed
/// pod is replaced: `MaxPodCreateDeletePerSync`, `DefaultJobPodFailureBackOff` and
/// `MaxJobPodFailureBackOff` in the same package.
const BURST: usize = 500;
const FIRST_BACKOFF: i64 = 10;
const LONGEST_BACKOFF: i64 = 600;

/// The failures of the pods of a Job since one of them has succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) count: i64,
    pub(super) last: Option<Timestamp>,
}

/// The inputs of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) job: Job<'a>,
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) failures: Failures,
    pub(super) now: Timestamp,
}

/// The end of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) success: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

/// The pods to create and delete.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub(super) create: Vec<NewPod>,
    /// Pods that are deleted without being counted.
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods that are deleted because the Job has ended, and are counted.
    pub(super) end: Vec<Arc<Pod>>,
}

/// The steps for a Job.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) steps: Steps,
    /// The end of the Job, if its pods are deleted.
    pub(super) end: Option<End>,
    /// The number of pods before the steps.
    pub(super) active: i64,
    pub(super) ready: i64,
    pub(super) terminating: i64,
    /// The indexes that had succeeded according to the status, and all that have.
    pub(super) counted_indexes: Indexes,
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Option<Indexes>,
    /// Pods that are kept until another one has the failures of their index.
    pub(super) kept: BTreeMap<i64, Arc<Pod>>,
    pub(super) failures: Failures,
    pub(super) again: Option<Duration>,
}

impl Failures {
    /// Returns the failures after more pods have ended.
    fn after(self, succeeded: &[&Arc<Pod>], failed: &[&Arc<Pod>]) -> Self {
        let times = |pods: &[&Arc<Pod>]| pods.iter().filter_map(|it| finish_time(it)).collect::<Vec<_>>();
        let Some(success) = times(succeeded).into_iter().max() else {
            let count = i64::try_from(failed.len()).unwrap_or(i64::MAX);
            let last = times(failed).into_iter().max().or(self.last);
            return Self { count: self.count.saturating_add(count), last };
        };
        let later: Vec<_> = times(failed).into_iter().filter(|it| *it > success).collect();
        Self { count: i64::try_from(later.len()).unwrap_or(i64::MAX), last: later.into_iter().max() }
    }

    /// Returns the time until a pod may be created.
    fn rest(self, now: Timestamp) -> Duration {
        let (Some(last), 1..) = (self.last, self.count) else { return Duration::ZERO };
        let doubled = u32::try_from(self.count - 1).ok().and_then(|it| 2_i64.checked_pow(it));
        let delay =
            doubled.map_or(LONGEST_BACKOFF, |it| it.saturating_mul(FIRST_BACKOFF)).min(LONGEST_BACKOFF);
        let rest = last.as_second().saturating_add(delay).saturating_sub(now.as_second());
        Duration::from_secs(u64::try_from(rest).unwrap_or(0))
    }
}

/// Returns the steps for a Job. Its status has a start if it has begun.
pub(super) fn plan(observed: Observed<'_>, status: &Status) -> Plan {
    let Observed { job, pods, now, .. } = observed;
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|it| it.is_active()).collect();
    let count = |it: usize| i64::try_from(it).unwrap_or(i64::MAX);
    let is_new = |it: &&Arc<Pod>| is_tracked(it) && (!job.is_indexed() || job.index_of(it).is_some());
    let uid = |it: &Arc<Pod>| text(it, "/metadata/uid").to_owned();
    let (known_good, known_bad): (BTreeSet<_>, BTreeSet<_>) =
        (status.uncounted_succeeded.iter().collect(), status.uncounted_failed.iter().collect());
    let fresh = pods.iter().filter(is_new);
    let succeeded: Vec<_> =
        fresh.clone().filter(|it| has_succeeded(it) && !known_good.contains(&uid(it))).collect();
    let failed: Vec<_> = fresh.filter(|it| job.has_failed(it) && !known_bad.contains(&uid(it))).collect();
    let limit = job.completions().unwrap_or(0);
    let counted_indexes = Indexes::parse(&status.completed_indexes, limit);
    let new_indexes = |of: &[&Arc<Pod>]| of.iter().filter_map(|it| job.index_of(it)).collect::<BTreeSet<_>>();
    let mut plan = Plan {
        steps: Steps::default(),
        end: None,
        active: count(active.len()),
        ready: count(active.iter().filter(|it| it.ready.is_some()).count()),
        terminating: count(pods.iter().filter(|it| it.is_deleting && !it.has_ended).count()),
        succeeded_indexes: counted_indexes.with(&new_indexes(&succeeded)),
        counted_indexes,
        failed_indexes: None,
        kept: BTreeMap::new(),
        failures: observed.failures.after(&succeeded, &failed),
        again: None,
    };
    let mut successes =
        status.succeeded.saturating_add(count(succeeded.len() + status.uncounted_succeeded.len()));
    if job.is_indexed() {
        successes = plan.succeeded_indexes.len();
        if job.backoff_limit_per_index().is_some() {
            plan.find_failed_indexes(observed, status, limit, &active);
        }
    }
    let counting = failed.iter().filter(|it| job.counts(it)).count();
    let failures = status.failed.saturating_add(count(counting + status.uncounted_failed.len()));
    plan.end = plan.early_end(observed, status, failures);
    if plan.end.is_some() {
        plan.steps.end = active.into_iter().cloned().collect();
        return plan;
    }
    let left = job.seconds_left(&status.start, now).and_then(|it| u64::try_from(it).ok());
    plan.again = left.map(Duration::from_secs);
    if at(job.0, "/metadata/deletionTimestamp").is_none() {
        plan.manage(observed, &active, successes);
    }
    let is_done = job.completions().map_or(successes > 0, |it| successes >= it);
    if is_done && plan.active == count(plan.steps.delete.len()) && plan.steps.create.is_empty() {
        plan.end = Some(End {
            success: true,
            reason: "CompletionsReached".to_owned(),
            message: "Reached expected number of succeeded pods".to_owned(),
        });
    }
    plan
}

impl Plan {
    /// Returns the end of the Job that does not depend on what its pods do from now on.
    fn early_end(&self, observed: Observed<'_>, status: &Status, failures: i64) -> Option<End> {
        let (job, now) = (observed.job, observed.now);
        let end = |success: bool, reason: &str, message: &str| {
            Some(End { success, reason: reason.to_owned(), message: message.to_owned() })
        };
        for (kind, success) in [("SuccessCriteriaMet", true), ("FailureTarget", false)] {
            if let Some(condition) = status.condition(kind) {
                return end(success, text(condition, "/reason"), text(condition, "/message"));
            }
        }
        for pod in observed.pods.iter().filter(|it| job.has_failed(it)) {
            if let Decision::FailJob(message) = job.decide(pod) {
                return end(false, "PodFailurePolicy", &message);
            }
        }
        let pods: Vec<&Pod> = observed.pods.iter().map(|it| &**it).collect();
        if failures > job.backoff_limit() || job.restarts_too_often(&pods) {
            return end(false, "BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        if job.seconds_left(&status.start, now).is_some_and(|it| it <= 0) {
            return end(false, "DeadlineExceeded", "Job was active longer than specified deadline");
        }
        if let Some(failed) = &self.failed_indexes {
            if number(job.0, "/spec/maxFailedIndexes").is_some_and(|it| failed.len() > it) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return end(false, "MaxFailedIndexesExceeded", message);
            }
            let ended = failed.len().saturating_add(self.succeeded_indexes.len());
            if failed.len() > 0 && ended >= job.completions().unwrap_or(0) {
                return end(false, "FailedIndexes", "Job has failed indexes");
            }
        }
        let rule = self.success_rule(job)?;
        end(true, "SuccessPolicy", &format!("Matched rules at index {rule}"))
    }

    /// Returns the position of the first rule of the success policy that is met.
    fn success_rule(&self, job: Job<'_>) -> Option<usize> {
        let succeeded = self.succeeded_indexes.len();
        if succeeded == 0 || !job.is_indexed() {
            return None;
        }
        items(job.0, "/spec/successPolicy/rules").iter().position(|rule| {
            let enough = number(rule, "/succeededCount");
            match at(rule, "/succeededIndexes").and_then(Value::as_str) {
                None => enough.is_some_and(|it| succeeded >= it),
                Some(required) => {
                    let required = Indexes::parse(required, job.completions().unwrap_or(0));
                    let shared = self.succeeded_indexes.shared_with(&required);
                    required.len() > 0 && (shared == required.len() || enough.is_some_and(|it| shared >= it))
                }
            }
        })
    }

    /// Finds the indexes that have failed too often, and the pods whose failures the next pod of
    /// their index has to know.
    fn find_failed_indexes(
        &mut self,
        observed: Observed<'_>,
        status: &Status,
        limit: i64,
        active: &[&Arc<Pod>],
    ) {
        let job = observed.job;
        let known = Indexes::parse(status.failed_indexes.as_deref().unwrap_or_default(), limit);
        let tracked = || observed.pods.iter().filter(|it| is_tracked(it));
        let new = tracked().filter(|it| job.fails_index(it)).filter_map(|it| job.index_of(it)).collect();
        let failed = known.with(&new);
        let running: BTreeSet<_> = active.iter().filter_map(|it| job.index_of(it)).collect();
        for pod in tracked().filter(|it| job.has_failed(it)) {
            let Some(index) = job.index_of(pod) else { continue };
            if self.succeeded_indexes.contains(index) || failed.contains(index) || running.contains(&index) {
                continue;
            }
            let rank = |it: &Arc<Pod>| {
                (failures(it, INDEX_FAILURES).saturating_add(failures(it, IGNORED_FAILURES)), finish_time(it))
            };
            if self.kept.get(&index).is_none_or(|it| rank(it) <= rank(pod)) {
                self.kept.insert(index, Arc::clone(pod));
            }
        }
        self.failed_indexes = Some(failed);
    }

    /// Adds the steps for a Job that has not ended.
    fn manage(&mut self, observed: Observed<'_>, active: &[&Arc<Pod>], successes: i64) {
        let job = observed.job;
        if job.is_suspended() {
            self.steps.delete = surplus(job, active, active.len());
            return;
        }
        let wanted = match job.completions() {
            None if successes > 0 => self.active,
            None => job.parallelism(),
            Some(it) => it.saturating_sub(successes).clamp(0, job.parallelism().max(0)),
        };
        let too_many = usize::try_from(self.active.saturating_sub(wanted)).unwrap_or(0);
        self.steps.delete = surplus(job, active, too_many);
        self.steps.delete.truncate(BURST);
        if !self.steps.delete.is_empty() {
            return;
        }
        let terminating = if job.replaces_only_failed() { self.terminating } else { 0 };
        let missing = wanted.saturating_sub(terminating).saturating_sub(self.active);
        let missing = usize::try_from(missing).unwrap_or(0).min(BURST);
        if missing == 0 {
            return;
        }
        if job.backoff_limit_per_index().is_none() {
            let rest = self.failures.rest(observed.now);
            if !rest.is_zero() {
                self.again = self.again.into_iter().chain([rest]).min();
                return;
            }
        }
        if !job.is_indexed() {
            self.steps.create = vec![NewPod::default(); missing];
            return;
        }
        self.create_indexes(observed, active, missing);
    }

    /// Adds the creation of the pods with the lowest indexes that need one.
    fn create_indexes(&mut self, observed: Observed<'_>, active: &[&Arc<Pod>], missing: usize) {
        let job = observed.job;
        let mut taken: BTreeSet<i64> = active.iter().filter_map(|it| job.index_of(it)).collect();
        if job.replaces_only_failed() {
            let terminating = observed.pods.iter().filter(|it| it.is_deleting && !it.has_ended);
            taken.extend(terminating.filter_map(|it| job.index_of(it)));
        }
        let mut not_pending = self.succeeded_indexes.with(&taken);
        if let Some(failed) = &self.failed_indexes {
            not_pending = not_pending.merged(failed);
        }
        let mut shortest: Option<Duration> = None;
        for index in not_pending.missing(job.completions().unwrap_or(0), missing) {
            let last = self.kept.get(&index);
            let (counted, ignored) =
                last.map_or((0, 0), |it| (failures(it, INDEX_FAILURES), failures(it, IGNORED_FAILURES)));
            let mut new = NewPod { index: Some(index), failures: None };
            if job.backoff_limit_per_index().is_some() {
                let record = Failures {
                    count: last.map_or(0, |_| counted.saturating_add(ignored).saturating_add(1)),
                    last: last.and_then(|it| finish_time(it)),
                };
                let rest = record.rest(observed.now);
                if !rest.is_zero() {
                    shortest = shortest.into_iter().chain([rest]).min();
                    continue;
                }
                let counts = last.map(|it| job.counts(it));
                new.failures = Some((
                    counted.saturating_add(i64::from(counts == Some(true))),
                    ignored.saturating_add(i64::from(counts == Some(false))),
                ));
            }
            self.steps.create.push(new);
        }
        self.again = self.again.into_iter().chain(shortest).min();
    }
}
