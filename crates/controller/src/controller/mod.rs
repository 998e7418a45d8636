//! The controller: sources that fill a queue, and workers that drain it.
//!
//! ```text
//! Source ─┐             ┌─► worker: guard ─► your reconciler ─► Action or error ─┐
//! Source ─┼─► WorkQueue ┼─► worker                                               │
//! Source ─┘      ▲      └─► worker                                               │
//!                └───────────────── requeued, or retried with backoff ───────────┘
//! ```
//!
//! The `mod` lines below are in layer order.

mod error;
mod monitor;
mod recent_keys;
mod shards;
mod worker;
#[allow(clippy::module_inception, reason = "the main type has a file of its own name")]
mod controller;
mod builder;

pub use builder::ControllerBuilder;
pub use controller::Controller;
pub use error::ControllerError;
pub use monitor::{ControllerMonitor, ControllerStats};

pub(crate) use worker::text_of;
