//! The kinds of the group `policy`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod pod_disruption_budget;
