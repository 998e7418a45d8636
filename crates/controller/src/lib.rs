//! Controllers: programs that drive the cluster towards the desired state, one object at a time.
//!
//! ```text
//! informers ─► sources: predicates, mappings ─► work queue ─► workers ─► your reconciler ─► client
//!              (which keys are affected?)       (once each)                    │
//!                                                    ▲  requeued, or retried   │
//!                                                    └─────────────────────────┘
//! ```
//!
//! A [`Reconciler`] takes a key and brings the object behind it to its desired state. A
//! [`Controller`] decides which keys are reconciled, when, and how many at once. A [`Manager`] runs
//! controllers together with their informers, leader election and HTTP endpoints, and shuts them
//! down in order.
//!
//! ```
//! use dogwatch_client::{Api, Client};
//! use dogwatch_controller::{Action, Context, Controller, Manager, Predicate, BoxError, Reconciler, Watched};
//! use dogwatch_core::{ObjectKey, WriteParams};
//! use dogwatch_informer::Lister;
//! use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
//!
//! /// Gives every namespace a config map `welcome`.
//! struct Welcome {
//!     namespaces: Lister<Namespace>,
//!     maps: Lister<ConfigMap>,
//!     client: Client,
//! }
//!
//! impl Reconciler for Welcome {
//!     type Error = BoxError;
//!
//!     async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, BoxError> {
//!         if self.namespaces.get(key).is_none() || self.maps.namespaced(key.name()).get("welcome").is_some() {
//!             return Ok(Action::Done);
//!         }
//!         let mut map = ConfigMap::default();
//!         map.metadata.name = Some("welcome".to_owned());
//!         let maps = Api::namespaced(self.client.clone(), key.name());
//!         // The next reconcile of this key waits until the cache shows it.
//!         context.wrote(&maps.create(&WriteParams::default(), &map).await?);
//!         Ok(Action::Done)
//!     }
//! }
//!
//! # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
//! let manager = Manager::new(client.clone());
//! let (namespaces, maps) = (manager.informer::<Namespace>(), manager.informer::<ConfigMap>());
//! let welcome = Welcome { namespaces: namespaces.lister(), maps: maps.lister(), client };
//! let controller = Controller::of(Watched::new(&namespaces).when(Predicate::version_changed()))
//!     .named("welcome")
//!     .watches(&maps, |map| map.metadata.namespace.as_deref().map(ObjectKey::cluster))
//!     .workers(2)
//!     .build(welcome);
//! manager.controller(controller).run().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Why was this reconciled?
//!
//! A key is queued by an event of an object that maps to it, a retry, a requeue, a stream, or a
//! change of ownership in a [sharded](ControllerBuilder::sharded) controller. The queue keeps each
//! key once, and with it the [`Causes`] of its next reconcile: the first, the last, and their
//! number. They are shown in three places:
//!
//! - [`Context::causes`], for reconcilers.
//! - The field `causes` of the span `reconcile`, in which all logs of a reconcile are:
//!   `pod default/web-1 deleted, and 3 more; last: retry after: connection refused`. The text is
//!   formatted only if the span is enabled.
//! - The counter `controller_reconcile_causes_total`, with the labels `controller` and `cause`:
//!   each reconcile counts its first cause and, if it has several, its last one. The values of
//!   `cause` are those of [`Cause::label`]: `added`, `changed`, `deleted`, `initial_list`, `resync`
//!   and `missing` for objects; `retry`, `timeout`, `panic` and `requeue_after` for the reconcile
//!   before; `stream`, `ownership` and `deferred`.
//!
//! ```
//! use dogwatch_controller::{Action, BoxError, Cause, Context, ObjectEvent, Reconciler};
//! use dogwatch_core::ObjectKey;
//!
//! struct Explained;
//!
//! impl Reconciler for Explained {
//!     type Error = BoxError;
//!
//!     async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, BoxError> {
//!         println!("{key} is reconciled: {}", context.causes());
//!         for cause in context.causes().iter() {
//!             if let Cause::Object(object) = cause
//!                 && object.event() == ObjectEvent::Deleted
//!             {
//!                 println!("informer {} reports the end of {}", object.informer(), object.key());
//!             }
//!         }
//!         Ok(Action::Done)
//!     }
//! }
//! ```
//!
//! # If you come from controller-runtime
//!
//! | controller-runtime | here |
//! |---|---|
//! | `reconcile.Reconciler`, `reconcile.Func` | [`Reconciler`], or a closure |
//! | `reconcile.Result{}`, `RequeueAfter` | [`Action::Done`], [`Action::RequeueAfter`]; there is no `Requeue` |
//! | `reconcile.TerminalError` | [`Terminal`], in the source chain of your error |
//! | `For`, `Owns`, `Watches` + `EnqueueRequestsFromMapFunc` | [`Controller::of`], [`ControllerBuilder::owns`], [`ControllerBuilder::watches`] |
//! | `source.Channel` | [`ControllerBuilder::reconcile_on`] |
//! | `reconcile.TypedRequest` | [`Controller::with_keys`] |
//! | `predicate.*`, `And`, `Or`, `Not` | [`Predicate`], `and`, `or`, `!`; attached to a source with [`Watched::when`] |
//! | `MaxConcurrentReconciles`, `RateLimiter` | [`ControllerBuilder::workers`], [`ControllerBuilder::limiter`] |
//! | `ReconciliationTimeout`, `CacheSyncTimeout`, `NeedLeaderElection` | [`ControllerBuilder::reconcile_timeout`], [`sync_timeout`](ControllerBuilder::sync_timeout), [`without_leader_election`](ControllerBuilder::without_leader_election) |
//! | `RecoverPanic`, `EnableWarmup`, `UsePriorityQueue` | always on |
//! | read-your-writes | [`Context::wrote`] |
//! | `manager.New`, `Add`, `Start`, `SetupSignalHandler` | [`Manager::new`], [`controller`](Manager::controller) and [`task`](Manager::task), [`run`](Manager::run) |
//! | `manager.GetCache`, `GetInformer` | [`Manager::informers`], [`Manager::informer`]: informers are requested explicitly; a read never creates one |
//! | `LeaderElection`, `LeaderElectionID` | [`Manager::leader_election`] with a [`LeaderElector`] |
//! | `AddHealthzCheck`, `AddReadyzCheck` | [`Manager::health_check`], [`Manager::ready_check`] |
//! | `HealthProbeBindAddress`, `Metrics.BindAddress` | [`Endpoints`]; the exporter of metrics is the program's choice |
//! | `GracefulShutdownTimeout` | [`Manager::shutdown_timeout`] |
//! | metrics `controller_runtime_*`, `workqueue_*` | the same names |
//!
//! Reconcilers read objects from a `Lister` as an `Arc`: the cached object is immutable, and
//! reading copies nothing.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

pub mod conditions;
pub mod owner;
pub mod upsert;
pub mod events;
pub mod leader;
pub mod sharding;
mod owned_tasks;
mod action;
mod causes;
mod reconciler;
pub mod finalizer;
mod predicate;
mod source;
mod guard;
mod metrics;
mod controller;
mod checks;
mod endpoints;
mod signals;
mod manager;

pub use action::{Action, BoxError, Terminal};
pub use causes::{Cause, Causes, ObjectCause, ObjectEvent};
pub use controller::{Controller, ControllerBuilder, ControllerError, ControllerMonitor, ControllerStats};
pub use endpoints::Endpoints;
pub use events::{EventBroadcaster, EventRecorder, NewEvent};
pub use finalizer::Finalizer;
pub use leader::{LeaderElector, Leadership};
pub use manager::{ControllerFor, Manager, ManagerError};
pub use metrics::RECONCILE_TIME_BUCKETS;
pub use owner::Owner;
pub use predicate::Predicate;
pub use reconciler::{Context, Key, Reconciler};
pub use sharding::ShardMember;
pub use source::{LOW_PRIORITY, Owned, Watched};
/// The token that signals a stop; each task of a manager receives one.
pub use tokio_util::sync::CancellationToken;
pub use upsert::create_or_update;

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
