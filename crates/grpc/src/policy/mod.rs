//! Load balancing policies: which endpoint gets the next call, and which endpoints are ejected for
//! a while.
//!
//! [`Policy`] is the user's choice. From it and the ready endpoints, the balancer builds a
//! [`Group`]: an immutable value that calls pick from without a lock. State that must outlive a
//! group (counters, clocks) is in [`Memory`]. Everything here is a pure function of its arguments,
//! or an atomic; nothing here knows connections.

mod turns;
mod weighted;
mod ring;
mod first;
mod subset;
mod zone;
mod ramp;
mod outlier;
mod picker;
mod group;

pub(crate) use first::wanted;
pub(crate) use group::{Group, Member};
pub use outlier::{FailurePercentage, Outlier, SuccessRate};
pub(crate) use outlier::{Host, sweep};
pub(crate) use picker::Memory;
pub use picker::{LeastRequest, PeakEwma, Policy, RingHash};
pub use ramp::SlowStart;
pub(crate) use ring::hash;
pub(crate) use subset::subset;
pub use zone::ZoneAware;
