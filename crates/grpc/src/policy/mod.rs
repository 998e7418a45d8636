//! Which endpoint takes the next call, and which endpoints are left out for a while.
//!
//! [`Policy`] is what a user chooses. From it and the endpoints that are ready, the balancer makes a [`Group`]: an immutable value that
//! calls pick from without a lock. What must outlive a group (counters, clocks) is in [`Memory`]. Everything here is a pure
//! function of numbers that are passed in, or an atomic; no file knows what a connection is.

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
