//! Load balancing policies: which endpoint gets the next call, and which endpoints are ejected for
//! a while.
//!
//! [`Policy`] is the user's choice. From it and the ready endpoints, the balancer builds a
//! [`Group`]: an immutable value that calls pick from without a lock. State that must outlive a
//! group (counters, clocks) is in [`PolicyState`]. Everything here is a pure function of its
//! arguments, or an atomic; nothing here knows connections.

mod round_robin;
mod weighted;
mod ring;
mod pick_first;
mod subset;
mod zone;
mod slow_start;
mod outlier;
mod picker;
mod group;

pub(crate) use group::{Group, Member};
pub use outlier::{FailurePercentage, OutlierDetection, SuccessRate};
pub(crate) use outlier::{Host, sweep};
pub(crate) use pick_first::wanted;
pub(crate) use picker::PolicyState;
pub use picker::{LeastRequest, PeakEwma, Policy, RingHash};
pub(crate) use ring::hash;
pub use slow_start::SlowStart;
pub(crate) use subset::subset;
pub use zone::ZoneAware;
