//! A cluster with parents and children, the controller that reconciles them, and everything that
//! disturbs it.
//!
//! A parent is a ConfigMap that specifies the number of its children; a child is a Secret that it
//! owns. The controller follows the documentation: level-triggered, with owned objects as a source,
//! and with its writes reported to the guard. So the children must always be as specified in the
//! end. The run is single-threaded on a paused clock: a seed gives the same run each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::InProcess;
use dogwatch_client::{Api, Client, Error, HttpStack, RequestBody};
use dogwatch_controller::{Action, BoxError, Context, Controller, ControllerError, Reconciler};
use dogwatch_core::{DeleteParams, Header, LabelSelector, ListParams, Object, ObjectKey, View, WriteParams};
use dogwatch_informer::{Lister, SharedInformer};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::schedule::{Schedule, Step};
use crate::trace::record;

/// The time limit, after the last fault, for everything to be as specified.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1_800);
/// The time for which it must then stay so, with almost no reconciles.
const QUIET_TIME: Duration = Duration::from_secs(120);
/// The maximum number of reconciles in a quiet time. While parents are stale and children are not,
/// there may be thousands: a controller whose cache shows a parent that is gone, and the garbage
/// collector, undo each other's work. That ends with the fault.
const QUIET_RECONCILES: u64 = 20;

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// The violations; empty if there are none.
    pub(crate) wrong: Vec<String>,
    pub(crate) reconciles: u64,
    pub(crate) writes: u64,
    pub(crate) restarts: u64,
    /// The number of parents that could not be decoded when the faults ended.
    pub(crate) cured: u64,
    pub(crate) recovery: Duration,
}

/// The route to the current server.
#[derive(Clone)]
struct Route(Arc<Mutex<InProcess>>);

impl Route {
    fn service(&self) -> impl HttpStack {
        let route = self.clone();
        tower::service_fn(move |request: http::Request<RequestBody>| {
            let service = route.0.lock().expect("not poisoned").clone();
            record(|| format!("{} {}", request.method(), request.uri()));
            service.oneshot(request)
        })
    }
}

/// The number of children in a parent that its informer cannot decode.
const POISON: &str = "poison";

/// A parent as the controller's informer holds it.
#[derive(Debug, serde::Deserialize)]
#[serde(try_from = "ConfigMap")]
struct Parent(ConfigMap);

impl TryFrom<ConfigMap> for Parent {
    type Error = &'static str;

    fn try_from(map: ConfigMap) -> Result<Self, Self::Error> {
        if is_poisoned(&map) { Err("an undecodable number") } else { Ok(Self(map)) }
    }
}

impl Object for Parent {
    fn header(&self) -> Header<'_> {
        self.0.header()
    }
}

impl View for Parent {
    type Of = ConfigMap;
}

fn is_poisoned(parent: &ConfigMap) -> bool {
    parent.data.as_ref().and_then(|it| it.get("children")).is_some_and(|it| it == POISON)
}

/// Counts the actions of the controller.
#[derive(Debug, Default)]
struct Counts {
    reconciles: AtomicU64,
    writes: AtomicU64,
}

/// Gives each parent the children that it specifies.
struct Family {
    parents: Lister<Parent>,
    children: Lister<Secret>,
    api: Api<Secret>,
    counts: Arc<Counts>,
}

impl Reconciler for Family {
    type Error = BoxError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, BoxError> {
        self.counts.reconciles.fetch_add(1, Ordering::Relaxed);
        record(|| format!("reconcile {key}"));
        // A server takes time to respond. Without latency, a controller with a stale parent and
        // another client would undo each other's work for ever at the same instant.
        tokio::time::sleep(Duration::from_millis(10)).await;
        // The children of a deleted parent would be left to a garbage collector, which does not run
        // here.
        let Some(parent) = self.parents.get(key) else { return Ok(Action::Done) };
        let parent = &parent.0;
        let wanted = wanted(parent);
        let all = self.children.list(&LabelSelector::everything());
        let owned: Vec<_> = all.iter().filter(|it| owner(it) == parent.metadata.uid.as_deref()).collect();
        let known = |name: &str| owned.iter().find(|it| it.metadata.name.as_deref() == Some(name));
        for child in &wanted {
            let name = child.metadata.name.as_deref().expect("children have names");
            let written = match known(name) {
                Some(there) if there.data == child.data => continue,
                Some(_) => self.api.replace(name, &WriteParams::default(), child).await?,
                None => match self.api.create(&WriteParams::default(), child).await {
                    // A child of an earlier parent of that name, or one with a new owner: it will
                    // be deleted, or it is not ours.
                    Err(error) if error.is_already_exists() => {
                        self.api.delete(name, &DeleteParams::default()).await?;
                        return Ok(Action::RequeueAfter(Duration::from_secs(1)));
                    }
                    created => created?,
                },
            };
            self.counts.writes.fetch_add(1, Ordering::Relaxed);
            context.wrote(&written);
        }
        for child in owned {
            let name = child.metadata.name.as_deref().expect("children have names");
            if !wanted.iter().any(|it| it.metadata.name.as_deref() == Some(name)) {
                match self.api.delete(name, &DeleteParams::default()).await {
                    Err(error) if error.is_not_found() => {}
                    deleted => drop(deleted?),
                }
                self.counts.writes.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(Action::Done)
    }
}

fn name(parent: u8) -> String {
    format!("p{parent}")
}

fn child_name(parent: &str, child: u8) -> String {
    format!("{parent}-{child}")
}

fn owner(child: &Secret) -> Option<&str> {
    let owners = child.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|it| it.controller == Some(true)).map(|it| it.uid.as_str())
}

/// The children that a parent specifies.
fn wanted(parent: &ConfigMap) -> Vec<Secret> {
    let count = parent.data.as_ref().and_then(|it| it.get("children")).and_then(|it| it.parse().ok());
    (0..count.unwrap_or(0)).map(|it| child(parent, it)).collect()
}

fn child(parent: &ConfigMap, number: u8) -> Secret {
    let parent_name = parent.metadata.name.clone().unwrap_or_default();
    let mut child = Secret::default();
    child.metadata.name = Some(child_name(&parent_name, number));
    child.metadata.namespace = Some("default".to_owned());
    child.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: parent_name.clone(),
        uid: parent.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    let value = k8s_openapi::ByteString(parent_name.into_bytes());
    child.data = Some([("of".to_owned(), value)].into());
    child.type_ = Some("Opaque".to_owned());
    child
}

/// A running controller, as one process would be.
struct Process {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ControllerError>>,
    parents: SharedInformer<Parent>,
    children: SharedInformer<Secret>,
}

impl Process {
    fn start(client: &Client, workers: usize, seed: u64, counts: &Arc<Counts>) -> Self {
        let parents = SharedInformer::builder(Api::<Parent>::namespaced(client.clone(), "default"))
            .reflector(|it| it.seed(seed))
            .build();
        let children = SharedInformer::builder(Api::<Secret>::namespaced(client.clone(), "default"))
            .reflector(|it| it.seed(!seed))
            .build();
        let family = Family {
            parents: parents.lister(),
            children: children.lister(),
            api: Api::namespaced(client.clone(), "default"),
            counts: Arc::clone(counts),
        };
        let controller = Controller::of(&parents).owns(&children).workers(workers).build(family);
        let stop = CancellationToken::new();
        let ending = stop.clone();
        let task = tokio::spawn(async move { controller.run(ending.cancelled()).await });
        Self { stop, task, parents, children }
    }

    async fn end(self) -> Result<(), String> {
        self.stop.cancel();
        let ended = tokio::time::timeout(SETTLE_TIMEOUT, self.task).await;
        self.parents.stop().await;
        self.children.stop().await;
        match ended {
            Err(_) => Err("the controller does not shut down".to_owned()),
            Ok(Err(panic)) => Err(format!("the controller panicked: {panic}")),
            // Like a process: it exits if it cannot sync, or if a request takes too long during the
            // shutdown, and is restarted.
            Ok(Ok(Err(ControllerError::NotSynced { .. } | ControllerError::Undrained { .. }))) => Ok(()),
            Ok(Ok(Err(error))) => Err(format!("the controller failed: {error}")),
            Ok(Ok(Ok(()))) => Ok(()),
        }
    }
}

struct TestCluster {
    server: ApiServer,
    route: Route,
    client: Client,
    process: Option<Process>,
    workers: usize,
    seed: u64,
    counts: Arc<Counts>,
    outcome: Outcome,
}

/// Runs a schedule from beginning to end.
pub(crate) async fn play(schedule: &Schedule) -> Outcome {
    let mut cluster = TestCluster::new(schedule).await;
    for (number, step) in schedule.steps.iter().enumerate() {
        record(|| format!("step {number} {step:?}"));
        // A write may fail because of a fault.
        let outcome = cluster.perform(step).await;
        record(|| {
            let error = outcome.err().map_or_else(|| "fine".to_owned(), |it| it.to_string());
            format!("{error}, at version {}", cluster.server.revision())
        });
    }
    record(|| "step settle".to_owned());
    cluster.settle().await;
    let outcome = cluster.finish().await;
    record(|| format!("{outcome:?}"));
    outcome
}

impl TestCluster {
    async fn new(schedule: &Schedule) -> Self {
        let server = ApiServer::builder().in_process().seed(schedule.seed).request_log(0);
        let server = server.start().await.expect("a server without a socket starts");
        let route = Route(Arc::new(Mutex::new(server.service())));
        let url = server.url().parse().expect("a URL");
        let client = Client::from_service(url, "default", route.service());
        let counts = Arc::new(Counts::default());
        let process = Process::start(&client, schedule.workers, schedule.seed, &counts);
        Self {
            server,
            route,
            client,
            process: Some(process),
            workers: schedule.workers,
            seed: schedule.seed,
            counts,
            outcome: Outcome::default(),
        }
    }

    fn parents(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn children(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn perform(&mut self, step: &Step) -> Result<(), Error> {
        let params = WriteParams::default();
        match step {
            Step::Pass(time) => tokio::time::sleep(*time).await,
            Step::Turns(count) => {
                for _ in 0..*count {
                    tokio::task::yield_now().await;
                }
            }
            Step::Want(parent, children) => self.want(&name(*parent), &children.to_string()).await?,
            Step::Poison(parent) => self.want(&name(*parent), POISON).await?,
            Step::Drop(parent) => {
                drop(self.parents().delete(&name(*parent), &DeleteParams::background()).await?);
            }
            Step::Steal(parent, child) => self.steal(&child_name(&name(*parent), *child)).await?,
            Step::Flash(parent, number) => {
                let parent = self.parents().get(&name(*parent)).await?;
                let child = child(&parent, *number);
                let child_name = child.metadata.name.clone().unwrap_or_default();
                let created = self.children().create(&params, &child).await;
                self.steal(&child_name).await?;
                drop(created?);
            }
            Step::Spoil(parent, child) => {
                let mut child = self.children().get(&child_name(&name(*parent), *child)).await?;
                child.data = Some([("of".to_owned(), k8s_openapi::ByteString(b"nobody".to_vec()))].into());
                let name = child.metadata.name.clone().unwrap_or_default();
                drop(self.children().replace(&name, &params, &child).await?);
            }
            Step::Move { child, to, delete } => {
                let child_name = child_name(&name(child.0), child.1);
                let mut moved = self.children().get(&child_name).await?;
                let parent = self.parents().get(&name(*to)).await?;
                moved.metadata.owner_references = self::child(&parent, 0).metadata.owner_references;
                drop(self.children().replace(&child_name, &params, &moved).await?);
                if *delete {
                    self.steal(&child_name).await?;
                }
            }
            Step::Fault(rule) => drop(self.server.faults().rule((**rule).clone())),
            Step::CutWatches => self.server.faults().cut_watches(),
            Step::Expire => drop(self.server.expire_history()),
            Step::Pause => self.server.faults().pause(),
            Step::Clear => self.server.faults().clear(),
            Step::RestartController => self.restart_controller().await,
            Step::RestartServer => {
                let next = self.server.fork().await.expect("a server without a socket starts");
                *self.route.0.lock().expect("not poisoned") = next.service();
                let last = std::mem::replace(&mut self.server, next);
                last.faults().cut_watches();
                last.stop().await;
                self.outcome.restarts += 1;
            }
        }
        Ok(())
    }

    /// Creates or changes a parent.
    async fn want(&self, parent: &str, children: &str) -> Result<(), Error> {
        let params = WriteParams::default();
        let mut map = ConfigMap::default();
        map.metadata.name = Some(parent.to_owned());
        map.data = Some([("children".to_owned(), children.to_owned())].into());
        match self.parents().create(&params, &map).await {
            Err(error) if error.is_already_exists() => {
                self.parents().replace(parent, &params, &map).await.map(drop)
            }
            created => created.map(drop),
        }
    }

    /// Gives every parent that cannot be decoded a valid number of children again.
    async fn cure(&self) -> Result<u64, Error> {
        let mut cured = 0;
        for parent in self.parents().list_all(&ListParams::default()).await?.items {
            if is_poisoned(&parent) {
                self.want(&parent.metadata.name.unwrap_or_default(), "2").await?;
                cured += 1;
            }
        }
        Ok(cured)
    }

    async fn restart_controller(&mut self) {
        if let Some(process) = self.process.take()
            && let Err(problem) = process.end().await
        {
            self.outcome.wrong.push(problem);
        }
        self.outcome.restarts += 1;
        let seed = self.seed ^ self.outcome.restarts;
        self.process = Some(Process::start(&self.client, self.workers, seed, &self.counts));
    }

    async fn steal(&self, name: &str) -> Result<(), Error> {
        self.children().delete(name, &DeleteParams::default()).await.map(drop)
    }

    /// Returns the differences from what all parents specify; empty in the end.
    async fn difference(&self) -> Result<Vec<String>, Error> {
        let parents = self.parents().list_all(&ListParams::default()).await?.items;
        let children = self.children().list_all(&ListParams::default()).await?.items;
        // The server puts a certificate into each namespace; it is not a parent.
        let parents: Vec<_> = parents
            .iter()
            .filter(|it| it.data.as_ref().is_some_and(|it| it.contains_key("children")))
            .collect();
        let uids: BTreeSet<_> = parents.iter().filter_map(|it| it.metadata.uid.as_deref()).collect();
        let mut wrong = Vec::new();
        let there: BTreeMap<_, _> =
            children.iter().map(|it| (it.metadata.name.clone().unwrap_or_default(), it)).collect();
        let mut expected = BTreeSet::new();
        for parent in parents {
            for child in wanted(parent) {
                let name = child.metadata.name.clone().unwrap_or_default();
                match there.get(&name) {
                    None => wrong.push(format!("{name} is missing")),
                    Some(it) if owner(it) != owner(&child) => wrong.push(format!("{name} has another owner")),
                    Some(it) if it.data != child.data => wrong.push(format!("{name} has other contents")),
                    Some(_) => {}
                }
                expected.insert(name);
            }
        }
        for (name, child) in there {
            let of_a_parent = owner(child).is_some_and(|it| uids.contains(it));
            if of_a_parent && !expected.contains(&name) {
                wrong.push(format!("{name} is not wanted"));
            }
        }
        Ok(wrong)
    }

    /// Ends all faults, and waits until everything is as specified.
    async fn settle(&mut self) {
        self.server.faults().clear();
        // The controller settles on the last states that it could read, and must notice the change
        // by itself.
        tokio::time::sleep(QUIET_TIME).await;
        match self.cure().await {
            Ok(cured) => self.outcome.cured += cured,
            Err(error) => self.outcome.wrong.push(format!("without any fault: {error}")),
        }
        let start = Instant::now();
        let mut last = vec!["never compared".to_owned()];
        while start.elapsed() < SETTLE_TIMEOUT {
            if self.process.as_ref().is_none_or(|it| it.task.is_finished()) {
                self.restart_controller().await;
            }
            last = self.difference().await.unwrap_or_else(|error| vec![error.to_string()]);
            if last.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        self.outcome.recovery = start.elapsed();
        let mut wrong = last;
        // Work in transit at that moment does not count as unrest yet.
        tokio::time::sleep(QUIET_TIME).await;
        let before = self.counts.reconciles.load(Ordering::Relaxed);
        tokio::time::sleep(QUIET_TIME).await;
        let after = self.counts.reconciles.load(Ordering::Relaxed) - before;
        if after > QUIET_RECONCILES {
            wrong.push(format!("{after} reconciles although nothing changes"));
        }
        if wrong.is_empty() {
            let after = self.difference().await.unwrap_or_else(|error| vec![error.to_string()]);
            wrong.extend(after.into_iter().map(|it| format!("later: {it}")));
        }
        self.outcome.wrong.extend(wrong);
    }

    async fn finish(mut self) -> Outcome {
        if let Some(process) = self.process.take()
            && let Err(problem) = process.end().await
        {
            self.outcome.wrong.push(problem);
        }
        self.outcome.reconciles = self.counts.reconciles.load(Ordering::Relaxed);
        self.outcome.writes = self.counts.writes.load(Ordering::Relaxed);
        self.server.stop().await;
        self.outcome
    }
}
