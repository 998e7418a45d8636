//! The controllers of kube-controller-manager that every cluster relies on, on any API server:
//! deletion of namespaces, garbage collection, protection of claims and volumes.
//!
//! ```text
//! informers ─► work queue ─► read the server, decide, write with preconditions ─► server
//! ```
//!
//! The caches decide what to process. Before anything is deleted or released, the state that the
//! decision depends on is read from the server, and the write names the uid of that state, and its
//! version where it matters. So an object that was replaced, or changed meanwhile, is never
//! touched, and a controller may be dropped at any moment and started again.
//!
//! The `mod` lines below are in layer order.

mod volumes;
mod attributes_classes;
mod namespaces;
mod garbage;
mod controller_manager;

pub use controller_manager::{ControllerManager, ControllerManagerBuilder};

/// The field manager of all writes, as in Kubernetes.
const FIELD_MANAGER: &str = "kube-controller-manager";
