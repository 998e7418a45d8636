//! Keeps a queue in step with a collection on the server, through everything that can happen on the way (rules REF-1 to REF-12).
//!
//! ```text
//! ListWatch ─► Activity ─ Input ─► Machine::step ─ Command ─► run ─► DeltaSender, HealthWatch, metrics
//!                 ▲                (pure)                      │
//!                 └────────────── List, Watch, Wait ───────────┘
//! ```
//!
//! Decisions are made by the state machine alone, which is pure; the loop performs them. Objects pass through and are never kept.

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
