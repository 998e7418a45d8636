//! Informers: a local cache of a Kubernetes collection, kept synced by LIST and WATCH.
//!
//! ```text
//! ListWatch ─► Reflector ─► DeltaQueue ─► StoreWriter ─► FanOut ─► your handlers
//!  (server)     deltas       bounded       Store ▲        a mailbox each
//!                                          Lister │ reads, from anywhere
//! ```
//!
//! Data flows to the right only: the queue does not know the store, and the store does not know the
//! handlers. From the store on, objects are behind `Arc`s and are never copied.
//!
//! ```
//! use dogwatch_client::Api;
//! use dogwatch_informer::{Index, SharedInformer};
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, labels: {app: web}}}";
//! # let server = dogwatch_apiserver::ApiServer::builder().in_process().yaml(yaml).start().await?;
//! # let client = dogwatch_client::Client::from_service(server.url().parse()?, "default", server.service());
//! let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
//! maps.add_index(Index::label("app"))?;
//! maps.on_update(|old, new| println!("{:?} became {:?}", old.data, new.data))?;
//! maps.start();
//! maps.synced().await?;
//! assert_eq!(maps.store().by_index("app", "web")?.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! [`SharedInformer`] is the entry point. [`Store`] and [`Lister`] read its cache, an
//! [`EventHandler`], closures or a stream receive its changes, [`Health`] says what keeps it from
//! being synced, and an [`InformerFactory`] shares it within a program.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod change;
mod delta;
mod rewind_count;
mod list_watch;
mod backoff;
mod health;
mod history;
mod health_watch;
mod queue;
mod reflector;
mod index;
mod store;
mod lister;
mod handler;
mod metrics;
mod stats;
mod slow;
mod number_allocator;
mod coalesce;
mod backlog;
mod overflow;
mod mailbox;
mod pruning;
mod registration;
mod subscription;
mod fan_out;
mod informer;
mod selection;
mod sync_result;
mod factory;

pub use dogwatch_client::ListEvent;

pub use backoff::BackoffOptions;
pub use change::{Change, Deleted};
pub use delta::Delta;
pub use factory::{FactoryMonitor, InformerFactory};
pub use handler::{EventHandler, Filtered};
pub use health::{Health, HealthState, Problem, ProblemKind};
pub use health_watch::HealthWatch;
pub use history::{Interruption, Relist, RelistReason, WatchStats};
pub use index::{Index, IndexError, NAMESPACE_INDEX};
pub use informer::{InformerBuilder, InformerMonitor, InformerStopped, NotSynced, OnGone, SharedInformer};
pub use list_watch::{ListWatch, Lists, Watches};
pub use lister::{Lister, NamespaceLister};
pub use overflow::{Lag, Overflow};
pub use queue::{DeltaQueue, DeltaReceiver, DeltaSender, QueueClosed};
pub use reflector::{NotFound, Reflector, ReflectorEnded, ReflectorOptions, Start, Transform};
pub use registration::{Changes, HandlerEnded, HandlerOptions, Registration, ScopedRegistration};
pub use selection::Selection;
pub use stats::{HandlerStats, InformerStats};
pub use store::{Page, Snapshot, Store, StoreProgress, StoreWriter, WaitError};
pub use sync_result::{SyncError, SyncResult};

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
