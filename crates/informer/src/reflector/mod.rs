//! The reflector: keeps a queue synced with a collection on the server by LIST, then WATCH (rules
//! REF-1 to REF-12).
//!
//! ```text
//! ListWatch ─► Activity ─ Input ─► Machine::step ─ Command ─► run ─► DeltaSender, HealthWatch, metrics
//!                 ▲                (pure)                      │
//!                 └────────────── List, Watch, Wait ───────────┘
//! ```
//!
//! All decisions are made by the state machine, which is pure; the loop in `run.rs` performs the
//! I/O. Objects pass through and are never kept.

mod options;
mod requests;
mod signals;
mod failure;
mod explain;
mod list_in_progress;
mod internal_errors;
mod health_tracker;
mod machine;
mod initial_events;
mod state;
#[cfg(test)]
mod tables;
mod metrics;
mod activity;
mod run;

pub use options::{NotFound, ReflectorOptions, Start, Transform};
pub use run::Reflector;
pub use signals::ReflectorEnded;
