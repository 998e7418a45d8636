//! The manager: runs controllers and tasks, starts and stops them in order, and reports their
//! health.
//!
//! ```text
//! endpoints ─► informers ─► synced ─┬─► tasks, and controllers that run without leading
//!                                   └─► the lease ─► controllers and tasks of the leader
//! a signal ─► not ready ─► controllers drain, tasks end ─► release the lease ─► informers ─► endpoints
//! ```
//!
//! The `mod` lines below are in layer order.

mod error;
mod progress;
mod unit;
#[allow(clippy::module_inception, reason = "the main type has a file of its own name")]
mod manager;
mod controller_for;
mod run;

pub use controller_for::ControllerFor;
pub use error::ManagerError;
pub use manager::Manager;
