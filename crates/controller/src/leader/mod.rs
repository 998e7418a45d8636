//! Leader election on Leases: of many processes, at most one does the work (rules LE-1 to LE-5).
//!
//! ```text
//!             ┌── every retry period ──┐
//! standby ──► attempt: read, decide, write ──held──► leading: your future runs, renewed every retry period
//!    ▲                                                  │
//!    └── not renewed by the deadline, or taken: your future is dropped first ──┘
//! ```
//!
//! What is safe about it: a leader stops when its renew deadline has passed since it *sent* its last successful renewal;
//! others wait for the whole lease duration since they first *saw* that renewal. Both count on their own monotonic clock
//! alone, so neither the time of day of any machine nor the length of any request matters, as long as no clock runs
//! faster than another by the ratio of the two durations (half as fast again with the defaults).
//!
//! [`decide()`] is the whole judgement, as a function of what is known; the rest performs it. The `mod` lines below are in
//! layer order.

mod timing;
pub(crate) mod identity;
pub(crate) mod clock;
pub(crate) mod record;
mod decide;
mod lock;
mod meter;
mod term;
mod shared;
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
pub use decide::{Memory, Step, decide, decide_coordinated};
pub use elector::LeaderElector;
pub use lock::LeaseLock;
pub use shared::Unhealthy;
pub use term::{Ended, Led};
pub use timing::{ElectionTiming, InvalidElection};
