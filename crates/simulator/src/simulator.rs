//! The simulator: all components on one client, from their start to their end.

use std::fmt;
use std::sync::Arc;

use dogwatch_client::Client;
use jiff::Timestamp;
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;

use crate::accounts::Accounts;
use crate::autoscalers::Autoscalers;
use crate::caches::Caches;
use crate::component::{self, Component};
use crate::cronjobs::CronJobs;
use crate::daemonsets::DaemonSets;
use crate::deployments::Deployments;
use crate::disruptions::Disruptions;
use crate::endpoints::Endpoints;
use crate::environment::{Clock, Environment};
use crate::health::Health;
use crate::jobs::{FinishedJobs, Jobs};
use crate::kubelet::Kubelet;
use crate::kubelet_server::{self, KubeletServer};
use crate::node_lifecycle::{EndedPods, NodeLifecycle, TaintEviction};
use crate::nodes::{self, Nodes};
use crate::recorder::Recorder;
use crate::replicasets::{ReplicaSet, Replicas, ReplicationController};
use crate::scheduler::Scheduler;
use crate::settings::Settings;
use crate::statefulsets::StatefulSets;
use crate::supervise::supervised;
use crate::volumes::{ClaimBinder, EphemeralVolumes, VolumeReclaimer};

/// A running simulator. Dropping it ends all its tasks; what they have written stays.
///
/// ```
/// use dogwatch_client::{Api, Client};
/// use dogwatch_core::ListParams;
/// use dogwatch_simulator::{Settings, Simulator};
/// use k8s_openapi::api::core::v1::Node;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let client = Client::from_service(server.url().parse()?, "default", server.service());
/// let simulator = Simulator::builder(client.clone()).settings(Settings::instant()).nodes(2).start();
/// simulator.ready().await;
/// assert_eq!(Api::<Node>::all(client).list(&ListParams::default()).await?.items.len(), 2);
/// simulator.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Simulator {
    tasks: JoinSet<()>,
    health: Arc<Health>,
}

/// Builds a [`Simulator`].
///
/// ```no_run
/// # async fn example() -> Result<(), dogwatch_client::Error> {
/// use dogwatch_client::Client;
/// use dogwatch_simulator::Simulator;
///
/// let client = Client::from_env().await?; // any API server
/// let simulator = Simulator::builder(client).nodes(5).start();
/// # drop(simulator);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct SimulatorBuilder {
    client: Client,
    settings: Settings,
    clock: Box<Clock>,
    seed: Option<u64>,
}

impl Simulator {
    /// Creates a builder with the default settings. The client needs write access to all kinds that
    /// are simulated.
    pub fn builder(client: Client) -> SimulatorBuilder {
        SimulatorBuilder {
            client,
            settings: Settings::default(),
            clock: Box::new(Timestamp::now),
            seed: None,
        }
    }

    /// Returns the health of the components, which stays readable after the simulator has ended.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Waits until all components work: the nodes are registered, and all caches are synced. A
    /// component may fail later; see [`health`](Self::health).
    pub async fn ready(&self) {
        self.health.ready().await;
    }

    /// Stops the simulator and returns when its components have ended: from then on it writes
    /// nothing. The watches of its caches end right after that.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl SimulatorBuilder {
    /// Replaces all settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the number of nodes. Defaults to 3.
    pub fn nodes(mut self, count: usize) -> Self {
        self.settings.nodes = count;
        self
    }

    /// Sets the clock for the times in objects. It should be that of the server. Defaults to the
    /// clock of the machine. Delays follow the clock of tokio.
    pub fn clock(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Box::new(now);
        self
    }

    /// Sets the seed of all random decisions. On a runtime with one thread and a paused clock, two
    /// runs on servers with equal seeds are then identical. Defaults to a random seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the simulator on the current runtime. The server need not be reachable yet.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub fn start(self) -> Simulator {
        let environment = Arc::new(Environment::new(self.clock, self.seed));
        let parts = Arc::new(Parts {
            client: self.client.clone(),
            caches: Caches::new(&self.client),
            recorder: Recorder::new(&self.client, &environment),
            environment,
            settings: self.settings,
        });
        let mut simulator = Simulator { tasks: JoinSet::new(), health: Arc::default() };
        let (registered, kubelet_port) = (watch::Sender::new(false), watch::Sender::new(None));
        if parts.settings.kubelet_server {
            simulator.spawn_kubelet_server(&parts, kubelet_port.clone());
        }
        simulator.spawn_nodes(&parts, registered.clone(), &kubelet_port);
        let mut spawn = Spawn { simulator: &mut simulator, parts: &parts, registered: &registered };
        spawn
            .component(|it| Scheduler::new(&it.caches, &it.recorder, &it.environment, it.settings.workloads));
        spawn.component(|it| Kubelet::new(&it.caches, &it.recorder, &it.environment, &it.settings));
        if parts.settings.workloads {
            spawn.component(|it| Accounts::new(&it.caches, it.settings.root_certificate.clone()));
            spawn.component(|it| Replicas::<ReplicaSet>::new(&it.caches, &it.recorder, &it.environment));
            spawn.component(|it| {
                Replicas::<ReplicationController>::new(&it.caches, &it.recorder, &it.environment)
            });
            spawn.component(|it| Deployments::new(&it.caches, &it.recorder, &it.environment));
            spawn.component(|it| StatefulSets::new(&it.caches, &it.recorder, &it.environment));
            spawn.component(|it| DaemonSets::new(&it.caches, &it.recorder, &it.environment));
            spawn.component(|it| Jobs::new(&it.caches, &it.recorder, &it.environment));
            spawn.component(|it| FinishedJobs::new(&it.caches, &it.environment));
            spawn.component(|it| CronJobs::new(&it.caches, &it.recorder, &it.environment));
            spawn.component(|it| Disruptions::new(&it.caches, &it.environment));
            spawn.component(|it| Autoscalers::new(&it.client, &it.caches, &it.recorder, &it.environment));
            spawn.component(|it| NodeLifecycle::new(&it.caches, &it.recorder, &it.environment));
            spawn.component(|it| TaintEviction::new(&it.caches, &it.recorder, &it.environment));
            spawn.component(|it| EndedPods::new(&it.caches, it.settings.ended_pods));
            spawn.component(|it| ClaimBinder::new(&it.caches, &it.recorder));
            spawn.component(|it| EphemeralVolumes::new(&it.caches));
            spawn.component(|it| VolumeReclaimer::new(&it.caches, &it.environment));
            spawn.component(|it| Endpoints::new(&it.caches));
        }
        simulator
    }
}

/// The parts that components are made of.
#[derive(Debug)]
struct Parts {
    client: Client,
    caches: Caches,
    recorder: Recorder,
    environment: Arc<Environment>,
    settings: Settings,
}

/// Spawns components.
struct Spawn<'a> {
    simulator: &'a mut Simulator,
    parts: &'a Arc<Parts>,
    registered: &'a watch::Sender<bool>,
}

impl Spawn<'_> {
    /// Runs the component that `make` creates, and a new one whenever it fails.
    fn component<C: Component>(&mut self, make: fn(&Parts) -> C) {
        let (parts, health) = (Arc::clone(self.parts), Arc::clone(&self.simulator.health));
        let registered = self.registered.subscribe();
        let start = move |startup| {
            let (parts, health, mut registered) =
                (Arc::clone(&parts), Arc::clone(&health), registered.clone());
            async move {
                // With some of the nodes, the first pods would all be assigned to those.
                registered.wait_for(|it| *it).await?;
                component::run(make(&parts), startup, health).await
            }
        };
        self.simulator.tasks.spawn(supervised(C::NAME, Arc::clone(&self.simulator.health), start));
    }
}

impl Simulator {
    fn spawn_nodes(
        &mut self,
        parts: &Arc<Parts>,
        registered: watch::Sender<bool>,
        kubelet_port: &watch::Sender<Option<u16>>,
    ) {
        let (parts, kubelet_port) = (Arc::clone(parts), kubelet_port.subscribe());
        let start = move |startup| {
            let (parts, registered) = (Arc::clone(&parts), registered.clone());
            let mut kubelet_port = kubelet_port.clone();
            async move {
                let settings = &parts.settings;
                let port = match settings.kubelet_server {
                    true => *kubelet_port.wait_for(Option::is_some).await?,
                    false => None,
                };
                let nodes = Nodes::new(&parts.caches, &parts.environment, port);
                nodes.run(settings.nodes, settings.heartbeat, registered, startup).await
            }
        };
        self.tasks.spawn(supervised(nodes::NAME, Arc::clone(&self.health), start));
    }

    fn spawn_kubelet_server(&mut self, parts: &Arc<Parts>, port: watch::Sender<Option<u16>>) {
        let (parts, endpoint) = (Arc::clone(parts), Arc::new(OnceCell::new()));
        let start = move |startup| {
            let server = KubeletServer::new(&parts.caches, &parts.environment);
            let (endpoint, port) = (Arc::clone(&endpoint), port.clone());
            async move { server.run(&endpoint, &port, startup).await }
        };
        self.tasks.spawn(supervised(kubelet_server::NAME, Arc::clone(&self.health), start));
    }
}

impl fmt::Debug for SimulatorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatorBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
