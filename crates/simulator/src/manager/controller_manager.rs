//! The controller manager: its controllers on one client, from their start to their end.

use std::fmt;
use std::sync::Arc;

use dogwatch_client::{Client, IgnoreWarnings};
use jiff::Timestamp;
use tokio::task::JoinSet;

use super::attributes_classes::AttributesClasses;
use super::garbage;
use super::namespaces::Namespaces;
use super::volumes::Volumes;
use crate::component::{self, Component};
use crate::environment::{Clock, Environment};
use crate::health::Health;
use crate::recorder::Recorder;
use crate::supervise::supervised;

/// The controllers without which namespaces, owned objects, claims and volumes are never deleted:
/// a part of kube-controller-manager, for API servers on which that does not run. Dropping it ends
/// all its tasks; what they have written stays.
///
/// - `namespace-controller` deletes the content of namespaces that are being deleted, and then
///   removes them.
/// - `garbage-collector` deletes objects whose owners are gone, and implements foreground deletion
///   and orphaning.
/// - `volume-protection-controller` removes the protection finalizers of claims and volumes that
///   are being deleted and not in use; `volumeattributesclass-protection-controller` those of
///   volume attributes classes.
///
/// ```
/// use dogwatch_client::{Api, Client};
/// use dogwatch_core::DeleteParams;
/// use dogwatch_simulator::ControllerManager;
/// use k8s_openapi::api::core::v1::Namespace;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let yaml = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}";
/// # let server = dogwatch_apiserver::ApiServer::builder().in_process().yaml(yaml).start().await?;
/// # let client = Client::from_service(server.url().parse()?, "default", server.service());
/// let manager = ControllerManager::builder(client.clone()).clock(server.clock()).start();
/// let namespaces = Api::<Namespace>::all(client);
/// namespaces.delete("shop", &DeleteParams::default()).await?;
/// namespaces.wait_for("shop", |it: Option<&Namespace>| it.is_none()).await?;
/// manager.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ControllerManager {
    tasks: JoinSet<()>,
    health: Arc<Health>,
}

/// Builds a [`ControllerManager`].
///
/// ```no_run
/// # async fn example() -> Result<(), dogwatch_client::Error> {
/// use dogwatch_client::Client;
/// use dogwatch_simulator::ControllerManager;
///
/// let client = Client::from_env().await?; // any API server
/// let manager = ControllerManager::builder(client).garbage_collector(false).start();
/// # drop(manager);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct ControllerManagerBuilder {
    client: Client,
    clock: Box<Clock>,
    seed: Option<u64>,
    namespaces: bool,
    garbage: bool,
    volumes: bool,
}

impl ControllerManager {
    /// Creates a builder with all controllers. The client needs access to all kinds.
    pub fn builder(client: Client) -> ControllerManagerBuilder {
        ControllerManagerBuilder {
            client,
            clock: Box::new(Timestamp::now),
            seed: None,
            namespaces: true,
            garbage: true,
            volumes: true,
        }
    }

    /// Returns the health of the controllers, which stays readable after the manager has ended.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Waits until all controllers work: their caches are synced. There is no need to wait for that
    /// before the first write to the server: a controller also handles what happened before its
    /// start.
    pub async fn ready(&self) {
        self.health.ready().await;
    }

    /// Stops the manager and returns when its controllers have ended: from then on it writes
    /// nothing. The watches of its caches end right after that.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    /// Runs the controller that `make` creates, and a new one whenever it fails.
    fn spawn<C: Component>(&mut self, mut make: impl FnMut() -> C + Send + 'static) {
        let health = Arc::clone(&self.health);
        let start = move |startup| component::run(make(), startup, Arc::clone(&health));
        self.tasks.spawn(supervised(C::NAME, Arc::clone(&self.health), start));
    }
}

impl ControllerManagerBuilder {
    /// Sets the clock for the times in objects. It should be that of the server. Defaults to the
    /// clock of the machine. Delays follow the clock of tokio.
    pub fn clock(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Box::new(now);
        self
    }

    /// Sets the seed of the names of events. Defaults to a random seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Selects the controller of namespaces. Defaults to true.
    pub fn namespaces(mut self, on: bool) -> Self {
        self.namespaces = on;
        self
    }

    /// Selects the garbage collector. Defaults to true.
    pub fn garbage_collector(mut self, on: bool) -> Self {
        self.garbage = on;
        self
    }

    /// Selects the controllers of claims, volumes and their classes. Defaults to true.
    pub fn volume_protection(mut self, on: bool) -> Self {
        self.volumes = on;
        self
    }

    /// Starts the manager on the current runtime, without waiting for the server, which need not be
    /// reachable yet.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub fn start(self) -> ControllerManager {
        let environment = Arc::new(Environment::new(self.clock, self.seed));
        // It reads all kinds, deprecated ones included: the warnings are of no use to users.
        let client = self.client.with_warnings(IgnoreWarnings);
        let mut manager = ControllerManager { tasks: JoinSet::new(), health: Arc::default() };
        if self.namespaces {
            let (client, environment) = (client.clone(), Arc::clone(&environment));
            manager.spawn(move || Namespaces::new(&client, &environment));
        }
        if self.volumes {
            let client = client.clone();
            manager.spawn({
                let client = client.clone();
                move || AttributesClasses::new(&client)
            });
            manager.spawn(move || Volumes::new(&client));
        }
        if self.garbage {
            let health = Arc::clone(&manager.health);
            let recorder = Recorder::new(&client, &environment);
            let start =
                move |startup| garbage::run(client.clone(), recorder.clone(), startup, Arc::clone(&health));
            manager.tasks.spawn(supervised(garbage::NAME, Arc::clone(&manager.health), start));
        }
        manager
    }
}

impl fmt::Debug for ControllerManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerManagerBuilder")
            .field("namespaces", &self.namespaces)
            .field("garbage", &self.garbage)
            .field("volumes", &self.volumes)
            .finish_non_exhaustive()
    }
}
