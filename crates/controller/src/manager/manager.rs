//! The manager and its configuration.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use dogwatch_client::Client;
use dogwatch_client::api::StaticScope;
use dogwatch_core::View;
use dogwatch_informer::{InformerFactory, SharedInformer};
use kube_core::Resource;
use tokio_util::sync::CancellationToken;

use super::unit::Unit;
use crate::checks::Checks;
use crate::controller::{Controller, ControllerMonitor};
use crate::endpoints::Endpoints;
use crate::events::{EventBroadcaster, EventRecorder, InvalidReporter};
use crate::leader::LeaderElector;

/// The default time for a shutdown: controller-runtime's half a minute, which is also Kubernetes'
/// default grace period of a pod.
const GRACE: Duration = Duration::from_secs(30);

/// Runs controllers with everything they need: informers, leader election, endpoints for probes and
/// scrapes, and an orderly shutdown.
///
/// Informers start at once and are kept warm, leader or not, so that a new leader works from its
/// first moment. No controller works, and the manager does not stand for election, before every
/// requested informer is synced: a reconciler may read any of them. With an election, controllers
/// and tasks added with [`leader_task`](Self::leader_task) wait until the manager leads; a
/// controller's queue is filled when its term begins.
///
/// The manager shuts down when a signal arrives, or when a controller or task fails. It reports not
/// ready; controllers drain their queues and tasks receive a stop; the lease is released; informers
/// and endpoints end last. What has not ended after the [grace](Self::shutdown_timeout) period is
/// aborted. Dropping the future that runs the manager aborts everything at once; the lease then
/// expires by itself.
///
/// ```
/// # use dogwatch_client::Client;
/// use dogwatch_controller::leader::LeaderElector;
/// use dogwatch_controller::{Action, Context, Controller, Endpoints, Manager, BoxError};
/// use dogwatch_core::ObjectKey;
/// use k8s_openapi::api::core::v1::Service;
/// use k8s_openapi::api::networking::v1::Ingress;
///
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let manager = Manager::new(client.clone());
/// let (services, ingresses) = (manager.informer::<Service>(), manager.informer::<Ingress>());
/// let lister = services.lister();
/// let controller = Controller::of(&services).owns(&ingresses).workers(4).build(
///     move |key: ObjectKey, _: Context| {
///         let service = lister.get(&key);
///         async move {
///             // Compare what is with what should be, and change what differs.
///             drop(service);
///             Ok::<_, BoxError>(Action::Done)
///         }
///     },
/// );
/// manager
///     .controller(controller)
///     .leader_election(LeaderElector::builder(client, "ingress-manager").build()?)
///     .serve(Endpoints::bind("0.0.0.0:8081").await?)
///     .run()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Manager {
    pub(super) informers: InformerFactory,
    /// Started with the first recorder.
    pub(super) events: OnceLock<EventBroadcaster>,
    pub(super) controllers: Vec<Controller>,
    pub(super) tasks: Vec<Unit>,
    pub(super) leader_tasks: Vec<Unit>,
    pub(super) elector: Option<LeaderElector>,
    pub(super) endpoints: Vec<Endpoints>,
    pub(super) healthz: Checks,
    pub(super) readyz: Checks,
    pub(super) grace: Duration,
}

impl Manager {
    /// Creates an empty manager, whose informers read through this client.
    pub fn new(client: Client) -> Self {
        Self::over(InformerFactory::new(client))
    }

    /// Creates a manager that starts and stops the informers of this factory, which may have its
    /// own namespaces and resync period.
    pub fn over(informers: InformerFactory) -> Self {
        let mut checks = Checks::default();
        checks.add("ping", || std::future::ready(Ok::<(), String>(())));
        Self {
            informers,
            events: OnceLock::new(),
            controllers: Vec::new(),
            tasks: Vec::new(),
            leader_tasks: Vec::new(),
            elector: None,
            endpoints: Vec::new(),
            healthz: checks.clone(),
            readyz: checks,
            grace: GRACE,
        }
    }

    /// Returns the informer factory: one informer for each collection, shared by all users.
    /// Informers that are requested before the manager runs are started and stopped with it.
    pub fn informers(&self) -> &InformerFactory {
        &self.informers
    }

    /// Returns the informer of a type: whole objects, a view of some of their fields, or their
    /// metadata. Keep it, or pass it to a controller, which keeps it.
    pub fn informer<T: View>(&self) -> SharedInformer<T>
    where
        <T::Of as Resource>::Scope: StaticScope,
    {
        self.informers.get()
    }

    /// Returns a recorder for events in the name of this controller, such as
    /// `example.com/my-controller`.
    ///
    /// The manager writes the events with the client of its informers. At its end it stops the
    /// controllers, and then writes what they have recorded, within the
    /// [grace](Self::shutdown_timeout) period. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if a server would reject the name.
    pub fn events(&self, controller: &str) -> Result<EventRecorder, InvalidReporter> {
        let start = || EventBroadcaster::builder(self.informers.client().clone()).start();
        self.events.get_or_init(start).recorder(controller)
    }

    /// Adds a controller. With an election, it runs only on the leader, unless it is built with
    /// [`without_leader_election`](crate::ControllerBuilder::without_leader_election).
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Returns observers of the controllers that were added so far, which do not keep them alive.
    pub fn monitors(&self) -> Vec<ControllerMonitor> {
        self.controllers.iter().map(Controller::monitor).collect()
    }

    /// Runs a task next to the controllers, from the beginning, leader or not. It should end soon
    /// after the token is cancelled, and may end earlier. If it fails or panics, the manager stops
    /// with an error.
    pub fn task<F, E>(
        mut self,
        name: impl Into<String>,
        run: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.tasks.push(Unit::task(name.into(), run));
        self
    }

    /// Like [`task`](Self::task), but runs only while the manager leads. When leadership is lost,
    /// it is dropped at its current `await`.
    pub fn leader_task<F, E>(
        mut self,
        name: impl Into<String>,
        run: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.leader_tasks.push(Unit::task(name.into(), run));
        self
    }

    /// Takes part in this election. Without one, everything runs at once.
    pub fn leader_election(mut self, elector: LeaderElector) -> Self {
        self.elector = Some(elector);
        self
    }

    /// Returns the candidate of the election that it takes part in, if it does.
    pub fn elector(&self) -> Option<&LeaderElector> {
        self.elector.as_ref()
    }

    /// Serves these endpoints; several calls add several addresses.
    pub fn serve(mut self, endpoints: Endpoints) -> Self {
        self.endpoints.push(endpoints);
        self
    }

    /// Adds a check to `/healthz`: while it fails, the process should be restarted. Built-in checks
    /// are `ping` and, with an election, `leaderElection`. A check of the same name replaces an
    /// earlier one. Checks run one after another, for each request.
    pub fn health_check<F, E>(
        mut self,
        name: impl Into<String>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.healthz.add(name, check);
        self
    }

    /// Adds a check to `/readyz`: while it fails, the process cannot do its work. Built-in checks
    /// are `ping`, `informer-sync` and `shutdown`.
    pub fn ready_check<F, E>(
        mut self,
        name: impl Into<String>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.readyz.add(name, check);
        self
    }

    /// Sets the time for a shutdown. It should be shorter than the termination grace period of the
    /// process. Defaults to 30 s.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.grace = limit;
        self
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("controllers", &self.controllers)
            .field("tasks", &self.tasks)
            .field("leader_tasks", &self.leader_tasks)
            .field("elector", &self.elector)
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}
