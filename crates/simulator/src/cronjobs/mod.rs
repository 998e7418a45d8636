//! CronJobs: Jobs at the times of a schedule.
//!
//! The `mod` lines below are in layer order.

mod schedule;

use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{DeleteParams, Object, ObjectKey};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::caches::Caches;
use crate::collection::{Collection, Writer};
use crate::component::Component;
use crate::condition;
use crate::environment::Environment;
use crate::index::CONTROLLER;
use crate::json_access::{at, entries, flag, items, number, text};
use crate::object::JsonObject;
use crate::owner::{controller_key, controls, is_deleting, reference};
use crate::recorder::{Event, Recorder};
use schedule::{Schedule, last_between};

/// The name of the component.
const NAME: &str = "cronjob-controller";

/// The number of missed times from which users are warned, and the time after a scheduled one at
/// which a CronJob is processed: k8s.io/kubernetes v1.36.4 pkg/controller/cronjob/utils.go and
/// cronjob_controllerv2.go.
const MANY_MISSED: i64 = 100;
const DELTA: Duration = Duration::from_millis(100);

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Creates Jobs at the times of schedules.
#[derive(Debug)]
pub(crate) struct CronJobs {
    cron_jobs: Collection<JsonObject>,
    jobs: Collection<JsonObject>,
    recorder: Recorder,
    environment: Arc<Environment>,
}

/// One CronJob while it is processed.
struct Round<'a> {
    of: &'a CronJobs,
    cron_job: &'a Value,
    writer: Writer<'a>,
    now: Timestamp,
    /// Its unfinished Jobs, as references in its status.
    active: Vec<Value>,
    last_schedule: String,
    last_success: String,
}

impl CronJobs {
    pub(crate) fn new(caches: &Caches, recorder: &Recorder, environment: &Arc<Environment>) -> Self {
        Self {
            cron_jobs: caches.cron_jobs.get(),
            jobs: caches.jobs.get(),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
        }
    }
}

impl Component for CronJobs {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes the CronJob of a Job, before and after a change.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        Controller::of(&self.cron_jobs.informer)
            .watches(&self.jobs.informer, |job: &JsonObject| controller_key(job, "CronJob"))
    }
}

impl Reconciler for CronJobs {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(cron_job) = self.cron_jobs.get(key) else { return Ok(Action::Done) };
        let mut jobs = self.jobs.found(CONTROLLER, text(&cron_job, "/metadata/uid"));
        jobs.retain(|it| it.header().namespace == key.namespace());
        let word = |pointer: &str| text(&cron_job, pointer).to_owned();
        let mut round = Round {
            of: self,
            cron_job: &cron_job,
            writer: Writer { manager: "kube-controller-manager", context },
            now: self.environment.now(),
            active: items(&cron_job, "/status/active").to_vec(),
            last_schedule: word("/status/lastScheduleTime"),
            last_success: word("/status/lastSuccessfulTime"),
        };
        round.observe(&jobs).await?;
        let scheduled = match is_deleting(&cron_job) {
            true => Ok(None),
            false => round.schedule(key).await,
        };
        let cleaned = round.clean_up(&jobs).await;
        round.report(key).await?;
        cleaned?;
        Ok(scheduled?.map_or(Action::Done, Action::RequeueAfter))
    }
}

impl Round<'_> {
    /// Updates the list of unfinished Jobs.
    async fn observe(&mut self, jobs: &[Arc<JsonObject>]) -> Result<(), Error> {
        for job in jobs {
            let uid = text(job, "/metadata/uid");
            let name = job.header().name;
            match (finished_as(job), self.is_active(uid)) {
                (None, false) => {
                    let message = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.record(Event::warning("UnexpectedJob", message)).await;
                }
                (Some(condition), true) => {
                    self.active.retain(|it| text(it, "/uid") != uid);
                    let message = format!("Saw completed job: {name}, condition: {condition}");
                    self.record(Event::normal("SawCompletedJob", message)).await;
                }
                _ => {}
            }
            let end = text(job, "/status/completionTime");
            // Times of one form sort as text.
            if finished_as(job) == Some("Complete") && end > self.last_success.as_str() {
                end.clone_into(&mut self.last_success);
            }
        }
        for reference in self.active.clone() {
            let uid = text(&reference, "/uid");
            if jobs.iter().any(|it| text(it, "/metadata/uid") == uid) {
                continue;
            }
            let (namespace, name) = (text(self.cron_job, "/metadata/namespace"), text(&reference, "/name"));
            let Ok(key) = ObjectKey::from_parts(Some(namespace), name) else { continue };
            if self.of.jobs.live(&key).await?.is_none() {
                self.active.retain(|it| text(it, "/uid") != uid);
                self.record(Event::normal("MissingJob", format!("Active job went missing: {name}"))).await;
            }
        }
        Ok(())
    }

    /// Creates the Job that is due. Returns the time until the next one.
    async fn schedule(&mut self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let zone = match at(self.cron_job, "/spec/timeZone").and_then(Value::as_str) {
            None => TimeZone::UTC,
            Some(name) => match TimeZone::get(name) {
                Ok(zone) => zone,
                Err(error) => {
                    let message = format!("invalid timeZone: {name:?}: {error}");
                    self.record(Event::warning("UnknownTimeZone", message)).await;
                    return Ok(None);
                }
            },
        };
        if flag(self.cron_job, "/spec/suspend") {
            return Ok(None);
        }
        let written = text(self.cron_job, "/spec/schedule");
        let Some(schedule) = Schedule::parse(written) else {
            let message = format!("unparseable schedule: {written:?}");
            self.record(Event::warning("UnparseableSchedule", message)).await;
            return Ok(None);
        };
        if let Some(due) = self.due(&schedule, &zone).await {
            self.start(key, due, &zone).await?;
        }
        let next = schedule.next(self.now, &zone);
        let rest = next.and_then(|it| Duration::try_from(it.duration_since(self.now)).ok());
        Ok(rest.map(|it| it.saturating_add(DELTA)))
    }

    /// Returns the time for which a Job is due.
    async fn due(&self, schedule: &Schedule, zone: &TimeZone) -> Option<Timestamp> {
        let deadline = number(self.cron_job, "/spec/startingDeadlineSeconds").map(SignedDuration::from_secs);
        let created = text(self.cron_job, "/metadata/creationTimestamp");
        let since = if self.last_schedule.is_empty() { created } else { self.last_schedule.as_str() };
        let earliest = deadline.and_then(|it| self.now.checked_sub(it).ok());
        let since: Timestamp = since.parse().ok()?;
        let (due, missed) =
            last_between(schedule, zone, earliest.map_or(since, |it| it.max(since)), self.now);
        if missed > MANY_MISSED {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.record(Event::warning("TooManyMissedTimes", message.to_owned())).await;
        }
        due
    }

    /// Creates the Job of a scheduled time, if the concurrency policy admits it.
    async fn start(&mut self, key: &ObjectKey, due: Timestamp, zone: &TimeZone) -> Result<(), Error> {
        let name = format!("{}-{}", key.name(), due.as_second() / 60);
        let time = due.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        if self.last_schedule == time || self.active.iter().any(|it| text(it, "/name") == name) {
            return Ok(());
        }
        match text(self.cron_job, "/spec/concurrencyPolicy") {
            "Forbid" if !self.active.is_empty() => {
                let message =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.record(Event::normal("JobAlreadyActive", message.to_owned())).await;
                return Ok(());
            }
            "Replace" => {
                for reference in self.active.clone() {
                    self.delete(text(&reference, "/name"), text(&reference, "/uid")).await?;
                }
            }
            _ => {}
        }
        let job = match self.of.jobs.create(self.new_job(&name, due, zone), self.writer).await {
            Ok(job) => {
                self.record(Event::normal("SuccessfulCreate", format!("Created job {name}"))).await;
                job
            }
            Err(error) if error.is_already_exists() => {
                let job_key = ObjectKey::from_parts(key.namespace(), &name);
                let Ok(job_key) = job_key else { return Err(error) };
                match self.of.jobs.live(&job_key).await? {
                    Some(job) if controls(self.cron_job, &job) => job,
                    _ => return Ok(()),
                }
            }
            Err(error) => {
                self.record(Event::warning("FailedCreate", format!("Error creating job: {error}"))).await;
                return Err(error);
            }
        };
        self.active.push(json!({ "apiVersion": "batch/v1", "kind": "Job", "name": name,
            "namespace": job["metadata"]["namespace"], "uid": job["metadata"]["uid"],
            "resourceVersion": job["metadata"]["resourceVersion"] }));
        self.last_schedule = time;
        Ok(())
    }

    fn new_job(&self, name: &str, due: Timestamp, zone: &TimeZone) -> Value {
        let template = &self.cron_job["spec"]["jobTemplate"];
        let mut metadata = json!({ "name": name, "namespace": self.cron_job["metadata"]["namespace"],
            "ownerReferences": [reference(self.cron_job)] });
        for (label, value) in entries(template, "/metadata/labels") {
            metadata["labels"][label] = value.clone();
        }
        for (annotation, value) in entries(template, "/metadata/annotations") {
            metadata["annotations"][annotation] = value.clone();
        }
        let local = due.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        let local = local.strip_suffix("+00:00").map_or(local.clone(), |it| format!("{it}Z"));
        metadata["annotations"][SCHEDULED_AT] = local.into();
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"] })
    }

    /// Deletes finished Jobs beyond the limits of the history, the oldest first.
    async fn clean_up(&mut self, jobs: &[Arc<JsonObject>]) -> Result<(), Error> {
        for (condition, field) in
            [("Complete", "/spec/successfulJobsHistoryLimit"), ("Failed", "/spec/failedJobsHistoryLimit")]
        {
            let Some(limit) = number(self.cron_job, field).and_then(|it| usize::try_from(it).ok()) else {
                continue;
            };
            let mut finished: Vec<_> =
                jobs.iter().filter(|it| finished_as(it) == Some(condition) && !is_deleting(it)).collect();
            finished.sort_by_key(|it| {
                let start = text(it, "/status/startTime").to_owned();
                (start.is_empty(), start, text(it, "/metadata/name").to_owned())
            });
            for job in finished.iter().take(finished.len().saturating_sub(limit)) {
                self.delete(job.header().name, text(job, "/metadata/uid")).await?;
            }
        }
        Ok(())
    }

    async fn delete(&mut self, name: &str, uid: &str) -> Result<(), Error> {
        let namespace = text(self.cron_job, "/metadata/namespace");
        let Ok(key) = ObjectKey::from_parts(Some(namespace), name) else { return Ok(()) };
        match self.of.jobs.delete(&key, &DeleteParams::background(), self.writer).await {
            Ok(_) => {
                self.active.retain(|it| text(it, "/uid") != uid);
                self.record(Event::normal("SuccessfulDelete", format!("Deleted job {name}"))).await;
                Ok(())
            }
            Err(error) => {
                self.record(Event::warning("FailedDelete", format!("Deleted job: {error}"))).await;
                Err(error)
            }
        }
    }

    async fn report(&self, key: &ObjectKey) -> Result<(), Error> {
        let mut status = json!({});
        if !self.active.is_empty() {
            status["active"] = self.active.clone().into();
        }
        for (field, time) in
            [("lastScheduleTime", &self.last_schedule), ("lastSuccessfulTime", &self.last_success)]
        {
            if !time.is_empty() {
                status[field] = time.as_str().into();
            }
        }
        let report = |it: &mut Value| {
            let same = text(it, "/metadata/uid") == text(self.cron_job, "/metadata/uid");
            let known = it.get("status").filter(|it| !it.is_null()).cloned().unwrap_or_else(|| json!({}));
            it["status"] = status.clone();
            same && known != status
        };
        self.of.cron_jobs.change(key, "status", self.writer, report).await?;
        Ok(())
    }

    fn is_active(&self, uid: &str) -> bool {
        self.active.iter().any(|it| text(it, "/uid") == uid)
    }

    async fn record(&self, event: Event) {
        self.of.recorder.record(NAME, self.cron_job, event).await;
    }
}

/// Returns the condition by which a Job is finished, if it is.
fn finished_as(job: &Value) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|it| condition::is_true(job, it))
}
