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
mod shards;
mod worker;
mod whole;
mod builder;

pub use builder::ControllerBuilder;
pub use error::ControllerError;
pub use whole::Controller;

pub(crate) use worker::text_of;
