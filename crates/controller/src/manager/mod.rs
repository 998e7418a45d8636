//! A program of controllers: what runs in it, in which order it begins and ends, and what it tells those who run it.
//!
//! ```text
//! endpoints ─► informers ─► synced ─┬─► tasks and controllers that need not lead
//!                                   └─► the lease ─► controllers and tasks that lead
//! a signal ─► not ready ─► controllers drain, tasks end ─► the lease is released ─► informers ─► endpoints
//! ```
//!
//! The `mod` lines below are in layer order.

mod error;
mod progress;
mod parts;
mod whole;
mod run;

pub use error::ManagerError;
pub use whole::Manager;
