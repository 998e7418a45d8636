//! Deletion of namespaces: their content is deleted, pods first, and then they are removed.
//!
//! ```text
//! deletionTimestamp ─► a pause ─► pods ─► everything else ─► conditions ─► /finalize without `kubernetes` ─► gone
//!                                  └───────────┴─ something is left: wait until it changes
//! ```
//!
//! A client may finalize a namespace at any time and create another of its name. Content is listed,
//! then the uid of the namespace is read: if it is still the same one, the listed objects are its
//! own. They are deleted by uid, so those of a later namespace are never touched.
//!
//! The `mod` lines below are in layer order.

mod conditions;
mod content;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::discovery::ServedResource;
use dogwatch_client::{Api, Client, Error};
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Predicate, Reconciler, Watched};
use dogwatch_core::{Gvk, ListParams, ObjectKey, ResourceType};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::collection::{Collection, Writer};
use crate::component::Component;
use crate::environment::Environment;
use crate::finalizers;
use crate::json_access::{items, text};
use crate::object::JsonObject;
use crate::owner::is_deleting;
use crate::pauses::Pauses;
use conditions::DeletionPass;
use content::{Content, PodGrace, Remaining};
use waiting::{LeftContent, Waiting};

/// The finalizer that keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";
/// The number of namespaces that are emptied at the same time (`ConcurrentNamespaceSyncs` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/namespace/config/v1alpha1/defaults.go).
const WORKERS: usize = 10;
/// The time before the content of a namespace is deleted. Clients rely on such a pause: those that
/// finalize a namespace themselves delete it, read it and write it back. kube-controller-manager
/// waits 5 seconds (`namespaceDeletionGracePeriod` in k8s.io/kubernetes v1.36.4
/// pkg/controller/namespace/namespace_controller.go).
const PAUSE: Duration = Duration::from_secs(1);
/// The time until a rejected deletion is retried, such as after the denial of a webhook.
const RETRY: Duration = Duration::from_secs(15);
/// The time until the next pass if what is left is watched. Only a change that the watches do not
/// show makes it necessary.
const RECHECK_WATCHED: Duration = Duration::from_secs(5 * 60);
/// The time until the next pass if what is left is not watched: half of `finalizerEstimateSeconds`
/// and a second, as in k8s.io/kubernetes v1.36.4 pkg/controller/namespace/namespace_controller.go.
const RECHECK: Duration = Duration::from_secs(8);

/// The time for which the content of a namespace is deleted before others get their turn: a webhook
/// that takes its time must not occupy all workers.
const PASS_LIMIT: Duration = Duration::from_secs(30);
/// The time until a pass that was cut short is continued.
const CONTINUE: Duration = Duration::from_secs(1);

/// Deletes the content of namespaces that are being deleted, and then removes them.
pub(super) struct Namespaces {
    client: Client,
    namespaces: Collection<JsonObject>,
    environment: Arc<Environment>,
    /// The namespaces that are being deleted.
    begun: Pauses<ObjectKey>,
    waiting: Waiting,
    /// The namespaces that are woken, until the controller takes the stream.
    woken: Mutex<Option<BoxStream<'static, ObjectKey>>>,
}

/// The content that is left after a pass.
#[derive(Default)]
struct PassOutcome {
    pass: DeletionPass,
    left: Vec<LeftContent>,
    /// The longest grace period of the pods left, in seconds.
    grace: Option<i64>,
    /// True if the time was up before all content was deleted.
    is_cut: bool,
}

impl Namespaces {
    pub(super) fn new(client: &Client, environment: &Arc<Environment>) -> Self {
        let resource = ResourceType::cluster(Gvk::new("", "v1", "Namespace"), "namespaces");
        let (waiting, woken) = Waiting::new();
        Self {
            client: client.clone(),
            namespaces: Collection::new(client, resource, |it| it),
            environment: Arc::clone(environment),
            begun: Pauses::default(),
            waiting,
            woken: Mutex::new(Some(woken.boxed())),
        }
    }

    /// Returns a namespace from the server, unless it is gone or another one has its name.
    async fn current(&self, key: &ObjectKey, uid: &str) -> Result<Option<Arc<JsonObject>>, Error> {
        Ok(self.namespaces.live(key).await?.filter(|it| finalizers::is_same(it, uid)))
    }

    /// Deletes the content of a namespace: pods first, and nothing else while there are any.
    /// Returns `None` if the namespace is gone.
    async fn empty(&self, key: &ObjectKey, uid: &str, elapsed: i64) -> Result<Option<PassOutcome>, Error> {
        // Read for each pass: the objects of a kind that was not known would stay for ever.
        let discovery = self.client.discover().await?;
        let (mut outcome, begun) = (PassOutcome::default(), Instant::now());
        let deadline = begun.checked_add(PASS_LIMIT).unwrap_or(begun);
        for failure in &discovery.failures {
            outcome.pass.undiscovered.insert(failure.group_version(), failure.reason.to_string());
        }
        let deletable = |it: &&ServedResource| it.is_namespaced() && it.supports_all(&["delete", "list"]);
        let mut kinds: Vec<_> = discovery.preferred_resources().filter(deletable).collect();
        kinds.sort_by_key(|it| !is_pods(&it.resource));
        for kind in kinds {
            let api = Api::<Content>::dynamic_metadata(self.client.clone(), kind.resource.clone());
            let api = api.in_namespace(key.name());
            let objects = match content::list(&api).await {
                Ok((objects, _)) => objects,
                Err(error) => {
                    outcome.pass.failures.push(content::text_of(&error));
                    continue;
                }
            };
            if objects.is_empty() {
                continue;
            }
            if self.current(key, uid).await?.is_none() {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                outcome.is_cut = true;
                break;
            }
            let pods = is_pods(&kind.resource);
            let grace = if pods { self.longest_grace(key.name()).await? } else { 0 };
            let left = content::delete(&api, objects, deadline).await;
            let is_left = outcome.add(kind, api, left, grace > elapsed);
            if is_left && grace > elapsed {
                outcome.grace = Some(grace);
            }
            if pods && is_left {
                break;
            }
        }
        Ok(Some(outcome))
    }

    /// Returns the longest grace period of the pods of a namespace, in seconds.
    async fn longest_grace(&self, namespace: &str) -> Result<i64, Error> {
        let resource = ResourceType::namespaced(Gvk::new("", "v1", "Pod"), "pods");
        let pods = Api::<PodGrace>::dynamic(self.client.clone(), resource).in_namespace(namespace);
        Ok(content::longest_grace(&pods.list_all(&ListParams::default()).await?.items))
    }

    /// Returns the next action for a namespace in which something is left.
    fn wait(&self, key: &ObjectKey, outcome: PassOutcome, elapsed: i64) -> Action {
        let rest = |it: i64| Duration::from_secs(it.saturating_sub(elapsed).max(1).unsigned_abs());
        // Failed deletions are retried, also if nothing changes in the collections.
        let has_failed = !outcome.pass.failures.is_empty() || !outcome.pass.undiscovered.is_empty();
        let after = outcome.is_cut.then_some(CONTINUE);
        let after = after.or(outcome.grace.map(rest)).or(has_failed.then_some(RETRY));
        let watches = !outcome.left.is_empty() && self.waiting.begin(key, outcome.left);
        Action::RequeueAfter(after.unwrap_or(if watches { RECHECK_WATCHED } else { RECHECK }))
    }
}

impl PassOutcome {
    /// Adds the objects left of a kind. Returns true if there are any. With `in_time`, their grace
    /// period is not over yet.
    fn add(
        &mut self,
        kind: &ServedResource,
        api: Api<Content>,
        left: Result<Remaining, Error>,
        in_time: bool,
    ) -> bool {
        let left = match left {
            Ok(left) => left,
            Err(error) => {
                self.pass.failures.push(content::text_of(&error));
                return false;
            }
        };
        if left.objects == 0 {
            return false;
        }
        let ResourceType { gvk, plural, .. } = &kind.resource;
        self.is_cut |= left.is_cut;
        if !in_time && !left.is_cut && left.finalizers.is_empty() {
            let namespace = api.namespace().unwrap_or_default();
            self.pass.failures.push(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={plural}",
                gvk.group, gvk.version
            ));
        }
        self.pass.remaining.insert(format!("{plural}.{}", gvk.group), left.objects);
        for (finalizer, count) in left.finalizers {
            let sum = self.pass.finalizers.entry(finalizer).or_default();
            *sum = sum.saturating_add(count);
        }
        if kind.supports("watch") {
            self.left.push(LeftContent { api, version: left.version, objects: left.objects });
        }
        true
    }
}

impl Component for Namespaces {
    const NAME: &'static str = "namespace-controller";

    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let namespaces = Watched::new(&self.namespaces.informer)
            .when(Predicate::updated(|old, new| essence(old) != essence(new)));
        let controller = Controller::of(namespaces).workers(WORKERS);
        match self.woken.lock().take() {
            Some(woken) => controller.reconcile_on(woken),
            None => controller,
        }
    }
}

impl Reconciler for Namespaces {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        self.waiting.end(key);
        // A namespace that is gone is processed too: a client may have finalized it, and the pause
        // of the next one of its name begins again.
        let Some(cached) = self.namespaces.get(key).filter(|it| is_deleting(it)) else {
            self.begun.end(key);
            return Ok(Action::Done);
        };
        if let Some(pause) = self.begun.left(key, PAUSE) {
            return Ok(Action::RequeueAfter(pause));
        }
        let uid = text(&cached, "/metadata/uid");
        let Some(namespace) = self.current(key, uid).await? else { return Ok(Action::Done) };
        let writer = Writer { manager: super::FIELD_MANAGER, context };
        if text(&namespace, "/status/phase") != "Terminating" {
            let mark = |it: &mut Value| {
                let is_same = finalizers::is_same(it, uid);
                if is_same {
                    it["status"]["phase"] = "Terminating".into();
                }
                is_same
            };
            self.namespaces.change_live(key, "status", writer, mark).await?;
        }
        if !items(&namespace, "/spec/finalizers").iter().any(|it| it == FINALIZER) {
            return Ok(Action::Done);
        }
        let elapsed = elapsed(&namespace, self.environment.now());
        let Some(outcome) = self.empty(key, uid, elapsed).await? else { return Ok(Action::Done) };
        let now = self.environment.stamp();
        let report =
            |it: &mut Value| finalizers::is_same(it, uid) && conditions::report(it, &outcome.pass, &now);
        // The conditions only inform, so the namespace ends without them: a webhook may deny the
        // write (`deleteAllContent` in k8s.io/kubernetes v1.36.4
        // pkg/controller/namespace/deletion/namespaced_resources_deleter.go).
        if let Err(error) = self.namespaces.change_live(key, "status", writer, report).await {
            tracing::debug!(namespace = key.name(), %error, "cannot write the conditions of a namespace");
        }
        if outcome.is_cut || !outcome.pass.is_complete() {
            return Ok(self.wait(key, outcome, elapsed));
        }
        let finalize = |it: &mut Value| {
            finalizers::is_same(it, uid) && finalizers::remove(it, "/spec/finalizers", FINALIZER)
        };
        self.namespaces.change_live(key, "finalize", writer, finalize).await?;
        self.begun.end(key);
        Ok(Action::Done)
    }
}

/// Returns the parts of a namespace that a pass depends on. The status is not one: a pass that
/// wrote the text of a failure into its conditions would cause the next pass at once.
fn essence(namespace: &JsonObject) -> (Value, bool, Value) {
    let finalizers = namespace["spec"]["finalizers"].clone();
    (namespace["metadata"]["uid"].clone(), is_deleting(namespace), finalizers)
}

fn is_pods(resource: &ResourceType) -> bool {
    resource.gvk.group.is_empty() && resource.plural == "pods"
}

/// Returns the number of seconds since the deletion began.
fn elapsed(namespace: &Value, now: Timestamp) -> i64 {
    let began: Option<Timestamp> = text(namespace, "/metadata/deletionTimestamp").parse().ok();
    began.map_or(0, |it| now.as_second().saturating_sub(it.as_second()))
}
