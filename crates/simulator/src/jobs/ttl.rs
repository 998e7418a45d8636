//! Finished Jobs with `ttlSecondsAfterFinished`: they are deleted when that time is over.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{DeleteParams, ObjectKey, Preconditions};
use jiff::Timestamp;
use serde_json::Value;

use super::job::Job;
use crate::caches::Caches;
use crate::collection::{Collection, Writer, code};
use crate::component::Component;
use crate::condition;
use crate::environment::Environment;
use crate::json_access::{number, text};
use crate::object::JsonObject;
use crate::owner::is_deleting;

/// Deletes finished Jobs.
#[derive(Debug)]
pub(crate) struct FinishedJobs {
    jobs: Collection<JsonObject>,
    environment: Arc<Environment>,
}

impl FinishedJobs {
    pub(crate) fn new(caches: &Caches, environment: &Arc<Environment>) -> Self {
        Self { jobs: caches.jobs.get(), environment: Arc::clone(environment) }
    }
}

impl Component for FinishedJobs {
    const NAME: &'static str = "ttl-after-finished-controller";

    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        Controller::of(&self.jobs.informer)
    }
}

impl Reconciler for FinishedJobs {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let left = |it: &Value| time_left(it, self.environment.now());
        match self.jobs.get(key).and_then(|it| left(&it)) {
            None => return Ok(Action::Done),
            Some(rest) if !rest.is_zero() => return Ok(Action::RequeueAfter(rest)),
            Some(_) => {}
        }
        // The time may have been extended since.
        let Some(job) = self.jobs.live(key).await?.filter(|it| left(it).is_some_and(|it| it.is_zero()))
        else {
            return Ok(Action::Done);
        };
        let uid = Some(text(&job, "/metadata/uid").to_owned());
        let params =
            DeleteParams::foreground().preconditions(Preconditions { uid, ..Preconditions::default() });
        let writer = Writer { manager: "kube-controller-manager", context };
        match self.jobs.delete(key, &params, writer).await {
            Err(error) if code(&error) != 409 => Err(error),
            _ => Ok(Action::Done),
        }
    }
}

/// Returns the time that a finished Job has left, if it is limited.
fn time_left(job: &Value, now: Timestamp) -> Option<Duration> {
    let seconds = number(job, "/spec/ttlSecondsAfterFinished")
        .filter(|_| Job(job).is_finished() && !is_deleting(job))?;
    let ends = ["Complete", "Failed"].into_iter().filter_map(|it| condition::find(job, it));
    let end: Timestamp = ends.filter_map(|it| text(it, "/lastTransitionTime").parse().ok()).min()?;
    let rest = end.as_second().saturating_add(seconds).saturating_sub(now.as_second());
    Some(Duration::from_secs(u64::try_from(rest).unwrap_or(0)))
}
