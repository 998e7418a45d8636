//! Controllers: programs that bring the cluster to where it should be, one object at a time.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

pub mod leader;
mod action;
mod reconciler;
mod predicate;
mod source;
mod guard;
mod metrics;
mod controller;

pub use action::{Action, ReconcileError, Terminal};
pub use controller::{Controller, ControllerBuilder, ControllerError};
pub use leader::{LeaderElector, Led};
pub use metrics::RECONCILE_TIME_BUCKETS;
pub use predicate::Predicate;
pub use reconciler::{Context, Key, Reconciler};
pub use source::{LOW_PRIORITY, Owned, Watched};
