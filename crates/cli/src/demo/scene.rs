//! The cluster of the demo and the clients that the story is about.
//!
//! ```text
//! ApiServer ◄── controller manager, simulator (nodes, scheduler, kubelets, deployments)
//!    ├─► SharedInformer<Pod>            the informer of the story, through a tap
//!    │     └─► Page                     the live page, for browsers
//!    ├─► two naive clients              what the informer is compared with
//!    └─► reference client, in process   sees every event: no fault applies to it
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use dogwatch::api::PatchParams;
use dogwatch::informer::{BackoffOptions, Deleted, EventHandler, HandlerOptions, Overflow, Registration};
use dogwatch::k8s_openapi::api::core::v1::{Namespace, Pod};
use dogwatch::{Api, Client, InformerFactory, Object, SharedInformer};
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::{Rule, Scope, ScopedRule};
use dogwatch_simulator::{ControllerManager, Settings, Simulator};
use parking_lot::Mutex;
use serde_json::json;

use super::connect::{FIELD_MANAGER, NAMESPACE, connect};
use super::decoded_size::decoded_size;
use super::ingress_replica::IngressReplica;
use super::naive_client::{AtTheEnd, NaiveClient};
use super::page::Page;
use super::tap::{PodEvent, Tap};
use super::tapped_pods::TappedPods;
use super::versions::Versions;
use crate::advice::PortTaken;
use crate::simulation;

/// The shortest and the longest pause of the informer after a failure: shorter than the defaults,
/// so that the story goes on soon after an interruption.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

/// The cluster, and its clients.
pub(super) struct Scene {
    pub(super) server: Arc<ApiServer>,
    pub(super) versions: Versions,
    /// The live page of what follows.
    pub(super) page: Page,
    /// A client of the demo itself, for its writes.
    pub(super) client: Client,
    /// The informers of everything except the pods.
    pub(super) informers: InformerFactory,
    /// The informer of the pods of the namespace, and the record of what it received.
    pub(super) pods: SharedInformer<Pod>,
    pub(super) tap: Tap,
    pub(super) deletions: Deletions,
    /// The naive clients.
    pub(super) watch_once: NaiveClient,
    pub(super) watch_again: NaiveClient,
    /// The events that the server sent to a client without interruptions.
    pub(super) reference: NaiveClient,
    /// The events that expired while no client was connected, so that none could receive them.
    pub(super) expired: BTreeSet<PodEvent>,
    /// The ingress managers, once they are started.
    pub(super) replicas: Vec<IngressReplica>,
    recording: Registration,
    manager: ControllerManager,
    simulator: Simulator,
}

/// The deletions that the informer reported to a handler, by the uid of the pod; a clone shows the
/// same.
#[derive(Clone, Debug, Default)]
pub(super) struct Deletions(Arc<Mutex<BTreeMap<String, Deletion>>>);

/// One reported deletion.
#[derive(Clone, Debug)]
pub(super) struct Deletion {
    pub(super) name: String,
    /// True if no event reported it: it follows from a later list.
    pub(super) is_missed: bool,
}

impl Scene {
    /// Starts the cluster. The informer of the pods is not started.
    ///
    /// # Errors
    /// Returns an error if a port is taken, or if the server does not respond.
    pub(super) async fn start(port: Option<u16>, page_port: Option<u16>) -> anyhow::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or_default()));
        let mut builder = ApiServer::builder().bind(address);
        if port.is_none() {
            // Small versions are easier to read. A client of an earlier run would mistake them for
            // versions that it knows, but no such client finds a port that was chosen just now. On
            // a port that was given, the story counts from the first version instead.
            builder = builder.first_revision(1);
        }
        let server = Arc::new(builder.start().await.map_err(PortTaken)?);
        let versions = port.map_or_else(Versions::default, |_| Versions::after(server.revision()));
        let manager = simulation::start_manager(&server, None)?;
        let simulator = simulation::start(&server, Settings::default(), None)?;
        let client = connect(&server, None)?;
        let apply = PatchParams::apply(FIELD_MANAGER).force();
        Api::<Namespace>::all(client.clone()).apply(NAMESPACE, &apply, &json!({})).await?;

        let url = server.url().parse().context("the URL of the server")?;
        let unaffected = Client::from_service(url, NAMESPACE, server.component_service("demo"));
        let reference = NaiveClient::start(pods_of(unaffected), AtTheEnd::Stop).await?;
        let watch_once = NaiveClient::start(pods_of(connect(&server, None)?), AtTheEnd::Stop).await?;
        let watch_again = NaiveClient::start(pods_of(connect(&server, None)?), AtTheEnd::WatchAgain).await?;

        let (tap, deletions) = (Tap::default(), Deletions::default());
        let source = TappedPods { api: pods_of(connect(&server, None)?), tap: tap.clone() };
        let backoff = BackoffOptions::default().between(BACKOFF.0, BACKOFF.1);
        // A list and a watch are two requests, as the first act says. By default both are one
        // stream.
        let pods = SharedInformer::builder(source).measure(decoded_size::<Pod>);
        let pods = pods.reflector(|it| it.without_watch_list().backoff(backoff)).build();
        let options = HandlerOptions::default().name("deletions").overflow(Overflow::Grow);
        let recording = pods.add_handler_with(deletions.clone(), options)?;
        let informers = InformerFactory::new(client.clone()).namespace(NAMESPACE);
        let page = Page::serve(&server, &informers, &pods, page_port).await?;
        Ok(Self {
            server,
            versions,
            page,
            client,
            informers,
            pods,
            tap,
            deletions,
            watch_once,
            watch_again,
            reference,
            expired: BTreeSet::new(),
            replicas: Vec::new(),
            recording,
            manager,
            simulator,
        })
    }

    /// Returns the last version that the informer received, as the story prints it.
    pub(super) fn last_version(&self) -> String {
        self.versions.shown(self.pods.last_sync_version().as_str())
    }

    /// Cuts the connection of each watch of the pods, and of each new one, until the result is
    /// dropped. The reference client stays connected.
    pub(super) fn cut_connections(&self) -> ScopedRule {
        let faults = self.server.faults();
        let rule = Rule::on("watch").resource("pods").namespace(NAMESPACE).reset_before();
        // First the rule: no client may open a watch after its connection was cut.
        let rule = faults.rule(rule).scoped();
        let mut scope = Scope::resource("pods");
        scope.namespace = Some(NAMESPACE.to_owned());
        faults.drop_watches_of(scope, true);
        rule
    }

    /// Ends the records, which would otherwise grow for as long as the demo runs.
    pub(super) fn stop_recording(&self) {
        let taps = [&self.tap, &self.watch_once.tap, &self.watch_again.tap, &self.reference.tap];
        taps.into_iter().for_each(Tap::close);
        self.recording.remove();
    }

    /// Stops everything, and waits until it has ended.
    pub(super) async fn stop(self) {
        let Self {
            server,
            page,
            replicas,
            informers,
            pods,
            watch_once,
            watch_again,
            reference,
            manager,
            simulator,
            ..
        } = self;
        drop((page, watch_once, watch_again, reference));
        for replica in replicas {
            replica.kill().await;
        }
        pods.stop().await;
        informers.shut_down().await;
        simulator.stop().await;
        manager.stop().await;
        // A button of the page may still use it; it stops when that has ended.
        if let Some(server) = Arc::into_inner(server) {
            server.stop().await;
        }
    }
}

impl Deletions {
    /// Returns the deletion of each pod, by its uid.
    pub(super) fn all(&self) -> BTreeMap<String, Deletion> {
        self.0.lock().clone()
    }

    /// Returns the names of the pods whose deletion no event reported.
    pub(super) fn missed(&self) -> Vec<String> {
        self.0.lock().values().filter(|it| it.is_missed).map(|it| it.name.clone()).collect()
    }
}

impl EventHandler<Pod> for Deletions {
    fn on_delete(&mut self, deleted: Deleted<Pod>) {
        let (pod, is_missed) = (deleted.last().header(), deleted.is_missed());
        self.0.lock().insert(pod.uid.to_owned(), Deletion { name: pod.name.to_owned(), is_missed });
    }
}

fn pods_of(client: Client) -> Api<Pod> {
    Api::namespaced(client, NAMESPACE)
}
