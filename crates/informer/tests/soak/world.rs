//! The environment of a schedule: an API server with fault injection, its informers, and their
//! handlers and streams.
//!
//! Everything runs on one thread with a paused clock, so that hours take milliseconds and a seed is
//! reproducible. Clients reach the server by a [`Route`], so that another server can replace it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::InProcess;
use dogwatch_apiserver::faults::FaultCounts;
use dogwatch_client::{Api, Client};
use dogwatch_core::{LabelSelector, ListParams, Object};
use dogwatch_informer::{
    Health, HealthState, Index, InformerBuilder, NotFound, OnGone, Overflow, SharedInformer,
};
use kube_core::DynamicObject;
use serde_json::Value;
use tokio::time::Instant;
use tower::ServiceExt;
use tower::util::Oneshot;

use crate::checks::{Picture, Truth, Witness, difference, entry, entry_of, is_on, judge, passes, picture};
use crate::members::{Joined, number};
use crate::sample::{POISON, Sample};
use crate::schedule::{
    Kind, Manner, Member, NAMESPACES, Order, Place, Restart, Schedule, Step, WATCHED, Watched,
};
use crate::trace::record;
use crate::writes::{Writer, buoys, maps, turns};

/// The time within which everything must have the server's state after the faults have ended: the
/// longest backoffs of several requests, the detection of stalled streams, and the retry of a
/// definition that was gone.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The time after that in which nothing may change.
const REST: Duration = Duration::from_secs(130);
/// The time for which a writer waits for its own write.
const OWN_WRITE: Duration = Duration::from_secs(30);
/// The number of requests that each server remembers: enough to contain one of every informer after
/// a restart.
const REQUESTS: usize = 256;
/// The path of each collection that the informers read, and whether they select by label.
const COLLECTIONS: [(&str, bool); 5] = [
    ("/api/v1/configmaps", false),
    ("/api/v1/namespaces/a/configmaps", false),
    ("/api/v1/namespaces/b/configmaps", false),
    ("/api/v1/configmaps", true),
    ("/apis/soak.example/v1/buoys", false),
];

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// The violations; empty if there are none.
    pub(crate) wrong: Vec<String>,
    pub(crate) steps: usize,
    /// The number of changes that all members received, and the number of inferred deletions among
    /// them.
    pub(crate) received: usize,
    pub(crate) missed: usize,
    pub(crate) members: usize,
    pub(crate) relists: u64,
    /// The number of comparisons of a store with the server's history, and of those that were
    /// impossible because the history was gone.
    pub(crate) looks: usize,
    pub(crate) blind: usize,
    /// The number of times that the removal of a definition was noticed.
    pub(crate) gone: usize,
    /// The time from the end of the faults until everything had the server's state.
    pub(crate) recovery: Duration,
    pub(crate) tally: FaultCounts,
    pub(crate) restarts: u64,
    /// The number of undecodable states that informers met, and the number of undecodable objects
    /// when the faults ended.
    pub(crate) poison: u64,
    pub(crate) poisoned: usize,
}

/// An informer of the run.
#[derive(Debug)]
struct Observed {
    what: Watched,
    informer: SharedInformer<Sample>,
    members: Vec<Joined>,
}

/// The route to the current server: a request goes to the server that is current when it is sent.
#[derive(Clone)]
struct Route(Arc<Mutex<InProcess>>);

impl Route {
    fn to(server: &ApiServer) -> Self {
        Self(Arc::new(Mutex::new(server.service())))
    }

    fn lead_to(&self, server: &ApiServer) {
        *self.0.lock().expect("the lock is not poisoned") = server.service();
    }
}

impl<R> tower::Service<R> for Route
where
    InProcess: tower::Service<R>,
{
    type Response = <InProcess as tower::Service<R>>::Response;
    type Error = <InProcess as tower::Service<R>>::Error;
    type Future = Oneshot<InProcess, R>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let service = self.0.lock().expect("the lock is not poisoned").clone();
        service.oneshot(request)
    }
}

/// A server and its informers.
struct World {
    seed: u64,
    server: ApiServer,
    route: Route,
    /// A copy of the cluster at an earlier time.
    snapshot: Option<ApiServer>,
    /// Set if versions went back or started again.
    rewound: bool,
    client: Client,
    observed: Vec<Observed>,
    hurry: Arc<AtomicBool>,
    writer: Writer,
    outcome: Outcome,
}

/// Plays a schedule from its beginning to its end.
pub(crate) async fn play(schedule: &Schedule) -> Outcome {
    let mut world = World::new(schedule).await;
    for (number, step) in schedule.steps.iter().enumerate() {
        record(|| format!("step {number} {step}"));
        world.perform(step).await;
        world.outcome.steps += 1;
        record(|| world.position());
    }
    record(|| "step settle".to_owned());
    world.settle().await;
    world.compare().await;
    if world.outcome.wrong.is_empty() && world.outcome.poisoned > 0 {
        record(|| "step cure".to_owned());
        world.cure().await;
        world.settle().await;
        world.compare().await;
    }
    let outcome = world.finish().await;
    record(|| format!("{outcome:?}"));
    outcome
}

fn labelled() -> LabelSelector {
    "set=on".parse().expect("a selector")
}

impl World {
    async fn new(schedule: &Schedule) -> Self {
        let server = ApiServer::builder().in_process().seed(schedule.seed).request_log(REQUESTS);
        let server = server.start().await.expect("a server without a socket starts");
        let url = server.url().parse().expect("a URL");
        let route = Route::to(&server);
        let client = Client::from_service(url, "default", route.clone());
        let outcome = Outcome::default();
        let writer = Writer::new(client.clone());
        for namespace in NAMESPACES {
            writer.found(namespace).await.expect("there are no faults yet");
        }
        if schedule.setting.defined {
            writer.define().await.expect("there are no faults yet");
        }
        let mut world = Self {
            seed: schedule.seed,
            server,
            route,
            snapshot: None,
            rewound: false,
            client,
            observed: Vec::new(),
            hurry: Arc::default(),
            writer,
            outcome,
        };
        for what in WATCHED {
            let informer = world.builder(what).reflector(|it| {
                let it = it.seed(schedule.seed).page_size(schedule.setting.page_size);
                if schedule.setting.watch_list { it } else { it.without_watch_list() }
            });
            let informer = informer.queue_capacity(schedule.setting.queue).build();
            let first = Member { of: what, overflow: Overflow::Grow, manner: Manner::Called };
            let members = vec![Joined::new(&informer, first, &world.hurry)];
            informer.start();
            world.observed.push(Observed { what, informer, members });
        }
        world
    }

    fn builder(&self, what: Watched) -> InformerBuilder<Sample> {
        let api = |resource| Api::dynamic(self.client.clone(), resource);
        let builder = match what {
            Watched::Maps => SharedInformer::builder(api(maps())),
            Watched::TwoNamespaces => SharedInformer::builder(api(maps()).in_namespace("a"))
                .add_source(api(maps()).in_namespace("b")),
            Watched::Labelled => SharedInformer::builder(api(maps())).labels(labelled()),
            Watched::Buoys => SharedInformer::builder(api(buoys())),
        };
        // The removal of a definition is detected soon, and its objects are taken for deleted, so
        // that store and server can be compared.
        let builder = builder.on_gone(OnGone::Clear);
        let builder = builder.reflector(|it| it.not_found(NotFound::GoneAfter(Duration::from_secs(5))));
        builder.name(format!("{what:?}")).index(Index::label("set"))
    }

    async fn perform(&mut self, step: &Step) {
        match step {
            Step::Pass(time) => tokio::time::sleep(*time).await,
            Step::Turns(count) => turns(*count).await,
            // A write may fail because of faults.
            Step::Put(place, on) => drop(self.writer.put(*place, *on).await),
            Step::PutAndRead(place) => self.put_and_read(*place).await,
            Step::Poison(place, false) => drop(self.writer.poison(*place).await),
            Step::Poison(place, true) => self.poison_and_read(*place).await,
            Step::Burst(kind, namespace) => {
                for name in 0..8 {
                    drop(self.writer.put(Place { kind: *kind, namespace, name }, name % 2 == 0).await);
                }
            }
            Step::Delete(place) => drop(self.writer.delete(*place).await),
            Step::Recreate(place) => {
                drop(self.writer.delete(*place).await);
                drop(self.writer.put(*place, true).await);
            }
            Step::RemoveNamespace(name) => drop(self.writer.remove_namespace(name).await),
            Step::RemoveDefinition => drop(self.writer.remove_definition().await),
            Step::ReturnDefinition => drop(self.writer.define().await),
            Step::Trouble(rule) => drop(self.server.faults().rule((**rule).clone())),
            Step::Order(order) => self.order(*order),
            Step::ClearSky => self.server.faults().clear(),
            Step::Join(member) => {
                let hurry = Arc::clone(&self.hurry);
                let observed = self.observed.iter_mut().find(|it| it.what == member.of);
                let observed = observed.expect("every collection has an informer");
                let joined = Joined::new(&observed.informer, *member, &hurry);
                joined.witness().rewound = self.rewound;
                observed.members.push(joined);
            }
            Step::Leave(place, wait) => self.leave(*place, *wait).await,
            Step::Look => self.look(),
            Step::Snapshot => {
                let snapshot = self.server.fork().await.expect("a server without a socket starts");
                if let Some(older) = self.snapshot.replace(snapshot) {
                    older.stop().await;
                }
            }
            Step::Restart(restart) => self.restart(*restart).await,
        }
    }

    /// Stops the server and replaces it by another one.
    async fn restart(&mut self, restart: Restart) {
        let next = match restart {
            Restart::Same => self.server.fork().await,
            Restart::Snapshot => match self.snapshot.take() {
                Some(snapshot) => Ok(snapshot),
                None => return,
            },
            Restart::Empty => {
                let reached = self.server.revision();
                let builder =
                    ApiServer::builder().in_process().seed(self.seed ^ reached).request_log(REQUESTS);
                builder.first_revision(reached + 1_000).start().await
            }
        };
        let next = next.expect("a server without a socket starts");
        if restart != Restart::Same {
            self.rewound = true;
            let members = self.observed.iter().flat_map(|it| &it.members);
            members.for_each(|it| it.witness().rewound = true);
        }
        self.route.lead_to(&next);
        let last = std::mem::replace(&mut self.server, next);
        last.faults().cut_watches();
        add(&mut self.outcome.tally, last.faults().tally());
        self.outcome.restarts += 1;
        last.stop().await;
        if restart == Restart::Snapshot {
            self.wait_for_requests().await;
        }
    }

    /// Waits until every informer has sent a request to the current server.
    ///
    /// A restored server continues from an older version. Once it has reached the version of a
    /// disconnected informer, nothing in the protocol distinguishes the two histories, so a
    /// schedule writes nothing before every informer could notice.
    async fn wait_for_requests(&mut self) {
        let log = self.server.request_log();
        for (path, selects) in COLLECTIONS {
            let request =
                log.wait_for(|it| it.path == path && it.query.contains("labelSelector") == selects, 1);
            if tokio::time::timeout(PATIENCE, request).await.is_err() {
                self.outcome.wrong.push(format!("no informer requested {path} from the restored server"));
            }
        }
    }

    fn order(&self, order: Order) {
        let lab = self.server.faults();
        match order {
            Order::Drop => lab.drop_watches(),
            Order::Cut => lab.cut_watches(),
            Order::Bookmark => lab.bookmark_now(),
            Order::Pause => lab.pause(),
            Order::Resume => lab.resume(),
            Order::Compact => drop(self.server.compact_history()),
            Order::Expire => drop(self.server.expire_history()),
        }
    }

    /// Writes an object, and checks that the store shows it as soon as the informer has reached its
    /// version.
    async fn put_and_read(&mut self, place: Place) {
        if let Ok(stored) = self.writer.put(place, true).await {
            self.read_own(place, stored).await;
        }
    }

    async fn poison_and_read(&mut self, place: Place) {
        if let Ok(stored) = self.writer.poison(place).await {
            self.read_own(place, stored).await;
        }
    }

    async fn read_own(&mut self, place: Place, stored: Value) {
        // An earlier version says nothing about this server until the informer has noticed the
        // reset.
        if self.rewound {
            return;
        }
        let what = if place.kind == Kind::Map { Watched::Maps } else { Watched::Buoys };
        let Some(observed) = self.observed.iter().find(|it| it.what == what) else { return };
        let object: DynamicObject = serde_json::from_value(stored).expect("an object");
        let (key, version) = (object.key().expect("the object has a name"), object.version());
        let waiting = observed.informer.wait_until(&version);
        if let Ok(Ok(())) = tokio::time::timeout(OWN_WRITE, waiting).await {
            let shown = observed.informer.store().get(&key);
            let as_new = shown.as_ref().is_some_and(|it| !it.version().is_older_than(&version));
            // There is no other writer, but the server may have deleted it with its namespace or
            // its definition.
            let is_there = self.writer.api(place).get_opt(key.name()).await;
            if !as_new && matches!(is_there, Ok(Some(_))) {
                self.outcome.wrong.push(format!("{what:?}: own write of {key} at {version} is not shown"));
            }
        }
    }

    async fn leave(&mut self, place: usize, wait: bool) {
        // The first member of each informer is the reference for the others.
        let there = self.observed.iter().flat_map(|it| it.members.iter().skip(1));
        let there: Vec<_> = there.filter(|it| !it.witness().left).collect();
        if let Some(member) = there.get(place % there.len().max(1)) {
            member.leave(wait).await;
        }
    }

    /// Compares stores with the server's state at their versions.
    fn look(&mut self) {
        if self.rewound {
            self.outcome.blind += 1;
            return;
        }
        for observed in &self.observed {
            if !matches!(observed.what, Watched::Maps | Watched::Labelled) {
                continue;
            }
            let snapshot = observed.informer.store().snapshot();
            let Some(version) = number(snapshot.version()) else { continue };
            let Some(objects) = self.server.objects_at("v1", "configmaps", version) else {
                self.outcome.blind += 1;
                continue;
            };
            let objects = objects.into_iter().map(|it| serde_json::from_value(it).expect("an object"));
            let shown = objects.filter(|it: &DynamicObject| observed.what == Watched::Maps || is_on(it));
            let truth = truth_of(&shown.collect::<Vec<_>>());
            self.outcome.looks += 1;
            let what = format!("{:?}, at version {version},", observed.what);
            let undecodable = observed.undecodable();
            self.outcome.wrong.extend(judge(&what, &picture(snapshot.iter()), &undecodable, &truth));
        }
    }

    /// Returns the server's current state for an informer.
    async fn truth(&self, what: Watched) -> Truth {
        let (api, namespaces): (_, &[&str]) = match what {
            Watched::Buoys => (Api::dynamic(self.client.clone(), buoys()), &[]),
            Watched::TwoNamespaces => (Api::dynamic(self.client.clone(), maps()), &["a", "b"]),
            _ => (Api::dynamic(self.client.clone(), maps()), &[]),
        };
        let list = match api.list_all(&ListParams::default()).await {
            Ok(list) => list.items,
            Err(error) if error.is_not_found() && what == Watched::Buoys => Vec::new(),
            Err(error) => panic!("a list failed without faults: {error}"),
        };
        let shown = |it: &&DynamicObject| match what {
            Watched::Labelled => is_on(*it),
            Watched::TwoNamespaces => it.header().namespace.is_some_and(|it| namespaces.contains(&it)),
            _ => true,
        };
        truth_of(list.iter().filter(shown))
    }

    /// Ends all faults, and waits until everything has the server's state.
    async fn settle(&mut self) {
        self.server.faults().clear();
        self.hurry.store(true, Ordering::Relaxed);
        // A write, so that even a server that lost its state has a newer version.
        for (number, namespace) in NAMESPACES.into_iter().enumerate() {
            drop(self.writer.put(Place { kind: Kind::Map, namespace, name: number as u8 }, true).await);
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE && !self.is_settled().await {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        self.outcome.recovery = start.elapsed();
        tokio::time::sleep(REST).await;
    }

    async fn is_settled(&self) -> bool {
        let defined = self.is_defined().await;
        for observed in &self.observed {
            let truth = self.truth(observed.what).await;
            let store = picture(observed.informer.store().snapshot().iter());
            let is_calm = observed.lag() == 0
                && observed.health_problem(defined, self.rewound, &truth).is_none()
                && judge("", &store, &observed.undecodable(), &truth).is_empty();
            if !is_calm {
                return false;
            }
        }
        true
    }

    /// Ends every undecodable state: half of the objects are written again, the others are deleted.
    async fn cure(&mut self) {
        let maps = self.truth(Watched::Maps).await.poisoned.into_iter().map(|it| (Kind::Map, it));
        let buoys = self.truth(Watched::Buoys).await.poisoned.into_iter().map(|it| (Kind::Buoy, it));
        for (kind, key) in maps.chain(buoys) {
            let (namespace, name) = key.split_once("/n").expect("the writer's naming scheme");
            let namespace =
                NAMESPACES.into_iter().find(|it| *it == namespace).expect("one of the writer's namespaces");
            let place = Place { kind, namespace, name: name.parse().expect("a number") };
            if place.name.is_multiple_of(2) {
                drop(self.writer.put(place, true).await);
            } else {
                drop(self.writer.delete(place).await);
            }
        }
    }

    /// Formats the versions of the server and the stores.
    fn position(&self) -> String {
        let stores = self.observed.iter().map(|it| {
            let (store, health) = (it.informer.store(), it.informer.health());
            let trouble = (health.relists, health.rewinds, health.decode_failures, health.undecodable);
            format!("{:?} {} of {}, {trouble:?}", it.what, store.version(), store.len())
        });
        let revision = self.server.revision();
        format!("at version {revision}: {}", stores.collect::<Vec<_>>().join("; "))
    }

    async fn is_defined(&self) -> bool {
        let api: Api<Value> = Api::dynamic(self.client.clone(), buoys());
        api.list(&ListParams::default().limit(1)).await.is_ok()
    }

    /// Compares all stores, members and the server.
    async fn compare(&mut self) {
        let defined = self.is_defined().await;
        let mut wrong = Vec::new();
        for observed in &self.observed {
            let snapshot = observed.informer.store().snapshot();
            let store = picture(snapshot.iter());
            let what = format!("the store of {:?}", observed.what);
            let (truth, undecodable) = (self.truth(observed.what).await, observed.undecodable());
            self.outcome.poisoned += truth.poisoned.len();
            wrong.extend(judge(&what, &store, &undecodable, &truth));
            if let Some(sound) = undecodable.iter().find(|it| !truth.poisoned.contains(*it)) {
                wrong.push(format!("{what} marks {sound}, which can be decoded or is gone"));
            }
            for witness in observed.members.iter().map(Joined::witness) {
                let too_much = witness.received_too_much(&truth);
                wrong.extend(
                    too_much
                        .map(|it| format!("{:?} received a deletion of {it}, which exists", witness.member)),
                );
            }
            wrong.extend(observed.health_problem(defined, self.rewound, &truth));
            let on: Picture = snapshot.iter().filter(|it| passes(it)).map(|it| entry(it)).collect();
            let indexed = snapshot.by_index("set", "on").expect("the index exists");
            wrong.extend(difference("the index", &picture(&indexed), &on));
            let reference = observed.members[0].witness();
            for member in &observed.members[1..] {
                let witness = member.witness();
                let expected = if witness.member.manner == Manner::Filtered { &on } else { &store };
                wrong.extend(opinion(&witness, &reference, expected));
            }
            wrong.extend(opinion(&reference, &reference, &store));
        }
        self.outcome.wrong.extend(wrong);
    }

    /// Stops everything, and sums up.
    async fn finish(mut self) -> Outcome {
        for observed in &mut self.observed {
            let health = observed.informer.health();
            self.outcome.relists += health.relists;
            self.outcome.poison += health.decode_failures;
            self.outcome.gone += usize::from(health.state == HealthState::NotServed);
            if tokio::time::timeout(PATIENCE, observed.informer.stop()).await.is_err() {
                self.outcome.wrong.push(format!("{:?} does not stop", observed.what));
                continue;
            }
            for member in &mut observed.members {
                member.end().await;
                let witness = member.witness();
                self.outcome.received += witness.events();
                self.outcome.missed += witness.missed();
                self.outcome.members += 1;
            }
        }
        add(&mut self.outcome.tally, self.server.faults().tally());
        self.server.stop().await;
        if let Some(snapshot) = self.snapshot.take() {
            snapshot.stop().await;
        }
        self.outcome
    }
}

impl Observed {
    /// Returns the problem of an informer that should be healthy, as there are no faults any more.
    fn health_problem(&self, defined: bool, rewound: bool, truth: &Truth) -> Option<String> {
        let health: Health = self.informer.health();
        let poisoned = truth.poisoned.len() as u64;
        let is_ok = match poisoned {
            0 => health.is_ok(),
            _ => health.state == HealthState::Synced && health.problem.is_none() && !health.is_ok(),
        };
        let expected = match health.state {
            HealthState::NotServed => self.what == Watched::Buoys && !defined,
            _ => is_ok && (self.what != Watched::Buoys || defined),
        };
        let fine = expected && (rewound || health.rewinds == 0) && health.undecodable == poisoned;
        (!fine).then(|| format!("{:?} reports: {health}, {} rewinds", self.what, health.rewinds))
    }

    /// Returns the keys that the store marks as undecodable.
    fn undecodable(&self) -> BTreeSet<String> {
        self.informer.store().undecodable().into_iter().map(String::from).collect()
    }

    /// Returns the number of changes that members have not processed yet.
    fn lag(&self) -> usize {
        self.members.iter().map(|it| it.registration.lag().pending).sum()
    }
}

/// Returns the state of the server with these objects.
fn truth_of<'o>(objects: impl IntoIterator<Item = &'o DynamicObject>) -> Truth {
    let mut truth = Truth::default();
    for object in objects {
        let (key, state) = entry_of(object);
        if object.data["data"]["value"] == POISON {
            truth.poisoned.insert(key.clone());
        }
        truth.objects.insert(key, state);
    }
    truth
}

/// Adds the fault counts of another server.
fn add(tally: &mut FaultCounts, other: FaultCounts) {
    tally.delayed += other.delayed;
    tally.refused += other.refused;
    tally.reset += other.reset;
    tally.dropped += other.dropped;
    tally.bookmarks += other.bookmarks;
}

/// Returns the violations in the changes of one member.
fn opinion(witness: &Witness, reference: &Witness, expected: &Picture) -> Vec<String> {
    let mut wrong = witness.wrong.clone();
    if !witness.left {
        let what = format!("the picture of {:?}", witness.member);
        wrong.extend(difference(&what, &witness.picture, expected));
    }
    if !witness.agrees_with(reference) {
        wrong.push(format!("{:?} received different changes than the first member", witness.member));
    }
    wrong
}
