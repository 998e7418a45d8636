//! Leader election on Leases: at most one of many processes does the work (rules LE-1 to LE-5).
//!
//! ```text
//!             ┌── every retry period ──┐
//! standby ──► attempt: read, decide, write ──held──► leading: your future runs, renewed every retry period
//!    ▲                                                  │
//!    └── not renewed by the deadline, or taken: your future is dropped first ──┘
//! ```
//!
//! Safety: a leader stops when its renew deadline has passed since it *sent* its last successful
//! renewal; other candidates wait for the whole lease duration since they first *observed* that
//! renewal. Each uses only its own monotonic clock, so neither the time of day of any machine nor
//! the latency of any request matters, as long as no clock runs faster than another by the ratio of
//! the two durations (1.5 with the defaults).
//!
//! [`decide()`] makes every decision, as a pure function of the known state; the rest carries it
//! out. The `mod` lines below are in layer order.

mod timing;
pub(crate) mod identity;
pub(crate) mod clock;
pub(crate) mod record;
mod decide;
mod lock;
mod metrics;
mod term;
mod election_state;
mod candidate;
mod elector;
mod builder;
mod candidacy;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod coordinated;
#[cfg(test)]
mod simulation;

pub use builder::LeaderElectorBuilder;
pub use candidacy::Candidacy;
pub use decide::{ElectionStep, Memory, decide, decide_coordinated};
pub use election_state::Unhealthy;
pub use elector::LeaderElector;
pub use lock::LeaseLock;
pub use term::{ElectionEnded, Leadership};
pub use timing::{ElectionTiming, InvalidElection};
