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
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod change;
mod delta;
mod rewind_count;
mod list_watch;
mod backoff;
mod health;
mod health_watch;
mod queue;
mod reflector;
mod index;
mod store;
mod lister;
mod handler;
mod metrics;
mod slow;
mod number_allocator;
mod coalesce;
mod backlog;
mod mailbox;
mod registration;
mod fan_out;
mod informer;
mod factory;

pub use dogwatch_client::ListEvent;

pub use backoff::BackoffOptions;
pub use change::{Change, Deleted};
pub use delta::Delta;
pub use factory::{InformerFactory, Selection, SyncError, SyncResult};
pub use handler::{EventHandler, Filtered};
pub use health::{Health, HealthState, Problem, ProblemKind};
pub use health_watch::HealthWatch;
pub use index::{Index, IndexError, NAMESPACE_INDEX};
pub use informer::{InformerBuilder, InformerStopped, NotSynced, OnGone, SharedInformer};
pub use list_watch::{ListWatch, Lists, Watches};
pub use lister::{Lister, NamespaceLister};
pub use mailbox::{Lag, Overflow};
pub use queue::{DeltaQueue, DeltaReceiver, DeltaSender, QueueClosed};
pub use reflector::{Ended, NotFound, Reflector, ReflectorOptions, Start, Transform};
pub use registration::{Changes, HandlerEnded, HandlerOptions, Registration, ScopedRegistration};
pub use store::{Page, Snapshot, Store, StoreProgress, StoreWriter, WaitError};
