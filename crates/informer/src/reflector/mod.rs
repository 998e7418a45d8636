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
mod verdict;
mod explain;
mod collected;
mod internal_errors;
mod vitals;
mod moves;
mod state;
#[cfg(test)]
mod tables;
mod meter;
mod source;
mod run;

pub use options::{NotFound, ReflectorOptions, Start, Transform};
pub use run::Reflector;
pub use signals::Ended;
