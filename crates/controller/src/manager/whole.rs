//! What one puts into a manager.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use dogwatch_client::Client;
use dogwatch_client::api::StaticScope;
use dogwatch_core::View;
use dogwatch_informer::{InformerFactory, SharedInformer};
use kube_core::Resource;
use tokio_util::sync::CancellationToken;

use super::parts::Part;
use crate::checks::Checks;
use crate::controller::Controller;
use crate::endpoints::Endpoints;
use crate::leader::LeaderElector;

/// How long a manager takes to end, at most: controller-runtime's half a minute, which is Kubernetes' own default for a pod too.
const GRACE: Duration = Duration::from_secs(30);

/// Runs controllers and all they need: informers, leader election, endpoints for probes and scrapes, and an orderly end.
///
/// Informers begin at once and are kept warm, whether the manager leads or not, so that a new leader works from the first moment on.
/// No controller works, and the manager does not stand for election, before every informer that was asked for is synced: a
/// reconciler may read any of them. Controllers, and tasks added with [`leader_task`](Self::leader_task), wait until the manager
/// leads, where there is an election; a controller's queue is filled when its term begins.
///
/// It ends when a signal comes, or when a part fails. Then it is no longer ready; controllers work off what they have, tasks are
/// asked to end; the lease is released; informers and endpoints end last. What has not ended after the [grace](Self::grace)
/// period is cut off. Dropping the future that runs it cuts everything off at once; the lease then expires by itself.
///
/// ```
/// # use dogwatch_client::Client;
/// use dogwatch_controller::leader::LeaderElector;
/// use dogwatch_controller::{Action, Context, Controller, Endpoints, Manager, ReconcileError};
/// use dogwatch_core::ObjectKey;
/// use k8s_openapi::api::core::v1::Service;
/// use k8s_openapi::api::networking::v1::Ingress;
///
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let manager = Manager::new(client.clone());
/// let (services, ingresses) = (manager.informer::<Service>(), manager.informer::<Ingress>());
/// let lister = services.lister();
/// let controller = Controller::for_(&services).owns(&ingresses).workers(4).build(
///     move |key: ObjectKey, _: Context| {
///         let service = lister.get(&key);
///         async move {
///             // Compare what is with what should be, and change what differs.
///             drop(service);
///             Ok::<_, ReconcileError>(Action::Done)
///         }
///     },
/// );
/// manager
///     .controller(controller)
///     .elect(LeaderElector::builder(client, "ingress-manager").build()?)
///     .serve(Endpoints::bind("0.0.0.0:8081").await?)
///     .run()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Manager {
    pub(super) informers: InformerFactory,
    pub(super) controllers: Vec<Controller>,
    pub(super) tasks: Vec<Part>,
    pub(super) leader_tasks: Vec<Part>,
    pub(super) elector: Option<LeaderElector>,
    pub(super) endpoints: Vec<Endpoints>,
    pub(super) healthz: Checks,
    pub(super) readyz: Checks,
    pub(super) grace: Duration,
}

impl Manager {
    /// A manager with nothing in it, whose informers read through this client.
    pub fn new(client: Client) -> Self {
        Self::over(InformerFactory::new(client))
    }

    /// A manager that starts and stops the informers of this factory, which may have namespaces and a resync period of its own.
    pub fn over(informers: InformerFactory) -> Self {
        let mut checks = Checks::default();
        checks.add("ping", || std::future::ready(Ok::<(), String>(())));
        Self {
            informers,
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

    /// The informers: one for each collection, shared by all who ask. Those that are asked for before the manager runs are
    /// started and stopped with it.
    pub fn informers(&self) -> &InformerFactory {
        &self.informers
    }

    /// The informer of a type: whole objects, a view of some of their fields, or their metadata. Hold on to it, or hand it to a
    /// controller, which does.
    pub fn informer<T: View>(&self) -> SharedInformer<T>
    where
        <T::Of as Resource>::Scope: StaticScope,
    {
        self.informers.get()
    }

    /// Runs this controller: as the leader only where there is an election, unless it is built to work
    /// [without](crate::ControllerBuilder::without_leading).
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Runs this beside the controllers, from the beginning, whether the manager leads or not. It is to end soon after the token
    /// is cancelled; it may end sooner, and when it fails or panics, so does the manager.
    pub fn task<F, E>(
        mut self,
        name: impl Into<String>,
        run: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.tasks.push(Part::task(name.into(), run));
        self
    }

    /// As [`task`](Self::task), but only while the manager leads. When leadership is lost it is cut off at the `await` it is at.
    pub fn leader_task<F, E>(
        mut self,
        name: impl Into<String>,
        run: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.leader_tasks.push(Part::task(name.into(), run));
        self
    }

    /// Takes part in this election. Unless called there is none, and everything runs at once.
    pub fn elect(mut self, elector: LeaderElector) -> Self {
        self.elector = Some(elector);
        self
    }

    /// Answers at this address; called several times, at each.
    pub fn serve(mut self, endpoints: Endpoints) -> Self {
        self.endpoints.push(endpoints);
        self
    }

    /// Adds a check to `/healthz`: while it fails, the process should be restarted. `ping` is there, and with an election `leaderElection`.
    /// Of two with one name the later counts. Checks are asked one after another, for each request.
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

    /// Adds a check to `/readyz`: while it fails, the process is of no use yet, or no longer. `ping`, `informer-sync` and `shutdown` are
    /// there.
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

    /// How long all of it may take to end; half a minute unless called. It should be shorter than what the process is given to end.
    pub fn grace(mut self, limit: Duration) -> Self {
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
