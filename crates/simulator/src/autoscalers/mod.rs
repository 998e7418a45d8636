//! HorizontalPodAutoscalers: change the number of replicas of their target by the use of resources.
//!
//! ```text
//! scale of the target ─► pods ─► use of each ─► metrics ─► limits ─► scale of the target
//! ```
//!
//! There is no metrics API; [`usage`] says where the numbers come from. As in
//! kube-controller-manager, an autoscaler is evaluated at an interval, not when pods change.
//!
//! The `mod` lines below are in layer order.

mod usage;
mod proposal;
mod history;
mod limits;
mod metrics;
mod selectors;
mod status;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::discovery::{DiscoveryOptions, MapError, Scalable, ScaleError};
use dogwatch_client::{CachedDiscovery, Client, Error, RestMapper};
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched};
use dogwatch_core::{ErrorChain, GetParams, Gvk, LabelSelector, Object, ObjectKey, WriteParams};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::caches::Caches;
use crate::collection::{Collection, Writer};
use crate::component::Component;
use crate::environment::Environment;
use crate::index::{LABEL, anchor};
use crate::json_access::{items, number, text};
use crate::object::{JsonObject, Pod};
use crate::owner::is_deleting;
use crate::recorder::{Event, Recorder};
use history::History;
use limits::{Limits, maximum, minimum};
use metrics::{Observed, evaluate};
use selectors::Selectors;
use status::Report;

const MANAGER: &str = "kube-controller-manager";
/// The source of the events.
const EVENT_SOURCE: &str = "horizontal-pod-autoscaler";

/// The interval between evaluations: the default of `--horizontal-pod-autoscaler-sync-period`.
const INTERVAL: Duration = Duration::from_secs(15);
/// The time for which the server's kinds are remembered; a target of an unknown kind is looked for
/// again after it.
const KINDS_FRESH_FOR: Duration = Duration::from_secs(60);

/// Scales the targets of HorizontalPodAutoscalers.
pub(crate) struct Autoscalers {
    autoscalers: Collection<JsonObject>,
    pods: Collection<Pod>,
    mapper: RestMapper,
    recorder: Recorder,
    environment: Arc<Environment>,
    /// The past of each autoscaler, until it is deleted.
    known: Mutex<HashMap<ObjectKey, Known>>,
    selectors: Mutex<Selectors>,
}

/// The past of an autoscaler, from its last evaluations.
#[derive(Debug, Default)]
struct Known {
    uid: String,
    history: History,
    /// The warnings of the last evaluation, which are not recorded again.
    warnings: Vec<Event>,
}

/// The target of an autoscaler, with its scale.
struct TargetScale {
    resource: Scalable,
    scale: Value,
}

impl TargetScale {
    /// Returns the number of replicas that the target should have now.
    fn replicas(&self) -> i64 {
        number(&self.scale, "/spec/replicas").unwrap_or(0)
    }
}

impl Autoscalers {
    pub(crate) fn new(
        client: &Client,
        caches: &Caches,
        recorder: &Recorder,
        environment: &Arc<Environment>,
    ) -> Self {
        let options = DiscoveryOptions { fresh_for: Some(KINDS_FRESH_FOR), ..DiscoveryOptions::default() };
        Self {
            autoscalers: caches.autoscalers.get(),
            pods: caches.pods.get(),
            mapper: RestMapper::new(CachedDiscovery::with_options(client.clone(), options)),
            recorder: recorder.clone(),
            environment: Arc::clone(environment),
            known: Mutex::default(),
            selectors: Mutex::default(),
        }
    }

    /// Reads the scale of an autoscaler's target.
    async fn scale(&self, autoscaler: &Value) -> Result<TargetScale, String> {
        let target = &autoscaler["spec"]["scaleTargetRef"];
        let kind = Gvk::from_api_version(text(target, "/apiVersion"), text(target, "/kind"));
        // As upstream, any version of the kind that the server has.
        let kind = Gvk::new(&kind.group, "", &kind.kind);
        let resource = self.mapper.scalable_kind(&kind).await.map_err(|it| unmapped(&kind, &it))?;
        let resource = resource.in_namespace(text(autoscaler, "/metadata/namespace"));
        let (name, params) = (text(target, "/name"), GetParams::default());
        let scale = resource.api().get_subresource::<Value>(name, "scale", &params).await;
        let scale = scale.map_err(|it| message_of(&it))?;
        Ok(TargetScale { resource, scale })
    }

    /// Gives the target of an autoscaler another number of replicas, if it has not changed since
    /// its scale was read.
    async fn rescale(&self, target: &TargetScale, name: &str, replicas: i64) -> Result<(), String> {
        let (mut scale, params) = (target.scale.clone(), WriteParams::default().manager(MANAGER));
        scale["spec"]["replicas"] = replicas.into();
        let replaced = target.resource.api().replace_subresource(name, "scale", &params, &scale).await;
        replaced.map(|_: Value| ()).map_err(|it| message_of(&it))
    }

    /// Returns the pods of a target; an error is the arguments of [`Report::no_pods`].
    fn pods_of(&self, key: &ObjectKey, selector: &str) -> Result<Vec<Arc<Pod>>, NoPods> {
        if selector.is_empty() {
            return Err(NoPods {
                event: "SelectorRequired",
                reason: "InvalidSelector",
                error: "selector is required".to_owned(),
                message: "the HPA target's scale is missing a selector".to_owned(),
            });
        }
        let parsed: LabelSelector = selector.parse().map_err(|error| {
            let error =
                format!("couldn't convert selector into a corresponding internal selector object: {error}");
            let message = error.clone();
            NoPods { event: "InvalidSelector", reason: "InvalidSelector", error, message }
        })?;
        let namespace = key.namespace().unwrap_or_default();
        let mut pods = self.pods.found(LABEL, &anchor(namespace, &parsed));
        pods.retain(|it| parsed.matches(it.header().labels));
        let mut selectors = self.selectors.lock();
        selectors.set(key, &parsed);
        let refs: Vec<&Pod> = pods.iter().map(|it| &**it).collect();
        let all = selectors.of_pods(&refs);
        if all.len() > 1 {
            let names: Vec<String> = all.into_iter().map(ToString::to_string).collect();
            let names = names.join(" ");
            let error = format!("pods by selector {selector} are controlled by multiple HPAs: [{names}]");
            let message = error.clone();
            return Err(NoPods { event: "AmbiguousSelector", reason: "AmbiguousSelector", error, message });
        }
        Ok(pods)
    }

    /// Evaluates an autoscaler, and scales its target.
    async fn evaluate(&self, key: &ObjectKey, autoscaler: &Value, report: &mut Report) {
        let target = match self.scale(autoscaler).await {
            Ok(target) => target,
            Err(error) => return report.no_scale(&error),
        };
        let message = "the HPA controller was able to get the target's current scale";
        report.condition("AbleToScale", true, "SucceededGetScale", message);
        let (spec, current, now) = (&autoscaler["spec"], target.replicas(), Instant::now());
        self.with_history(key, autoscaler, |it| it.begin(current, now));
        let desired = if current == 0 && minimum(spec) != 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            report.condition("ScalingActive", false, "ScalingDisabled", message);
            report.without_metrics();
            None
        } else if current > maximum(spec) {
            report.without_metrics();
            let reason = "Current number of replicas above Spec.MaxReplicas";
            Some((maximum(spec), reason.to_owned()))
        } else if current < minimum(spec) {
            report.without_metrics();
            let reason = "Current number of replicas below Spec.MinReplicas";
            Some((minimum(spec), reason.to_owned()))
        } else {
            match self.desired(key, autoscaler, &target, report) {
                Some(desired) => Some(desired).filter(|it| it.0 != current),
                None => return report.replicas(current, None),
            }
        };
        let Some((desired, reason)) = desired else { return report.replicas(current, Some(current)) };
        let name = text(spec, "/scaleTargetRef/name");
        match self.rescale(&target, name, desired).await {
            Ok(()) => {
                self.with_history(key, autoscaler, |it| it.scale(current, desired, now));
                report.rescaled(desired, &reason);
                report.replicas(current, Some(desired));
            }
            Err(error) => {
                report.not_rescaled(desired, &reason, &error);
                report.replicas(current, None);
            }
        }
    }

    /// Returns the number of replicas that the metrics ask for, within the limits, with the reason.
    /// Returns `None` if the metrics cannot be evaluated.
    fn desired(
        &self,
        key: &ObjectKey,
        autoscaler: &Value,
        target: &TargetScale,
        report: &mut Report,
    ) -> Option<(i64, String)> {
        let pods = match self.pods_of(key, text(&target.scale, "/status/selector")) {
            Ok(pods) => pods,
            Err(NoPods { event, reason, error, message }) => {
                report.no_pods(event, reason, &error, &message);
                return None;
            }
        };
        let pods: Vec<&Pod> = pods.iter().map(|it| &**it).collect();
        let (current, now) = (target.replicas(), self.environment.now());
        let observed = Observed { autoscaler, pods: &pods, current, now };
        let metrics = items(autoscaler, "/spec/metrics").iter();
        let combined = report.combine(metrics.map(|it| evaluate(it, observed)).collect(), current)?;
        let reason = match combined.replicas > current {
            true => format!("{} above target", combined.metric),
            false => "All metrics below target".to_owned(),
        };
        let limits = Limits { spec: &autoscaler["spec"], current, now: Instant::now() };
        let limited = self.with_history(key, autoscaler, |it| limits.apply(combined.replicas, it));
        report.limited(&limited);
        Some((limited.replicas, reason))
    }

    /// Calls a function with the history of an autoscaler; that of a former one of its name is
    /// forgotten.
    fn with_history<R>(
        &self,
        key: &ObjectKey,
        autoscaler: &Value,
        call: impl FnOnce(&mut History) -> R,
    ) -> R {
        let (mut known, uid) = (self.known.lock(), text(autoscaler, "/metadata/uid"));
        let known = known.entry(key.clone()).or_default();
        if known.uid != uid {
            *known = Known { uid: uid.to_owned(), ..Known::default() };
        }
        call(&mut known.history)
    }

    /// Records the events of an evaluation, without the warnings that the one before has recorded.
    async fn record(&self, key: &ObjectKey, autoscaler: &Value, events: Vec<Event>) {
        let before = match self.known.lock().get_mut(key) {
            Some(known) => std::mem::replace(&mut known.warnings, events.clone()),
            None => Vec::new(),
        };
        for event in events.into_iter().filter(|it| !it.is_warning() || !before.contains(it)) {
            self.recorder.record(EVENT_SOURCE, autoscaler, event).await;
        }
    }
}

/// The reason why the pods of a target are not known.
#[derive(Debug)]
struct NoPods {
    event: &'static str,
    reason: &'static str,
    error: String,
    message: String,
}

impl Component for Autoscalers {
    const NAME: &'static str = "horizontal-pod-autoscaler-controller";

    /// Returns the controller, which processes an autoscaler when its spec has changed, and at the
    /// interval after that.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let changed = Predicate::updated(|old: &JsonObject, new: &JsonObject| {
            old["spec"] != new["spec"] || old["metadata"]["annotations"] != new["metadata"]["annotations"]
        });
        Controller::of(Watched::new(&self.autoscalers.informer).when(changed)).needs(&self.pods.informer)
    }
}

impl Reconciler for Autoscalers {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let Some(autoscaler) = self.autoscalers.get(key).filter(|it| !is_deleting(it)) else {
            self.known.lock().remove(key);
            self.selectors.lock().remove(key);
            return Ok(Action::Done);
        };
        let mut report = Report::new(&autoscaler, self.environment.stamp());
        self.with_history(key, &autoscaler, |_| ());
        self.evaluate(key, &autoscaler, &mut report).await;
        let Report { status, events, .. } = report;
        self.record(key, &autoscaler, events).await;
        let write = |it: &mut Value| {
            let same = text(it, "/metadata/uid") == text(&autoscaler, "/metadata/uid");
            let changed = same && it["status"] != status;
            it["status"] = status.clone();
            changed
        };
        let writer = Writer { manager: MANAGER, context };
        self.autoscalers.change(key, "status", writer, write).await?;
        Ok(Action::RequeueAfter(INTERVAL))
    }
}

impl fmt::Debug for Autoscalers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Autoscalers").field("known", &self.known.lock().len()).finish_non_exhaustive()
    }
}

/// Returns the message of an error as kube-controller-manager reports it.
fn message_of(error: &Error) -> String {
    error.status().map_or_else(|| ErrorChain(error).to_string(), |it| it.message.clone())
}

/// Returns the message that a kind cannot be scaled.
fn unmapped(kind: &Gvk, error: &ScaleError) -> String {
    match error {
        ScaleError::Map(MapError::NoMatch(_)) => {
            format!("no matches for kind {:?} in group {:?}", &*kind.kind, &*kind.group)
        }
        error => ErrorChain(error).to_string(),
    }
}
