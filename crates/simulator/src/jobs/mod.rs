//! Jobs: pods that run until enough of them have succeeded, or too many have failed.
//!
//! The `mod` lines below are in layer order.

mod indexes;
mod failure_policy;
mod job;
mod status;
mod pods;
mod plan;
mod tracking;
mod ttl;

pub(crate) use ttl::FinishedJobs;

use std::collections::HashMap;
use std::sync::Arc;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{DeleteParams, Object, ObjectKey};
use parking_lot::Mutex;
use serde_json::Value;

use crate::caches::Caches;
use crate::collection::{Collection, FirstError, Writer};
use crate::component::Component;
use crate::environment::Environment;
use crate::finalizers;
use crate::index::TRACKED;
use crate::json_access::text;
use crate::object::{JsonObject, Pod};
use crate::owner::controls;
use crate::ownership::{Claimant, workloads_of};
use crate::recorder::{Event, Recorder};
use crate::selector::of_workload;
use job::{FINALIZER, Job};
use plan::{End, Failures, Observed, Plan};
use status::Status;

/// The name of the component.
const NAME: &str = "job-controller";
const MANAGER: &str = "kube-controller-manager";

/// Runs Jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    jobs: Collection<JsonObject>,
    pods: Collection<Pod>,
    recorder: Recorder,
    environment: Arc<Environment>,
    /// The recent failures of each Job, with its uid.
    failures: Mutex<HashMap<ObjectKey, (String, Failures)>>,
}

/// One Job while it is processed.
#[derive(Clone, Copy)]
struct Run<'a> {
    of: &'a Jobs,
    key: &'a ObjectKey,
    job: Job<'a>,
    writer: Writer<'a>,
}

impl Jobs {
    pub(crate) fn new(caches: &Caches, recorder: &Recorder, environment: &Arc<Environment>) -> Self {
        Self {
            jobs: caches.jobs.get(),
            pods: caches.pods.get(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
            failures: Mutex::default(),
        }
    }

    /// Removes the finalizers of pods that no running Job of this name counts.
    async fn abandon(&self, key: &ObjectKey, job: Option<&Value>, writer: Writer<'_>) -> Result<(), Error> {
        let counts = |pod: &Pod| job.is_some_and(|it| controls(it, pod) && !Job(it).is_finished());
        let mut failed = FirstError::default();
        for pod in self.pods.found(TRACKED, &key.to_string()) {
            if let Some(pod_key) = pod.key().filter(|_| !counts(&pod)) {
                let remove = |it: &mut Value| finalizers::remove(it, "/metadata/finalizers", FINALIZER);
                failed.keep(self.pods.change(&pod_key, "", writer, remove).await);
            }
        }
        failed.into_result()
    }
}

impl Component for Jobs {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes the Job of a pod, before and after a change, and the
    /// Job by whose name a pod waits to be counted.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let by_controller = workloads_of::<Pod>(&self.jobs, "Job");
        let keys = move |pod: &Pod| -> Vec<ObjectKey> {
            let tracked = crate::index::tracking_job(pod).and_then(|it| it.parse().ok());
            let mut keys = by_controller(pod);
            keys.extend(tracked.filter(|it| !keys.contains(it)));
            keys
        };
        Controller::of(&self.jobs.informer).watches(&self.pods.informer, keys)
    }
}

impl Reconciler for Jobs {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let writer = Writer { manager: MANAGER, context };
        let job = self.jobs.get(key);
        // Another controller may be responsible for it, and for its pods.
        let managed = job.as_ref().map_or("", |it| text(it, "/spec/managedBy"));
        if !matches!(managed, "" | "kubernetes.io/job-controller") {
            return Ok(Action::Done);
        }
        self.abandon(key, job.as_deref().map(|it| &**it), writer).await?;
        let Some(job) = job.filter(|it| !Job(it).is_finished()) else {
            self.failures.lock().remove(key);
            return Ok(Action::Done);
        };
        let Some(selector) = of_workload(&job) else { return Ok(Action::Done) };
        let claimant = Claimant { key, workload: &job, selector: &selector, workloads: &self.jobs, writer };
        let claimed = claimant.with_finalizer(FINALIZER).claim(&self.pods, |_| true).await?;
        let Some(pods) = claimed else { return Ok(Action::Done) };
        Run { of: self, key, job: Job(&job), writer }.advance(&pods).await
    }
}

impl Run<'_> {
    /// Takes the next steps and writes the status.
    async fn advance(self, pods: &[Arc<Pod>]) -> Result<Action, Error> {
        let (now, uid) = (self.of.environment.now(), text(self.job.0, "/metadata/uid"));
        let stamp = self.of.environment.stamp();
        let mut status = Status::read(self.job.0);
        if status.start.is_empty() && !self.job.is_suspended() {
            status.start.clone_from(&stamp);
        }
        let known = self.of.failures.lock().get(self.key).filter(|(of, _)| of == uid).map(|(_, it)| *it);
        let observed = Observed { job: self.job, pods, failures: known.unwrap_or_default(), now };
        let plan = plan::plan(observed, &status);
        let executed = self.execute(&plan, &mut status).await;
        // Until all pods are deleted, the Job has not ended.
        let end = plan.end.as_ref().filter(|_| executed.is_ok());
        if end.is_none() {
            self.suspend_or_resume(&mut status, &stamp).await;
        }
        let mut tracking = tracking::track(self.job, pods, &plan, end, &mut status, &stamp);
        let written = self.report(&status).await?;
        self.of.failures.lock().insert(self.key.clone(), (uid.to_owned(), plan.failures));
        let mut released = FirstError::default();
        for pod in &tracking.release {
            let Some(key) = pod.key() else { continue };
            let remove = |it: &mut Value| finalizers::remove(it, "/metadata/finalizers", FINALIZER);
            if released.keep(self.of.pods.change(&key, "", self.writer, remove).await).is_some() {
                tracking.tracked.remove(text(pod, "/metadata/uid"));
            }
        }
        status.count(&tracking.tracked, self.job.is_indexed());
        let is_finished = tracking.is_complete && written && tracking::finish(end, &mut status, &stamp);
        self.report(&status).await?;
        if let Some(end) = end.filter(|_| is_finished) {
            self.record_end(end).await;
        }
        released.into_result()?;
        executed?;
        Ok(plan.again.map_or(Action::Done, Action::RequeueAfter))
    }

    /// Creates and deletes pods, and sets the numbers of pods in a status.
    async fn execute(self, plan: &Plan, status: &mut Status) -> Result<(), Error> {
        (status.active, status.ready, status.terminating) = (plan.active, plan.ready, plan.terminating);
        let mut deletions = FirstError::default();
        for (pods, counted) in [(&plan.steps.delete, false), (&plan.steps.end, true)] {
            for pod in pods {
                if deletions.keep(self.delete(pod, counted).await).is_some() {
                    status.active = status.active.saturating_sub(1);
                    status.ready = status.ready.saturating_sub(i64::from(pod.ready.is_some()));
                    status.terminating = status.terminating.saturating_add(1);
                }
            }
        }
        deletions.into_result()?;
        for new in &plan.steps.create {
            let created = self.of.pods.create(pods::create(self.job, new), self.writer).await;
            let event = match &created {
                Ok(pod) => Event::normal("SuccessfulCreate", format!("Created pod: {}", pod.header().name)),
                Err(error) => Event::warning("FailedCreate", format!("Error creating: {error}")),
            };
            self.of.recorder.record(NAME, self.job.0, event).await;
            created?;
            status.active = status.active.saturating_add(1);
        }
        Ok(())
    }

    /// Deletes a pod, whose end is counted or not.
    async fn delete(self, pod: &Pod, counted: bool) -> Result<(), Error> {
        let Some(key) = pod.key() else { return Ok(()) };
        if !counted {
            let remove = |it: &mut Value| finalizers::remove(it, "/metadata/finalizers", FINALIZER);
            self.of.pods.change(&key, "", self.writer, remove).await?;
        }
        if self.of.pods.delete(&key, &DeleteParams::default(), self.writer).await? {
            let event = Event::normal("SuccessfulDelete", format!("Deleted pod: {}", key.name()));
            self.of.recorder.record(NAME, self.job.0, event).await;
        }
        Ok(())
    }

    /// Updates the condition `Suspended`. A Job that is resumed starts again.
    async fn suspend_or_resume(self, status: &mut Status, now: &str) {
        let (reason, message) = if self.job.is_suspended() {
            if !status.set_condition("Suspended", "True", "JobSuspended", "Job suspended", now) {
                return;
            }
            ("Suspended", "Job suspended")
        } else {
            let known = status.condition("Suspended").is_some();
            if !known || !status.set_condition("Suspended", "False", "JobResumed", "Job resumed", now) {
                return;
            }
            now.clone_into(&mut status.start);
            ("Resumed", "Job resumed")
        };
        self.of.recorder.record(NAME, self.job.0, Event::normal(reason, message.to_owned())).await;
    }

    /// Writes a status. Returns false if the Job no longer exists.
    async fn report(self, status: &Status) -> Result<bool, Error> {
        let status = status.json();
        let mut exists = false;
        let report = |it: &mut Value| {
            exists = text(it, "/metadata/uid") == text(self.job.0, "/metadata/uid");
            let changed = exists && it["status"] != status;
            it["status"] = status.clone();
            changed
        };
        self.of.jobs.change(self.key, "status", self.writer, report).await?;
        Ok(exists)
    }

    async fn record_end(self, end: &End) {
        let event = match end.success {
            true => Event::normal("Completed", "Job completed".to_owned()),
            false => Event::warning(reason(&end.reason), end.message.clone()),
        };
        self.of.recorder.record(NAME, self.job.0, event).await;
    }
}

/// Returns the reason of a failure as an event has it.
fn reason(reason: &str) -> &'static str {
    let known = [
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "PodFailurePolicy",
        "MaxFailedIndexesExceeded",
        "FailedIndexes",
    ];
    known.into_iter().find(|it| *it == reason).unwrap_or("Failed")
}
